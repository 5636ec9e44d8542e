// The outputs of the first two displayed runs as a table; each sentence opens its attention.

import { changesTable, MORE } from "./changes.js";
import { choices, fill, fillChoices, make, select } from "./forms.js";
import { COMPUTED, nearest } from "./reader.js";
import { textOf } from "./words.js";

const ORDER = 6; // longest n-grams of chrF, in characters
const BETA = 2;  // weight of recall in chrF
const PROBES = "probes"; // instead of the name of a split
const LAST = 2 ** 31;    // later than all updates

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
  // choose(change): called with changed choices; it opens and closes the table, too.
  // open(sentence): called with the id of a chosen sentence.
  constructor(reader, choose, open) {
    Object.assign(this, { reader, choose, open });
    this.turns = 0; // number of the newest call of `fill`
    this.count = MORE; // sentences of a split that are listed
    this.split = select("split", (split) => choose({ split }));
    this.better = choices("Show where");
    const form = make("form", { class: "controls" },
                      make("label", {}, "Outputs of", this.split), this.better);
    form.addEventListener("submit", (event) => event.preventDefault());
    this.body = make("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Outputs" });
    const summary = make("summary", {}, "Outputs of both runs");
    this.details = make("details", { class: "outputs" }, summary, form, this.body);
    this.details.addEventListener("toggle", () => {
      const { open: isOpen } = this.details;
      if (isOpen !== Boolean(this.chosen.split)) choose({ split: isOpen ? PROBES : "" });
    });
    this.element = make("div"); // contains the details if there are two runs
  }

  // found: see Reader.find; step: the displayed update. The table is read when it is open.
  show(found, step, chosen) {
    const { split, better } = chosen;
    const table = JSON.stringify([found.runs, split, better]);
    if (table !== this.table) this.count = MORE;
    Object.assign(this, { found, step, chosen, table });
    const isShown = found.runs.length > 1;
    if (isShown !== this.details.isConnected) {
      this.element.replaceChildren(...(isShown ? [this.details] : []));
    }
    this.details.open = Boolean(split);
    return this.fill();
  }

  async fill() {
    const turn = ++this.turns;
    if (!this.details.isConnected || !this.details.open) return;
    const runs = this.found.runs.slice(0, 2);
    try {
      const splits = await this.reader.source.splits?.(runs) ?? [];
      const split = splits.find(({ name }) => name === this.chosen.split);
      const parts = split ? await this.changes(split, runs) : this.probes(await this.read(runs), runs);
      if (turn !== this.turns) return;
      this.showChoices(splits, split, runs);
      this.body.replaceChildren(...parts);
    } catch (error) {
      if (turn === this.turns) this.body.replaceChildren(make("p", {}, error.message));
    }
  }

  showChoices(splits, split, runs) {
    const options = [[PROBES, "probe sentences"], ...splits.map(({ name, title }) => [name, title])];
    this.split.parentNode.hidden = !splits.length;
    this.better.hidden = !split;
    fill(this.split, options, split?.name ?? PROBES);
    fillChoices(this.better, "radio", "better",
                [["second", `${runs[1]} is better`], ["first", `${runs[0]} is better`]],
                (value) => (value === "first") === (this.chosen.better === "first"),
                (value) => this.choose({ better: value }));
  }

  // The table of a split.
  async changes({ name, title }, runs) {
    const better = Number(this.chosen.better !== "first"), step = this.chosen.step ?? LAST;
    const answer = await this.reader.source.changes(runs, name, step, better, this.count);
    return changesTable(answer, title, runs, better, {
      table: (score, rows) => this.makeTable(runs, score, rows), row: (row) => this.row(row),
      more: () => {
        this.count += MORE;
        this.fill();
      },
    });
  }

  // The sentences that both runs have logged: [{sentence, reference, outputs, scores, order}]. scores are
  // chrF of both outputs with the reference if it is known; order: the largest comes first.
  async read(runs) {
    const { reader, step } = this;
    const sentences = this.found.sentences.filter(({ id }) => !id.startsWith(COMPUTED));
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

  // The table of the sentences that both runs have logged.
  probes(rows, runs) {
    if (!rows.length) return ["No sentence was logged by both runs."];
    const note = "chrF with the reference, of the first and of the second run; without a reference, of "
      + "the second output with the first. The largest differences come first.";
    return [this.makeTable(runs, "chrF", rows.map((row) => this.row(row))), make("p", {}, note)];
  }

  makeTable([first, second], score, rows) {
    const head = (text) => make("th", { scope: "col" }, text);
    const heads = ["Sentence", "Reference", first, second, score].map(head);
    return make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows));
  }

  row({ sentence, reference, outputs, scores, alike }) {
    const button = make("button", { type: "button", dir: "auto" }, sentence.text);
    const cell = make("td", {}, button);
    button.addEventListener("click", async () => {
      const note = make("span", { class: "note", role: "status" });
      cell.append(note);
      if (sentence.id.startsWith(COMPUTED)) note.textContent = "Computing its attention …";
      await this.open(sentence.id);
      note.remove();
    });
    const isShown = sentence.id === this.found.sentence.id;
    if (isShown) button.setAttribute("aria-current", "true");
    const score = scores ? scores.map((value) => value.toFixed(1)).join(" → ")
      : `alike ${alike.toFixed(1)}`;
    const better = scores && scores[0] !== scores[1] ? Number(scores[1] > scores[0]) : null;
    const cells = outputs.map((text, i) =>
      make("td", { dir: "auto" }, i === better ? make("b", {}, text) : text));
    return make("tr", {}, cell, make("td", { dir: "auto" }, reference || "–"),
                ...cells, make("td", { class: "score" }, score));
  }
}
