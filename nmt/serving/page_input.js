// The field of the source: when it is translated, and how long its text is.

const DEBOUNCE = 150; // ms after the last key

// Counts words as the language of a text has them.
function countWords(text, language) {
  if (!Intl.Segmenter) return text.split(/\s+/).filter(Boolean).length; // Firefox before 125
  const segments = new Intl.Segmenter(language || "und", { granularity: "word" }).segment(text);
  let count = 0;
  for (const { isWordLike } of segments) count += isWordLike;
  return count;
}

const plural = (count, noun) =>
  `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

export class SourceField {
  // changed: called after a pause in typing; never while an input method composes characters.
  constructor(field, counter, changed) {
    Object.assign(this, { field, counter, changed, limit: null, composing: false, timer: 0 });
    field.addEventListener("compositionstart", () => {
      this.composing = true;
      clearTimeout(this.timer);
    });
    field.addEventListener("compositionend", () => {
      this.composing = false;
      this.wait();
    });
    field.addEventListener("input", () => {
      this.count();
      this.wait();
    });
  }

  wait() {
    clearTimeout(this.timer);
    if (!this.composing) this.timer = setTimeout(this.changed, DEBOUNCE);
  }

  // limit: most characters that the service takes, in code points.
  allow(limit) {
    this.limit = limit;
    this.count();
  }

  count() {
    const { value: text, lang } = this.field, { limit } = this;
    const characters = [...text].length;
    this.counter.classList.toggle("over", limit !== null && characters > limit);
    this.counter.textContent = [
      limit === null ? plural(characters, "character")
                     : `${characters.toLocaleString("en")} of ${plural(limit, "character")}`,
      plural(countWords(text, lang), "word"),
    ].join(" · ");
  }

  fill(text) {
    this.field.value = text;
    this.count();
  }
}
