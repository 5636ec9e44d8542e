// The outputs of the first two displayed runs as a table; each sentence opens its attention.

import { make } from "./forms.js";
import { nearest } from "./reader.js";
import { textOf } from "./words.js";

const ORDER = 6; // longest n-grams of chrF, in characters
const BETA = 2;  // weight of recall in chrF

function ngrams(characters, n) {
  const counts = new Map();
  for (let i = 0; i + n <= characters.length; i++) {
    const ngram = characters.slice(i, i + n).join("");
    counts.set(ngram, (counts.get(ngram) ?? 0) + 1);
  }
  return counts;
}

// chrF of a sentence, from 0 to 100: Popović 2015, with the defaults of sacreBLEU's sentence_chrf.
export function chrf(output, reference) {
  const [hypothesis, truth] = [output, reference].map((text) => [...text.replace(/\s/g, "")]);
  const orders = [];
  for (let n = 1; n <= Math.min(ORDER, hypothesis.length, truth.length); n++) {
    const [own, other] = [ngrams(hypothesis, n), ngrams(truth, n)];
    let matches = 0;
    for (const [ngram, count] of own) matches += Math.min(count, other.get(ngram) ?? 0);
    orders.push([matches / (hypothesis.length - n + 1), matches / (truth.length - n + 1)]);
  }
  const [precision, recall] = [0, 1].map((i) =>
    orders.reduce((sum, order) => sum + order[i], 0) / orders.length);
  if (!orders.length || !(precision + recall)) return 0;
  const weight = BETA ** 2;
  return (100 * (1 + weight) * precision * recall) / (weight * precision + recall);
}

export class Outputs {
  // open(sentence): called with the id of a chosen sentence.
  constructor(reader, open) {
    Object.assign(this, { reader, open });
    this.turns = 0; // number of the newest call of `show`
    this.body = make("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Outputs" });
    const summary = make("summary", {}, "Outputs of both runs");
    this.details = make("details", { class: "outputs" }, summary, this.body);
    this.details.addEventListener("toggle", () => this.fill());
    this.element = make("div"); // contains the details if there are two runs
  }

  // found: see Reader.find. The table is read when it is opened.
  show(found, step) {
    Object.assign(this, { found, step });
    const isShown = found.runs.length > 1;
    if (isShown !== this.details.isConnected) {
      this.element.replaceChildren(...(isShown ? [this.details] : []));
    }
    return this.fill();
  }

  async fill() {
    const turn = ++this.turns;
    if (!this.details.isConnected || !this.details.open) return;
    try {
      const rows = await this.read();
      if (turn === this.turns) this.draw(rows);
    } catch (error) {
      if (turn === this.turns) this.body.replaceChildren(make("p", {}, error.message));
    }
  }

  // The sentences that both runs have logged: [{sentence, reference, outputs, scores, order}]. scores are
  // chrF of both outputs with the reference if it is known; order: the largest comes first.
  async read() {
    const { reader, step, found: { sentences } } = this, runs = this.found.runs.slice(0, 2);
    const rows = await Promise.all(sentences.map(async (sentence) => {
      const series = await Promise.all(runs.map((run) => reader.open(run, sentence)));
      if (series.includes(null)) return null;
      const records = await Promise.all(series.map((one) => reader.record(one, nearest(one, step))));
      const outputs = records.map(({ target }) => textOf(target));
      const reference = records[0].reference || records[1].reference;
      const scores = reference ? outputs.map((output) => chrf(output, reference)) : null;
      const alike = chrf(outputs[1], outputs[0]);
      const order = scores ? 100 + Math.abs(scores[1] - scores[0]) : 100 - alike;
      return { sentence, reference, outputs, scores, alike, order };
    }));
    return rows.filter(Boolean).sort((a, b) => b.order - a.order);
  }

  draw(rows) {
    const [first, second] = this.found.runs;
    const head = (text) => make("th", { scope: "col" }, text);
    const table = make(
      "table", {},
      make("thead", {}, make("tr", {}, ...["Sentence", "Reference", first, second, "chrF"].map(head))),
      make("tbody", {}, ...rows.map((row) => this.row(row))),
    );
    const note = "chrF with the reference, of the first and of the second run; without a reference, of "
      + "the second output with the first. The largest differences come first.";
    this.body.replaceChildren(rows.length ? table : "No sentence was logged by both runs.",
                              ...(rows.length ? [make("p", {}, note)] : []));
  }

  row({ sentence, reference, outputs, scores, alike }) {
    const button = make("button", { type: "button", dir: "auto" }, sentence.text);
    button.addEventListener("click", () => this.open(sentence.id));
    const isShown = sentence.id === this.found.sentence.id;
    if (isShown) button.setAttribute("aria-current", "true");
    const score = scores ? scores.map((value) => value.toFixed(1)).join(" → ")
      : `alike ${alike.toFixed(1)}`;
    const better = scores && scores[0] !== scores[1] ? Number(scores[1] > scores[0]) : null;
    const cells = outputs.map((text, i) =>
      make("td", { dir: "auto" }, i === better ? make("b", {}, text) : text));
    return make("tr", {}, make("td", {}, button), make("td", { dir: "auto" }, reference || "–"),
                ...cells, make("td", { class: "score" }, score));
  }
}
