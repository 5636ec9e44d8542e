// Attention records in the browser; nmt/inspection/records.py says what the bytes are.

const VERSION = 1;
const PREAMBLE = 16; // bytes

// float16 by its bits, from 0 to 1, which is all that weights are.
const HALVES = Float32Array.from({ length: 0x3c01 }, (_, bits) => {
  const exponent = bits >> 10, fraction = bits & 0x3ff;
  return exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
});

// A record's kinds of attention: {name, title, rows, columns, rowSide, columnSide, same, layers,
// heads, weights}. rows and columns are tokens; same says that they are the same ones.
export function parseRecord(buffer) {
  const bytes = new Uint8Array(buffer), view = new DataView(buffer), text = new TextDecoder();
  if (bytes.length < PREAMBLE || text.decode(bytes.subarray(0, 4)) !== "ATTN") {
    throw new Error("this is no attention record");
  }
  const version = view.getUint32(4, true);
  if (version !== VERSION) {
    throw new Error(`an attention record of version ${version}; this viewer reads ${VERSION}`);
  }
  const end = PREAMBLE + view.getUint32(12, true);
  const header = JSON.parse(text.decode(bytes.subarray(PREAMBLE, end)));
  let offset = end;
  const kinds = header.kinds.map(({ name, title, rows, columns, shape }) => {
    const weights = new Float32Array(shape.reduce((product, size) => product * size));
    for (let i = 0; i < weights.length; i++, offset += 2) {
      weights[i] = HALVES[view.getUint16(offset, true)];
    }
    const side = (axis) => (axis === "source" ? "source" : "target");
    return {
      name, title, weights, same: rows === columns,
      rows: header.tokens[rows], columns: header.tokens[columns],
      rowSide: side(rows), columnSide: side(columns),
      layers: shape[0], heads: shape[1],
    };
  });
  return { sentence: header.sentence, kinds };
}

// The mean of some heads of a layer: weights row after row. Layers and heads count from 0.
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
