// The picture of one run: a matrix, lines, or thumbnails of all heads. Several panes stand side by side.

import { headColour } from "./colours.js";
import { make } from "./forms.js";
import { Grid } from "./grid.js";
import { Plot } from "./plot.js";
import { headMean } from "./record.js";
import { inWords, textOf } from "./words.js";

const KEYS = "Arrow keys move from token to token.";

export class Pane {
  // onPoint(pane, spot, pinned): see Plot. onOpen(pane, layer, heads): see Grid.
  constructor(onPoint, onOpen) {
    this.content = null; // the displayed content, see draw
    this.name = make("span", { class: "run" });
    this.note = make("span", { class: "note" });
    this.output = make("bdi", { class: "output" });
    this.heading = make("p", { class: "heading" }, this.name, " ", this.note, this.output);
    this.picture = make("div", {
      class: "plot", tabindex: 0, role: "application", "aria-roledescription": "attention picture",
    });
    const thumbnails = make("div", { class: "grid", role: "group", "aria-label": "Thumbnails" });
    const scroller = make("div", { class: "scroller" }, this.picture, thumbnails);
    this.element = make("div", { class: "pane" }, this.heading, scroller);
    this.plot = new Plot(this.picture, (spot, pinned) => onPoint(this, spot, pinned));
    this.grid = new Grid(thumbnails, (layer, heads) => onOpen(this, layer, heads));
  }

  // Shows why there is no picture.
  explain(run, reason) {
    this.content = null;
    this.heading.hidden = false;
    this.name.textContent = run;
    this.note.textContent = reason;
    this.output.textContent = "";
    this.picture.hidden = this.grid.host.hidden = true;
  }

  // Prepares a content for draw. content: {run, note, record, kind, chosen, dark}. note: which update is
  // shown; kind: of the record, between pieces; chosen: see Choices.
  prepare(content) {
    const { chosen, dark } = content;
    const kind = chosen.words ? inWords(content.kind) : content.kind;
    const { layer, heads, ticked, all } = chosen.within(kind);
    const weights = headMean(kind, layer, heads);
    const strands = ticked.length
      ? ticked.map((head) => ({
        weights: headMean(kind, layer, [head]), colour: headColour(head, dark), dashed: head > 7,
      }))
      : [{ weights, colour: getComputedStyle(this.plot.canvas).color, dashed: false }];
    const drawn = { kind, layer, heads, ticked, all, weights, strands };
    this.content = { ...content, pieces: content.kind, ...drawn };
    return this.content;
  }

  // The largest weight of what is shown.
  largest() {
    const { chosen: { view }, kind, all, weights, strands } = this.content;
    const layers = Array.from({ length: kind.layers }, (_, layer) => layer);
    const shown = view === "lines" ? strands.map((strand) => strand.weights)
      : view === "matrix" ? [weights]
        : layers.flatMap((layer) => all.map((head) => kind.weights(layer, head)));
    return Math.max(...shown.map((values) => values.reduce((a, b) => Math.max(a, b), 0)));
  }

  // Draws the prepared content. most: the weight at the end of the scale; note: what differs from the
  // first pane; alone: no other pane is shown.
  draw({ colours, most, caption, note, alone }) {
    const { run, record, kind, chosen, layer, ticked, all, weights, strands } = this.content;
    if (note) this.content.note = [this.content.note, note].filter(Boolean).join(", ");
    const isGrid = chosen.view === "grid";
    this.heading.hidden = alone;
    this.name.textContent = run;
    this.note.textContent = this.content.note;
    this.output.textContent = textOf(record.target);
    const label = `${alone ? "" : `${run}: `}${caption} ${KEYS}`;
    this.picture.setAttribute("aria-label", label);
    this.picture.hidden = isGrid;
    this.grid.host.hidden = !isGrid;
    if (isGrid) this.grid.draw({ kind, colours, most, layer, ticked, all });
    else this.plot.draw({ view: chosen.view, kind, weights, colours, most, strands });
  }

  // ---- spots: see plot.js; those of words are told from those of pieces ----

  // The spot of the pieces of a displayed spot.
  toPieces(spot) {
    const { kind, pieces } = this.content;
    if (kind === pieces || !spot) return spot;
    const of = (words, index) => (index === null ? null : words[index].first);
    const word = spot.row !== null ? kind.rowWords[spot.row] : kind.columnWords[spot.column];
    return {
      row: of(kind.rowWords, spot.row), column: of(kind.columnWords, spot.column),
      count: word.last - word.first + 1,
    };
  }

  // The displayed spot of a spot of pieces.
  fromPieces(spot) {
    const { kind, pieces } = this.content;
    if (kind === pieces || !spot) return spot;
    const { row, column, count = 1 } = spot;
    const of = (words, piece) => words.findIndex(({ last }) => piece <= last);
    const place = (words, index) => (index === null ? null : of(words, index));
    const words = row !== null ? kind.rowWords : kind.columnWords, first = row ?? column;
    return {
      row: place(kind.rowWords, row), column: place(kind.columnWords, column),
      count: of(words, first + count - 1) - of(words, first) + 1,
    };
  }

  // The same spot in another pane, if that one has the same tokens there; else null.
  counterpart(spot, other) {
    if (!spot || !other.content) return null;
    const same = (side, index) => index === null
      || JSON.stringify(this.content.kind[side]) === JSON.stringify(other.content.kind[side]);
    return same("rows", spot.row) && same("columns", spot.column) ? spot : null;
  }
}
