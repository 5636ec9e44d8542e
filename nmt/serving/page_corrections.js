// A translation becomes a field on request; its correction is sent to the service, which keeps it.

import { postJson } from "./page_requests.js";

class CorrectionField {
  constructor($) {
    this.$ = $;
    this.shown = null; // {text, translation}
    this.sending = null; // the one whose correction is being sent
    this.enabled = false;
    $("correct").addEventListener("click", () => this.begin());
    $("save-correction").addEventListener("click", () => this.send());
    $("cancel-correction").addEventListener("click", () => this.finish("", true));
    $("correction").addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.finish("", true);
    });
  }

  edit(editing) {
    for (const name of ["correction", "save-correction", "cancel-correction"]) {
      this.$(name).hidden = !editing;
    }
    this.$("correct").hidden = editing;
    this.$("target-words").hidden = editing;
  }

  begin() {
    this.$("correction").value = this.shown.translation;
    this.$("correction-state").textContent = "";
    this.edit(true);
    this.$("correction").focus();
  }

  finish(state, focused) {
    this.edit(false);
    this.$("correction-state").textContent = state;
    if (focused) this.$("correct").focus();
  }

  async send() {
    const sent = this.shown;
    if (this.sending === sent) return;
    this.sending = sent;
    const correction = this.$("correction").value;
    const { error } = await postJson(
      "corrections", { source: sent.text, translation: sent.translation, correction });
    if (sent !== this.shown) return; // another text has been typed meanwhile
    this.sending = null;
    if (error) this.$("correction-state").textContent = `Not saved: ${error}`;
    else if (this.$("correction").value === correction) this.finish("Correction saved.", true);
  }

  // Shows the button from now on.
  enable(language) {
    this.enabled = true;
    this.$("correction").lang = language;
    this.$("correcting").hidden = !this.shown;
  }

  // Says what can be corrected; nothing without a translation.
  show(text, translation) {
    const { shown } = this;
    const same = shown && shown.text === text && shown.translation === translation;
    if (same) return; // attention of the same translation has come
    this.shown = translation ? { text, translation } : null;
    this.finish("", false);
    this.$("correcting").hidden = !this.enabled || !this.shown;
  }
}

// Given a function that finds an element by its id, returns the field for corrections.
export function mountCorrections($) {
  return new CorrectionField($);
}
