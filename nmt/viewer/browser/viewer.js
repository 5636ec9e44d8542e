// The attention viewer: choices, a slider over training, and the chosen picture.
//
// A source provides the data; each of its methods returns a promise:
//   runs()                       [{name, sentences: [{id, text}]}]
//   steps(run, sentence)         [{step, time}] in order; a single step null: not from training
//   record(run, sentence, step)  a record, see record.js
// It stores the choices as text: recall() and remember(text). `nothing` explains why there is no run.
//
// A page may have several viewers, and may highlight in them what it shows elsewhere: see `mount`.

import { Choices } from "./choices.js";
import { palette, scaleImage } from "./colours.js";
import { Controls } from "./controls.js";
import { make } from "./forms.js";
import { Grid } from "./grid.js";
import { Player } from "./player.js";
import { Plot } from "./plot.js";
import { Reader } from "./reader.js";
import { headMean } from "./record.js";
import { describe, Tooltip } from "./tooltip.js";

// Mounts a viewer in an element. Listeners:
//   drawn({kind, layer, heads, weights})  called when the picture changes; weights: the mean of the
//                                         layer's heads, row after row
//   pointed(spot)                         called when the spot under the pointer changes, see plot.js
// The returned viewer has refresh(), to read the source again; redraw(), for other colours; and
// point(spot), to highlight a spot that is pointed at elsewhere, or null.
export function mount(host, source, listeners = {}) {
  const viewer = new Viewer(host, source, listeners);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => viewer.redraw());
  addEventListener("resize", () => viewer.redraw());
  viewer.refresh();
  return viewer;
}

class Viewer {
  constructor(host, source, { drawn = () => {}, pointed = () => {} }) {
    Object.assign(this, { host, source, drawn, pointed });
    this.chosen = new Choices();
    this.chosen.recall(source.recall());
    this.reader = new Reader(source);
    this.shown = null;     // the displayed record
    this.hovered = null;   // the spot under the pointer, see plot.js
    this.elsewhere = null; // the argument of the last `point`
    this.turns = 0;        // number of the newest call of `show`; results of older calls are dropped
    this.build();
  }

  // ---- the page ----

  build() {
    this.controls = new Controls((change) => this.choose(change));
    this.player = new Player((step) => this.choose({ step }));
    this.message = make("p", { class: "message", role: "status" });
    this.caption = make("p", { class: "caption" });
    this.picture = make("div", {
      class: "plot", tabindex: 0, role: "application", "aria-roledescription": "attention picture",
    });
    const thumbnails = make("div", { class: "grid", role: "group", "aria-label": "Thumbnails" });
    this.tooltip = new Tooltip();
    const scroller = make("div", { class: "scroller" }, this.picture, thumbnails);
    this.stage = make("div", { class: "stage" }, scroller, this.tooltip.element);
    this.body = make(
      "div", { hidden: "" }, this.controls.element, this.player.element, this.caption,
      this.buildScale(), this.stage, this.tooltip.spoken,
    );
    this.host.classList.add("attention-viewer");
    this.host.replaceChildren(this.message, this.body);
    this.plot = new Plot(this.picture, (spot) => {
      this.hovered = spot;
      this.light();
    });
    this.grid = new Grid(thumbnails, async (layer, heads) => {
      await this.choose({ view: "matrix", layer, heads });
      this.picture.focus({ focusVisible: false });
    });
  }

  buildScale() {
    this.most = make("span", { class: "most" });
    this.scale = make("i");
    this.bar = make("span", { class: "bar", "aria-hidden": "true" },
                    make("span", {}, "0"), this.scale, this.most);
    this.stretch = make("input", { type: "checkbox", name: "stretch" });
    this.stretch.addEventListener("change", () => this.choose({ stretch: this.stretch.checked }));
    const label = make("label", {}, this.stretch, "Scale to the largest weight");
    return make("div", { class: "scale" }, this.bar, label);
  }

  // ---- choosing and reading ----

  choose(change) {
    Object.assign(this.chosen, change);
    if ("kind" in change) this.plot.cursor = null;
    this.source.remember(this.chosen.toText());
    return this.show();
  }

