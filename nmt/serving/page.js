// The page of the service: what is typed is translated, and words light those they are aligned to.
// Who opens the attention viewer below sees what they looked at, by its layer and heads.

import { make } from "../viewer/browser/forms.js";
import { crossRecord, strongest } from "../viewer/browser/record.js";
import { mount } from "../viewer/browser/viewer.js";
import { wordWeights } from "../viewer/browser/words.js";
import { mountCorrections } from "./page_corrections.js";
import { acceptFiles } from "./page_document.js";
import { UNSURE, alignedWords, attendedWords, isUnsure } from "./page_words.js";

const DEBOUNCE = 150; // ms after the last key
const LIT = 0.05;     // weights below light no word
const MENTIONED = 5;  // words in a tooltip

const $ = (id) => document.getElementById(id);
const lines = { source: $("source-words"), target: $("target-words") };
const other = { source: "target", target: "source" };
const request = {
  latest: 0,     // number of the newest one; answers to older ones are dropped
  running: null, // its AbortController
  timer: 0,
  attended: false, // whether attention has come once
  refused: "",     // why this service never gives attention
};

// What is on show: see page_words.js. Null without a translation, or without words.
let shown = null;
let pointedWord = null; // {side, number, element}: under the pointer, or with the focus
let pointedSpot = null; // what is pointed at in the viewer, see plot.js

const attentions = { record: null, count: 0 };
const viewer = mount($("viewer"), {
  // Each translation is a sentence of its own.
  runs: async () => {
    const { record, count } = attentions;
    return record ? [{ name: "", sentences: [{ id: String(count), text: "" }] }] : [];
  },
  steps: async () => [{ step: null, time: null }],
  record: async () => attentions.record,
  recall: () => "",
  remember: () => {},
  nothing: "",
}, {
  drawn: ({ kind, weights }) => {
    if (shown?.attends) {
      const sums = wordWeights(shown.words, weights, kind.columns.length);
      shown.weight = (t, s) => sums[t][s];
    }
    relight();
  },
  pointed: (spot) => {
    pointedSpot = spot;
    relight();
  },
});

const corrections = mountCorrections($);

function say(message, again = false) {
  $("message").textContent = message;
  $("again").hidden = !again;
}

// ---- asking ----

// Asks for a translation: {translation}, or {error, status}; status is 0 without an answer.
async function ask(text, attention) {
  try {
    const response = await fetch("translate", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ text, attention, quality: true, glossary: $("glossary").value || null }),
      signal: request.running.signal,
    });
    const answer = await response.json();
    if (response.ok) return { translation: answer.translations[0][0] };
    return { error: answer.error, status: response.status };
  } catch {
    return { error: "the service does not answer", status: 0 };
  }
}

async function translate() {
  const text = $("source").value;
  const number = ++request.latest;
  const stale = () => number !== request.latest;
  request.running?.abort();
  if (!text.trim()) {
    show(text, null);
    say("");
    return;
  }
  request.running = new AbortController();
  lines.target.setAttribute("aria-busy", "true");
  const attends = $("attention").open;
  let attended = null; // the answer with attention
  if (attends && request.attended) {
    attended = await ask(text, true);
    if (stale()) return;
  }
  if (!attended?.translation) {
    // The first attention takes seconds, and any may fail: the translation comes by itself.
    const { translation, error, status } = await ask(text, false);
    if (stale()) return;
    show(text, translation ?? null);
    if (error) {
      say(status ? `Not translated: ${error}` : "The service does not answer. Your text stays here.",
        status === 0 || status >= 500);
      return;
    }
    say("");
    if (!attends) return;
    attended ??= await askForAttention(text);
    if (stale()) return;
  }
  if (attended.translation) {
    request.attended = true;
    show(text, attended.translation);
    say("");
  } else {
    explain(attended.error);
  }
}

// As `ask`, unless it is known that this service gives no attention.
async function askForAttention(text) {
  if (!request.refused && (await introduced)?.attention === false) {
    request.refused = "the engine of this service does not compute it";
  }
  if (request.refused) return { error: request.refused };
  const answer = await ask(text, true);
  if (answer.status === 400) request.refused = answer.error; // attention cannot be loaded
  return answer;
}

