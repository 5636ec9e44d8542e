// One picture of attention that can be pointed at: a matrix, or lines between two lists of tokens.
//
// A spot is what is pointed at, {row, column}: a token that attends (column null), a token attended
// to (row null), or a cell of the matrix (neither null).
//
// The matrix has the colours of the PNG heatmaps, in proportion to the weight. Lines and marked
// tokens go by its square root: in a long sentence most weights are too small to be seen otherwise.

import { paint } from "./colours.js";
import { strongest } from "./record.js";

const FAMILY = "system-ui, sans-serif";
const LETTERS = 13;        // px of font size, where cells are not smaller
const LONGEST = 12;        // times the font size: longer tokens are cut, and whole in the tooltip
const SMALLEST = 10;       // px of a cell
const LARGEST = 34;
const TALLEST = 600;       // px of a matrix whose cells are not the smallest
const SLANT = 55;          // degrees of column tokens
const FAINTEST = 0.01;     // of the scale: thinner lines are left out
const VISIBLE = { "\n": "⏎", "\r": "⏎", "\t": "⇥" };

const ruler = document.createElement("canvas").getContext("2d");

// The width of a text in px of font size.
function width(text) {
  ruler.font = `100px ${FAMILY}`;
  return ruler.measureText(text).width / 100;
}

// The token with signs for what shows nothing by itself.
export function visible(token) {
  return token.replace(/[\n\r\t]/g, (sign) => VISIBLE[sign]);
}

// The token cut at its end where it is too long.
function label(token) {
  const characters = [...visible(token)];
  if (width(characters.join("")) <= LONGEST) return characters.join("");
  while (width(characters.join("") + "…") > LONGEST) characters.pop();
  return characters.join("") + "…";
}

