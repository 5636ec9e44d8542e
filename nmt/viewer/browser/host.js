// TensorBoard around the dashboard's frame: its address and its messages.
//
// The address is "#DASHBOARD&KEY=VALUE&…". TensorBoard keeps keys of the form "p.DASHBOARD.KEY" for
// dashboards, and stores in runSelectionState which runs are ticked in Scalars, Images and Text. Which
// are ticked in Time Series is stored nowhere, and no message tells of it.

import { MAX_RUNS } from "./choices.js";

const NAME = "attention";
const PREFIX = `p.${NAME}.`;
const ALL_TICKED = 40; // TensorBoard ticks all runs at first if there are not more

const partsOf = (hash) => hash.slice(1).split("&");

// The choices in an address, see Choices.toText; "" without any.
export function choicesIn(hash) {
  const text = new URLSearchParams();
  for (const part of partsOf(hash)) {
    if (!part.startsWith(PREFIX)) continue;
    const [key, value = ""] = part.slice(PREFIX.length).split("=");
    text.set(decodeURIComponent(key), decodeURIComponent(value));
  }
  return String(text);
}

// The address with these choices, its other keys kept; null if it is another dashboard's.
export function addressOf(hash, text) {
  const [name, ...others] = partsOf(hash);
  if (name && name !== NAME) return null;
  const own = [...new URLSearchParams(text)].map(([key, value]) =>
    `${PREFIX}${encodeURIComponent(key)}=${encodeURIComponent(value)}`);
  return `#${[NAME, ...others.filter((part) => !part.startsWith(PREFIX)), ...own].join("&")}`;
}

// The first of some runs that are ticked in TensorBoard, as many as the viewer shows; none if the user
// has ticked or unticked nothing there.
export function tickedRuns(hash, names) {
  const part = partsOf(hash).find((one) => one.startsWith("runSelectionState="));
  if (!part) return [];
  try {
    const state = JSON.parse(atob(decodeURIComponent(part.split("=")[1])));
    const isTicked = (name) => state[name] ?? names.length <= ALL_TICKED;
    return names.filter(isTicked).slice(0, MAX_RUNS);
  } catch {
    return []; // the user has changed the address
  }
}

// Calls reload when TensorBoard has new data or other runs. TensorBoard sends messages on a port, and
// expects a reply to each.
export function listen(reload) {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = ({ data }) => {
    const { type, id, isReply } = JSON.parse(data);
    if (isReply) return;
    if (["experimental.DataReloaded", "experimental.RunsChanged"].includes(type)) reload();
    port1.postMessage(JSON.stringify({ type, id, payload: null, error: null, isReply: true }));
  };
  parent.postMessage("experimental.bootstrap", location.origin, [port2]);
}
