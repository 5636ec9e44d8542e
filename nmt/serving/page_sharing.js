// A translation that leaves the page: as a copy, as a file, or as an address that shows it again.
//
// The address holds the text after its "#": browsers do not send this part to any server.

const LONGEST_ADDRESS = 8000; // characters: mail and chat programs cut longer addresses

// Returns the fragment of an address: {text, glossary, prefixes}, see `readFragment`.
function writeFragment({ text, glossary, prefixes }) {
  const parts = new URLSearchParams({ text });
  if (glossary) parts.set("glossary", glossary);
  for (const pair of prefixes) parts.append("prefix", JSON.stringify(pair));
  return `#${parts}`;
}

// Reads {text, glossary, prefixes: a Map} from the untrusted fragment of an address; null without text.
export function readFragment(fragment) {
  const parts = new URLSearchParams(fragment.slice(1));
  if (!parts.has("text")) return null;
  const prefixes = new Map();
  for (const pair of parts.getAll("prefix")) {
    try {
      const [sentence, prefix] = JSON.parse(pair);
      prefixes.set(String(sentence), String(prefix));
    } catch { /* not one of this page's */ }
  }
  return { text: parts.get("text"), glossary: parts.get("glossary") ?? "", prefixes };
}

// Copies a text; browsers give the clipboard only to pages of https and of this machine.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    const focused = document.activeElement;
    field.value = text;
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return copied;
  }
}

export class Sharing {
  // content: returns {text, glossary, prefixes, translation, language} of the page.
  constructor($, content) {
    this.$ = $;
    this.content = content;
    this.url = ""; // of the last download
    $("copy").addEventListener("click", () => this.copy());
    $("download").addEventListener("click", () => this.download());
    $("share").addEventListener("click", () => this.share());
  }

  say(message) {
    this.$("done").textContent = message;
  }

  async copy() {
    const copied = await copyText(this.content().translation);
    this.say(copied ? "Copied." : "The browser does not allow copying: select the text.");
  }

  download() {
    const { translation, language } = this.content();
    URL.revokeObjectURL(this.url);
    this.url = URL.createObjectURL(new Blob([translation], { type: "text/plain;charset=utf-8" }));
    const name = `translation.${language}.txt`;
    Object.assign(document.createElement("a"), { href: this.url, download: name }).click();
    this.say(`Downloaded as ${name}.`);
  }

  async share() {
    const fragment = writeFragment(this.content());
    const address = `${location.href.split("#")[0]}${fragment}`;
    if (address.length > LONGEST_ADDRESS) {
      const [length, most] = [address.length, LONGEST_ADDRESS].map((n) => n.toLocaleString("en"));
      this.say(`The text is too long for a link: it would have ${length} of ${most} characters.`);
      return;
    }
    history.replaceState(null, "", fragment);
    const copied = await copyText(address);
    this.say(copied ? "Link copied. It contains the text." : "The link is in the address bar.");
  }
}
