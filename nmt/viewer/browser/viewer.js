// The attention viewer: choices, a slider over training, and the chosen pictures.
//
// A source provides the data; each of its methods returns a promise:
//   runs()                       [{name, sentences: [{id, text}]}]
//   steps(run, sentence)         [{step, time, note}] in order; a single step null: not from training;
//                                note: what a step is, if it is not logged
//   record(run, sentence, step)  a record, see record.js
// A source that knows translations of whole splits has two more methods; runs are the names of two:
//   splits(runs)                 [{name, title}] of those that both have translated
//   changes(runs, split, step, better, count)
//                                {sentences, means, wins, steps, rows}: the number of sentences; and of
//                                each run the mean chrF2++, the number of sentences of which it is better,
//                                and the update. rows: the first `count` sentences of which the run
//                                `better` (0 or 1) is better, [{id, source, reference, outputs, scores}]
// It stores the choices as text: recall() and remember(text). `nothing` explains why there is no run.
// link(text), if there is one, returns the address that opens these choices, or null.
//
// A page may have several viewers, and may highlight in them what it shows elsewhere: see `mount`.

import { Choices } from "./choices.js";
import { palette, scaleImage } from "./colours.js";
import { Controls } from "./controls.js";
import { make } from "./forms.js";
import { Outputs } from "./outputs.js";
import { Pane } from "./pane.js";
import { Player } from "./player.js";
import { allSteps, COMPUTED, nearest, Reader } from "./reader.js";
import { headMean } from "./record.js";
import { Saving } from "./saving.js";
import { describe, Tooltip } from "./tooltip.js";

