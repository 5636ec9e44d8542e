// The user's choices in the viewer, also as text for a source to store.

export const VIEWS = { matrix: "matrix", lines: "lines", grid: "all heads" };
export const UNITS = { tokens: "tokens", words: "words" };
export const MAX_RUNS = 4; // side by side
const RUNS = Array.from({ length: MAX_RUNS }, (_, i) => (i ? `run${i + 1}` : "run"));
const TEXTS = ["sentence", "kind", "view", "unit", "split", "better"];

export class Choices {
  runs = [];       // names; none: the newest run
  sentence = "";
  step = null;     // null: the last step
  kind = "cross";
  view = "matrix";
  layer = null;    // from 0; null: the last layer
  heads = [];      // from 0; empty: all
  stretch = false; // true: the scale ends at the largest weight
  unit = "tokens";
  split = "";      // whose outputs are compared: its name; "": none, "probes": the runs' sentences
  better = "";     // "first": the sentences of a split of which the first run is better; else the second

  get words() {
    return this.unit === "words";
  }

  toText() {
    const { runs, ...others } = this, text = new URLSearchParams();
    runs.forEach((run, i) => run && text.set(RUNS[i], run));
    for (const [key, value] of Object.entries(others)) {
      if (value !== null && value !== false && String(value)) text.set(key, value);
    }
    return String(text);
  }

  // Restores choices from an untrusted text.
  recall(text) {
    const kept = new URLSearchParams(text);
    const runs = RUNS.map((key) => kept.get(key)).filter(Boolean);
    if (runs.length) this.runs = [...new Set(runs)];
    for (const key of TEXTS) this[key] = kept.get(key) ?? this[key];
    for (const key of ["step", "layer"]) if (kept.has(key)) this[key] = Number(kept.get(key)) || 0;
    if (kept.get("heads")) this.heads = kept.get("heads").split(",").map(Number);
    if (!(this.view in VIEWS)) this.view = "matrix";
    if (!(this.unit in UNITS)) this.unit = "tokens";
    this.stretch = kept.has("stretch");
  }

  // The index of the chosen step.
  placeOf(steps) {
    if (this.step === null) return steps.length - 1;
    const later = steps.findIndex(({ step }) => step > this.step);
    return Math.max(0, (later < 0 ? steps.length : later) - 1);
  }

  // The choices within a kind of attention: {layer, heads, ticked, all}. all: the numbers of all
  // heads; heads: those whose mean is shown, all of them if none is ticked.
  within(kind) {
    const layer = Math.max(0, Math.min(this.layer ?? kind.layers, kind.layers - 1));
    const all = Array.from({ length: kind.heads }, (_, head) => head);
    const ticked = all.filter((head) => this.heads.includes(head));
    return { layer, heads: ticked.length ? ticked : all, ticked, all };
  }

  // The heads after one, "all" or "each", was ticked or unticked; all: the numbers of all heads.
  headsAfter(value, ticked, all) {
    if (value === "all") return [];
    if (value === "each") return ticked ? all : [];
    const others = this.heads.filter((head) => head !== Number(value));
    return ticked ? [...others, Number(value)] : others;
  }
}