// Shows what the service says of itself, and returns it; null without an answer.
async function introduce() {
  try {
    const info = await (await fetch("info")).json();
    const names = new Intl.DisplayNames(["en"], { type: "language" });
    const [from, to] = [info.source_language, info.target_language].map((tag) => {
      try { return names.of(tag); } catch { return tag; }
    });
    document.title = `${from} → ${to}`;
    $("title").textContent = document.title;
    $("source-name").textContent = from;
    $("target-name").textContent = to;
    $("source").placeholder = `Type ${from} here`;
    $("source").lang = lines.source.lang = info.source_language;
    lines.target.lang = info.target_language;
    const scores = Object.entries(info.scores).map(([name, { value, half_width: half }]) =>
      `${name} ${value.toFixed(1)}${half === null ? "" : ` ± ${half.toFixed(1)}`}`);
    $("glossary").append(...Object.entries(info.glossaries).map(([name, terms]) =>
      make("option", { value: name }, `${name} (${terms})`)));
    $("glossaries").hidden = $("glossary").options.length === 1;
    $("file").accept = Object.values(info.formats).flat().join(",");
    if (info.corrections) corrections.enable(info.target_language);
    $("run").textContent = [info.run, ...scores].join(" · ");
    return info;
  } catch {
    say("The service does not answer.", true);
    return null;
  }
}

// ---- showing ----

function show(text, translation) {
  const attention = translation?.attention;
  pointedWord = shown = null;
  viewer.point(null);
  lines.target.removeAttribute("aria-busy");
  lines.source.replaceChildren();
  lines.target.replaceChildren();
  $("spoken").textContent = translation?.text ?? "";
  corrections.show(text, translation?.text);
  $("attention").hidden = !translation;
  $("viewer").hidden = !attention;
  $("hint").textContent = "";
  $("lost").textContent = translation?.lost_spans
    ? `The model left out, and the service inserted: ${translation.lost_spans.join(", ")}` : "";
  showConfidence(translation);
  showTerms(translation?.terms ?? []);
  if (!translation) return;
  if (attention) shown = attendedWords(text, translation);
  else if (translation.words) shown = alignedWords(text, translation);
  if (shown) {
    write("source", text);
    write("target", translation.text);
  } else {
    lines.target.textContent = translation.text;
  }
  if (!attention) {
    if (translation.attention_missing) explain(translation.attention_missing);
    else $("hint").textContent = "Attention is being loaded …";
    return;
  }
  attentions.record = crossRecord(text, attention);
  attentions.count += 1;
  viewer.refresh();
}

// Says why no attention is shown.
function explain(reason) {
  $("hint").textContent = `Attention is unavailable: ${reason}.`;
}

function showTerms(terms) {
  const unused = terms.filter((term) => !term.is_used);
  $("terms").textContent = !terms.length ? "" : !unused.length ? "All terms are used."
    : `Not used: ${unused.map(({ source, target }) => `${source} → ${target}`).join(", ")}.`;
}

function showConfidence(translation) {
  const { confidence, words, quality_missing: missing } = translation ?? {};
  $("confidence").textContent = missing ? `Confidence is unavailable: ${missing}.` : "";
  if (confidence === undefined) return;
  $("confidence").append(make("span", {
    title: "1: probably as a person would translate it; 0: probably nothing like it",
  }, `Confidence ${confidence.toFixed(2)}`));
  if (!words.some(isUnsure)) return;
  $("confidence").append(" · ", make("span", {
    class: "unsure", title: `words with a confidence below ${UNSURE}`,
  }, "words the model is unsure of"));
}

// Writes the words of a side, and what is between them.
function write(side, text) {
  const points = [...text];
  let at = 0;
  shown.words[side].forEach((word, number) => {
    // The model always ends its translation: only where it read to the end is of interest.
    if (word.ends && side === "target") return;
    const made = make("span", {
      class: word.ends ? "word end" : isUnsure(word) ? "word unsure" : "word", role: "option",
      "aria-selected": "false", tabindex: number ? "-1" : "0", "data-side": side,
      "data-word": number, ...(isUnsure(word) && { "aria-description": "the model is unsure" }),
    }, word.text);
    const before = word.begin === undefined ? (number ? " " : "")
                                            : points.slice(at, word.begin).join("");
    lines[side].append(before, made);
    at = word.end ?? at;
  });
  if (at) lines[side].append(points.slice(at).join(""));
}

// ---- lighting ----

const wordElements = (side) => lines[side].querySelectorAll(".word");

function clear() {
  $("tooltip").hidden = true;
  for (const element of [...wordElements("source"), ...wordElements("target")]) {
    element.classList.remove("lit", "active");
    element.style.removeProperty("--w");
    element.removeAttribute("data-weight");
    element.removeAttribute("aria-describedby");
    element.setAttribute("aria-selected", "false");
  }
}

