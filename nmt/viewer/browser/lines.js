// Lines between two lists of tokens: on the left those that attend, on the right the attended ones.

import { strongest } from "./record.js";
import { LETTERS } from "./tokens.js";

const LONG = 640;       // px: longer lists get lower lines
const FAINTEST = 0.01;  // of the scale: fainter lines are omitted

export class Lines {
  hasCells = false;

  constructor(plot) {
    this.plot = plot;
  }

  draw() {
    const { plot } = this, { rows, columns } = plot.kind;
    const count = Math.max(rows.length, columns.length);
    this.height = Math.max(16, Math.min(28, LONG / count));
    plot.letters = LETTERS;
    const [left, right] = ["row", "column"].map((side) => Math.ceil(plot.longest(side) + 20));
    const gap = Math.max(140, Math.min(420, plot.host.clientWidth - left - right));
    const tall = this.height * count + 16;
    this.gap = gap;
    plot.size(left + gap + right, tall);
    plot.canvas.width = gap * devicePixelRatio;
    plot.canvas.height = tall * devicePixelRatio;
    plot.placeCanvas(left, 0, gap, tall);
    plot.tokens("row", (row) => ({ x: left - 8, y: this.y(row), end: true }));
    plot.tokens("column", (column) => ({ x: left + gap + 8, y: this.y(column) }));
  }

  y(index) {
    return 8 + (index + 0.5) * this.height;
  }

  // Draws all lines, and highlights the lines of a spot.
  light(spot) {
    const { gap, plot } = this, { row: from, column: to, count = 1 } = spot ?? {};
    const context = plot.canvas.getContext("2d");
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, gap, plot.canvas.height);
    context.strokeStyle = getComputedStyle(plot.canvas).color;
    const within = (index, first) => first !== null && index >= first && index < first + count;
    plot.kind.rows.forEach((_, row) =>
      plot.kind.columns.forEach((_, column) => {
        const strength = Math.min(1, plot.weight(row, column) / plot.most);
        if (strength < FAINTEST) return;
        const meant = !spot || within(row, from) || within(column, to);
        context.lineWidth = 1 + 3 * strength;
        context.globalAlpha = Math.sqrt(strength) * (meant ? 1 : 0.06);
        context.beginPath();
        context.moveTo(0, this.y(row));
        context.bezierCurveTo(gap / 2, this.y(row), gap / 2, this.y(column), gap, this.y(column));
        context.stroke();
      }),
    );
  }

  spotAt() {
    return null;
  }

  // The spot to which a key moves, null for other keys: up and down within a list; to the other list
  // along the strongest line.
  step(key, { row, column }) {
    const { plot } = this, onRows = row !== null;
    const index = onRows ? row : column;
    const last = (onRows ? plot.kind.rows : plot.kind.columns).length - 1;
    const along = (to) => (onRows ? { row: to, column: null } : { row: null, column: to });
    if (key === "ArrowUp") return along(Math.max(0, index - 1));
    if (key === "ArrowDown") return along(Math.min(last, index + 1));
    if (key === "Home") return along(0);
    if (key === "End") return along(last);
    if (key === "ArrowRight" && onRows) {
      return { row: null, column: strongest(plot.rowWeights(row), 1)[0].index };
    }
    if (key === "ArrowLeft" && !onRows) {
      return { row: strongest(plot.columnWeights(column), 1)[0].index, column: null };
    }
    return null;
  }
}
