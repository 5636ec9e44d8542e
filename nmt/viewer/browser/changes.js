// The sentences of a split of which one of two runs is better, as a table.

import { make } from "./forms.js";

export const MORE = 50; // sentences that a press of the button adds

const inEnglish = (number) => number.toLocaleString("en");

// The elements of the table. answer: see `changes` of a source, in viewer.js; runs: the names of both;
// better: 0 or 1, the run that is better; row({sentence, reference, outputs, scores}): a row of the table;
// more(): asks for more sentences.
export function changesTable(answer, title, runs, better, { table, row, more }) {
  const { sentences, means, wins, steps, rows } = answer;
  const after = (i) => (steps[i] === null ? runs[i] : `${runs[i]} (update ${inEnglish(steps[i])})`);
  const summary = `${title}: of ${inEnglish(sentences)} sentences, ${after(0)} is better in `
    + `${inEnglish(wins[0])} and ${after(1)} in ${inEnglish(wins[1])}. Their mean chrF2++ is `
    + `${means.map((mean) => mean.toFixed(1)).join(" and ")}.`;
  if (!rows.length) return [make("p", {}, summary)];
  const body = rows.map(({ id, source, ...others }) => row({ sentence: { id, text: source }, ...others }));
  const button = make("button", { type: "button" }, "Show more");
  button.addEventListener("click", more);
  return [
    make("p", {}, summary), table("chrF2++", body), ...(rows.length < wins[better] ? [button] : []),
  ];
}
