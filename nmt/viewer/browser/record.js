// Attention records in the browser; nmt/viewer/records.py describes the format.

const VERSION = 1;
const PREAMBLE = 16; // bytes

// Values of float16 by their bits, from 0 to 1, the range of weights.
const HALVES = Float32Array.from({ length: 0x3c01 }, (_, bits) => {
  const exponent = bits >> 10, fraction = bits & 0x3ff;
  return exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
});

// A record is {sentence, reference, target, kinds}: a reference translation, "" if unknown, and the
// pieces of the translation. Each kind is {name, title, rows, columns, rowSide, columnSide, same,
// layers, heads, weights}. rows and columns are tokens, and same is true if both are the same tokens.
// weights(layer, head), which count from 0, returns the weights of a head, row after row: it reads
// them when they are first needed, with read(number of the head in the kind).
function makeKind({ name, title, rows, columns }, tokens, [layers, heads], read) {
  const side = (axis) => (axis.startsWith("source") ? "source" : "target");
  return {
    name, title, layers, heads, same: rows === columns,
    rows: tokens[rows], columns: tokens[columns], rowSide: side(rows), columnSide: side(columns),
    weights: once(heads, read),
  };
}

// Returns a function of layer and head that calls read(number of the head) once for each.
export function once(heads, read) {
  const known = [];
  return (layer, head) => (known[layer * heads + head] ??= read(layer * heads + head));
}

// Reads numbers in float16 at a byte. Browsers run on little-endian machines.
function readHalves(buffer, begin, count) {
  const halves = new Uint16Array(buffer.slice(begin, begin + 2 * count)); // aligned
  const values = new Float32Array(count);
  for (let i = 0; i < count; i++) values[i] = HALVES[halves[i]];
  return values;
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
    const begin = offset, [layers, heads, rows, columns] = kind.shape, size = rows * columns;
    offset += 2 * layers * heads * size;
    if (offset > bytes.length) throw new Error("the attention record is too short");
    return makeKind(kind, header.tokens, kind.shape,
                    (head) => readHalves(buffer, begin + 2 * head * size, size));
  });
  const { sentence, reference = "", tokens } = header;
  return { sentence, reference, target: tokens.target_out, kinds };
}

// A record of only cross-attention; weights are [layers][heads][target tokens][source tokens].
export function crossRecord(sentence, { source, target, weights }) {
  const kind = { name: "cross", title: "cross-attention", rows: "target", columns: "source" };
  const shape = [weights.length, weights[0].length], heads = weights.flat();
  const read = (head) => Float32Array.from(heads[head].flat());
  const kinds = [makeKind(kind, { source, target }, shape, read)];
  return { sentence, reference: "", target, kinds };
}

// The mean of some heads of a layer, row after row. Layers and heads count from 0.
export function headMean(kind, layer, heads) {
  if (heads.length === 1) return kind.weights(layer, heads[0]);
  const mean = new Float32Array(kind.rows.length * kind.columns.length), { length } = mean;
  const share = 1 / heads.length;
  for (const head of heads) {
    const weights = kind.weights(layer, head);
    for (let i = 0; i < length; i++) mean[i] += weights[i] * share;
  }
  return mean;
}

// The few largest weights of a row or of a column: [{index, weight}], largest first.
export function strongest(weights, count) {
  return Array.from(weights, (weight, index) => ({ index, weight }))
    .sort((a, b) => b.weight - a.weight)
    .slice(0, count);
}
