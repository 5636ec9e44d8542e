// The matrix: a row of cells per token that attends, in the colours of the PNG heatmaps.

import { paint } from "./colours.js";
import { LETTERS, svg } from "./tokens.js";

const SMALLEST = 10;  // px of a cell
const LARGEST = 34;
const TALLEST = 600;  // px: larger matrices get smaller cells
const SLANT = 55;     // degrees of column tokens

export class Matrix {
  hasCells = true;

  constructor(plot) {
    this.plot = plot;
    this.rows = plot.kind.rows.length;
    this.columns = plot.kind.columns.length;
  }

  // Places tokens and cells.
  build() {
    const { plot, rows, columns } = this;
    plot.letters = LETTERS;
    const room = plot.host.clientWidth - plot.longest("row") - 40;
    const cell = Math.floor(
      Math.max(SMALLEST, Math.min(LARGEST, room / columns, TALLEST / rows)),
    );
    plot.letters = Math.min(LETTERS, cell);
    const left = Math.ceil(plot.longest("row") + 14);
    const angle = cell < 18 ? 90 : SLANT;
    const high = plot.longest("column") + 12;
    const top = Math.ceil(high * Math.sin((angle * Math.PI) / 180)) + 8;
    const right = Math.ceil(high * Math.cos((angle * Math.PI) / 180));
    const wide = cell * columns, tall = cell * rows;
    Object.assign(this, { cell, left, top, wide, tall });

    plot.placeCanvas(plot.canvas, left, top, wide, tall);
    plot.size(left + wide + Math.max(right, 12), top + tall + 8);
    const band = (name) => svg("rect", { class: `band ${name}`, visibility: "hidden" });
    this.bands = { row: band("of-row"), column: band("of-column"), cell: band("of-cell") };
    plot.drawing.append(
      svg("rect", { class: "frame", x: left, y: top, width: wide, height: tall }),
      ...Object.values(this.bands),
    );
    plot.tokens("row", (row) => ({
      x: left - 8, y: top + (row + 0.5) * cell, end: true, room: cell,
    }));
    plot.tokens("column", (column) => ({
      x: left + (column + 0.5) * cell, y: top - 8, angle: -angle, room: cell,
    }));
  }

  paint() {
    const { weights, colours, most } = this.plot;
    paint(this.plot.canvas, weights, this.rows, this.columns, colours, most);
  }

  light(spot) {
    const { row = null, column = null, count = 1 } = spot ?? {};
    const { left, top, wide, tall, cell } = this;
    const place = (band, shown, x, y, width, height) => {
      band.setAttribute("visibility", shown ? "visible" : "hidden");
      if (!shown) return;
      for (const [key, value] of Object.entries({ x, y, width, height })) {
        band.setAttribute(key, value);
      }
    };
    const x = left + column * cell, y = top + row * cell;
    place(this.bands.row, row !== null, left, y, wide, count * cell);
    place(this.bands.column, column !== null, x, top, count * cell, tall);
    place(this.bands.cell, row !== null && column !== null, x, y, cell, cell);
  }

  // The spot at a position on the screen outside of the tokens.
  spotAt(x, y) {
    const box = this.plot.drawing.getBoundingClientRect();
    const column = Math.floor((x - box.left - this.left) / this.cell);
    const row = Math.floor((y - box.top - this.top) / this.cell);
    const hit = column >= 0 && column < this.columns && row >= 0 && row < this.rows;
    return hit ? { row, column } : null;
  }

  // The spot to which a key moves, null for other keys. The row tokens are a column to the left of
  // the cells, the column tokens a row above them.
  step(key, { row, column }) {
    row ??= -1;
    column ??= -1;
    if (key === "ArrowUp") row -= 1;
    else if (key === "ArrowDown") row += 1;
    else if (key === "ArrowLeft") column -= 1;
    else if (key === "ArrowRight") column += 1;
    else if (key === "Home") column = row < 0 ? 0 : -1;
    else if (key === "End") column = this.columns - 1;
    else return null;
    row = Math.max(-1, Math.min(this.rows - 1, row));
    column = Math.max(-1, Math.min(this.columns - 1, column));
    if (row < 0 && column < 0) return this.plot.cursor; // the empty corner
    return { row: row < 0 ? null : row, column: column < 0 ? null : column };
  }
}
