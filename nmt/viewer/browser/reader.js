// Reads from a source, each series of a sentence and each record once.

import { MAX_RUNS } from "./choices.js";

// Begins the ids of sentences that no run has logged: "split/NAME/SENTENCE". The source computes their
// attention.
export const COMPUTED = "split/";

const KEPT = 64; // records per series: those that were read last

export class Reader {
  constructor(source) {
    this.source = source;
    this.runs = [];
    this.series = new Map(); // by run and sentence, see open
  }

  // Requests the runs again; steps are requested again when they are needed.
  async refresh() {
    this.runs = await this.source.runs();
    const logged = new Set(this.runs.flatMap(({ name, sentences }) =>
      sentences.map(({ id }) => JSON.stringify([name, id]))));
    for (const [key, series] of this.series) {
      if (logged.has(key) || series.id.startsWith(COMPUTED)) series.isStale = true;
      else this.series.delete(key);
    }
  }

  // The chosen runs and sentence, or else the first ones: {runs, sentences, sentence}; null without
  // runs. runs: names; sentences: those of all these runs, each text once per run.
  find(names, id) {
    const named = names.map((name) => this.runs.find((run) => run.name === name)).filter(Boolean);
    const runs = named.length ? named.slice(0, MAX_RUNS) : this.runs.slice(0, 1);
    if (!runs.length) return null;
    const sentences = [...runs[0].sentences];
    for (const { sentences: others } of runs.slice(1)) {
      for (const other of others) {
        if (!sentences.some(({ text }) => text === other.text)) sentences.push(other);
      }
    }
    const text = this.textOf(id);
    if (id.startsWith(COMPUTED)) sentences.push({ id, text: id.slice(id.indexOf("/", COMPUTED.length) + 1) });
    const sentence = sentences.find((one) => one.id === id)
      ?? sentences.find((one) => one.text === text) ?? sentences[0];
    return { runs: runs.map(({ name }) => name), sentences, sentence };
  }

  textOf(id) {
    return this.runs.flatMap(({ sentences }) => sentences).find((one) => one.id === id)?.text;
  }

  // The updates of a sentence in a run: {steps, ...}; null if the run does not have it.
  async open(name, { id, text }) {
    const { sentences } = this.runs.find((run) => run.name === name);
    const own = id.startsWith(COMPUTED) ? { id }
      : sentences.find((one) => one.id === id) ?? sentences.find((one) => one.text === text);
    if (!own) return null;
    const key = JSON.stringify([name, own.id]), series = this.series.get(key);
    if (series && !series.isStale) return series;
    const steps = await this.source.steps(name, own.id);
    if (!steps.length) return null;
    const read = { run: name, id: own.id, steps, records: series?.records ?? new Map() };
    this.series.set(key, read);
    return read;
  }

  // The record of one of the steps of a series.
  record({ run, id, records }, { step, time }) {
    const key = `${step} ${time}`; // a resumed run may log a step again
    const reading = records.get(key) ?? this.source.record(run, id, step);
    reading.catch(() => records.delete(key));
    records.delete(key);
    records.set(key, reading); // the last one
    if (records.size > KEPT) records.delete(records.keys().next().value);
    return reading;
  }
}

// All steps of several series, in order.
export function allSteps(series) {
  const steps = new Map(series.flatMap((one) => one.steps).map((point) => [point.step, point]));
  return [...steps.values()].sort((a, b) => a.step - b.step);
}

// The step of a series that is nearest to a step, the earlier one of two.
export function nearest({ steps }, step) {
  const distance = (point) => Math.abs(point.step - step);
  return steps.reduce((best, point) => (distance(point) < distance(best) ? point : best));
}
