// A translation becomes a field on request; its correction is sent to the service, which keeps it.

// Given a function that finds an element by its id, returns {enable, show}: nothing is shown before
// enable(language); show(text, translation) says what can be corrected, nothing without a translation.
export function mountCorrections($) {
  let shown = null; // {text, translation}
  let enabled = false;

  function edit(editing) {
    for (const name of ["correction", "save-correction", "cancel-correction"]) {
      $(name).hidden = !editing;
    }
    $("correct").hidden = editing;
    $("target-words").hidden = editing;
  }

  function finish(state, focused) {
    edit(false);
    $("correction-state").textContent = state;
    if (focused) $("correct").focus();
  }

  async function send() {
    const sent = shown;
    const correction = $("correction").value;
    $("save-correction").disabled = true;
    let problem = "the service does not answer";
    try {
      const response = await fetch("corrections", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ source: sent.text, translation: sent.translation, correction }),
      });
      problem = response.ok ? "" : (await response.json()).error;
    } catch { /* no answer */ }
    $("save-correction").disabled = false;
    if (sent !== shown) return; // another text has been typed meanwhile
    if (problem) $("correction-state").textContent = `Not saved: ${problem}`;
    else finish("Correction saved.", true);
  }

  $("correct").addEventListener("click", () => {
    $("correction").value = shown.translation;
    $("correction-state").textContent = "";
    edit(true);
    $("correction").focus();
  });
  $("save-correction").addEventListener("click", send);
  $("cancel-correction").addEventListener("click", () => finish("", true));
  $("correction").addEventListener("keydown", (event) => {
    if (event.key === "Escape") finish("", true);
  });

  return {
    enable(language) {
      enabled = true;
      $("correction").lang = language;
      $("correcting").hidden = !shown;
    },
    show(text, translation) {
      const same = shown && shown.text === text && shown.translation === translation;
      if (same) return; // attention of the same translation has come
      shown = translation ? { text, translation } : null;
      finish("", false);
      $("correcting").hidden = !enabled || !shown;
    },
  };
}
