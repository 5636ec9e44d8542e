// What screen readers announce: after a pause, the sentences of a translation that are new.

const PAUSE = 1000; // ms without another translation
const LONGEST_ANNOUNCED = 200; // characters that are read out; of more, only the number of sentences

export class Announcer {
  constructor(element) {
    this.element = element;
    this.known = new Set(); // sentences of the translation that was announced last
    this.timer = 0;
  }

  // Does not announce what has not been announced yet.
  pause() {
    clearTimeout(this.timer);
  }

  // Forgets what was announced.
  clear() {
    this.pause();
    this.known = new Set();
    this.element.textContent = "";
  }

  // Announces a translation once no other one has come for a while.
  announce({ text, sentences }) {
    this.pause();
    this.timer = setTimeout(() => {
      const points = [...text];
      const all = (sentences ?? []).map(({ begin, end }) => points.slice(begin, end).join(""));
      const changed = all.filter((sentence) => !this.known.has(sentence));
      this.known = new Set(all);
      const joined = changed.join(" ");
      if (!joined) return;
      this.element.textContent = joined.length <= LONGEST_ANNOUNCED ? joined
        : `${changed.length} ${changed.length === 1 ? "sentence" : "sentences"} translated.`;
    }, PAUSE);
  }
}
