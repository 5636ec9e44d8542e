// The page of the service: what is typed is translated, and words light those they are aligned to.
// Who opens the attention viewer below sees what they looked at, by its layer and heads.

import { make } from "../viewer/browser/forms.js";
import { crossRecord } from "../viewer/browser/record.js";
import { mount } from "../viewer/browser/viewer.js";
import { Alternatives } from "./page_alternatives.js";
import { mountCorrections } from "./page_corrections.js";
import { acceptFiles, readEvents } from "./page_document.js";
import { SourceField } from "./page_input.js";
import { WordLights } from "./page_lights.js";
import { describeError, post } from "./page_requests.js";
import { Sharing, readFragment } from "./page_sharing.js";
import { Announcer } from "./page_spoken.js";
import { Arrivals } from "./page_stream.js";
import { UNSURE, alignedWords, attendedWords, isUnsure } from "./page_words.js";

const $ = (id) => document.getElementById(id);
const lines = { source: $("source-words"), target: $("target-words") };
const request = {
  latest: 0,     // number of the newest one; answers to older ones are dropped
  running: null, // its AbortController
  attended: false, // whether attention has come once
  begun: false,   // whether the beginning of a translation is shown in place of the last one
  focused: null,  // number of the word that had the focus before that
  refused: "",     // why this service never gives attention
};

// The answer on show: {text, translation}; null without one.
let answered = null;
// How the translations of sentences begin, as the user has chosen: prefixes by sentence.
let prefixes = new Map();
let chosenByLink = false; // whether some of them come from the address

const lights = new WordLights(lines, $("tooltip"), () => viewer);
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
  drawn: (picture) => lights.weigh(picture),
  pointed: (spot) => {
    lights.spot = spot;
    lights.relight();
  },
});

const corrections = mountCorrections($);
const announcer = new Announcer($("spoken"));
const source = new SourceField($("source"), $("counter"), translate);
new Sharing($, () => ({
  ...answered,
  glossary: $("glossary").value,
  prefixes,
  translation: answered.translation.text,
  language: lines.target.lang || "und",
}));
const alternatives = new Alternatives($, {
  isChosen: (sentence) => prefixes.has(sentence),
  mark: (words) => lights.mark(words),
  choose: ({ sentence, prefix }) => {
    const changed = new Map(prefixes);
    if (prefix === null) changed.delete(sentence);
    else changed.set(sentence, `${prefix} `); // a space: the word is complete
    return begin(changed);
  },
});

// Translates with other beginnings of sentences; without success, the old ones stay.
async function begin(changed) {
  const before = prefixes;
  prefixes = changed;
  if (await translate()) return;
  prefixes = before;
  $("chosen").hidden = !prefixes.size;
}

function say(message, again = false) {
  $("message").textContent = message;
  $("again").hidden = !again;
}

// ---- asking ----

// Asks for a translation: {translation}, or {error, status}; status is 0 without an answer. Sentences
// are shown as they arrive, except with attention.
async function ask(text, attention) {
  const { signal } = request.running;
  const arrivals = attention ? null : new Arrivals((begun) => !signal.aborted && showBegun(begun));
  try {
    const response = await post("translate", {
      headers: {
        "Content-Type": "application/json", ...(arrivals && { Accept: "text/event-stream" }),
      },
      body: JSON.stringify({
        text, attention, quality: true, sentences: true, glossary: $("glossary").value || null,
        prefixes: Object.fromEntries(prefixes),
      }),
      signal,
    });
    let answer = null;
    if (arrivals) {
      for await (const { name, content } of readEvents(response.body)) {
        if (name === "sentence") arrivals.take(content);
        else answer = content;
      }
      if (answer.error) return { error: answer.error, status: 500 };
    } else {
      answer = await response.json();
    }
    return { translation: answer.translations[0][0] };
  } catch (error) {
    return describeError(error);
  } finally {
    arrivals?.stop();
  }
}

