// Tokens as texts in a picture.

export const FAMILY = "system-ui, sans-serif";
export const LETTERS = 13; // px of font size, if there is room
const LONGEST = 12;  // times the font size: longer tokens are cut, except in the tooltip
const VISIBLE = { "\n": "⏎", "\r": "⏎", "\t": "⇥" };

const ruler = document.createElement("canvas").getContext("2d");

// The width of a text in px of font size.
function textWidth(text) {
  ruler.font = `100px ${FAMILY}`;
  return ruler.measureText(text).width / 100;
}

// The token with signs for invisible characters.
export function visible(token) {
  return token.replace(/[\n\r\t]/g, (sign) => VISIBLE[sign]);
}

const measured = new Map(); // token: {text, width}, see measure

// The displayed text of a token, cut at its end if it is too long, and its width in px of font size.
function measure(token) {
  if (!measured.has(token)) {
    const characters = [...visible(token)];
    let text = characters.join("");
    while (textWidth(text) > LONGEST) {
      characters.pop();
      text = characters.join("") + "…";
    }
    measured.set(token, { text, width: textWidth(text) });
  }
  return measured.get(token);
}

// The width of a displayed token, in px of font size.
export const tokenWidth = (token) => measure(token).width;

export function svg(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// A token whose text begins (or, with end, ends) at x, y, rotated around that point. Its mark for the
// beginning of a word is pale. letters: font size in px; room: largest height.
export function drawToken(token, { side, index, letters, x, y, end = false, angle = 0, room = 99 }) {
  const { text, width } = measure(token);
  const [mark, rest] = text.startsWith("▁") ? ["▁", text.slice(1)] : ["", text];
  const long = letters * width + 8, high = Math.min(1.4 * letters, room);
  return svg(
    "g",
    {
      class: "token", "data-side": side, "data-index": index,
      transform: `translate(${x} ${y}) rotate(${angle})`,
    },
    svg("rect", { x: end ? -long + 4 : -4, y: -high / 2, width: long, height: high, rx: 4 }),
    svg("text", { "text-anchor": end ? "end" : "start", dy: "0.35em" },
        svg("tspan", { class: "mark" }, mark), rest),
  );
}
