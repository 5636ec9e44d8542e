// Why the translation has a word and not another one: how much the model read of each word of the
// sentence to write it, and how far each speaks for it. The source words are marked by it, too.

import { make } from "../viewer/browser/forms.js";
import { postJson } from "./page_requests.js";

const EVEN = 1.05;  // words whose probabilities differ by less are equally probable
const MAX_RATIO = 1000;  // times
const share = (contribution) =>
  (contribution === undefined ? "–" : `${(100 * contribution).toFixed(0)}%`);
const signed = (nats) => `${nats < 0 ? "−" : "+"}${Math.abs(nats).toFixed(2)}`;

export class Reasons {
  // mark(words): marks source words, see the answer of `/explain`; null: none.
  constructor($, mark) {
    Object.assign(this, { mark, running: null, asked: null });
    [this.part, this.word, this.other, this.state, this.rows] = [
      "reasons", "reasons-word", "reasons-other", "reasons-state", "reasons-rows",
    ].map($);
    this.other.addEventListener("change", () => this.ask(this.other.value));
  }

  // asked: see `Alternatives.open`; others: texts of words that could stand in the word's place.
  open(asked, others) {
    this.asked = asked;
    this.word.textContent = asked.word;
    this.word.lang = this.other.lang = asked.language;
    this.other.replaceChildren(...others.map((text) => make("option", { value: text }, text)));
    this.part.hidden = false;
    this.other.focus();
    return this.ask(others[0] ?? null);
  }

  close() {
    this.running?.abort();
    this.part.hidden = true;
    this.mark(null);
  }

  async ask(other) {
    this.running?.abort();
    this.running = new AbortController();
    const { signal } = this.running;
    this.state.textContent = "Asking the model …";
    const { text, sentence, prefix, word } = this.asked, glossary = this.asked.glossary || null;
    const answer = await postJson(
      "explain", { text, sentence, prefix, word, other, glossary }, signal);
    if (!signal.aborted) this.show(answer);
  }

  show({ error, source = [], prefix = [], contributions_missing: missing, ...answer }) {
    this.rows.hidden = Boolean(error);
    this.mark(error ? null : source);
    this.state.textContent = error ? `No explanation: ${error}.`
      : [compare(answer), missing && `No shares: ${missing}.`].filter(Boolean).join(" ");
    if (error) return;
    if (![...this.other.options].some(({ value }) => value === answer.other)) {
      this.other.append(make("option", { value: answer.other }, answer.other));
    }
    this.other.value = answer.other;
    const sum = (rows) => rows.reduce((total, row) => total + row.contribution, 0);
    const whole = (text, rows, contrast) =>
      ({ text, contrast, ...(!missing && { contribution: sum(rows) }) });
    this.rows.tBodies[0].replaceChildren(...[
      ...source,
      whole("all of the sentence", source, answer.source_contrast),
      whole("translation before it", prefix, answer.prefix_contrast),
    ].map((row) =>
      make("tr", {}, make("th", { scope: "row", dir: "auto" }, row.text),
           make("td", {}, share(row.contribution)), make("td", {}, signed(row.contrast)))));
  }
}

// How much more probable a word is than the other one.
function compare({ word, other, log_prob: ours, other_log_prob: theirs }) {
  const ratio = Math.exp(Math.abs(ours - theirs));
  const times = ratio > MAX_RATIO ? "more than 1,000" : ratio.toFixed(ratio < 10 ? 1 : 0);
  if (ratio < EVEN) return `“${word}” and “${other}” are equally probable.`;
  const [more, less] = ours > theirs ? [word, other] : [other, word];
  return `“${more}” is ${times} times as probable as “${less}”.`;
}
