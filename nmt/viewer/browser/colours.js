// The colour scale of the PNG heatmaps (magma) and its painting, and the colours of heads.

// Every sixteenth colour of the scale. Interpolating between them is exact to 1% of brightness.
const MAGMA = [
  "#000004", "#0a0822", "#1d1147", "#36106b", "#51127c", "#6a1c81", "#832681", "#9c2e7f", "#b73779",
  "#d0416f", "#e75263", "#f56b5c", "#fc8961", "#fea772", "#fec488", "#fde2a3", "#fcfdbf",
];

// Colours of heads, in turn, on light and dark pages: each has a contrast of 3:1 with the page, and
// they stay apart with each kind of colour blindness (tests/viewer/test_viewer_colours.py).
const HEADS = {
  light: ["#308af3", "#e4651a", "#78298e", "#ab0e0c", "#9b6e92", "#060357", "#4a0907", "#0409f5"],
  dark: ["#68a8fb", "#d72101", "#bdc918", "#694efc", "#e0808f", "#25eefe", "#f3fc92", "#a0508f"],
};

// The colour of a head as CSS. The ninth head has the colour of the first.
export function headColour(head, dark) {
  const colours = dark ? HEADS.dark : HEADS.light;
  return colours[head % colours.length];
}

// 256 colours for weights from 0 to 1, as pixels: alpha, blue, green and red, 8 bits each. Weight 0
// has the colour closest to the page: the light end on a light page, as in the PNGs, the dark end on
// a dark page.
export function palette(dark) {
  const stops = dark ? MAGMA : [...MAGMA].reverse();
  const channel = (stop, k) => parseInt(stops[stop].slice(1 + 2 * k, 3 + 2 * k), 16);
  return Uint32Array.from({ length: 256 }, (_, level) => {
    const place = (level / 255) * (stops.length - 1);
    const stop = Math.min(Math.floor(place), stops.length - 2);
    let pixel = 0xff;
    for (let k = 2; k >= 0; k--) {
      const from = channel(stop, k), to = channel(stop + 1, k);
      pixel = pixel * 256 + Math.round(from + (to - from) * (place - stop));
    }
    return pixel;
  });
}

// The index of a weight's colour; the weight `most` has the last one.
export const levelOf = (weight, most) => Math.min(255, Math.round((255 * weight) / most));

// A pixel of the palette as CSS.
export function cssColour(pixel) {
  const channels = [pixel & 0xff, (pixel >> 8) & 0xff, (pixel >> 16) & 0xff];
  return `#${channels.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

// The scale as a CSS background, from left to right.
export function scaleImage(dark) {
  return `linear-gradient(to right, ${(dark ? MAGMA : [...MAGMA].reverse()).join(", ")})`;
}

// Paints weights, one pixel each.
export function paint(canvas, weights, rows, columns, colours, most) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer); // browsers run on little-endian machines
  for (let i = 0; i < weights.length; i++) pixels[i] = colours[levelOf(weights[i], most)];
  context.putImageData(image, 0, 0);
}
