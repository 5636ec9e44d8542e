// The viewer in an HTML file: nmt/viewer/page.py appends this to viewer.js, and puts the data into the
// page: a list of {sentence, record}, records in base64. In a frame of a notebook, the viewer has the
// notebook's colours, and the frame is as high as the viewer.

import { headed } from "./forms.js";
import { parseRecord } from "./record.js";
import { mount } from "./viewer.js";

const inlined = JSON.parse(document.getElementById("attention").textContent);
// A link may contain choices, except in a notebook's frame, which has no address.
const addressed = location.protocol !== "about:";

const mounted = mount(headed(document.querySelector("main"), document.title), {
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

if (window.frameElement) adapt(window.frameElement);

function adapt(frame) {
  const outer = frame.ownerDocument;
  const follow = () => {
    const channels = getComputedStyle(frame.parentElement).color.match(/[\d.]+/g).slice(0, 3);
    const isDark = channels.reduce((sum, channel) => sum + Number(channel), 0) > 3 * 127;
    document.documentElement.dataset.theme = isDark ? "dark" : "light"; // light text: a dark notebook
    mounted.redraw();
  };
  follow();
  const changes = new MutationObserver(follow);
  for (const element of [outer.documentElement, outer.body]) {
    changes.observe(element, { attributes: true });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", follow);
  const fit = () => {
    frame.style.height = `${Math.ceil(document.body.getBoundingClientRect().height)}px`;
  };
  new ResizeObserver(fit).observe(document.body);
}
