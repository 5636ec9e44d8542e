// The dashboard in TensorBoard: the viewer, fed by nmt/analysis/dashboard/plugin.py.

import { parseRecord } from "./record.js";
import { mount } from "./viewer.js";

const MEMORY = "nmt_attention";

async function ask(path, parameters = {}) {
  const url = new URL(path, import.meta.url);
  url.search = new URLSearchParams(parameters);
  const answer = await fetch(url).catch(() => {
    throw new Error("TensorBoard does not answer.");
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

const source = {
  runs: async () => (await ask("runs")).json(),
  steps: async (run, sentence) => (await ask("steps", { run, sentence })).json(),
  record: async (run, sentence, step) =>
    parseRecord(await (await ask("record", { run, sentence, step })).arrayBuffer()),
  recall: () => sessionStorage.getItem(MEMORY) ?? "",
  remember: (text) => sessionStorage.setItem(MEMORY, text),
  nothing: "No attention has been logged yet: training logs it for training.probes at every "
    + "evaluation.",
};

// TensorBoard sends a message on a port when it has new data, and expects a reply to each message.
function onReload(reload) {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = ({ data }) => {
    const { type, id, isReply } = JSON.parse(data);
    if (isReply) return;
    if (type === "experimental.DataReloaded") reload();
    port1.postMessage(JSON.stringify({ type, id, payload: null, error: null, isReply: true }));
  };
  parent.postMessage("experimental.bootstrap", location.origin, [port2]);
}

function loadStyle(name) {
  return new Promise((done) => {
    const link = document.createElement("link");
    const href = new URL(name, import.meta.url);
    document.head.append(Object.assign(link, { rel: "stylesheet", href, onload: done }));
  });
}

// Called by the page in the dashboard's frame.
export function render() {
  document.documentElement.lang = "en";
  document.title = "Attention";
  Promise.all(["page.css", "viewer.css"].map(loadStyle)).then(begin);
}

function begin() {
  const main = document.body.appendChild(document.createElement("main"));
  const outer = parent.document.body;
  const follow = () => {
    const theme = outer.classList.contains("dark-mode") ? "dark" : "light";
    document.documentElement.dataset.theme = theme;
  };
  if (parent !== window) follow();
  const viewer = mount(main, source);
  if (parent === window) return; // opened without TensorBoard: the browser's preference applies
  onReload(() => viewer.refresh());
  new MutationObserver(() => {
    follow();
    viewer.redraw();
  }).observe(outer, { attributeFilter: ["class"] });
}
