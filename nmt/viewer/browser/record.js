// Attention records in the browser; nmt/viewer/records.py describes the format.

const VERSION = 1;
const PREAMBLE = 16; // bytes

// Values of float16 by their bits, from 0 to 1, the range of weights.
const HALVES = Float32Array.from({ length: 0x3c01 }, (_, bits) => {
  const exponent = bits >> 10, fraction = bits & 0x3ff;
  return exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
});

// A record is {sentence, kinds}. Each kind is {name, title, rows, columns, rowSide, columnSide, same,
// layers, heads, weights}. rows and columns are tokens, and same is true if both are the same tokens.
// weights is a flat array in the order layer, head, row, column.
function makeKind({ name, title, rows, columns }, tokens, [layers, heads], weights) {
  const side = (axis) => (axis.startsWith("source") ? "source" : "target");
  return {
    name, title, weights, layers, heads, same: rows === columns,
    rows: tokens[rows], columns: tokens[columns], rowSide: side(rows), columnSide: side(columns),
  };
}

// Parses the bytes of a record.
export function parseRecord(buffer) {
  const bytes = new Uint8Array(buffer), view = new DataView(buffer), text = new TextDecoder();
  if (bytes.length < PREAMBLE || text.decode(bytes.subarray(0, 4)) !== "ATTN") {
    throw new Error("not an attention record");
  }
  const version = view.getUint32(4, true);
  if (version !== VERSION) {
    throw new Error(`attention record version ${version} is unsupported: expected ${VERSION}`);
  }
  const end = PREAMBLE + view.getUint32(12, true);
  const header = JSON.parse(text.decode(bytes.subarray(PREAMBLE, end)));
  let offset = end;
  const kinds = header.kinds.map((kind) => {
    const weights = new Float32Array(kind.shape.reduce((product, size) => product * size));
    for (let i = 0; i < weights.length; i++, offset += 2) {
      weights[i] = HALVES[view.getUint16(offset, true)];
    }
    return makeKind(kind, header.tokens, kind.shape, weights);
  });
  return { sentence: header.sentence, kinds };
}

// A record of only cross-attention; weights are [layers][heads][target tokens][source tokens].
export function crossRecord(sentence, { source, target, weights }) {
  const kind = { name: "cross", title: "cross-attention", rows: "target", columns: "source" };
  const shape = [weights.length, weights[0].length];
  const flat = Float32Array.from(weights.flat(3));
  return { sentence, kinds: [makeKind(kind, { source, target }, shape, flat)] };
}

// The mean of some heads of a layer, row after row. Layers and heads count from 0.
export function headMean(kind, layer, heads) {
  const size = kind.rows.length * kind.columns.length;
  const mean = new Float32Array(size);
  for (const head of heads) {
    const begin = (layer * kind.heads + head) * size;
    for (let i = 0; i < size; i++) mean[i] += kind.weights[begin + i] / heads.length;
  }
  return mean;
}

// The few largest weights of a row or of a column: [{index, weight}], largest first.
export function strongest(weights, count) {
  return Array.from(weights, (weight, index) => ({ index, weight }))
    .sort((a, b) => b.weight - a.weight)
    .slice(0, count);
}
