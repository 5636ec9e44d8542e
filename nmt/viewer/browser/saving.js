// Buttons that save what is displayed as SVG, PNG and CSV, and that copy a link to it.

import { csvOf } from "./csv.js";
import { make } from "./forms.js";
import { drawingOf } from "./drawing.js";

const SCALE = 2; // pixels of a PNG per px
const SAID = 4000; // ms

export class Saving {
  constructor(viewer) {
    this.viewer = viewer;
    const button = (text, name, press) => {
      const element = make("button", { type: "button", "aria-label": name }, text);
      element.addEventListener("click", () => Promise.resolve(press()).catch((error) => {
        this.say(error.message);
      }));
      return element;
    };
    this.link = button("Copy link", "Copy link", () => this.copyLink());
    this.link.hidden = !viewer.source.link;
    this.said = make("span", { role: "status" });
    this.element = make(
      "div", { class: "saving", role: "group", "aria-label": "Save" },
      button("SVG", "Save as SVG", () => this.saveSvg()),
      button("PNG", "Save as PNG", () => this.savePng()),
      button("CSV", "Save as CSV", () => this.saveCsv()), this.link, this.said,
    );
  }

  say(text) {
    this.said.textContent = text;
    setTimeout(() => {
      if (this.said.textContent === text) this.said.textContent = "";
    }, SAID);
  }

  saveSvg() {
    const { text } = drawingOf(this.viewer);
    this.save(new Blob([text], { type: "image/svg+xml" }), "svg");
  }

  // The picture is drawn from a data address: the page's policy allows no other.
  async savePng() {
    const { text, width, height } = drawingOf(this.viewer), image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = make("canvas", { width: width * SCALE, height: height * SCALE });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    if (!blob) throw new Error("The picture is too large for a PNG: save it as SVG.");
    this.save(blob, "png");
  }

  saveCsv() {
    this.save(new Blob([csvOf(this.viewer)], { type: "text/csv" }), "csv");
  }

  save(blob, extension) {
    const { chosen, shown: { step } } = this.viewer;
    const parts = ["attention", chosen.kind, ...(step === null ? [] : [step])];
    const address = URL.createObjectURL(blob);
    make("a", { href: address, download: `${parts.join("-")}.${extension}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), SAID);
  }

  async copyLink() {
    await this.viewer.show(); // the last choice
    const address = this.viewer.source.link(this.viewer.exactChoices());
    try {
      await navigator.clipboard.writeText(address);
      this.say("Copied");
    } catch { // the browser allows it on https and localhost only
      prompt("The link to this view:", address);
    }
  }
}
