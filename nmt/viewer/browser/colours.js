// The colour scale of the PNG heatmaps (magma) and its painting, one pixel per weight.

// Every sixteenth colour of the scale. Interpolating between them is exact to 1% of brightness.
const MAGMA = [
  "#000004", "#0a0822", "#1d1147", "#36106b", "#51127c", "#6a1c81", "#832681", "#9c2e7f", "#b73779",
  "#d0416f", "#e75263", "#f56b5c", "#fc8961", "#fea772", "#fec488", "#fde2a3", "#fcfdbf",
];

// 256 colours for weights from 0 to 1, three bytes each. Weight 0 has the colour closest to the page:
// the light end on a light page, as in the PNGs, the dark end on a dark page.
export function palette(dark) {
  const stops = dark ? MAGMA : [...MAGMA].reverse();
  const channel = (stop, k) => parseInt(stops[stop].slice(1 + 2 * k, 3 + 2 * k), 16);
  const colours = new Uint8Array(3 * 256);
  for (let level = 0; level < 256; level++) {
    const place = (level / 255) * (stops.length - 1);
    const stop = Math.min(Math.floor(place), stops.length - 2);
    for (let k = 0; k < 3; k++) {
      const from = channel(stop, k), to = channel(stop + 1, k);
      colours[3 * level + k] = Math.round(from + (to - from) * (place - stop));
    }
  }
  return colours;
}

// The scale as a CSS background, from left to right.
export function scaleImage(dark) {
  return `linear-gradient(to right, ${(dark ? MAGMA : [...MAGMA].reverse()).join(", ")})`;
}

// Paints weights; the weight `most` has the last colour.
export function paint(canvas, weights, rows, columns, colours, most) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < weights.length; i++) {
    const level = Math.min(255, Math.round((255 * weights[i]) / most));
    image.data.set(colours.subarray(3 * level, 3 * level + 3), 4 * i);
    image.data[4 * i + 3] = 255; // opaque
  }
  context.putImageData(image, 0, 0);
}
