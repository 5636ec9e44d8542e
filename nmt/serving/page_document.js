// Files that are dropped on the page or chosen: the service translates them, and a link downloads
// what it gives back.

const NAMED_SPANS = 10; // spans that are named

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
      const [, name, content] = block.match(/^event: (.*)\ndata: (.*)$/);
      yield { name, content: JSON.parse(content) };
    }
  }
}

// Says what a translated document has lost.
function describeLosses({ lost_spans: lost, unaligned, untranslated, terms }) {
  const unused = terms.filter((term) => !term.is_used);
  const listed = lost.slice(0, NAMED_SPANS).join(", ");
  return [
    lost.length && `The model left out, and the service inserted: ${listed}`
      + `${lost.length > NAMED_SPANS ? ` and ${lost.length - NAMED_SPANS} more` : ""}.`,
    unaligned && `Texts whose markup was placed by position: ${unaligned}.`,
    untranslated && `Texts that stay as they were: ${untranslated}.`,
    unused.length && `Terms that are not used: ${unused.length} of ${terms.length}.`,
  ].filter(Boolean).join(" ");
}

// Translates the files that a user gives. `introduced` returns a promise of what /info says.
export function acceptFiles(introduced) {
  const [choose, input, progress, fileName, bar, count, cancel, outcome] = [
    "choose", "file", "progress", "file-name", "bar", "count", "cancel", "outcome",
  ].map((id) => document.getElementById(id));
  let running = null; // an AbortController
  let url = "";       // of the last result

  function tell(message, isProblem = false) {
    outcome.textContent = message;
    outcome.classList.toggle("problem", isProblem);
  }

  function advance({ done, total }) {
    bar.max = Math.max(total, 1);
    bar.value = done;
    count.textContent = `${done} of ${total} texts`;
  }

  function offer({ name, content, ...report }) {
    const bytes = Uint8Array.from(atob(content), (sign) => sign.charCodeAt(0));
    URL.revokeObjectURL(url);
    // Of a type that no browser opens as a page of this service.
    url = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
    const link = document.createElement("a");
    Object.assign(link, { href: url, download: name, textContent: `Download ${name}` });
    tell("");
    outcome.append(link, ` (${report.segments} texts). ${describeLosses(report)}`);
  }

  async function send(file) {
    const limit = (await introduced())?.limits.max_document;
    if (file.size > limit) {
      const most = Math.floor(limit / 1024).toLocaleString("en");
      throw new Error(`${file.name} is larger than the ${most} KiB allowed`);
    }
    const glossary = document.getElementById("glossary").value;
    const query = new URLSearchParams({ name: file.name, ...(glossary && { glossary }) });
    const response = await fetch(`documents?${query}`, {
      method: "POST",
      headers: { Accept: "text/event-stream" },
      body: file,
      signal: running.signal,
    }).catch((error) => {
      throw running.signal.aborted ? error : new Error("the service does not answer");
    });
    if (!response.ok) throw new Error((await response.json()).error);
    for await (const { name, content } of readEvents(response.body)) {
      if (name === "progress") advance(content);
      if (name === "error") throw new Error(content.error);
      if (name === "document") return offer(content);
    }
    throw new Error("the service stopped");
  }

  async function translate(files) {
    if (!files.length) return;
    if (running || files.length > 1) {
      tell("One file at a time.", true);
      return;
    }
    const [file] = files;
    running = new AbortController();
    tell("");
    fileName.textContent = file.name;
    count.textContent = "";
    bar.removeAttribute("value");
    progress.hidden = false;
    choose.disabled = true;
    try {
      await send(file);
    } catch (error) {
      tell(running.signal.aborted ? "Cancelled." : `Not translated: ${error.message}`,
        !running.signal.aborted);
    }
    const hadFocus = document.activeElement === cancel;
    running = null;
    progress.hidden = true;
    choose.disabled = false;
    if (hadFocus) choose.focus();
  }

  choose.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    translate([...input.files]);
    input.value = ""; // the same file may be chosen again
  });
  cancel.addEventListener("click", () => running?.abort());
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
    translate([...event.dataTransfer.files]);
  });
}
