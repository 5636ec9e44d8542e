// All heads of all layers as thumbnails; each is a button that opens it.

import { paint } from "./colours.js";
import { make } from "./forms.js";
import { headMean } from "./record.js";

const SIDE = 112; // px of the longer side

export class Grid {
  // open(layer, heads): called when a thumbnail is chosen; no heads: the mean of all.
  constructor(host, open) {
    this.host = host;
    this.open = open;
  }

  // content: {kind, colours, most, layer, ticked, all}; the last three are choices, see
  // Choices.within. Buttons are replaced only if their number changes, so they keep the focus.
  draw({ kind, colours, most, layer: chosen, ticked, all }) {
    const shape = `${kind.layers} ${kind.heads}`;
    if (this.host.dataset.shape !== shape) {
      this.host.dataset.shape = shape;
      this.build(kind.layers, all);
    }
    const rows = kind.rows.length, columns = kind.columns.length;
    const zoom = SIDE / Math.max(rows, columns);
    for (const button of this.host.querySelectorAll("button")) {
      const { layer, head } = button.dataset;
      const meant = head === "" ? !ticked.length : ticked.includes(Number(head));
      button.setAttribute("aria-current", Number(layer) === chosen && meant);
      const weights = headMean(kind, Number(layer), head === "" ? all : [Number(head)]);
      paint(button.firstChild, weights, rows, columns, colours, most);
      const size = { width: `${zoom * columns}px`, height: `${zoom * rows}px` };
      Object.assign(button.firstChild.style, size);
    }
  }

  // A row per layer, the mean of its heads first.
  build(layers, all) {
    const name = (text) => make("span", { class: "head" }, text);
    const rows = Array.from({ length: layers }, (_, layer) => [
      name(`layer ${layer + 1}`),
      this.thumbnail(layer, []),
      ...all.map((head) => this.thumbnail(layer, [head])),
    ]);
    this.host.style.gridTemplateColumns = `repeat(${all.length + 2}, max-content)`;
    this.host.replaceChildren(
      name(""), name("mean"), ...all.map((head) => name(`head ${head + 1}`)), ...rows.flat(),
    );
  }

  thumbnail(layer, heads) {
    const what = heads.length ? `head ${heads[0] + 1}` : "mean of all heads";
    const attributes = {
      type: "button", "data-layer": layer, "data-head": heads.join(),
      "aria-label": `layer ${layer + 1}, ${what}`,
    };
    const button = make("button", attributes, make("canvas"));
    button.addEventListener("click", () => this.open(layer, heads));
    return button;
  }
}