  async refresh() {
    try {
      await this.reader.refresh();
    } catch (error) {
      this.message.textContent = error.message;
      return;
    }
    await this.show();
  }

  async show() {
    const turn = ++this.turns;
    try {
      const { chosen, reader } = this;
      const found = reader.find(chosen.run, chosen.sentence);
      this.body.hidden = !found;
      this.message.textContent = found ? "" : this.source.nothing;
      if (!found) return;
      chosen.run = found.run; // keeps this run when another run is written later
      const series = await reader.open(found.run, found.id);
      if (turn !== this.turns) return;
      if (reader.series?.key !== series.key) this.plot.cursor = null;
      reader.series = series;
      const place = chosen.placeOf(series.steps);
      const record = await reader.record(series, series.steps[place]);
      if (turn !== this.turns) return;
      this.controls.showSentences(reader.runs.map(({ name }) => name), found);
      this.player.show(series.steps, place);
      this.draw(record);
    } catch (error) {
      if (turn === this.turns) this.message.textContent = error.message;
    }
  }

  // ---- drawing ----

  redraw() {
    if (this.shown) this.draw(this.shown);
  }

  draw(record) {
    const { chosen } = this;
    const kind = record.kinds.find(({ name }) => name === chosen.kind) ?? record.kinds[0];
    const { layer, heads, ticked, all } = chosen.within(kind);
    const weights = headMean(kind, layer, heads);
    const gridShown = this.gridShown = chosen.view === "grid";
    const scaled = gridShown ? kind.weights : weights;
    const most = chosen.stretch ? scaled.reduce((a, b) => Math.max(a, b), 0) : 1;
    const dark = this.isDark(), colours = palette(dark);
    this.controls.show(chosen, record.kinds, kind);
    this.showScale(most, dark);
    const where = gridShown ? "" : `, layer ${layer + 1}, ${naming(heads, all)}`;
    this.caption.textContent = `${kind.title}${where}. ${this.axes(kind)}`;
    const help = "Arrow keys move from token to token.";
    this.picture.setAttribute("aria-label", `${this.caption.textContent} ${help}`);
    this.picture.hidden = gridShown;
    this.grid.host.hidden = !gridShown;
    this.shown = record;
    if (gridShown) this.grid.draw({ kind, colours, most, layer, ticked, all });
    else this.plot.draw({ view: chosen.view, kind, weights, colours, most });
    this.drawn({ kind, layer, heads, weights });
    this.light();
  }

  showScale(most, dark) {
    this.stretch.checked = this.chosen.stretch;
    this.bar.hidden = this.chosen.view === "lines";
    this.scale.style.backgroundImage = scaleImage(dark);
    this.most.textContent = most === 1 ? "1" : most.toFixed(3);
  }

  axes({ rowSide, columnSide }) {
    if (this.chosen.view === "lines") {
      return `Left: ${rowSide} tokens, which attend; right: ${columnSide} tokens, attended to.`;
    }
    return `Each row is a ${rowSide} token; its weights over the ${columnSide} tokens sum to 1.`;
  }

  isDark() {
    const [red] = getComputedStyle(this.host).color.match(/[\d.]+/g);
    return Number(red) > 127; // light text
  }

  // ---- highlighting ----

  point(spot) {
    this.elsewhere = spot;
    this.light();
  }

  light() {
    if (!this.shown) return;
    if (this.gridShown) {
      this.tooltip.hide();
      this.pointed(null);
      return;
    }
    const { plot, tooltip } = this;
    const own = this.hovered ?? (this.elsewhere ? null : plot.cursor);
    plot.light(own ?? this.elsewhere);
    if (own && plot.lit) {
      tooltip.show(describe(plot));
      tooltip.place(plot, this.stage);
    } else tooltip.clear();
    this.pointed(own ? plot.lit : null);
  }
}

function naming(chosen, all) {
  const numbers = chosen.map((head) => head + 1).join(", ");
  if (chosen.length === 1) return `head ${numbers}`;
  if (chosen.length === all.length) return `mean of all ${all.length} heads`;
  return `mean of heads ${numbers}`;
}
