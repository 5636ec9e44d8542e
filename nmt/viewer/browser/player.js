// The slider over training, and the Play button.

import { make } from "./forms.js";

const FRAME = 650; // ms per step

export class Player {
  // go(step): shows that step, and returns a promise; null: always the last step.
  constructor(go) {
    this.go = go;
    this.steps = [];
    this.place = 0;
    this.playing = null; // the run that the last press of the button started
    this.button = make("button", { type: "button" });
    this.button.addEventListener("click", () => (this.playing ? this.stop() : this.start()));
    this.slider = make("input", { type: "range", name: "step", min: 0, step: 1 });
    this.slider.addEventListener("input", () => {
      this.stop();
      this.goTo(Number(this.slider.value));
    });
    this.output = make("output");
    const label = make("label", {}, "Update", this.slider);
    this.element = make("div", { class: "player" }, this.button, label, this.output);
    this.stop();
  }

  // steps: [{step}] in order, with step null outside of training; place: index of the displayed one.
  show(steps, place) {
    this.steps = steps;
    this.place = place;
    const { step } = steps[place], { length } = steps;
    this.element.hidden = step === null;
    this.slider.max = length - 1;
    this.slider.value = place;
    this.slider.disabled = this.button.disabled = length < 2;
    const text = `${(step ?? 0).toLocaleString("en")} (${place + 1} of ${length})`;
    this.output.textContent = text;
    this.slider.setAttribute("aria-valuetext", text);
  }

  // At its end, the slider follows new steps.
  goTo(place) {
    this.place = place;
    return this.go(this.atEnd() ? null : this.steps[place].step);
  }

  atEnd() {
    return this.place >= this.steps.length - 1;
  }

  async start() {
    const mine = (this.playing = {});
    this.button.textContent = "Pause";
    if (this.atEnd()) await this.goTo(0);
    while (this.playing === mine && !this.atEnd()) {
      await new Promise((done) => setTimeout(done, FRAME));
      if (this.playing === mine) await this.goTo(this.place + 1);
    }
    if (this.playing === mine) this.stop();
  }

  stop() {
    this.playing = null;
    this.button.textContent = "Play";
  }
}
