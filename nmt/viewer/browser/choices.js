// What is chosen in the viewer, and the same as text, for a source to keep.

export const VIEWS = { matrix: "matrix", lines: "lines", grid: "all heads" };

export class Choices {
  run = "";
  sentence = "";
  step = null;     // null: the last one
  kind = "cross";
  view = "matrix";
  layer = null;    // from 0; null: the last one
  heads = [];      // from 0; empty: all
  stretch = false; // whether the scale ends at the largest weight

  toText() {
    const text = new URLSearchParams();
    for (const [key, value] of Object.entries(this)) {
      if (value !== null && value !== false && String(value)) text.set(key, value);
    }
    return String(text);
  }

  // Takes over what a text says, whoever wrote it.
  recall(text) {
    const kept = new URLSearchParams(text);
    for (const key of ["run", "sentence", "kind", "view"]) this[key] = kept.get(key) ?? this[key];
    for (const key of ["step", "layer"]) if (kept.has(key)) this[key] = Number(kept.get(key)) || 0;
    if (kept.get("heads")) this.heads = kept.get("heads").split(",").map(Number);
    if (!(this.view in VIEWS)) this.view = "matrix";
    this.stretch = kept.has("stretch");
  }

  // The place of the chosen step among those there are.
  placeOf(steps) {
    if (this.step === null) return steps.length - 1;
    const later = steps.findIndex(({ step }) => step > this.step);
    return Math.max(0, (later < 0 ? steps.length : later) - 1);
  }

  // What is chosen of a kind of attention: {layer, heads, ticked, all}. all: the numbers of all its
  // heads; heads: those whose mean is shown, which are all where none is ticked.
  within(kind) {
    const layer = Math.max(0, Math.min(this.layer ?? kind.layers, kind.layers - 1));
    const all = Array.from({ length: kind.heads }, (_, head) => head);
    const ticked = all.filter((head) => this.heads.includes(head));
    return { layer, heads: ticked.length ? ticked : all, ticked, all };
  }

  // The heads after one was ticked or not, or after "all" was.
  headsAfter(value, ticked) {
    if (value === "all") return [];
    const others = this.heads.filter((head) => head !== Number(value));
    return ticked ? [...others, Number(value)] : others;
  }
}
