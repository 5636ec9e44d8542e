// Lines between two lists of tokens: on the left those that attend, on the right the attended ones.

import { strongest } from "./record.js";
import { LETTERS } from "./tokens.js";

const LONG = 640;       // px: longer lists get lower lines
const FAINTEST = 0.01;  // of the scale: fainter lines are omitted
const LEVELS = 24;      // lines of a level have the same width and opacity, and are drawn at once
const FADED = 0.06;     // opacity of the lines that do not belong to the highlighted spot
const DASHES = [6, 4];  // px

const widthOf = (level) => 1 + (3 * level) / LEVELS;
const opacityOf = (level) => Math.sqrt(level / LEVELS);

export class Lines {
  hasCells = false;

  constructor(plot) {
    this.plot = plot;
    this.faded = document.createElement("canvas"); // all lines, drawn once per picture
  }

  // Places the tokens.
  build() {
    const { plot } = this, { rows, columns } = plot.kind;
    const count = Math.max(rows.length, columns.length);
    this.height = Math.max(16, Math.min(28, LONG / count));
    plot.letters = LETTERS;
    const [left, right] = ["row", "column"].map((side) => Math.ceil(plot.longest(side) + 20));
    const gap = Math.max(140, Math.min(420, plot.host.clientWidth - left - right));
    const tall = this.height * count + 16;
    Object.assign(this, { gap, left, tall });
    plot.size(left + gap + right, tall);
    for (const canvas of [plot.canvas, this.faded]) {
      canvas.width = gap * devicePixelRatio;
      canvas.height = tall * devicePixelRatio;
    }
    plot.placeCanvas(left, 0, gap, tall);
    plot.tokens("row", (row) => ({ x: left - 8, y: this.y(row), end: true }));
    plot.tokens("column", (column) => ({ x: left + gap + 8, y: this.y(column) }));
  }

  paint() {
    const context = this.faded.getContext("2d");
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, this.gap, this.tall);
    this.draw(context, null);
  }

  y(index) {
    return 8 + (index + 0.5) * this.height;
  }

  // Shows all lines, or those of a spot over all others, which are faded.
  light(spot) {
    const { gap, plot, tall } = this, context = plot.canvas.getContext("2d");
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, gap, tall);
    context.globalAlpha = spot ? FADED : 1;
    context.drawImage(this.faded, 0, 0, gap, tall);
    if (spot) this.draw(context, spot);
  }

  // Draws the lines of a spot, or all lines.
  draw(context, spot) {
    for (const { colour, dashed, levels } of this.strands(spot)) {
      context.strokeStyle = colour;
      context.setLineDash(dashed ? DASHES : []);
      levels.forEach((lines, level) => {
        context.lineWidth = widthOf(level);
        context.globalAlpha = opacityOf(level);
        context.stroke(new Path2D(lines.join("")));
      });
    }
  }

  // The lines of a spot, or all lines: [{colour, dashed, levels}]. levels: SVG paths by the strength of
  // their weights, from 0 to LEVELS.
  strands(spot) {
    const { row = null, column = null, count = 1 } = spot ?? {};
    const { kind: { rows, columns }, most, strands } = this.plot;
    const [top, bottom] = row === null ? [0, rows.length] : [row, row + count];
    const [first, end] = column === null ? [0, columns.length] : [column, column + count];
    return strands.map(({ weights, colour, dashed }) => {
      const levels = [];
      for (let r = top; r < Math.min(bottom, rows.length); r++) {
        for (let c = first; c < Math.min(end, columns.length); c++) {
          const strength = Math.min(1, weights[r * columns.length + c] / most);
          if (strength < FAINTEST) continue;
          (levels[Math.max(1, Math.round(LEVELS * strength))] ??= []).push(this.path(r, c));
        }
      }
      return { colour, dashed, levels };
    });
  }

  // The attributes in SVG of the lines of a level.
  pen(level, dashed) {
    return {
      "stroke-width": widthOf(level).toFixed(2), "stroke-opacity": opacityOf(level).toFixed(2),
      ...(dashed && { "stroke-dasharray": DASHES.join(" ") }),
    };
  }

  path(row, column) {
    const { gap } = this, from = this.y(row), to = this.y(column);
    return `M0 ${from}C${gap / 2} ${from} ${gap / 2} ${to} ${gap} ${to}`;
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