// The text of a token; what marks the beginning of a word in it is pale.
function shownText(text, attributes) {
  const [mark, rest] = text.startsWith("▁") ? ["▁", text.slice(1)] : ["", text];
  return svg("text", attributes, svg("tspan", { class: "mark" }, mark), rest);
}

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export class Plot {
  // onPoint(spot): the pointer is on something, or on nothing (null), and then `cursor` counts.
  constructor(host, onPoint) {
    this.host = host;
    this.onPoint = onPoint;
    this.canvas = document.createElement("canvas");
    this.picture = svg("svg", {});
    host.replaceChildren(this.canvas, this.picture);
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
  draw(content) {
    Object.assign(this, content);
    this.tokens = { row: [], column: [] };
    this.marks = null;
    this.picture.replaceChildren();
    if (this.view === "matrix") this.drawMatrix();
    else this.drawLines();
    this.light(this.lit);
  }

  weight(row, column) {
    return this.weights[row * this.kind.columns.length + column];
  }

  rowWeights(row) {
    return this.kind.columns.map((_, column) => this.weight(row, column));
  }

  columnWeights(column) {
    return this.kind.rows.map((_, row) => this.weight(row, column));
  }

  // ---- drawing ----

  size(pictureWidth, pictureHeight, letters) {
    this.picture.style.font = `${letters}px ${FAMILY}`;
    this.picture.setAttribute("width", pictureWidth);
    this.picture.setAttribute("height", pictureHeight);
    this.host.style.height = `${pictureHeight}px`;
  }

  // A token whose text begins (or, with end, ends) at x, y, turned around that point.
  token(side, index, x, y, { end = false, angle = 0 } = {}) {
    const text = label(this.kind[`${side}s`][index]);
    const letters = this.letters, long = letters * width(text) + 8, high = 1.4 * letters;
    const group = svg(
      "g",
      {
        class: "token", "data-side": side, "data-index": index,
        transform: `translate(${x} ${y}) rotate(${angle})`,
      },
      svg("rect", { x: end ? -long + 4 : -4, y: -high / 2, width: long, height: high, rx: 4 }),
      shownText(text, { "text-anchor": end ? "end" : "start", dy: "0.35em" }),
    );
    this.tokens[side].push(group);
    this.picture.append(group);
  }

  // The longest token of each side in px.
  longest(side) {
    return this.letters * Math.max(...this.kind[`${side}s`].map((token) => width(label(token))));
  }

  drawMatrix() {
    const { rows, columns } = this.kind;
    this.letters = LETTERS;
    const room = this.host.clientWidth - this.longest("row") - 40;
    const cell = Math.floor(
      Math.max(SMALLEST, Math.min(LARGEST, room / columns.length, TALLEST / rows.length)),
    );
    this.letters = Math.min(LETTERS, cell);
    const left = this.longest("row") + 14;
    const angle = cell < 18 ? 90 : SLANT;
    const high = this.longest("column") + 12;
    const top = Math.ceil(high * Math.sin((angle * Math.PI) / 180)) + 8;
    const right = Math.ceil(high * Math.cos((angle * Math.PI) / 180));
    this.cells = { left: Math.ceil(left), top, cell };
    const wide = cell * columns.length, tall = cell * rows.length;

    paint(this.canvas, this.weights, rows.length, columns.length, this.colours, this.most);
    Object.assign(this.canvas.style, {
      left: `${this.cells.left}px`, top: `${top}px`, width: `${wide}px`, height: `${tall}px`,
    });
    this.size(this.cells.left + wide + Math.max(right, 12), top + tall + 8, this.letters);
    const band = (name) => svg("rect", { class: `band ${name}`, visibility: "hidden" });
    this.marks = { row: band("of-row"), column: band("of-column"), cell: band("of-cell") };
    this.picture.append(
      svg("rect", { class: "frame", x: this.cells.left, y: top, width: wide, height: tall }),
      ...Object.values(this.marks),
    );
    rows.forEach((_, row) =>
      this.token("row", row, this.cells.left - 8, top + (row + 0.5) * cell, { end: true }),
    );
    columns.forEach((_, column) =>
      this.token("column", column, this.cells.left + (column + 0.5) * cell, top - 8, {
        angle: -angle,
      }),
    );
  }

  drawLines() {
    const { rows, columns } = this.kind;
    const height = Math.max(16, Math.min(28, 640 / Math.max(rows.length, columns.length)));
    this.letters = LETTERS;
    const [left, right] = ["row", "column"].map((side) => Math.ceil(this.longest(side) + 20));
    const gap = Math.max(140, Math.min(420, this.host.clientWidth - left - right));
    this.between = { left, gap, height, top: 8 };
    const tall = height * Math.max(rows.length, columns.length) + 16;
    this.size(left + gap + right, tall, this.letters);
    const sharp = window.devicePixelRatio;
    this.canvas.width = gap * sharp;
    this.canvas.height = tall * sharp;
    Object.assign(this.canvas.style, {
      left: `${left}px`, top: "0", width: `${gap}px`, height: `${tall}px`,
    });
    rows.forEach((_, row) => this.token("row", row, left - 8, this.lineY(row), { end: true }));
    columns.forEach((_, column) =>
      this.token("column", column, left + gap + 8, this.lineY(column)),
    );
  }

  lineY(index) {
    return this.between.top + (index + 0.5) * this.between.height;
  }

  strokeLines() {
    const { gap } = this.between, sharp = window.devicePixelRatio;
    const context = this.canvas.getContext("2d");
    context.setTransform(sharp, 0, 0, sharp, 0, 0);
    context.clearRect(0, 0, gap, this.canvas.height);
    context.strokeStyle = getComputedStyle(this.canvas).color;
    const spot = this.lit;
    this.kind.rows.forEach((_, row) =>
      this.kind.columns.forEach((_, column) => {
        const strength = Math.min(1, this.weight(row, column) / this.most);
        if (strength < FAINTEST) return;
        const meant = !spot || row === spot.row || column === spot.column;
        context.lineWidth = 1 + 3 * strength;
        context.globalAlpha = Math.sqrt(strength) * (meant ? 1 : 0.06);
        context.beginPath();
        context.moveTo(0, this.lineY(row));
        context.bezierCurveTo(
          gap / 2, this.lineY(row), gap / 2, this.lineY(column), gap, this.lineY(column),
        );
        context.stroke();
      }),
    );
  }

  // ---- lighting ----

  // Lights what a spot is connected with; a spot outside of the picture lights nothing.
  light(spot) {
    const inside = (index, tokens) => index === null || index < tokens.length;
    const fits = spot && inside(spot.row, this.kind.rows) && inside(spot.column, this.kind.columns);
    this.lit = fits ? spot : null;
    const { row = null, column = null } = this.lit ?? {};
    const show = (side, weights, active) =>
      this.tokens[side].forEach((token, index) => {
        const weight = weights?.[index] ?? 0;
        token.classList.toggle("active", index === active);
        token.classList.toggle("lit", Boolean(weights));
        token.style.setProperty("--w", Math.sqrt(weight / this.most));
        if (weights) token.setAttribute("data-weight", weight.toFixed(3));
        else token.removeAttribute("data-weight");
      });
    show("row", column !== null && row === null ? this.columnWeights(column) : null, row);
    show("column", row !== null && column === null ? this.rowWeights(row) : null, column);
    if (this.view === "lines") this.strokeLines();
    else this.placeBands(row, column);
  }

  placeBands(row, column) {
    const { left, top, cell } = this.cells;
    const wide = cell * this.kind.columns.length, tall = cell * this.kind.rows.length;
    const place = (band, shown, x, y, bandWidth, bandHeight) => {
      band.setAttribute("visibility", shown ? "visible" : "hidden");
      if (!shown) return;
      const box = { x, y, width: bandWidth, height: bandHeight };
      for (const [key, value] of Object.entries(box)) band.setAttribute(key, value);
    };
    const x = left + column * cell, y = top + row * cell;
    place(this.marks.row, row !== null, left, y, wide, cell);
    place(this.marks.column, column !== null, x, top, cell, tall);
    place(this.marks.cell, row !== null && column !== null, x, y, cell, cell);
  }

  // The rectangle on the screen that a spot's tooltip belongs to.
  anchor(spot) {
    const mark =
      spot.row !== null && spot.column !== null
        ? this.marks.cell
        : spot.row !== null ? this.tokens.row[spot.row] : this.tokens.column[spot.column];
    return mark.getBoundingClientRect();
  }

  // ---- pointing ----

  spotAt(event) {
    const token = event.target.closest?.(".token");
    if (token) {
      const index = Number(token.dataset.index);
      return token.dataset.side === "row"
        ? { row: index, column: null }
        : { row: null, column: index };
    }
    if (this.view !== "matrix") return null;
    const box = this.picture.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - this.cells.left) / this.cells.cell);
    const row = Math.floor((event.clientY - box.top - this.cells.top) / this.cells.cell);
    const hit = column >= 0 && column < this.kind.columns.length
      && row >= 0 && row < this.kind.rows.length;
    return hit ? { row, column } : null;
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
      const { row, column } = this.cursor ?? { row: 0, column: null };
      const next = this.view === "matrix"
        ? this.matrixStep(event.key, row ?? -1, column ?? -1)
        : this.linesStep(event.key, row, column);
      if (!next) return;
      this.point(next);
    }
    event.preventDefault();
  }

  // The row tokens are a column to the left of the cells, the column tokens a row above them.
  matrixStep(key, row, column) {
    const rows = this.kind.rows.length, columns = this.kind.columns.length;
    if (key === "ArrowUp") row -= 1;
    else if (key === "ArrowDown") row += 1;
    else if (key === "ArrowLeft") column -= 1;
    else if (key === "ArrowRight") column += 1;
    else if (key === "Home") column = row < 0 ? 0 : -1;
    else if (key === "End") column = columns - 1;
    else return null;
    row = Math.max(-1, Math.min(rows - 1, row));
    column = Math.max(-1, Math.min(columns - 1, column));
    if (row < 0 && column < 0) return this.cursor; // the empty corner
    return { row: row < 0 ? null : row, column: column < 0 ? null : column };
  }

  // Up and down along a list; to the other list, where the strongest line leads.
  linesStep(key, row, column) {
    const onRows = row !== null;
    const index = onRows ? row : column;
    const last = (onRows ? this.kind.rows : this.kind.columns).length - 1;
    const along = (to) => (onRows ? { row: to, column: null } : { row: null, column: to });
    if (key === "ArrowUp") return along(Math.max(0, index - 1));
    if (key === "ArrowDown") return along(Math.min(last, index + 1));
    if (key === "Home") return along(0);
    if (key === "End") return along(last);
    if (key === "ArrowRight" && onRows) {
      return { row: null, column: strongest(this.rowWeights(row), 1)[0].index };
    }
    if (key === "ArrowLeft" && !onRows) {
      return { row: strongest(this.columnWeights(column), 1)[0].index, column: null };
    }
    return null;
  }
}
