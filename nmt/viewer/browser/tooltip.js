// The description of a spot: a tooltip, and text for screen readers.

import { make } from "./forms.js";
import { strongest } from "./record.js";
import { visible } from "./tokens.js";

const LISTED = 5; // weights per list

// Describes the highlighted spot of a plot: {tokens, weight, lists: [{name, items: [token, weight]}]}.
export function describe(plot) {
  const { kind, lit: { row, column, count } } = plot;
  if (row !== null && column !== null) {
    const tokens = [kind.rows[row], kind.columns[column]];
    return { tokens, weight: plot.weight(row, column).toFixed(3), lists: [] };
  }
  const items = (weights, tokens) =>
    strongest(weights, LISTED)
      .map(({ index, weight }) => [tokens[index], weight.toFixed(3)])
      .filter(([, weight], place) => !place || weight !== "0.000");
  const from = row ?? (kind.same ? column : null), to = column ?? (kind.same ? row : null);
  const lists = [];
  if (from !== null) {
    lists.push({ name: "attends to", items: items(plot.rowWeights(from, count), kind.columns) });
  }
  if (to !== null) {
    const weights = plot.columnWeights(to, count);
    lists.push({ name: "is attended to by", items: items(weights, kind.rows) });
  }
  if (row === null) lists.reverse();
  return { tokens: [row === null ? kind.columns[column] : kind.rows[row]], lists };
}

export class Tooltip {
  constructor() {
    this.element = make("div", { class: "tooltip", role: "tooltip", hidden: "" });
    this.spoken = make("p", { class: "spoken", "aria-live": "polite" });
  }

  hide() {
    this.element.hidden = true;
  }

  clear() {
    this.hide();
    this.spoken.textContent = "";
  }

  // Shows a description, see describe.
  show({ tokens, weight, lists }) {
    // Each token in its own element, so that right-to-left tokens do not reverse the line.
    const title = tokens.flatMap((token, i) => [i ? " → " : "", make("bdi", {}, visible(token))]);
    this.element.replaceChildren(
      make("b", {}, ...title, weight ? `  ${weight}` : ""),
      ...lists.flatMap(({ name, items }) => [
        make("p", {}, name),
        ...items.map(([token, text]) =>
          make("div", {}, make("bdi", {}, visible(token)), make("span", {}, text))),
      ]),
    );
    this.element.hidden = false;
    const told = lists.map(({ name, items }) =>
      `${name} ${items.map((item) => item.join(" ")).join(", ")}`);
    this.spoken.textContent = [[...tokens, weight ?? ""].join(" "), ...told].join(". ");
  }

  // Lists are placed beside the picture, a cell's weight beside the cell; without room, below or
  // above.
  place(plot, stage) {
    const { row, column } = plot.lit, anchor = plot.anchor(plot.lit);
    const base = stage.getBoundingClientRect();
    const { width, height } = this.element.getBoundingClientRect();
    const cell = row !== null && column !== null;
    const beside = (cell ? anchor : plot.drawing.getBoundingClientRect()).right + 12;
    const fits = beside + width < innerWidth;
    const left = fits ? beside : Math.min(anchor.left, innerWidth - width - 8);
    const below = anchor.bottom + 8;
    const apart = below + height + 8 < innerHeight ? below : anchor.top - height - 8;
    const top = fits ? anchor.top : apart;
    this.element.style.left = `${Math.max(4, left) - base.left}px`;
    this.element.style.top = `${Math.max(4, Math.min(top, innerHeight - height - 8)) - base.top}px`;
  }
}
