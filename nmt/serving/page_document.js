// Files that are dropped on the page or chosen: the service translates them, and a link downloads
// what it gives back.

import { post } from "./page_requests.js";

const NAMED_SPANS = 10; // spans that are named
const TABLE_NAME = /\.(csv|tsv)$/i;
const ASK_COLUMNS = "Columns to translate: names in the header, or numbers from 1, with commas between";

// Yields the events of an answer: {name, content}.
export async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      // Not ".", which matches no U+2028 and U+2029.
      const [, name, content] = block.match(/^event: ([^\n]*)\ndata: ([^\n]*)$/);
      yield { name, content: JSON.parse(content) };
    }
  }
}

// Says what a translated document has lost.
function describeLosses({ lost_spans: lost, unaligned, untranslated, skipped, terms }) {
  const unused = terms.filter((term) => !term.is_used);
  const listed = lost.slice(0, NAMED_SPANS).join(", ");
  return [
    lost.length && `The model left out, and the service inserted: ${listed}`
      + `${lost.length > NAMED_SPANS ? ` and ${lost.length - NAMED_SPANS} more` : ""}.`,
    unaligned && `Texts whose markup was placed by position: ${unaligned}.`,
    untranslated && `Texts that stay as they were: ${untranslated}.`,
    skipped && `Choices such as {n, plural, …}, which stay as they were: ${skipped}.`,
    unused.length && `Terms that are not used: ${unused.length} of ${terms.length}.`,
  ].filter(Boolean).join(" ");
}

// The fields of the page for files, and the translation that is running.
class FileTranslation {
  // `introduced` returns a promise of what /info says.
  constructor(introduced) {
    this.introduced = introduced;
    this.running = null; // an AbortController
    this.url = "";       // of the last result
    [
      this.choose, this.input, this.progress, this.fileName, this.bar, this.count, this.cancel,
      this.outcome, this.glossary,
    ] = [
      "choose", "file", "progress", "file-name", "bar", "count", "cancel", "outcome", "glossary",
    ].map((id) => document.getElementById(id));
  }

  tell(message, isProblem = false) {
    this.outcome.textContent = message;
    this.outcome.classList.toggle("problem", isProblem);
  }

  advance({ done, total }) {
    this.bar.max = Math.max(total, 1);
    this.bar.value = done;
    this.count.textContent = `${done} of ${total} texts`;
  }

  // Offers a translated document as a download.
  offer({ name, content, ...report }) {
    const bytes = Uint8Array.from(atob(content), (sign) => sign.charCodeAt(0));
    URL.revokeObjectURL(this.url);
    // Of a type that no browser opens as a page of this service.
    this.url = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
    const link = document.createElement("a");
    Object.assign(link, { href: this.url, download: name, textContent: `Download ${name}` });
    this.tell("");
    this.outcome.append(link, ` (${report.segments} texts). ${describeLosses(report)}`);
  }

  async send(file) {
    const limit = (await this.introduced())?.limits.max_document;
    if (file.size > limit) {
      const most = Math.floor(limit / 1024).toLocaleString("en");
      throw new Error(`${file.name} is larger than the ${most} KiB allowed`);
    }
    const glossary = this.glossary.value;
    const columns = TABLE_NAME.test(file.name) && prompt(ASK_COLUMNS);
    if (columns === null) this.running.abort();
    const query = new URLSearchParams({
      name: file.name, ...(glossary && { glossary }), ...(columns && { columns }),
    });
    const { signal } = this.running;
    const headers = { Accept: "text/event-stream" };
    const response = await post(`documents?${query}`, { headers, body: file, signal });
    for await (const { name, content } of readEvents(response.body)) {
      if (name === "progress") this.advance(content);
      if (name === "error") throw new Error(content.error);
      if (name === "document") return this.offer(content);
    }
    throw new Error("the service stopped");
  }

  async translate(files) {
    if (!files.length) return;
    if (this.running || files.length > 1) {
      this.tell("One file at a time.", true);
      return;
    }
    const [file] = files;
    this.running = new AbortController();
    this.tell("");
    this.fileName.textContent = file.name;
    this.count.textContent = "";
    this.bar.removeAttribute("value");
    this.progress.hidden = false;
    try {
      await this.send(file);
    } catch (error) {
      const { aborted } = this.running.signal;
      this.tell(aborted ? "Cancelled." : `Not translated: ${error.message}`, !aborted);
    }
    const hadFocus = document.activeElement === this.cancel;
    this.running = null;
    this.progress.hidden = true;
    if (hadFocus) this.choose.focus();
  }

  // Takes files that are chosen.
  listen() {
    this.choose.addEventListener("click", () => this.input.click());
    this.input.addEventListener("change", () => {
      this.translate([...this.input.files]);
      this.input.value = ""; // the same file may be chosen again
    });
    this.cancel.addEventListener("click", () => this.running?.abort());
  }

  // Takes files that are dropped anywhere on the page.
  listenForDrops() {
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    const mark = (isOver) => document.body.classList.toggle("dropping", isOver);
    document.addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      mark(true);
    });
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) mark(false);
    });
    document.addEventListener("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      mark(false);
      this.translate([...event.dataTransfer.files]);
    });
  }
}

// Translates the files that a user gives. `introduced` returns a promise of what /info says.
export function acceptFiles(introduced) {
  const translation = new FileTranslation(introduced);
  translation.listen();
  translation.listenForDrops();
}