// Translates what is typed; returns false if that failed.
async function translate() {
  const text = $("source").value;
  const number = ++request.latest;
  const stale = () => number !== request.latest;
  request.running?.abort();
  announcer.pause();
  alternatives.close();
  if (!text.trim()) {
    show(text, null);
    say("");
    return true;
  }
  request.running = new AbortController();
  lines.target.setAttribute("aria-busy", "true");
  const attends = $("attention").open;
  let attended = null; // the answer with attention
  if (attends && request.attended) {
    attended = await ask(text, true);
    if (stale()) return true;
  }
  if (!attended?.translation) {
    // The first attention takes seconds, and any may fail: the translation comes by itself.
    const { translation, error, status } = await ask(text, false);
    if (stale()) return true;
    if (error) {
      keepWithError(error, status);
      return false;
    }
    show(text, translation);
    say("");
    if (!attends) return true;
    attended ??= await askForAttention(text);
    if (stale()) return true;
  }
  if (attended.translation) {
    request.attended = true;
    show(text, attended.translation);
    say("");
  } else {
    explain(attended.error);
  }
  return true;
}

// Says what went wrong. The translation on show stays, marked as that of another text.
function keepWithError(error, status) {
  if (request.begun) {
    const kept = new Map(prefixes), byLink = chosenByLink; // of the text that is not translated
    show(answered?.text ?? "", answered?.translation ?? null);
    [prefixes, chosenByLink] = [kept, byLink];
  }
  lines.target.removeAttribute("aria-busy");
  const isOld = answered !== null && answered.text !== $("source").value;
  $("stale").hidden = !isOld;
  lines.target.classList.toggle("stale", isOld);
  say(status ? `Not translated: ${error}` : "The service does not answer. Your text stays here.",
      status === 0 || status >= 500);
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
    source.allow(info.limits.max_characters);
    $("source").lang = lines.source.lang = info.source_language;
    lines.target.lang = info.target_language;
    const scores = Object.entries(info.scores).map(([name, { value, half_width: half }]) =>
      `${name} ${value.toFixed(1)}${half === null ? "" : ` ± ${half.toFixed(1)}`}`);
    const glossary = $("glossary").value;
    $("glossary").replaceChildren(make("option", { value: "" }, "none"),
      ...Object.entries(info.glossaries).map(([name, terms]) =>
        make("option", { value: name }, `${name} (${terms})`)));
    if (glossary in info.glossaries) $("glossary").value = glossary;
    $("glossaries").hidden = $("glossary").options.length === 1;
    $("file").accept = Object.values(info.formats).flat().join(",");
    alternatives.explains = info.attention; // the Keras model does both
    if (info.corrections) corrections.enable(info.target_language);
    $("run").textContent = [info.run, ...scores].join(" · ");
    return info;
  } catch {
    say("The service does not answer.", true);
    return null;
  }
}

// ---- showing ----

// Shows the sentences of a translation that have arrived; screen readers wait for all of it.
function showBegun(text) {
  alternatives.close(true); // of a word that is replaced
  request.begun = true;
  $("tools").hidden = true; // they are for the last translation
  $("confidence").replaceChildren();
  request.focused ??= lights.focused;
  lights.show(null, {});
  lines.source.hidden = true;
  setList(false);
  lines.target.classList.remove("stale");
  lines.target.textContent = text;
}

// Tells assistive technology whether the translation is a list of words.
function setList(isList) {
  lines.target.setAttribute("role", isList ? "listbox" : "group");
  if (isList) lines.target.setAttribute("aria-orientation", "horizontal");
  else lines.target.removeAttribute("aria-orientation");
}

