// The attention viewer: choices, a slider over training, and the picture of what is chosen.
//
// A source answers what there is, each time with a promise:
//   runs()                       [{name, sentences: [{id, text}]}]
//   steps(run, sentence)         [{step, time}] in order; one of step null: of no training
//   record(run, sentence, step)  ArrayBuffer, see record.js
// and keeps the choices, as text: recall() and remember(text). `nothing` says why there is no run.

import { palette, scaleImage } from "./colours.js";
import { choices, fill, fillChoices, make, select } from "./forms.js";
import { Grid } from "./grid.js";
import { Plot, visible } from "./plot.js";
import { headMean, parseRecord, strongest } from "./record.js";

const FRAME = 700; // ms per step of the player
const LISTED = 5;  // weights in a tooltip
const VIEWS = { matrix: "matrix", lines: "lines", grid: "all heads" };

// Shows attention in an element; returns {refresh, redraw}: ask the source again, or only draw
// again (in other colours).
export function mount(host, source) {
  // What is chosen. step null: the last one; layer null: the last one; heads empty: all.
  const state = { run: "", sentence: "", step: null, kind: "cross", view: "matrix", layer: null,
                  heads: [], stretch: false };
  let runs = [];
  let series = null;    // {key, steps, records}: of the chosen sentence
  let shown = null;     // {record, kind} in the picture
  let hovered = null;   // a spot, see plot.js, under the pointer
  let turns = 0;        // number of the newest call of `show`; what older ones find is dropped
  let playing = null;   // the press of the button that started it

  // ---- the page ----

  const run = select("run", (value) => choose({ run: value }));
  const sentence = select("sentence", (value) => choose({ sentence: value }));
  sentence.dir = "auto";
  const kinds = choices("Attention");
  const views = choices("View");
  const layer = select("layer", (value) => choose({ layer: Number(value) }));
  const heads = choices("Heads");
  const stretch = make("input", { type: "checkbox", name: "stretch" });
  stretch.addEventListener("change", () => choose({ stretch: stretch.checked }));
  const play = make("button", { type: "button" });
  const slider = make("input", { type: "range", name: "step", min: 0, step: 1 });
  slider.addEventListener("input", () => {
    stop();
    choose({ step: stepAt(Number(slider.value)) });
  });
  play.addEventListener("click", () => (playing ? stop() : start()));
  const update = make("output");
  const player = make("div", { class: "player" }, play, make("label", {}, "Update", slider),
                      update);
  const message = make("p", { class: "message", role: "status" });
  const caption = make("p", { class: "caption" });
  const bar = make("span", { class: "bar", "aria-hidden": "true" },
                   make("span", {}, "0"), make("i"), make("span", { class: "most" }));
  const scale = make("div", { class: "scale" }, bar,
                     make("label", {}, stretch, "Scale to the largest weight"));
  const picture = make("div", {
    class: "plot", tabindex: 0, role: "application", "aria-roledescription": "attention picture",
  });
  const thumbnails = make("div", { class: "grid", role: "group", "aria-label": "Thumbnails" });
  const tooltip = make("div", { class: "tooltip", role: "tooltip", hidden: "" });
  const spoken = make("p", { class: "spoken", "aria-live": "polite" });
  const runLabel = make("label", {}, "Run", run);
  const layerLabel = make("label", {}, "Layer", layer);
  const scroller = make("div", { class: "scroller" }, picture, thumbnails);
  const stage = make("div", { class: "stage" }, scroller, tooltip);
  const controls = make(
    "div", { class: "controls" }, runLabel, make("label", {}, "Sentence", sentence), kinds, views,
    layerLabel, heads,
  );
  const body = make("div", { hidden: "" }, controls, player, caption, scale, stage, spoken);
  host.classList.add("attention-viewer");
  host.replaceChildren(message, body);
  const plot = new Plot(picture, (spot) => {
    hovered = spot;
    light();
  });
  const grid = new Grid(thumbnails, async (layerIndex, some) => {
    await choose({ view: "matrix", layer: layerIndex, heads: some });
    picture.focus({ focusVisible: false });
  });

  // ---- choosing ----

  function choose(change) {
    Object.assign(state, change);
    if ("run" in change || "sentence" in change || "kind" in change) plot.cursor = null;
    const text = new URLSearchParams();
    for (const [key, value] of Object.entries(state)) {
      if (value !== null && value !== false && String(value)) text.set(key, value);
    }
    source.remember(String(text));
    return show();
  }

  function recall() {
    const kept = new URLSearchParams(source.recall());
    for (const key of ["run", "sentence", "kind", "view"]) state[key] = kept.get(key) ?? state[key];
    for (const key of ["step", "layer"]) if (kept.has(key)) state[key] = Number(kept.get(key)) || 0;
    if (kept.get("heads")) state.heads = kept.get("heads").split(",").map(Number);
    if (!(state.view in VIEWS)) state.view = "matrix";
    state.stretch = kept.has("stretch");
  }

  // The step to remember for a place on the slider; at its end new steps are followed.
  function stepAt(index) {
    return index < series.steps.length - 1 ? series.steps[index].step : null;
  }

  function indexOfStep() {
    const { steps } = series;
    if (state.step === null) return steps.length - 1;
    const later = steps.findIndex(({ step }) => step > state.step);
    return Math.max(0, (later < 0 ? steps.length : later) - 1);
  }

  // ---- playing ----

  async function start() {
    const mine = (playing = {});
    if (indexOfStep() === series.steps.length - 1) await choose({ step: stepAt(0) });
    play.textContent = "Pause";
    while (playing === mine && indexOfStep() < series.steps.length - 1) {
      await new Promise((done) => setTimeout(done, FRAME));
      if (playing === mine) await choose({ step: stepAt(indexOfStep() + 1) });
    }
    if (playing === mine) stop();
  }

  function stop() {
    playing = null;
    play.textContent = "Play";
  }

  // ---- reading ----

  async function refresh() {
    try {
      runs = await source.runs();
      if (series) series.stale = true;
    } catch (error) {
      message.textContent = error.message;
      return;
    }
    await show();
  }

  async function readSeries(runName, id) {
    const key = JSON.stringify([runName, id]);
    if (series?.key === key && !series.stale) return series;
    const records = series?.key === key ? series.records : new Map();
    return { key, records, steps: await source.steps(runName, id) };
  }

  function readRecord(runName, id, { step, time }) {
    const key = `${step} ${time}`; // a resumed run may write a step again
    if (!series.records.has(key)) {
      const reading = source.record(runName, id, step).then(parseRecord);
      reading.catch(() => series.records.delete(key));
      series.records.set(key, reading);
    }
    return series.records.get(key);
  }

  async function show() {
    const turn = ++turns;
    try {
      const found = runs.find(({ name }) => name === state.run) ?? runs[0];
      body.hidden = !found;
      message.textContent = found ? "" : source.nothing;
      if (!found) return;
      state.run = found.name; // and so it stays when another run is written later
      const { id } = found.sentences.find((one) => one.id === state.sentence) ?? found.sentences[0];
      const read = await readSeries(found.name, id);
      if (turn !== turns) return;
      series = read;
      const point = series.steps[indexOfStep()];
      const record = await readRecord(found.name, id, point);
      if (turn !== turns) return;
      runLabel.hidden = runs.length < 2 && !found.name;
      fill(run, runs.map(({ name }) => [name, name]), found.name);
      fill(sentence, found.sentences.map((one) => [one.id, one.text]), id);
      showStep(point);
      draw(record);
    } catch (error) {
      if (turn === turns) message.textContent = error.message;
    }
  }

  // ---- drawing ----

  function showStep({ step }) {
    const index = indexOfStep(), { length } = series.steps;
    player.hidden = step === null;
    slider.max = length - 1;
    slider.value = index;
    slider.disabled = play.disabled = length < 2;
    const text = `${(step ?? 0).toLocaleString("en")} (${index + 1} of ${length})`;
    update.textContent = text;
    slider.setAttribute("aria-valuetext", text);
  }

  function draw(record) {
    const kind = record.kinds.find(({ name }) => name === state.kind) ?? record.kinds[0];
    const layerIndex = Math.max(0, Math.min(state.layer ?? kind.layers, kind.layers - 1));
    const all = Array.from({ length: kind.heads }, (_, head) => head);
    const some = all.filter((head) => state.heads.includes(head));
    const chosen = some.length ? some : all;
    fillChoices(kinds, "radio", "kind", record.kinds.map(({ name, title }) => [name, title]),
                (value) => value === kind.name, (value) => choose({ kind: value }));
    fillChoices(views, "radio", "view", Object.entries(VIEWS), (value) => value === state.view,
                (value) => choose({ view: value }));
    fill(layer, Array.from({ length: kind.layers }, (_, i) => [String(i), String(i + 1)]),
         String(layerIndex));
    fillChoices(heads, "checkbox", "heads",
                [["all", "mean of all"], ...all.map((head) => [String(head), String(head + 1)])],
                (value) => (value === "all" ? !some.length : some.includes(Number(value))),
                chooseHead);
    stretch.checked = state.stretch;

    const gridShown = state.view === "grid";
    layerLabel.hidden = heads.hidden = picture.hidden = gridShown;
    thumbnails.hidden = !gridShown;
    const weights = gridShown ? kind.weights : headMean(kind, layerIndex, chosen);
    const most = state.stretch ? weights.reduce((a, b) => Math.max(a, b), 0) : 1;
    const dark = isDark();
    const colours = palette(dark);
    bar.hidden = state.view === "lines";
    bar.querySelector("i").style.backgroundImage = scaleImage(dark);
    bar.querySelector(".most").textContent = most === 1 ? "1" : most.toFixed(3);
    const where = gridShown ? "" : `, layer ${layerIndex + 1}, ${naming(chosen, all)}`;
    caption.textContent = `${kind.title}${where}. ${axes(kind)}`;
    shown = { record, kind };
    if (gridShown) grid.draw({ kind, colours, most });
    else plot.draw({ view: state.view, kind, weights, colours, most });
    const help = "Arrow keys move from token to token.";
    picture.setAttribute("aria-label", `${caption.textContent} ${help}`);
    light();
  }

  function naming(chosen, all) {
    const numbers = chosen.map((head) => head + 1).join(", ");
    if (chosen.length === 1) return `head ${numbers}`;
    if (chosen.length === all.length) return `mean of all ${all.length} heads`;
    return `mean of heads ${numbers}`;
  }

  function axes({ rowSide, columnSide }) {
    if (state.view === "lines") {
      return `Left: ${rowSide} tokens, which attend; right: ${columnSide} tokens, attended to.`;
    }
    return `Each row is a ${rowSide} token; its weights over the ${columnSide} tokens sum to 1.`;
  }

  function chooseHead(value, checked) {
    const others = state.heads.filter((head) => head !== Number(value));
    if (value === "all") choose({ heads: [] });
    else choose({ heads: checked ? [...others, Number(value)] : others });
  }

  function isDark() {
    const [red] = getComputedStyle(host).color.match(/[\d.]+/g);
    return Number(red) > 127; // light ink
  }

  // ---- lighting ----

  function light() {
    if (state.view === "grid" || !shown) {
      tooltip.hidden = true;
      return;
    }
    let spot = hovered ?? plot.cursor;
    // Between lines a cell of the matrix is its row.
    if (spot && state.view === "lines" && spot.row !== null) spot = { row: spot.row, column: null };
    plot.light(spot);
    tooltip.hidden = !plot.lit;
    const { tokens, weight, lists } = plot.lit ? describe(plot.lit) : { tokens: [], lists: [] };
    // Each token by itself, so that one from right to left does not turn the line.
    const title = tokens.flatMap((token, i) => [i ? " → " : "", make("bdi", {}, visible(token))]);
    tooltip.replaceChildren(
      make("b", {}, ...title, weight ? `  ${weight}` : ""),
      ...lists.flatMap(({ name, items }) => [
        make("p", {}, name),
        ...items.map(([token, text]) =>
          make("div", {}, make("bdi", {}, visible(token)), make("span", {}, text))),
      ]),
    );
    if (plot.lit) placeTooltip(plot.lit);
    const said = lists.map(({ name, items }) =>
      `${name} ${items.map((item) => item.join(" ")).join(", ")}`);
    spoken.textContent = [[...tokens, weight ?? ""].join(" "), ...said].join(". ");
  }

  function describe({ row, column }) {
    const { kind } = shown;
    if (row !== null && column !== null) {
      const tokens = [kind.rows[row], kind.columns[column]];
      return { tokens, weight: plot.weight(row, column).toFixed(3), lists: [] };
    }
    const items = (weights, tokens) =>
      strongest(weights, LISTED)
        .map(({ index, weight }) => [tokens[index], weight.toFixed(3)])
        .filter(([, weight], place) => !place || weight !== "0.000");
    const from = row ?? (kind.same ? column : null), to = column ?? (kind.same ? row : null);
    const lists = [];
    if (from !== null) {
      lists.push({ name: "attends to", items: items(plot.rowWeights(from), kind.columns) });
    }
    if (to !== null) {
      lists.push({ name: "is attended to by", items: items(plot.columnWeights(to), kind.rows) });
    }
    if (row === null) lists.reverse();
    return { tokens: [row === null ? kind.columns[column] : kind.rows[row]], lists };
  }

  // Lists stand beside the picture, a cell's weight beside the cell; where there is no room, below.
  function placeTooltip({ row, column }) {
    const base = stage.getBoundingClientRect(), { width, height } = tooltip.getBoundingClientRect();
    const anchor = plot.anchor({ row, column });
    const cell = row !== null && column !== null;
    const beside = (cell ? anchor : plot.picture.getBoundingClientRect()).right + 12;
    const fits = beside + width < innerWidth;
    const left = fits ? beside : Math.min(anchor.left, innerWidth - width - 8);
    const top = fits ? anchor.top : anchor.bottom + 8;
    tooltip.style.left = `${Math.max(4, left) - base.left}px`;
    tooltip.style.top = `${Math.max(4, Math.min(top, innerHeight - height - 8)) - base.top}px`;
  }

  function redraw() {
    if (shown) draw(shown.record);
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("resize", redraw);
  stop();
  recall();
  refresh();
  return { refresh, redraw };
}
