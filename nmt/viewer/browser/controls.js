// The form above the picture.

import { MAX_RUNS, UNITS, VIEWS } from "./choices.js";
import { headColour } from "./colours.js";
import { choices, fill, fillChoices, make, select } from "./forms.js";

export class Controls {
  // choose(change): called with changed choices: {runs}, {sentence} and so on.
  constructor(choose) {
    this.choose = choose;
    this.runs = []; // the displayed runs
    this.fields = Array.from({ length: MAX_RUNS }, (_, i) =>
      select(i ? `run${i + 1}` : "run", (value) => this.chooseRun(i, value)));
    this.runLabels = this.fields.map((field, i) =>
      make("label", {}, i ? `Run ${i + 1}` : "Run", field));
    this.add = make("button", { type: "button", class: "add", hidden: "" }, "Compare with a run");
    this.add.addEventListener("click", () => this.addRun());
    this.sentence = select("sentence", (value) => choose({ sentence: value }));
    this.sentence.dir = "auto";
    this.kinds = choices("Attention");
    this.views = choices("View");
    this.units = choices("Units");
    this.layer = select("layer", (value) => choose({ layer: Number(value) }));
    this.heads = choices("Heads");
    this.sentenceLabel = make("label", {}, "Sentence", this.sentence);
    this.layerLabel = make("label", {}, "Layer", this.layer);
    // A separate form, because radio buttons exclude each other within a form.
    this.element = make(
      "form", { class: "controls" }, ...this.runLabels, this.add, this.sentenceLabel, this.kinds,
      this.views, this.units, this.layerLabel, this.heads,
    );
    this.element.addEventListener("submit", (event) => event.preventDefault());
  }

  // "" removes the run of a field other than the first.
  chooseRun(place, name) {
    const others = this.runs.map((run, i) => (i === place ? name : run));
    this.choose({ runs: [...new Set(others.filter(Boolean))] });
  }

  // Adds the first run that is not displayed.
  addRun() {
    const next = this.names.find((name) => !this.runs.includes(name));
    this.choose({ runs: [...this.runs, next] });
  }

  // names: of all runs; found: see Reader.find. A single unnamed run is not offered as a choice.
  showSentences(names, { runs, sentences, sentence }) {
    Object.assign(this, { names, runs });
    const options = names.map((name) => [name, name]);
    this.fields.forEach((field, i) => {
      this.runLabels[i].hidden = i ? i >= runs.length : names.length < 2 && !runs[0];
      fill(field, i ? [["", "(none)"], ...options] : options, runs[i] ?? "");
    });
    this.add.hidden = runs.length >= Math.min(MAX_RUNS, names.length);
    this.sentenceLabel.hidden = sentences.length < 2 && !sentences[0].text;
    fill(this.sentence, sentences.map((one) => [one.id, one.text]), sentence.id);
  }

  // kinds: the kinds in the record; kind: the displayed one.
  show(chosen, kinds, kind, dark) {
    const { layer, ticked, all } = chosen.within(kind);
    this.kinds.hidden = kinds.length < 2;
    this.layerLabel.hidden = this.heads.hidden = chosen.view === "grid";
    fillChoices(this.kinds, "radio", "kind", kinds.map(({ name, title }) => [name, title]),
                (value) => value === kind.name, (value) => this.choose({ kind: value }));
    fillChoices(this.views, "radio", "view", Object.entries(VIEWS),
                (value) => value === chosen.view, (value) => this.choose({ view: value }));
    fillChoices(this.units, "radio", "unit", Object.entries(UNITS),
                (value) => value === chosen.unit, (value) => this.choose({ unit: value }));
    fill(this.layer, Array.from({ length: kind.layers }, (_, i) => [String(i), String(i + 1)]),
         String(layer));
    this.showHeads(chosen, ticked, all, dark);
  }

  // In the view of lines, each head has its colour.
  showHeads(chosen, ticked, all, dark) {
    const lines = chosen.view === "lines", each = lines && all.length > 1;
    const isChosen = (value) => (value === "all" ? !ticked.length
      : value === "each" ? ticked.length === all.length : ticked.includes(Number(value)));
    const numbers = all.map((head) => [String(head), String(head + 1)]);
    const more = each ? [["each", "each of them"]] : [];
    fillChoices(this.heads, "checkbox", "heads", [["all", "mean of all"], ...more, ...numbers],
                isChosen, (value, on) => {
                  this.choose({ heads: chosen.headsAfter(value, on, all) });
                });
    for (const field of this.heads.querySelectorAll("input")) {
      const colour = lines && Number.isInteger(Number(field.value))
        ? headColour(Number(field.value), dark) : "transparent";
      field.parentNode.style.setProperty("--head", colour);
    }
  }
}
