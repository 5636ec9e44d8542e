// The displayed pictures as one SVG drawing that needs neither style sheet nor script.

import { cssColour, levelOf } from "./colours.js";
import { FAMILY, svg } from "./tokens.js";

const MARGIN = 16; // px
const LINE = 20;   // px of height of a text
const SMALL = 13;  // px of font size

// {text, width, height}: the drawing as text, and its size in px.
export function drawingOf({ host, panes, caption, chosen, drawing }) {
  const style = getComputedStyle(host), ink = style.color;
  const pictures = panes.filter(({ content }) => content).map((pane) => ({
    pane, ...(chosen.view === "grid" ? gridOf(pane, ink) : plotOf(pane, drawing, style)),
  }));
  const titled = pictures.length > 1, top = MARGIN + LINE * (titled ? 2 : 1);
  let left = MARGIN;
  const parts = pictures.flatMap(({ pane, element, width }) => {
    const title = `${pane.content.run} – ${pane.content.note}`;
    const heading = titled ? [writeText(left, MARGIN + 1.6 * LINE, title, ink)] : [];
    const placed = svg("g", { transform: `translate(${left} ${top})` }, element);
    left += Math.max(width, titled ? 0.6 * SMALL * title.length : 0) + MARGIN;
    return [...heading, placed];
  });
  const width = Math.ceil(Math.max(left, 0.55 * SMALL * caption.textContent.length + 2 * MARGIN));
  const height = Math.ceil(top + Math.max(...pictures.map((picture) => picture.height)) + MARGIN);
  const paper = style.getPropertyValue("--page") || style.backgroundColor;
  const root = svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, style: `font: ${SMALL}px ${FAMILY}` },
    svg("rect", { width, height, fill: paper }),
    writeText(MARGIN, MARGIN + 0.6 * LINE, caption.textContent, ink), ...parts,
  );
  return { text: new XMLSerializer().serializeToString(root), width, height };
}

const writeText = (x, y, text, fill) => svg("text", { x, y, fill }, text);

// A matrix or lines: cells or lines as paths, and a copy of the tokens.
function plotOf({ plot }, { colours, most }, style) {
  const { layout, canvas, drawing } = plot;
  const shapes = layout.hasCells ? cellsOf(plot, colours, most) : linesOf(layout);
  const { left, top } = canvas.style;
  const place = `translate(${parseFloat(left)} ${parseFloat(top)})`;
  const tokens = drawing.cloneNode(true), width = Number(drawing.getAttribute("width"));
  inlineStyle(drawing, tokens);
  return {
    element: svg("g", { color: style.color }, svg("g", { transform: place }, ...shapes), tokens),
    width, height: Number(drawing.getAttribute("height")),
  };
}

// A path per colour, on a background of the colour of weight 0.
function cellsOf({ kind: { rows, columns }, weights, layout: { cell } }, colours, most) {
  const levels = [];
  weights.forEach((weight, i) => {
    const level = levelOf(weight, most), column = i % columns.length;
    if (!level) return;
    const row = (i - column) / columns.length;
    (levels[level] ??= []).push(`M${column} ${row}h1v1h-1z`);
  });
  const size = { width: columns.length, height: rows.length, fill: cssColour(colours[0]) };
  const paths = levels.map((cells, level) =>
    svg("path", { d: cells.join(""), fill: cssColour(colours[level]) }));
  const crisp = { transform: `scale(${cell})`, "shape-rendering": "crispEdges" };
  return [svg("g", crisp, svg("rect", size), ...Object.values(paths))];
}

const linesOf = (layout) =>
  layout.paths().map((attributes) => svg("path", { fill: "none", ...attributes }));

// Thumbnails as pictures of one pixel per weight, with the names of layers and heads.
function gridOf({ grid: { host } }, ink) {
  const base = host.getBoundingClientRect();
  const element = svg("g", {});
  for (const name of host.querySelectorAll(".head")) {
    const box = name.getBoundingClientRect();
    element.append(writeText(box.left - base.left, box.bottom - base.top - 4, name.textContent, ink));
  }
  for (const canvas of host.querySelectorAll("canvas")) {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    element.append(svg("image", {
      x: left - base.left, y: top - base.top, width, height, preserveAspectRatio: "none",
      href: canvas.toDataURL(), style: "image-rendering: pixelated",
    }));
  }
  return { element, width: host.scrollWidth, height: base.height };
}

const STYLED = ["fill", "fill-opacity", "stroke", "stroke-width", "visibility"];

// Writes the style of each element of a drawing into its copy.
function inlineStyle(drawing, copy) {
  const originals = drawing.querySelectorAll("*");
  copy.setAttribute("style", drawing.getAttribute("style") ?? "");
  copy.setAttribute("overflow", "visible");
  copy.querySelectorAll("*").forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    element.removeAttribute("style");
    element.removeAttribute("class");
    for (const name of STYLED) element.setAttribute(name, style.getPropertyValue(name));
  });
}
