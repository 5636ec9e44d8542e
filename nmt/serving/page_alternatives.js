// Other words in place of one of a translation: those that the model considers most probable after
// the words before it. Whoever chooses one gets the sentence translated on from there.

import { make } from "../viewer/browser/forms.js";
import { Reasons } from "./page_reasons.js";
import { postJson } from "./page_requests.js";

const COUNT = 8; // words that are asked for

// A probability in percent.
function percent(probability) {
  if (probability < 0.001) return "< 0.1%";
  return `${(100 * probability).toFixed(probability < 0.1 ? 1 : 0)}%`;
}

export class Alternatives {
  // choose({sentence, prefix}): called with how the translation of a sentence shall begin; a prefix
  // null: as the model begins it. isChosen(sentence): whether its beginning was chosen.
  // mark(words): see `Reasons`.
  constructor($, { choose, isChosen, mark }) {
    Object.assign(this, { choose, isChosen, opened: null, running: null, explains: true });
    [this.menu, this.choices, this.word, this.state, this.list, this.undo, this.why] = [
      "alternatives", "choices", "alternatives-word", "alternatives-state", "alternatives-list",
      "undo", "why",
    ].map($);
    this.reasons = new Reasons($, mark);
    this.why.addEventListener("click", () => this.explain());
    this.menu.addEventListener("keydown", (event) => this.move(event));
    this.menu.addEventListener("focusout", ({ relatedTarget }) => {
      // Where nothing gets the focus, another window may have got it.
      if (relatedTarget && !this.menu.contains(relatedTarget)) this.close();
    });
    this.undo.addEventListener("click", () => this.pick(null));
    document.addEventListener("pointerdown", ({ target }) => {
      if (!this.menu.contains(target)) this.close();
    });
  }

  // asked: {text, sentence, prefix, word, glossary, language}; element: the word on the page.
  async open(asked, element) {
    this.close();
    this.opened = { asked, element };
    this.running = new AbortController();
    const { signal } = this.running;
    this.word.textContent = asked.word;
    this.word.lang = this.list.lang = asked.language;
    this.state.textContent = "Looking for other words …";
    this.list.replaceChildren();
    this.undo.hidden = !this.isChosen(asked.sentence);
    this.why.hidden = !this.explains;
    this.choices.hidden = false;
    this.menu.setAttribute("aria-labelledby", "alternatives-name");
    this.menu.hidden = false;
    this.place(element);
    this.menu.focus();
    const { text, sentence, prefix } = asked, glossary = asked.glossary || null;
    const { alternatives, error } = await postJson(
      "alternatives", { text, sentence, prefix, count: COUNT, glossary }, signal);
    if (signal.aborted) return;
    this.show(alternatives ?? [], error);
    this.place(element);
    this.menu.scrollIntoView({ block: "nearest" });
  }

  show(alternatives, error) {
    const { asked } = this.opened;
    const others = alternatives.filter(({ text }) => text !== asked.word);
    this.state.textContent = error ? `No other words: ${error}.`
      : others.length ? "" : "The model knows no other word here.";
    this.list.replaceChildren(...alternatives.map(({ text, probability, prefix }) => {
      const button = make("button", { type: "button", ...(text === asked.word
        && { "aria-current": "true" }) },
      make("b", { dir: "auto" }, text), make("span", { class: "share", lang: "en" },
                                             percent(probability)));
      button.addEventListener("click", () => this.pick(text === asked.word ? undefined : prefix));
      return make("li", {}, button);
    }));
    const buttons = this.buttons();
    const first = buttons.find((button) => !button.hasAttribute("aria-current")) ?? buttons[0];
    if (this.menu.contains(document.activeElement)) first?.focus();
  }

  // Shows why the word is there, in place of other words.
  async explain() {
    const { asked, element } = this.opened;
    this.running.abort();
    const others = [...this.list.querySelectorAll("b")].map((other) => other.textContent);
    this.choices.hidden = true;
    this.menu.setAttribute("aria-labelledby", "reasons-name");
    await this.reasons.open(asked, others.filter((text) => text !== asked.word));
    if (this.opened) this.place(element);
  }

  buttons() {
    return [...this.menu.querySelectorAll("button")].filter((button) => !button.hidden);
  }

  // prefix: undefined: what is there stays.
  pick(prefix) {
    const { asked } = this.opened;
    this.close(true);
    if (prefix !== undefined) this.choose({ sentence: asked.sentence, prefix });
  }

  place(element) {
    const box = element.getBoundingClientRect();
    const pane = this.menu.offsetParent.getBoundingClientRect();
    const left = Math.max(8, Math.min(box.left, innerWidth - this.menu.offsetWidth - 8));
    this.menu.style.left = `${left - pane.left}px`;
    this.menu.style.top = `${box.bottom + 6 - pane.top}px`;
  }

  close(returnsFocus = false) {
    if (!this.opened) return;
    const { element } = this.opened;
    this.running.abort();
    this.opened = null;
    this.reasons.close();
    this.menu.hidden = true;
    if (returnsFocus) element.focus();
  }

  move(event) {
    if (event.key === "Escape") {
      event.stopPropagation();
      this.close(true);
      return;
    }
    if (this.choices.hidden) return; // keys of the explanation's own controls
    const buttons = this.buttons(), here = buttons.indexOf(document.activeElement);
    const next = { ArrowDown: here + 1, ArrowUp: here < 0 ? buttons.length - 1 : here - 1, Home: 0,
      End: buttons.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    buttons[next]?.focus();
  }
}
