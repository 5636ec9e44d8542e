// The form above the picture.

import { VIEWS } from "./choices.js";
import { choices, fill, fillChoices, make, select } from "./forms.js";

export class Controls {
  // choose(change): called with changed choices: {run}, {sentence} and so on.
  constructor(choose) {
    this.choose = choose;
    this.run = select("run", (value) => choose({ run: value }));
    this.sentence = select("sentence", (value) => choose({ sentence: value }));
    this.sentence.dir = "auto";
    this.kinds = choices("Attention");
    this.views = choices("View");
    this.layer = select("layer", (value) => choose({ layer: Number(value) }));
    this.heads = choices("Heads");
    this.runLabel = make("label", {}, "Run", this.run);
    this.sentenceLabel = make("label", {}, "Sentence", this.sentence);
    this.layerLabel = make("label", {}, "Layer", this.layer);
    // A separate form, because radio buttons exclude each other within a form.
    this.element = make(
      "form", { class: "controls" }, this.runLabel, this.sentenceLabel, this.kinds, this.views,
      this.layerLabel, this.heads,
    );
    this.element.addEventListener("submit", (event) => event.preventDefault());
  }

  // runs: names; found: see Reader.find. A single unnamed run is not offered as a choice.
  showSentences(runs, { run, sentences, id }) {
    this.runLabel.hidden = runs.length < 2 && !run;
    this.sentenceLabel.hidden = sentences.length < 2 && !sentences[0].text;
    fill(this.run, runs.map((name) => [name, name]), run);
    fill(this.sentence, sentences.map((one) => [one.id, one.text]), id);
  }

  // kinds: the kinds in the record; kind: the displayed one.
  show(chosen, kinds, kind) {
    const { layer, ticked, all } = chosen.within(kind);
    this.kinds.hidden = kinds.length < 2;
    this.layerLabel.hidden = this.heads.hidden = chosen.view === "grid";
    fillChoices(this.kinds, "radio", "kind", kinds.map(({ name, title }) => [name, title]),
                (value) => value === kind.name, (value) => this.choose({ kind: value }));
    fillChoices(this.views, "radio", "view", Object.entries(VIEWS),
                (value) => value === chosen.view, (value) => this.choose({ view: value }));
    fill(this.layer, Array.from({ length: kind.layers }, (_, i) => [String(i), String(i + 1)]),
         String(layer));
    fillChoices(this.heads, "checkbox", "heads",
                [["all", "mean of all"], ...all.map((head) => [String(head), String(head + 1)])],
                (value) => (value === "all" ? !ticked.length : ticked.includes(Number(value))),
                (value, on) => this.choose({ heads: chosen.headsAfter(value, on) }));
  }
}
