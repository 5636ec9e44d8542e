// The displayed weights as a table of comma-separated values, one weight per line (RFC 4180).

import { headMean } from "./record.js";

const COLUMNS = ["run", "step", "kind", "layer", "heads", "row", "row_token", "column",
                 "column_token", "weight"];

const SPECIAL = /[",\r\n]/; // needs quotes

function quote(value) {
  const text = String(value);
  return SPECIAL.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// Layers, heads and numbers of tokens count from 1.
export function csvOf({ panes, chosen, shown: { sides } }) {
  const lines = [COLUMNS];
  panes.forEach(({ content }, i) => {
    if (!content) return;
    const { kind, run } = content, step = sides[i].point.step ?? "";
    for (const { layer, heads } of mapsOf(content, chosen.view)) {
      const weights = headMean(kind, layer, heads);
      const names = heads.map((head) => head + 1).join(" ");
      kind.rows.forEach((row, r) => kind.columns.forEach((column, c) => {
        const weight = weights[r * kind.columns.length + c].toFixed(5);
        lines.push([run, step, kind.name, layer + 1, names, r + 1, row, c + 1, column, weight]);
      }));
    }
  });
  return lines.map((line) => `${line.map(quote).join(",")}\r\n`).join("");
}

// What a picture shows: [{layer, heads}], the mean of these heads each.
function mapsOf({ kind, layer, heads, ticked, all }, view) {
  if (view === "matrix" || (view === "lines" && !ticked.length)) return [{ layer, heads }];
  if (view === "lines") return ticked.map((head) => ({ layer, heads: [head] }));
  return Array.from({ length: kind.layers }, (_, i) =>
    all.map((head) => ({ layer: i, heads: [head] }))).flat();
}
