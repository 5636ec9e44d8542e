// A translation that arrives sentence by sentence.

const LATE = 300; // ms after which sentences are shown before all are there

// The sentences that have arrived, up to the first that has not: in their order, with the white space
// of the text between them.
export class Arrivals {
  // show(text): called once the translation is late, and again when more of it has arrived.
  constructor(show) {
    Object.assign(this, { show, sentences: [], text: "", isLate: false });
    this.timer = setTimeout(() => {
      this.isLate = true;
      this.update();
    }, LATE);
  }

  take({ sentence, space, translation }) {
    this.sentences[sentence] = space + translation;
    this.update();
  }

  update() {
    const end = [...this.sentences, undefined].indexOf(undefined);
    const text = this.sentences.slice(0, end).join("");
    if (!this.isLate || text === this.text) return;
    this.text = text;
    this.show(text);
  }

  stop() {
    clearTimeout(this.timer);
    this.isLate = false;
  }
}
