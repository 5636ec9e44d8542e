// An interactive picture of attention: a matrix, or lines between two lists of tokens.
//
// A spot {row, column} is a position in it: a token that attends (column null), an attended token (row
// null), or a cell of the matrix (neither null). A spot of several successive tokens has their number:
// {row, column, count}.
//
// The matrix has the colours of the PNG heatmaps, in proportion to the weight. Lines and highlighted
// tokens use its square root: most weights of a long sentence would be too small to see.

import { Lines } from "./lines.js";
import { Matrix } from "./matrix.js";
import { drawToken, FAMILY, svg, tokenWidth } from "./tokens.js";

export class Plot {
  // onPoint(spot, pinned): called with the spot under the pointer; null: none, then `cursor` applies.
  // pinned: `cursor` has changed.
  constructor(host, onPoint) {
    this.host = host;
    this.onPoint = onPoint;
    this.canvas = document.createElement("canvas");
    this.drawing = svg("svg", {});
    this.places = "";      // what the places of tokens depend on, as JSON
    this.pointed = "null"; // the spot under the pointer, as JSON
    this.lit = null;
    this.cursor = null; // the spot of the last click or key; it stays highlighted
    host.addEventListener("pointermove", (event) => this.move(this.spotAt(event)));
    host.addEventListener("pointerleave", () => this.move(null));
    host.addEventListener("click", (event) => this.pin(this.spotAt(event)));
    host.addEventListener("keydown", (event) => this.key(event));
    host.addEventListener("focus", () => {
      if (!this.cursor && host.matches(":focus-visible")) this.point({ row: 0, column: null });
    });
  }

  // content: {view: "matrix" | "lines", kind, weights, colours, most, strands}. weights: the mean of
  // the chosen heads, row after row; strands: the lines, [{weights, colour, dashed}]. Tokens are drawn
  // again only if they or their places change.
  draw({ view, kind, weights, colours, most, strands }) {
    Object.assign(this, { kind, weights, colours, most, strands });
    const places = JSON.stringify(
      [view, this.host.clientWidth, devicePixelRatio, kind.rows, kind.columns],
    );
    if (places !== this.places) {
      this.places = places;
      this.groups = { row: [], column: [] }; // the tokens in the drawing
      this.marked = { row: [], column: [] }; // their highlights, see lightTokens
      this.drawing.replaceChildren();
      this.canvas.style.opacity = 1;
      this.host.replaceChildren(this.canvas, this.drawing);
      this.layout = view === "matrix" ? new Matrix(this) : new Lines(this);
      this.layout.build();
    }
    this.layout.paint();
    this.light(this.lit);
  }

  weight(row, column) {
    return this.weights[row * this.kind.columns.length + column];
  }

  // The weights of a row, or the mean of several rows.
  rowWeights(row, count = 1) {
    const rows = Array.from({ length: count }, (_, i) => row + i);
    return this.kind.columns.map((_, column) =>
      rows.reduce((sum, one) => sum + this.weight(one, column), 0) / count);
  }

  // The weights of a column, or the sum of several columns.
  columnWeights(column, count = 1) {
    const columns = Array.from({ length: count }, (_, i) => column + i);
    return this.kind.rows.map((_, row) =>
      columns.reduce((sum, one) => sum + this.weight(row, one), 0));
  }

  // ---- drawing, for a layout ----

  size(width, height) {
    this.drawing.style.font = `${this.letters}px ${FAMILY}`;
    this.drawing.setAttribute("width", width);
    this.drawing.setAttribute("height", height);
    this.host.style.height = `${height}px`;
  }

  placeCanvas(canvas, left, top, width, height) {
    for (const [key, value] of Object.entries({ left, top, width, height })) {
      canvas.style[key] = `${value}px`;
    }
  }

  // The tokens of a side, "row" or "column"; place(index) returns positions, see drawToken.
  tokens(side, place) {
    this.kind[`${side}s`].forEach((token, index) => {
      const placed = { side, index, letters: this.letters, ...place(index) };
      this.groups[side].push(drawToken(token, placed));
    });
    this.drawing.append(...this.groups[side]);
  }

  // The longest token of a side in px.
  longest(side) {
    return this.letters * Math.max(...this.kind[`${side}s`].map(tokenWidth));
  }

  // ---- highlighting ----

  // Highlights a spot's connections; a spot outside of the picture has none. In a view without
  // cells, a cell stands for its row.
  light(spot) {
    const inside = (index, tokens) => index === null || index < tokens.length;
    const fits = spot && inside(spot.row, this.kind.rows) && inside(spot.column, this.kind.columns);
    const cell = spot && spot.row !== null && !this.layout.hasCells;
    this.lit = fits ? { ...spot, ...(cell && { column: null }) } : null;
    const { row = null, column = null, count = 1 } = this.lit ?? {};
    this.lightTokens("row", row, count,
                     column !== null && row === null ? this.columnWeights(column, count) : null);
    this.lightTokens("column", column, count,
                     row !== null && column === null ? this.rowWeights(row, count) : null);
    this.layout.light(this.lit);
  }

  // active: index of the first token of the spot, or null; weights: one per token, or null. Changes
  // only tokens whose highlight changes.
  lightTokens(side, active, count, weights) {
    const marked = this.marked[side];
    this.groups[side].forEach((token, index) => {
      const pointed = active !== null && index >= active && index < active + count;
      const weight = weights ? weights[index].toFixed(3) : null;
      const opacity = weights ? Math.sqrt(Math.min(1, weights[index] / this.most)).toFixed(2) : "";
      const key = `${pointed} ${weight} ${opacity}`;
      if (marked[index] === key) return;
      marked[index] = key;
      token.classList.toggle("active", pointed);
      token.classList.toggle("lit", Boolean(weights));
      token.firstChild.style.fillOpacity = opacity;
      if (weights) token.setAttribute("data-weight", weight);
      else token.removeAttribute("data-weight");
    });
  }

  // The rectangle on the screen beside which a spot's tooltip appears.
  anchor({ row, column }) {
    const mark =
      row !== null && column !== null
        ? this.layout.bands.cell
        : row !== null ? this.groups.row[row] : this.groups.column[column];
    return mark.getBoundingClientRect();
  }

  // ---- pointing ----

  // Reports a spot under the pointer, if it is another one than before.
  move(spot) {
    const key = JSON.stringify(spot);
    if (key === this.pointed) return;
    this.pointed = key;
    this.onPoint(spot);
  }

  spotAt(event) {
    const token = event.target.closest?.(".token");
    if (!token) return this.layout.spotAt(event.clientX, event.clientY);
    const index = Number(token.dataset.index);
    return token.dataset.side === "row"
      ? { row: index, column: null }
      : { row: null, column: index };
  }

  // A second click undoes the first.
  pin(spot) {
    const again = spot && this.cursor
      && spot.row === this.cursor.row && spot.column === this.cursor.column;
    this.point(again ? null : spot);
  }

  point(spot) {
    this.cursor = spot;
    this.pointed = "null";
    this.onPoint(null, true);
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") this.point(null);
    else {
      const next = this.layout.step(event.key, this.cursor ?? { row: 0, column: null });
      if (!next) return;
      this.point(next);
    }
    event.preventDefault();
  }
}
