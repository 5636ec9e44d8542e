// Pieces of words joined to words, and attention between words.

import { once } from "./record.js";

const START_OR_END = /^(<\/?s>|\[(BOS|EOS)\])$/;
// Bytes of a character that is no piece.
const BYTES = /(?:<0x[0-9A-F]{2}>)+/g;
// Scripts without spaces between words: each piece is a word.
const SCRIPTS = "Han Hiragana Katakana Thai Lao Khmer Myanmar".split(" ");
const UNSPACED = new RegExp(`[${SCRIPTS.map((name) => `\\p{Script=${name}}`).join("")}]`, "u");

// Joins pieces to words: [{text, first, last, ends}]. first and last are indices of pieces; ends is
// true for the marks of start and end, which are words of their own.
export function joinPieces(pieces) {
  const words = [];
  // WordPiece marks what does not begin a word; to SentencePiece, such a piece is text.
  const suffix = pieces[0] === "[BOS]" || pieces.at(-1) === "[EOS]" ? "##" : null;
  pieces.forEach((piece, index) => {
    const ends = START_OR_END.test(piece), before = [...(words.at(-1)?.text ?? "")].at(-1);
    const divides = before && (UNSPACED.test(before) || UNSPACED.test([...piece][0]));
    if (ends || piece.startsWith("▁") || divides || !words.length || words.at(-1).ends) {
      words.push({ text: "", first: index, last: index, ends });
    }
    const word = words.at(-1);
    const bare = suffix && piece.startsWith(suffix) ? piece.slice(suffix.length) : piece;
    word.text += bare.replaceAll("▁", "");
    word.last = index;
  });
  for (const word of words) word.text = word.text.replaceAll(BYTES, decode);
  return words;
}

function decode(bytes) {
  const values = bytes.match(/[0-9A-F]{2}(?=>)/g).map((hex) => parseInt(hex, 16));
  return new TextDecoder().decode(Uint8Array.from(values));
}

// The text of pieces, without marks of start and end.
export function textOf(pieces) {
  const real = joinPieces(pieces).filter(({ ends }) => !ends);
  return real.map(({ text, first }) => (pieces[first].startsWith("▁") ? " " : "") + text).join("")
    .trim();
}

// Attention between words, [target][source]: how much of the attention of each target word goes to
// each source word. Weights of source pieces are summed, those of target pieces averaged. weights has
// a row per target piece, one after the other; columns is the number of source pieces.
export function wordWeights(words, weights, columns) {
  return words.target.map((to) =>
    words.source.map((from) => {
      let sum = 0;
      for (let t = to.first; t <= to.last; t++) {
        for (let s = from.first; s <= from.last; s++) sum += weights[t * columns + s];
      }
      return sum / (to.last - to.first + 1);
    }));
}

const kinds = new WeakMap(); // kinds of attention between pieces: between words

// A kind of attention (see record.js) between words. rowWords and columnWords are those words, see
// joinPieces.
export function inWords(kind) {
  if (!kinds.has(kind)) {
    const target = joinPieces(kind.rows), source = joinPieces(kind.columns);
    const { columns, heads } = kind;
    const read = (number) => {
      const layer = Math.floor(number / heads), weights = kind.weights(layer, number % heads);
      return Float32Array.from(wordWeights({ source, target }, weights, columns.length).flat());
    };
    kinds.set(kind, {
      ...kind, rows: target.map(({ text }) => text), columns: source.map(({ text }) => text),
      rowWords: target, columnWords: source, weights: once(heads, read),
    });
  }
  return kinds.get(kind);
}
