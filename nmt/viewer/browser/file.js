// The viewer in a file of its own: nmt/inspection/html.py puts this behind viewer.js, and the data
// into the page: a list of {sentence, record}, records in base64.

import { mount } from "./viewer.js";

const inlined = JSON.parse(document.getElementById("attention").textContent);

mount(document.querySelector("main"), {
  runs: async () => {
    const sentences = inlined.map(({ sentence }, id) => ({ id: String(id), text: sentence }));
    return [{ name: "", sentences }];
  },
  steps: async () => [{ step: null, time: null }],
  record: async (run, id) =>
    Uint8Array.from(atob(inlined[Number(id)].record), (sign) => sign.charCodeAt(0)).buffer,
  recall: () => location.hash.slice(1),
  remember: (text) => location.replace(`#${text}`),
  nothing: "There is no sentence in this file.",
});
