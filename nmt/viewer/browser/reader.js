// Reads from a source, each series of a sentence and each record once.

export class Reader {
  constructor(source) {
    this.source = source;
    this.runs = [];
    this.series = null; // the displayed series
  }

  // Requests the runs again; steps are requested again when they are needed.
  async refresh() {
    this.runs = await this.source.runs();
    if (this.series) this.series.stale = true;
  }

  // The chosen run and sentence, or else the first ones: {run, sentences, id}; null without runs.
  find(run, sentence) {
    const found = this.runs.find(({ name }) => name === run) ?? this.runs[0];
    if (!found) return null;
    const { name, sentences } = found;
    const { id } = sentences.find((one) => one.id === sentence) ?? sentences[0];
    return { run: name, sentences, id };
  }

  // The updates of a sentence: {key, run, id, steps, records}.
  async open(run, id) {
    const key = JSON.stringify([run, id]);
    const same = this.series?.key === key;
    if (same && !this.series.stale) return this.series;
    const records = same ? this.series.records : new Map();
    return { key, run, id, records, steps: await this.source.steps(run, id) };
  }

  // The record of one of the steps of a series.
  record({ run, id, records }, { step, time }) {
    const key = `${step} ${time}`; // a resumed run may log a step again
    if (!records.has(key)) {
      const reading = this.source.record(run, id, step);
      reading.catch(() => records.delete(key));
      records.set(key, reading);
    }
    return records.get(key);
  }
}