function show(text, translation) {
  alternatives.close(true);
  request.begun = false;
  const attention = translation?.attention;
  const lost = document.activeElement === document.body ? request.focused : null;
  const focused = lights.focused ?? lost;
  request.focused = null;
  answered = translation && { text, translation };
  lines.target.classList.remove("stale");
  $("stale").hidden = true;
  $("done").textContent = "";
  lines.target.removeAttribute("aria-busy");
  if (translation) announcer.announce(translation);
  else announcer.clear();
  corrections.show(text, translation?.text);
  $("tools").hidden = !translation;
  $("attention").hidden = !translation;
  $("viewer").hidden = !attention;
  $("hint").textContent = "";
  $("lost").textContent = translation?.lost_spans
    ? `The model left out, and the service inserted: ${translation.lost_spans.join(", ")}` : "";
  showConfidence(translation);
  showTerms(translation?.terms ?? []);
  forgetOtherSentences(translation?.sentences ?? []);
  const shown = !translation ? null : attention ? attendedWords(text, translation)
    : translation.words ? alignedWords(text, translation) : null;
  lights.show(shown, { source: text, target: translation?.text });
  lines.source.hidden = !shown;
  setList(Boolean(shown));
  $("words-hint").hidden = !shown?.words.target.some(({ begin }) => begin !== undefined);
  if (!translation) return;
  if (!shown) lines.target.textContent = translation.text;
  else if (focused !== null) lights.focusNumber(focused);
  if (!attention) {
    if (translation.attention_missing) explain(translation.attention_missing);
    else $("hint").textContent = "Attention is being loaded …";
    return;
  }
  attentions.record = crossRecord(text, attention);
  attentions.count += 1;
  viewer.refresh();
}

// Forgets the beginnings of sentences that the text no longer has.
function forgetOtherSentences(sentences) {
  const known = new Set(sentences.map(({ source: sentence }) => sentence));
  for (const sentence of prefixes.keys()) if (!known.has(sentence)) prefixes.delete(sentence);
  chosenByLink &&= prefixes.size > 0;
  $("chosen").hidden = !prefixes.size;
  $("chosen-by").textContent = chosenByLink ? "chosen by whoever made the link" : "chosen by you";
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
  const count = words.filter(isUnsure).length;
  if (!count) return;
  const button = make("button", {
    type: "button", id: "next-unsure", title: `the next word with a confidence below ${UNSURE}`,
  }, make("span", { class: "unsure" }, count === 1 ? "1 unsure word" : `${count} unsure words`));
  button.addEventListener("click", () => lights.focusNextUnsure());
  $("confidence").append(" ", button);
}

// Opens the other words for a word of the translation.
function openAlternatives(element) {
  if (element.dataset.side !== "target" || !$("stale").hidden) return;
  const { text, translation } = answered;
  const { begin, text: word } = lights.shown.words.target[Number(element.dataset.word)];
  const sentence = translation.sentences.find((each) => each.begin <= begin && begin < each.end);
  if (!sentence) return;
  lights.hideTooltip();
  alternatives.open({
    text, word, sentence: sentence.source, glossary: $("glossary").value,
    prefix: [...translation.text].slice(sentence.begin, begin).join(""), language: lines.target.lang,
  }, element);
}

document.addEventListener("keydown", (event) => {
  if ((event.key === "Enter" || event.key === " ") && event.target.matches?.(".word")) {
    event.preventDefault();
    openAlternatives(event.target);
  }
});
document.addEventListener("click", ({ target }) => {
  const word = target.closest(".word");
  if (word) openAlternatives(word);
});
$("source").addEventListener("input", () => {
  // The address no longer shows what is on the page.
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
});
$("attention").addEventListener("toggle", translate);
$("glossary").addEventListener("change", translate);
$("undo-all").addEventListener("click", () => {
  $("target-words").querySelector('[tabindex="0"]')?.focus();
  begin(new Map());
});
$("again").addEventListener("click", () => {
  introduced = introduce();
  translate();
});

// Shows what the address holds.
async function openAddress() {
  const shared = readFragment(location.hash);
  if (!shared) return;
  source.fill(shared.text);
  prefixes = shared.prefixes;
  chosenByLink = prefixes.size > 0;
  const info = await introduced;
  const isMissing = shared.glossary && !(shared.glossary in (info?.glossaries ?? {}));
  $("glossary").value = isMissing ? "" : shared.glossary;
  if (await translate() && isMissing) {
    say(`This service has no glossary “${shared.glossary}”: translated without it.`);
  }
}

let introduced = introduce(); // a promise of what `/info` says
acceptFiles(() => introduced);
addEventListener("hashchange", openAddress);
source.count();
if (readFragment(location.hash)) openAddress();
else if ($("source").value) translate();
