// One picture of attention that can be pointed at: a matrix, or lines between two lists of tokens.
//
// A spot is what is pointed at, {row, column}: a token that attends (column null), a token attended
// to (row null), or a cell of the matrix (neither null). A spot of several tokens that follow each
// other says how many: {row, column, count}.
//
// The matrix has the colours of the PNG heatmaps, in proportion to the weight. Lines and marked
// tokens go by its square root: in a long sentence most weights are too small to be seen otherwise.

import { Lines } from "./lines.js";
import { Matrix } from "./matrix.js";
import { drawToken, FAMILY, svg, tokenWidth } from "./tokens.js";

export class Plot {
  // onPoint(spot): the pointer is on something, or on nothing (null), and then `cursor` counts.
  constructor(host, onPoint) {
    this.host = host;
    this.onPoint = onPoint;
    this.canvas = document.createElement("canvas");
    this.drawing = svg("svg", {});
    host.replaceChildren(this.canvas, this.drawing);
    this.lit = null;
    this.cursor = null; // the spot where a click or the keyboard left off; it stays lit
    host.addEventListener("pointermove", (event) => onPoint(this.spotAt(event)));
    host.addEventListener("pointerleave", () => onPoint(null));
    host.addEventListener("click", (event) => this.pin(this.spotAt(event)));
    host.addEventListener("keydown", (event) => this.key(event));
    host.addEventListener("focus", () => {
      if (!this.cursor && host.matches(":focus-visible")) this.point({ row: 0, column: null });
    });
  }

  // content: {view: "matrix" | "lines", kind, weights, colours, most}
  draw({ view, kind, weights, colours, most }) {
    Object.assign(this, { kind, weights, colours, most });
    this.groups = { row: [], column: [] }; // the tokens in the drawing
    this.drawing.replaceChildren();
    this.layout = view === "matrix" ? new Matrix(this) : new Lines(this);
    this.layout.draw();
    this.light(this.lit);
  }

  weight(row, column) {
    return this.weights[row * this.kind.columns.length + column];
  }

  // What a row gives to each column; of several rows the mean.
  rowWeights(row, count = 1) {
    const rows = Array.from({ length: count }, (_, i) => row + i);
    return this.kind.columns.map((_, column) =>
      rows.reduce((sum, one) => sum + this.weight(one, column), 0) / count);
  }

  // What each row gives to a column; to several columns in all.
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

  placeCanvas(left, top, width, height) {
    for (const [key, value] of Object.entries({ left, top, width, height })) {
      this.canvas.style[key] = `${value}px`;
    }
  }

  // The tokens of a side, "row" or "column"; place(index) says where: see drawToken.
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

  // ---- lighting ----

  // Lights what a spot is connected with; a spot outside of the picture lights nothing. Where there
  // are no cells, a cell is its row.
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

  // active: the first one that is pointed at, or null; weights: of all, or null.
  lightTokens(side, active, count, weights) {
    this.groups[side].forEach((token, index) => {
      const pointed = active !== null && index >= active && index < active + count;
      token.classList.toggle("active", pointed);
      token.classList.toggle("lit", Boolean(weights));
      token.style.setProperty("--w", Math.sqrt(Math.min(1, (weights?.[index] ?? 0) / this.most)));
      if (weights) token.setAttribute("data-weight", weights[index].toFixed(3));
      else token.removeAttribute("data-weight");
    });
  }

  // The rectangle on the screen that a spot's tooltip belongs to.
  anchor({ row, column }) {
    const mark =
      row !== null && column !== null
        ? this.layout.bands.cell
        : row !== null ? this.groups.row[row] : this.groups.column[column];
    return mark.getBoundingClientRect();
  }

  // ---- pointing ----

  spotAt(event) {
    const token = event.target.closest?.(".token");
    if (!token) return this.layout.spotAt(event.clientX, event.clientY);
    const index = Number(token.dataset.index);
    return token.dataset.side === "row"
      ? { row: index, column: null }
      : { row: null, column: index };
  }

  // A second click takes the first one back.
  pin(spot) {
    const again = spot && this.cursor
      && spot.row === this.cursor.row && spot.column === this.cursor.column;
    this.point(again ? null : spot);
  }

  point(spot) {
    this.cursor = spot;
    this.onPoint(null);
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
