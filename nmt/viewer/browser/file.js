// The viewer in an HTML file: nmt/viewer/page.py appends this to viewer.js, and puts the data into the
// page: a list of {sentence, record}, records in base64.

import { headed } from "./forms.js";
import { parseRecord } from "./record.js";
import { mount } from "./viewer.js";

const inlined = JSON.parse(document.getElementById("attention").textContent);
// A link may contain choices, except in a notebook's frame, which has no address.
const addressed = location.protocol !== "about:";

mount(headed(document.querySelector("main"), document.title), {
  runs: async () => {
    const sentences = inlined.map(({ sentence }, id) => ({ id: String(id), text: sentence }));
    return sentences.length ? [{ name: "", sentences }] : [];
  },
  steps: async () => [{ step: null, time: null }],
  record: async (run, id) => {
    const text = atob(inlined[Number(id)].record);
    return parseRecord(Uint8Array.from(text, (sign) => sign.charCodeAt(0)).buffer);
  },
  recall: () => (addressed ? location.hash.slice(1) : ""),
  remember: (text) => addressed && location.replace(`#${text}`),
  ...(addressed && { link: (text) => new URL(`#${text}`, location.href).href }),
  nothing: "There is no sentence in this file.",
});
