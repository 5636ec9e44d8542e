// The words of a text and of its translation on the page: what is pointed at lights the words that it
// is aligned to, or looked at.

import { make } from "../viewer/browser/forms.js";
import { strongest } from "../viewer/browser/record.js";
import { wordWeights } from "../viewer/browser/words.js";
import { isUnsure, overlap } from "./page_words.js";

const LIT = 0.05;     // weights below light no word
const MENTIONED = 5;  // words in a tooltip
const OTHER = { source: "target", target: "source" };

export class WordLights {
  // lines: the elements {source, target} that hold the words; viewer: returns the attention viewer.
  constructor(lines, tooltip, viewer) {
    Object.assign(this, { lines, tooltip, viewer });
    this.shown = null; // see page_words.js; null without words
    this.word = null;  // {side, number, element}: under the pointer, or with the focus
    this.marked = null; // words of the source that explain one, see `mark`
    this.spot = null;  // what is pointed at in the viewer, see plot.js
    this.listen();
  }

  listen() {
    document.addEventListener("pointerover", ({ target }) => {
      if (target.closest(".word")) this.point(target);
    });
    document.addEventListener("pointerout", ({ target, relatedTarget }) => {
      // The pointer may move over the tooltip, to read it. A finger that is lifted leaves, too: what
      // it touched has the focus and stays lit.
      const isLeft = target.closest(".word") || target === this.tooltip;
      if (isLeft && relatedTarget !== this.tooltip) this.point(document.activeElement);
    });
    document.addEventListener("focusin", ({ target }) => this.point(target));
    document.addEventListener("focusout", () => this.point(null));
    document.addEventListener("scroll", () => this.hideTooltip(), true);
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.point(null);
      this.move(event);
    });
  }

  hideTooltip() {
    this.tooltip.hidden = true;
  }

  elements(side) {
    return [...this.lines[side].querySelectorAll(".word")];
  }

  // ---- writing ----

  // Shows words, see page_words.js, with the texts between them; null: no words.
  show(shown, texts) {
    this.word = this.marked = null;
    this.shown = shown;
    this.viewer().point(null);
    for (const side of ["source", "target"]) {
      this.lines[side].replaceChildren();
      if (shown) this.write(side, texts[side]);
    }
  }

  write(side, text) {
    const points = [...text], line = this.lines[side];
    let at = 0;
    this.shown.words[side].forEach((word, number) => {
      // The model always ends its translation: only where it read to the end is of interest.
      if (word.ends && side === "target") return;
      const made = make("span", {
        class: word.ends ? "word end" : isUnsure(word) ? "word unsure" : "word", role: "option",
        "aria-selected": "false", tabindex: number ? "-1" : "0", "data-side": side,
        "data-word": number, ...(isUnsure(word) && { "aria-description": "the model is unsure" }),
      }, word.text);
      const before = word.begin === undefined ? (number ? " " : "")
                                              : points.slice(at, word.begin).join("");
      line.append(before, made);
      at = word.end ?? at;
    });
    if (at) line.append(points.slice(at).join(""));
  }

  // Takes the weights of a picture of attention, see `mount` of the viewer.
  weigh({ kind, weights }) {
    if (this.shown?.attends) {
      const sums = wordWeights(this.shown.words, weights, kind.columns.length);
      this.shown.weight = (t, s) => sums[t][s];
    }
    this.relight();
  }

  // ---- lighting ----

  clear() {
    this.hideTooltip();
    for (const element of [...this.elements("source"), ...this.elements("target")]) {
      element.classList.remove("lit", "active");
      element.style.removeProperty("--w");
      element.removeAttribute("data-weight");
      element.removeAttribute("aria-describedby");
      element.setAttribute("aria-selected", "false");
    }
  }

  // Lights words by what is pointed at: in the viewer, else among the words.
  relight() {
    const { shown, spot, word } = this;
    this.clear();
    if (this.marked) {
      this.paint("source", this.marked, Math.max(...this.marked));
      return;
    }
    if (!shown?.weight) return;
    if (spot && shown.attends) {
      const side = spot.row === null ? "source" : "target";
      const piece = spot.row ?? spot.column;
      this.light(side, shown.words[side].findIndex(({ last }) => piece <= last));
    } else if (word) {
      const weights = this.light(word.side, word.number);
      word.element.setAttribute("aria-selected", "true");
      word.element.setAttribute("aria-describedby", "tooltip");
      this.tell(word, weights);
    }
  }

  // Lights what a word looked at, or what looked at it; returns the weights.
  light(side, number) {
    const { shown } = this;
    const weights = shown.words[OTHER[side]].map((_, i) =>
      side === "target" ? shown.weight(number, i) : shown.weight(i, number));
    this.paint(OTHER[side], weights);
    for (const element of this.elements(side)) {
      element.classList.toggle("active", Number(element.dataset.word) === number);
    }
    return weights;
  }

  paint(side, weights, largest = 1) {
    for (const element of this.elements(side)) {
      const weight = weights[Number(element.dataset.word)];
      element.dataset.weight = weight.toFixed(2);
      element.classList.toggle("lit", weight >= LIT);
      // weak ones are seen, too
      element.style.setProperty("--w", Math.sqrt(weight / largest || 0).toFixed(3));
    }
  }

  // Marks the words of the source, by {begin, end, contribution} of some, until there are none: null.
  mark(reasons) {
    const place = (word) => (reason) => reason.begin !== undefined && word.begin !== undefined
      && overlap(word, reason);
    const isKnown = this.shown && reasons?.some(({ contribution }) => contribution !== undefined);
    this.marked = isKnown ? this.shown.words.source.map((word) => reasons.filter(place(word))
      .reduce((sum, { contribution }) => sum + contribution, 0)) : null;
    this.relight();
  }

  tell({ side, number, element }, weights) {
    const { words, attends } = this.shown, { tooltip } = this;
    const { text, confidence } = words[side][number];
    const listed = strongest(weights, MENTIONED)
      .filter(({ weight }, place) => (attends && place === 0) || weight >= LIT)
      .map(({ index, weight }) =>
        `${words[OTHER[side]][index].text}${attends ? ` ${weight.toFixed(2)}` : ""}`);
    const relation = attends ? { target: "looked at", source: "was looked at by" }
                             : { target: "translates", source: "is translated by" };
    tooltip.textContent = [
      listed.length ? `${text} ${relation[side]}` : text,
      ...listed,
      ...(confidence === undefined || attends ? [] : [`confidence ${confidence.toFixed(2)}`]),
    ].join("\n");
    tooltip.hidden = false;
    const box = element.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = tooltip;
    const below = box.bottom + 3 + height < innerHeight;
    tooltip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
    tooltip.style.top = `${below ? box.bottom + 3 : Math.max(8, box.top - 3 - height)}px`;
  }

  // ---- pointing ----

  // Points at a word, or at nothing if the element is none; the viewer lights its pieces.
  point(element) {
    const word = this.shown && element?.closest?.(".word");
    this.word = word
      ? { side: word.dataset.side, number: Number(word.dataset.word), element: word }
      : null;
    this.viewer().point(this.word && this.shown.attends ? this.spotOf(this.word) : null);
    this.relight();
  }

  spotOf({ side, number }) {
    const { first, last } = this.shown.words[side][number];
    const count = last - first + 1;
    return side === "target" ? { row: first, column: null, count }
                             : { row: null, column: first, count };
  }

  focus(word) {
    for (const other of word.parentElement.querySelectorAll('.word[tabindex="0"]')) {
      other.tabIndex = -1;
    }
    word.tabIndex = 0;
    word.focus();
  }

  // The number of the translated word that has the focus; null if none has.
  get focused() {
    const number = document.activeElement?.closest?.('.word[data-side="target"]')?.dataset.word;
    return number === undefined ? null : Number(number);
  }

  // Focuses a translated word by its number, or the last one.
  focusNumber(number) {
    const all = this.elements("target");
    if (all.length) this.focus(all[Math.min(number, all.length - 1)]);
  }

  // Goes to the next word that the model is unsure of, after the one that Tab reaches.
  focusNextUnsure() {
    const all = this.elements("target"), unsure = all.filter((word) => word.matches(".unsure"));
    const here = all.findIndex((word) => word.tabIndex === 0);
    const isVisited = "visited" in all[here].dataset;
    const next = unsure.find((word) => all.indexOf(word) >= here + isVisited) ?? unsure[0];
    next.dataset.visited = "";
    this.focus(next);
  }

  move(event) {
    const word = event.target.closest?.(".word");
    if (!word) return;
    const all = [...word.parentElement.querySelectorAll(".word")];
    const here = all.indexOf(word);
    const forward = getComputedStyle(word).direction === "rtl" ? -1 : 1;
    const next = { ArrowRight: here + forward, ArrowLeft: here - forward, Home: 0,
      End: all.length - 1 }[event.key];
    if (next === undefined || !all[next]) return;
    event.preventDefault();
    this.focus(all[next]);
  }
}