// Lights words by what is pointed at: in the viewer, else among the words.
function relight() {
  clear();
  if (!shown?.weight) return;
  if (pointedSpot && shown.attends) {
    const side = pointedSpot.row === null ? "source" : "target";
    const piece = pointedSpot.row ?? pointedSpot.column;
    light(side, shown.words[side].findIndex(({ last }) => piece <= last));
  } else if (pointedWord) {
    const { side, number, element } = pointedWord;
    const weights = light(side, number);
    element.setAttribute("aria-selected", "true");
    element.setAttribute("aria-describedby", "tooltip");
    tell(side, number, weights, element);
  }
}

// Lights what a word looked at, or what looked at it; returns the weights.
function light(side, number) {
  const weights = shown.words[other[side]].map((_, i) =>
    side === "target" ? shown.weight(number, i) : shown.weight(i, number));
  for (const element of wordElements(other[side])) {
    const weight = weights[Number(element.dataset.word)];
    element.dataset.weight = weight.toFixed(2);
    element.classList.toggle("lit", weight >= LIT);
    element.style.setProperty("--w", Math.sqrt(weight).toFixed(3)); // weak ones are seen, too
  }
  for (const element of wordElements(side)) {
    element.classList.toggle("active", Number(element.dataset.word) === number);
  }
  return weights;
}

function tell(side, number, weights, at) {
  const { words, attends } = shown;
  const { text, confidence } = words[side][number];
  const listed = strongest(weights, MENTIONED)
    .filter(({ weight }, place) => (attends && place === 0) || weight >= LIT)
    .map(({ index, weight }) =>
      `${words[other[side]][index].text}${attends ? ` ${weight.toFixed(2)}` : ""}`);
  const relation = attends ? { target: "looked at", source: "was looked at by" }
                           : { target: "translates", source: "is translated by" };
  const tooltip = $("tooltip");
  tooltip.textContent = [
    listed.length ? `${text} ${relation[side]}` : text,
    ...listed,
    ...(confidence === undefined || attends ? [] : [`confidence ${confidence.toFixed(2)}`]),
  ].join("\n");
  tooltip.hidden = false;
  const box = at.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = tooltip;
  const below = box.bottom + 8 + height < innerHeight;
  tooltip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
  tooltip.style.top = `${below ? box.bottom + 8 : Math.max(8, box.top - 8 - height)}px`;
}

// ---- pointing ----

// Points at a word, or at nothing if the element is none; the viewer lights its pieces.
function point(element) {
  const found = shown && element?.closest?.(".word");
  pointedWord = found
    ? { side: found.dataset.side, number: Number(found.dataset.word), element: found }
    : null;
  viewer.point(pointedWord && shown.attends ? spotOf(pointedWord) : null);
  relight();
}

function spotOf({ side, number }) {
  const { first, last } = shown.words[side][number];
  const count = last - first + 1;
  return side === "target" ? { row: first, column: null, count }
                           : { row: null, column: first, count };
}

function moveFocus(event) {
  const word = event.target.closest?.(".word");
  if (!word) return;
  const all = [...word.parentElement.querySelectorAll(".word")];
  const here = all.indexOf(word);
  const forward = getComputedStyle(word).direction === "rtl" ? -1 : 1;
  const next = { ArrowRight: here + forward, ArrowLeft: here - forward, Home: 0,
    End: all.length - 1 }[event.key];
  if (next === undefined || !all[next]) return;
  event.preventDefault();
  word.tabIndex = -1;
  all[next].tabIndex = 0;
  all[next].focus();
}

document.addEventListener("pointerover", (event) => {
  if (event.target.closest(".word")) point(event.target);
});
document.addEventListener("pointerout", (event) => {
  // A finger that is lifted leaves, too: what it touched has the focus and stays lit.
  if (event.target.closest(".word")) point(document.activeElement);
});
document.addEventListener("focusin", (event) => point(event.target));
document.addEventListener("focusout", () => point(null));
document.addEventListener("scroll", () => { $("tooltip").hidden = true; }, true);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") point(null);
  moveFocus(event);
});
$("source").addEventListener("input", () => {
  clearTimeout(request.timer);
  request.timer = setTimeout(translate, DEBOUNCE);
});
$("attention").addEventListener("toggle", translate);
$("glossary").addEventListener("change", translate);
$("again").addEventListener("click", () => {
  introduced = introduce();
  translate();
});
let introduced = introduce(); // a promise of what `/info` says
acceptFiles(() => introduced);
if ($("source").value) translate();