// Mounts a viewer in an element. Listeners:
//   drawn({kind, layer, heads, weights})  called when the picture changes; weights: the mean of the
//                                         layer's heads between pieces, row after row
//   pointed(spot)                         called when the spot under the pointer changes, see plot.js;
//                                         it is a spot of pieces
// The returned viewer has refresh(), to read the source again; redraw(), for other colours;
// choose(change) and restore(text), for other choices; and point(spot), to highlight a spot of pieces
// that is pointed at elsewhere, or null.
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
    this.shown = null;     // what is displayed: {found, step, sides}, see read
    this.hovered = null;   // the spot under the pointer and its pane: {pane, spot}
    this.elsewhere = null; // the argument of the last `point`
    this.turns = 0;        // number of the newest call of `show`; results of older calls are dropped
    this.panes = [];
    this.build();
  }

  // ---- the page ----

  build() {
    this.controls = new Controls((change) => this.choose(change));
    this.player = new Player((step) => this.choose({ step }));
    this.saving = new Saving(this);
    this.outputs = new Outputs(this.reader, (change) => this.choose(change), async (sentence) => {
      await this.choose({ sentence });
      this.panes[0].picture.focus({ focusVisible: false });
    });
    this.message = make("p", { class: "message", role: "status" });
    this.caption = make("p", { class: "caption" });
    this.tooltip = new Tooltip();
    this.row = make("div", { class: "panes" });
    this.stage = make("div", { class: "stage" }, this.row, this.tooltip.element);
    this.picture = [this.caption, this.buildScale(), this.stage];
    this.body = make(
      "div", { hidden: "" }, this.controls.element, this.player.element, ...this.picture,
      this.outputs.element, this.tooltip.spoken,
    );
    this.host.classList.add("attention-viewer");
    this.host.replaceChildren(this.message, this.body);
    this.addPanes(1);
  }

  // Adds or removes panes, so that there are as many as runs.
  addPanes(count) {
    while (this.panes.length < count) {
      this.panes.push(new Pane(
        (pane, spot, isPinned) => this.hover(pane, spot, isPinned),
        async (pane, layer, heads) => {
          await this.choose({ view: "matrix", layer, heads });
          pane.picture.focus({ focusVisible: false });
        },
      ));
    }
    if (this.panes.length > count) this.panes.length = count;
    const elements = this.panes.map(({ element }) => element);
    if (elements.length !== this.row.childElementCount) this.row.replaceChildren(...elements);
  }

  buildScale() {
    this.most = make("span", { class: "most" });
    this.scale = make("i");
    this.bar = make("span", { class: "bar", "aria-hidden": "true" },
                    make("span", {}, "0"), this.scale, this.most);
    this.stretch = make("input", { type: "checkbox", name: "stretch" });
    this.stretch.addEventListener("change", () => this.choose({ stretch: this.stretch.checked }));
    const label = make("label", {}, this.stretch, "Scale to the largest weight");
    return make("div", { class: "scale" }, this.bar, label, this.saving.element);
  }

  // ---- choosing and reading ----

  choose(change) {
    Object.assign(this.chosen, change);
    if ("kind" in change || "unit" in change) this.unpin();
    this.source.remember(this.chosen.toText());
    return this.show();
  }

  restore(text) {
    this.chosen = new Choices();
    this.chosen.recall(text);
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
      const found = this.reader.find(this.chosen.runs, this.chosen.sentence);
      this.body.hidden = !found;
      this.message.textContent = found ? "" : this.source.nothing;
      if (!found) return;
      this.chosen.runs = found.runs; // keeps these runs when another run is written later
      // Before reading, so that another sentence can be chosen if this one cannot be read.
      this.controls.showSentences(this.reader.runs.map(({ name }) => name), found);
      const shown = await this.read(found);
      if (turn !== this.turns) return;
      if (JSON.stringify(this.shown?.found) !== JSON.stringify(found)) this.unpin();
      this.player.show(shown.steps, shown.place);
      if (shown.isFixed) this.player.element.hidden = true;
      for (const element of this.picture) element.hidden = false;
      this.addPanes(found.runs.length);
      this.draw(shown);
      this.outputs.show(found, shown.step, this.chosen);
    } catch (error) {
      if (turn !== this.turns) return;
      this.message.textContent = error.message;
      for (const element of this.picture) element.hidden = true; // it is of another sentence
    }
  }

  // Reads what is to be displayed: {found, steps, place, step, sides, isFixed}. sides: a {run, point,
  // record, problem} per run; without a record, problem says why. isFixed: whether each run has but one
  // update, so that the slider would change nothing.
  async read(found) {
    const { reader, chosen } = this;
    const series = await Promise.all(found.runs.map((run) => reader.open(run, found.sentence)));
    const steps = allSteps(series.filter(Boolean));
    if (!steps.length) throw new Error("No displayed run has this sentence.");
    const place = chosen.placeOf(steps), { step } = steps[place];
    const isComputed = found.sentence.id.startsWith(COMPUTED);
    let problem = isComputed ? "has not translated this sentence" : "has not logged this sentence";
    const sides = await Promise.all(series.map(async (one, i) => {
      const side = { run: found.runs[i], point: one && nearest(one, step), record: null, problem };
      if (!one) return side;
      try {
        return { ...side, record: await reader.record(one, side.point) };
      } catch (error) {
        if (!isComputed) throw error;
        problem = error.message;
        return { ...side, problem };
      }
    }));
    if (!sides.some(({ record }) => record)) throw new Error(problem);
    const isFixed = isComputed && series.every((one) => !one || one.steps.length === 1);
    return { found, steps, place, step, sides, isFixed };
  }

  // ---- drawing ----

  redraw() {
    if (this.shown) this.draw(this.shown);
  }

  draw(shown) {
    const { chosen, panes } = this, dark = this.isDark();
    this.shown = shown;
    const kindOf = (record) => record?.kinds.find(({ name }) => name === chosen.kind);
    const asked = shown.sides.map(({ record }) => kindOf(record)).find(Boolean);
    shown.sides.forEach(({ run, point, record, problem }, i) => {
      if (!record) return panes[i].explain(run, problem);
      const kind = kindOf(record) ?? record.kinds[0];
      if (asked && kind.name !== asked.name) {
        return panes[i].explain(run, `It has no such attention: ${asked.title}.`);
      }
      return panes[i].prepare({ run, note: noteOf(point, shown.step), record, kind, chosen, dark });
    });
    const drawn = panes.filter(({ content }) => content), alone = panes.length === 1;
    const most = chosen.stretch ? Math.max(...drawn.map((pane) => pane.largest())) : 1;
    const [{ content: first }] = drawn;
    const { kind } = drawn.map(({ content }) => content)
      .reduce((a, b) => (b.kind.layers * b.kind.heads > a.kind.layers * a.kind.heads ? b : a));
    this.controls.show(chosen, first.record.kinds, kind, dark);
    this.showScale(most, dark);
    this.caption.textContent = this.captionOf(first);
    const colours = palette(dark), described = this.describe(first);
    for (const pane of drawn) {
      const own = this.describe(pane.content), caption = this.captionOf(pane.content);
      const note = own === described ? "" : own.replace(`${first.kind.title}, `, "");
      pane.draw({ colours, most, caption, note, alone });
    }
    this.drawing = { colours, most, dark };
    this.tellDrawn(first);
    this.light();
  }

  tellDrawn({ pieces, layer, heads, kind, weights }) {
    const mean = kind === pieces ? weights : headMean(pieces, layer, heads);
    this.drawn({ kind: pieces, layer, heads, weights: mean });
  }

  showScale(most, dark) {
    this.stretch.checked = this.chosen.stretch;
    this.bar.hidden = this.chosen.view === "lines";
    this.scale.style.backgroundImage = scaleImage(dark);
    this.most.textContent = most === 1 ? "1" : most.toFixed(3);
  }

  // Which attention a pane shows; not all runs have as many layers and heads.
  describe({ kind, layer, heads, all, ticked }) {
    const { view } = this.chosen;
    const where = view === "grid" ? "" : `, layer ${layer + 1}, ${naming(heads, all, view, ticked)}`;
    return `${kind.title}${where}`;
  }

  captionOf(content) {
    const { view, unit } = this.chosen, one = unit === "words" ? "word" : "token";
    const { rowSide, columnSide } = content.kind;
    const axes = view === "lines"
      ? `Left: ${rowSide} ${one}s, which attend; right: ${columnSide} ${one}s, attended to.`
      : `Each row is a ${rowSide} ${one}; its weights over the ${columnSide} ${one}s sum to 1.`;
    return `${this.describe(content)}. ${axes}`;
  }

  isDark() {
    const [red] = getComputedStyle(this.host).color.match(/[\d.]+/g);
    return Number(red) > 127; // light text
  }

  // The choices that open what is displayed, whatever is logged later, as text.
  exactChoices() {
    const { found, step } = this.shown, { content } = this.panes.find((pane) => pane.content);
    const { sentence: { id: sentence }, runs } = found, { pieces: { name: kind } } = content;
    const shown = this.panes.flatMap((pane) => (pane.content ? [pane.content.layer] : []));
    const isShared = shown.every((layer) => layer === shown[0]); // else each run's last one
    const layer = this.chosen.layer ?? (isShared ? shown[0] : null);
    return Object.assign(new Choices(), this.chosen, { runs, sentence, step, layer, kind }).toText();
  }

  // ---- highlighting ----

  hover(pane, spot, isPinned) {
    this.hovered = spot && { pane, spot };
    // One spot at most is pinned.
    if (isPinned) for (const other of this.panes) if (other !== pane) other.plot.cursor = null;
    this.light();
  }

  unpin() {
    for (const { plot } of this.panes) plot.cursor = null;
  }

  point(spot) {
    this.elsewhere = spot;
    this.light();
  }

  light() {
    if (!this.shown) return;
    if (this.chosen.view === "grid") {
      this.tooltip.hide();
      this.pointed(null);
      return;
    }
    const { tooltip, elsewhere } = this, drawn = this.panes.filter(({ content }) => content);
    const pinned = elsewhere ? null : drawn.find(({ plot }) => plot.cursor);
    const owner = this.hovered?.pane ?? pinned;
    const spot = this.hovered?.spot ?? pinned?.plot.cursor ?? null;
    for (const pane of drawn) {
      const there = owner ? owner.counterpart(spot, pane) : pane.fromPieces(elsewhere);
      pane.plot.light(pane === owner ? spot : there);
    }
    if (owner?.plot.lit) {
      tooltip.show(describe(owner.plot));
      tooltip.place(owner.plot, this.stage);
    } else tooltip.clear();
    this.pointed(owner?.plot.lit ? owner.toPieces(owner.plot.lit) : null);
  }
}

// Which update a pane shows, if another one was asked for.
function noteOf({ step, note }, wanted) {
  if (step === null) return "";
  const text = `update ${step.toLocaleString("en")}`;
  if (note) return `${text}, ${note}`;
  return step === wanted ? text : `${text}, the nearest that it logged`;
}

function naming(chosen, all, view, ticked) {
  const numbers = chosen.map((head) => head + 1).join(", ");
  if (chosen.length === 1) return `head ${numbers}`;
  if (view === "lines" && ticked.length) return `heads ${numbers} in their colours`;
  if (chosen.length === all.length) return `mean of all ${all.length} heads`;
  return `mean of heads ${numbers}`;
}
