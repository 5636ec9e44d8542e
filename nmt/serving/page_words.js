// The words of a text and of its translation: {words: {source, target}, attends, weight(t, s)}. A word
// is {text, begin, end, confidence}, its place in code points. weight gives how much target word t is
// aligned to source word s. With attention, a word is also {first, last, ends}, the numbers of its
// pieces and whether it is EOS, and weight is added once weights are chosen.

import { joinPieces } from "../viewer/browser/words.js";

export const UNSURE = 0.3; // words of less confidence are underlined
export const isUnsure = ({ confidence }) => confidence < UNSURE;

// Joins pieces to words; a word is shown as it stands in the text where both count the same, in words
// or in characters.
function wordsOf(pieces, text) {
  const found = joinPieces(pieces);
  for (const word of found) if (word.ends) word.text = "end";
  const written = [...text.matchAll(/\S+/g)];
  const real = found.filter((word) => !word.ends);
  if (written.length === real.length) {
    real.forEach((word, i) => {
      word.text = written[i][0];
      word.begin = [...text.slice(0, written[i].index)].length;
      word.end = word.begin + [...word.text].length;
    });
  } else {
    locate(real, text);
  }
  return found;
}

// Places words by their characters, if those of the text are as many without white space.
function locate(words, text) {
  const points = [...text];
  const solid = points.flatMap((point, at) => (/\s/.test(point) ? [] : [at]));
  const lengths = words.map((word) => [...word.text].length);
  if (lengths.includes(0) || lengths.reduce((sum, count) => sum + count, 0) !== solid.length) return;
  let next = 0;
  words.forEach((word, i) => {
    word.begin = solid[next];
    next += lengths[i];
    word.end = solid[next - 1] + 1;
    word.text = points.slice(word.begin, word.end).join("");
  });
}

export const overlap = (one, other) => one.begin < other.end && other.begin < one.end;

// What is shown with attention.
export function attendedWords(text, { text: translated, attention, words }) {
  const target = wordsOf(attention.target, translated);
  for (const word of target) {
    const parts = words?.filter((part) => overlap(part, word)) ?? [];
    word.confidence = Math.min(1, ...parts.map(({ confidence }) => confidence));
  }
  return { words: { source: wordsOf(attention.source, text), target }, attends: true };
}

// What is shown without attention: words that are aligned, which are 1 or 0.
export function alignedWords(text, { text: translated, words }) {
  // The service counts code points, and JavaScript counts UTF-16 units.
  const spell = (content, spans) => {
    const points = [...content];
    return spans.map((span) => ({ ...span, text: points.slice(span.begin, span.end).join("") }));
  };
  const spans = words.flatMap(({ sources }) => sources.map(([begin, end]) => ({ begin, end })));
  const distinct = spans.sort((a, b) => a.begin - b.begin)
    .filter((span, i) => !i || span.begin >= spans[i - 1].end);
  const source = spell(text, distinct);
  const target = spell(translated, words);
  const weight = (t, s) => Number(target[t].sources.some(([begin, end]) =>
    overlap({ begin, end }, source[s])));
  return { words: { source, target }, weight };
}
