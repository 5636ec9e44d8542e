// Lines between two lists of tokens: on the left those that attend, on the right the attended ones.

import { strongest } from "./record.js";
import { LETTERS } from "./tokens.js";

const LONG = 640;       // px: longer lists get lower lines
const FAINTEST = 0.01;  // of the scale: fainter lines are omitted
const LEVELS = 24;      // of width and opacity
const SLOW = 17.5;     // ms: a longer frame is below 60 a second, with the inaccuracy of clocks
const FIRST = 60;       // lines drawn per frame until it is known how many fit, see pace
const FEWEST = 10;
const FADED = 0.06;     // opacity of the lines that do not belong to the highlighted spot
const DASHES = [6, 4];  // px

const widthOf = (level) => 1 + (3 * level) / LEVELS;
const opacityOf = (level) => Math.sqrt(level / LEVELS);
const strengthOf = (weight, most) =>
  Math.max(1, Math.min(LEVELS, Math.round((LEVELS * weight) / most)));

export class Lines {
  hasCells = false;

  constructor(plot) {
    this.plot = plot;
    this.above = document.createElement("canvas"); // lines of the highlighted spot, over all lines
    this.all = [];      // lines that are not drawn yet, see order
    this.meant = [];    // lines of the highlighted spot that are not drawn yet
    this.frame = null;  // the request of the next frame that draws lines
    this.before = null; // the time of the last frame, if it drew lines, too
    this.count = this.most = FIRST; // lines per frame, now and at most
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
    for (const canvas of [plot.canvas, this.above]) {
      canvas.width = gap * devicePixelRatio;
      canvas.height = tall * devicePixelRatio;
      plot.placeCanvas(canvas, left, 0, gap, tall);
    }
    plot.canvas.after(this.above);
    plot.tokens("row", (row) => ({ x: left - 8, y: this.y(row), end: true }));
    plot.tokens("column", (column) => ({ x: left + gap + 8, y: this.y(column) }));
  }

  // Begins another picture, which `light` draws.
  paint() {
    this.clear(this.plot.canvas);
    this.all = this.order(null);
  }

  clear(canvas) {
    const context = canvas.getContext("2d");
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, this.gap, this.tall);
  }

  y(index) {
    return 8 + (index + 0.5) * this.height;
  }

  // Shows all lines, or those of a spot over all others, which are faded.
  light(spot) {
    this.plot.canvas.style.opacity = spot ? FADED : 1;
    this.clear(this.above);
    this.meant = spot ? this.order(spot) : [];
    this.frame ??= requestAnimationFrame((now) => this.continue(now));
  }

  // Draws more lines, those of the spot first.
  continue(now) {
    const { all, meant, plot, above } = this;
    this.frame = null;
    if (plot.layout !== this) return; // another layout draws
    if (this.before) this.pace(now - this.before);
    if (meant.length) this.draw(meant, above);
    else this.draw(all, plot.canvas);
    const isComplete = !all.length && !meant.length;
    this.before = isComplete ? null : now;
    if (!isComplete) this.frame = requestAnimationFrame((next) => this.continue(next));
  }

  // Draws as many lines per frame as the browser draws in 1/60 s: after a frame that took longer, half of
  // them, and from there on hardly more than those that fitted.
  pace(time) {
    if (time > SLOW) {
      this.most = Math.max(FEWEST, 0.8 * this.count);
      this.count = Math.max(FEWEST, this.count / 2);
    } else {
      if (this.count >= this.most) this.most += this.most / 50;
      this.count = Math.min(this.most, 1.2 * this.count);
    }
  }

  // Draws the first lines of a list, and removes them from it.
  draw(lines, canvas) {
    const context = canvas.getContext("2d"), { gap } = this;
    for (const number of lines.splice(0, this.count)) {
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
    const { kind: { rows, columns }, strands, most } = this.plot, size = rows.length * columns.length;
    const [top, bottom] = row === null ? [0, rows.length] : [row, row + count];
    const [first, end] = column === null ? [0, columns.length] : [column, column + count];
    const levels = Array.from({ length: LEVELS + 1 }, () => []), faintest = FAINTEST * most;
    strands.forEach(({ weights }, i) => {
      for (let r = top; r < Math.min(bottom, rows.length); r++) {
        for (let c = first; c < Math.min(end, columns.length); c++) {
          const place = r * columns.length + c;
          if (weights[place] >= faintest) levels[strengthOf(weights[place], most)].push(i * size + place);
        }
      }
    });
    return levels.reverse().flat();
  }

  line(number) {
    const { kind: { rows, columns }, most, strands } = this.plot, size = rows.length * columns.length;
    const place = number % size, column = place % columns.length;
    const strand = strands[Math.floor(number / size)];
    return {
      from: this.y((place - column) / columns.length), to: this.y(column),
      level: strengthOf(strand.weights[place], most), strand,
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
