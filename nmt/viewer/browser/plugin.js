// The dashboard in TensorBoard: the viewer, fed by nmt/analysis/dashboard/plugin.py.

import { headed } from "./forms.js";
import { addressOf, choicesIn, listen, tickedRuns } from "./host.js";
import { parseRecord } from "./record.js";
import { mount } from "./viewer.js";

const MEMORY = "nmt_attention";      // the last choices
const TICKED = "nmt_attention_runs"; // the runs that were ticked in TensorBoard at that time

async function ask(path, parameters = {}) {
  const url = new URL(path, import.meta.url);
  url.search = new URLSearchParams(parameters);
  const answer = await fetch(url).catch(() => {
    throw new Error("TensorBoard does not answer.");
  });
  if (!answer.ok) throw new Error((await answer.text()).replace(/^Not found: /, ""));
  return answer;
}

// This page has another base than TensorBoard's.
const absolute = (address) => new URL(address, parent.location.href).href;

let logged = []; // names of the runs that logged attention, the newest first

const source = {
  runs: async () => {
    const runs = await (await ask("runs")).json();
    logged = runs.map(({ name }) => name);
    return runs;
  },
  steps: async (run, sentence) => (await ask("steps", { run, sentence })).json(),
  record: async (run, sentence, step) =>
    parseRecord(await (await ask("record", { run, sentence, step })).arrayBuffer()),
  splits: async ([run, other]) => (await ask("splits", { run, other })).json(),
  changes: async ([run, other], split, step, better, count) =>
    (await ask("changes", { run, other, split, step: step ?? 0, better, count })).json(),
  recall: () => choicesIn(parent.location.hash) || (sessionStorage.getItem(MEMORY) ?? ""),
  remember: (text) => {
    sessionStorage.setItem(MEMORY, text);
    const address = addressOf(parent.location.hash, text);
    if (address) parent.history.replaceState(parent.history.state, "", absolute(address));
  },
  link: (text) => absolute(addressOf("", text)),
  nothing: "No attention has been logged yet: training logs it for training.probes at every "
    + "evaluation.",
};

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
  const viewer = mount(headed(main, document.title), source);
  followAddress(viewer);
  if (parent === window) return; // opened without TensorBoard: the browser's preference applies
  listen(() => viewer.refresh());
  new MutationObserver(() => {
    follow();
    viewer.redraw();
  }).observe(outer, { attributeFilter: ["class"] });
}

// Follows links that are opened in the same tab, and the runs that are ticked in TensorBoard. A choice
// of runs here lasts until other runs are ticked there.
function followAddress(viewer) {
  let opened = choicesIn(parent.location.hash);
  const read = () => {
    const { hash } = parent.location, text = choicesIn(hash);
    if (text && text !== opened && text !== viewer.chosen.toText()) viewer.restore(text);
    opened = text;
    const ticked = tickedRuns(hash, logged), names = JSON.stringify(ticked);
    if (!ticked.length || names === sessionStorage.getItem(TICKED)) return;
    sessionStorage.setItem(TICKED, names);
    viewer.choose({ runs: ticked });
  };
  parent.addEventListener("hashchange", read);
  addEventListener("pagehide", () => parent.removeEventListener("hashchange", read));
  // A link with runs counts as a later choice than the ticks beside it.
  source.runs().then(() => {
    const { hash } = parent.location;
    if (new URLSearchParams(choicesIn(hash)).has("run")) {
      sessionStorage.setItem(TICKED, JSON.stringify(tickedRuns(hash, logged)));
    }
    read();
  }).catch(() => {}); // the viewer says it
}
