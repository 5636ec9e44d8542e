// Lines between two lists of tokens: on the left those that attend, on the right the attended ones.

import { strongest } from "./record.js";
import { LETTERS } from "./tokens.js";

const LONG = 640;       // px: longer lists get lower lines
const FAINTEST = 0.01;  // of the scale: fainter lines are omitted
const LEVELS = 24;      // of width and opacity
const AT_ONCE = 100;    // lines per frame: more would take longer than a frame of 1/60 s
const FADED = 0.06;     // opacity of the lines that do not belong to the highlighted spot
const DASHES = [6, 4];  // px

const widthOf = (level) => 1 + (3 * level) / LEVELS;
const opacityOf = (level) => Math.sqrt(level / LEVELS);

export class Lines {
  hasCells = false;

  constructor(plot) {
    this.plot = plot;
    this.faded = document.createElement("canvas"); // all lines, while some are highlighted
    this.base = null;   // the canvas with all lines: the displayed one or `faded`
    this.all = [];      // lines that are not drawn yet on it, see order
    this.meant = [];    // lines of the highlighted spot that are not drawn yet
    this.frame = null;  // the request of the next frame that draws lines
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

  // Begins another picture, which `light` draws.
  paint() {
    this.base = null;
    this.all = this.order(null);
  }

  // Clears a canvas and returns its context, in px.
  prepare(canvas) {
    const context = canvas.getContext("2d");
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, this.gap, this.tall);
    return context;
  }

  y(index) {
    return 8 + (index + 0.5) * this.height;
  }

  // Shows all lines, or those of a spot over all others, which are faded.
  light(spot) {
    const { faded, plot: { canvas } } = this;
    if (!this.base) {
      this.base = spot ? faded : canvas;
      this.prepare(this.base);
      this.draw(this.all, this.base);
    } else if (spot && this.base === canvas) {
      this.copy(canvas, faded, 1);
      this.base = faded;
    }
    if (this.base === faded) {
      this.copy(faded, canvas, spot ? FADED : 1);
      if (!spot) this.base = canvas;
    }
    this.meant = spot ? this.order(spot) : [];
    this.draw(this.meant, canvas);
    this.frame ??= requestAnimationFrame(() => this.continue());
  }

  copy(from, to, opacity) {
    const context = this.prepare(to);
    context.globalAlpha = opacity;
    context.drawImage(from, 0, 0, this.gap, this.tall);
  }

  // Draws more lines, those of the spot first.
  continue() {
    const { all, base, meant, plot } = this;
    this.frame = null;
    if (plot.layout !== this) return; // another layout draws
    if (meant.length) this.draw(meant, plot.canvas);
    else this.draw(all, base);
    if (all.length || meant.length) this.frame = requestAnimationFrame(() => this.continue());
  }

  // Draws the first lines of a list, and removes them from it.
  draw(lines, canvas) {
    const context = canvas.getContext("2d"), { gap } = this;
    for (const number of lines.splice(0, AT_ONCE)) {
      const { from, to, level, strand } = this.line(number);
      context.strokeStyle = strand.colour;
      context.setLineDash(strand.dashed ? DASHES : []);
      context.lineWidth = widthOf(level);
      context.globalAlpha = opacityOf(level);
      context.beginPath();
      context.moveTo(0, from);
      context.bezierCurveTo(gap / 2, from, gap / 2, to, gap, to);
      context.stroke();
    }
  }

  // The lines of a spot, or all lines, as numbers, the strongest first: the place of a weight, plus the
  // number of weights times the index of the strand.
  order(spot) {
    const { row = null, column = null, count = 1 } = spot ?? {};
    const { kind: { rows, columns }, strands } = this.plot, size = rows.length * columns.length;
    const [top, bottom] = row === null ? [0, rows.length] : [row, row + count];
    const [first, end] = column === null ? [0, columns.length] : [column, column + count];
    const levels = Array.from({ length: LEVELS + 1 }, () => []);
    strands.forEach((_, i) => {
      for (let r = top; r < Math.min(bottom, rows.length); r++) {
        for (let c = first; c < Math.min(end, columns.length); c++) {
          const number = i * size + r * columns.length + c, level = this.level(number);
          if (level) levels[level].push(number);
        }
      }
    });
    return levels.reverse().flat();
  }

  // The level of a line, from 1 to LEVELS; 0: too faint to be drawn.
  level(number) {
    const { kind: { rows, columns }, most, strands } = this.plot, size = rows.length * columns.length;
    const strength = Math.min(1, strands[Math.floor(number / size)].weights[number % size] / most);
    return strength < FAINTEST ? 0 : Math.max(1, Math.round(LEVELS * strength));
  }

  line(number) {
    const { kind: { rows, columns }, strands } = this.plot, size = rows.length * columns.length;
    const place = number % size, column = place % columns.length;
    return {
      from: this.y((place - column) / columns.length), to: this.y(column),
      level: this.level(number), strand: strands[Math.floor(number / size)],
    };
  }

  // All lines for SVG: the attributes of a path each.
  paths() {
    const { gap } = this;
    return this.order(null).map((number) => {
      const { from, to, level, strand } = this.line(number);
      return {
        d: `M0 ${from}C${gap / 2} ${from} ${gap / 2} ${to} ${gap} ${to}`, stroke: strand.colour,
        "stroke-width": widthOf(level).toFixed(2), "stroke-opacity": opacityOf(level).toFixed(2),
        ...(strand.dashed && { "stroke-dasharray": DASHES.join(" ") }),
      };
    });
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
