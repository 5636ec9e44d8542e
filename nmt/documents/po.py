"""gettext catalogues (.po, .pot): messages without a translation, or with a fuzzy one, get theirs.

Only the lines of those messages change, and the Language header; every other byte stays.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polib

from nmt.data.bilingual import CHARSET, RARE_ENDS_TO_SPACES, decode_po, parse_po
from nmt.data.languages import covers_tag
from nmt.documents.formats import Document, DocumentOptions
from nmt.errors import UserError
from nmt.text.marked import MarkedText, has_letters, is_message_format
from nmt.text.scripts import UNKNOWN_LANGUAGE
from nmt.text.spans import find_spans, keep_spans, make_kept_test, restore_spans

_NO_CHARSET = "charset=CHARSET"  # of a template, which gettext cannot compile with other than ASCII
_NO_RULE = "nplurals=INTEGER; plural=EXPRESSION;"  # of a template, which gettext does not compile
_ONE_FORM = "nplurals=1; plural=0;"
_SLAVIC = (
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : "
    "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);"
)
_RULES = {  # of plurals, by BCP 47 tag; those of other languages are as in English
    **dict.fromkeys("id ja ko lo ms th vi zh".split(), _ONE_FORM),
    **dict.fromkeys(("fr", "pt-BR"), "nplurals=2; plural=(n > 1);"),
    **dict.fromkeys("be bs hr ru sr uk".split(), _SLAVIC),
    **dict.fromkeys(("cs", "sk"), "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);"),
    "pl": _SLAVIC.replace("n%10==1 && n%100!=11", "n==1"),
    "ar": "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : "
    "n%100>=11 ? 4 : 5);",
    "lt": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : "
    "n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);",
    "lv": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);",
    "sl": "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);",
    "ro": "nplurals=3; plural=(n==1 ? 0 : n==0 || (n%100>0 && n%100<20) ? 1 : 2);",
}
_TWO_FORMS = "nplurals=2; plural=(n != 1);"
_FORMS = re.compile(r"nplurals\s*=\s*(\d+)")
_DEFAULT_FORMS = 2
_MAX_FORMS = 9  # polib reads one digit; Arabic has six
_HEADER = re.compile(r'^msgid ""\r?\nmsgstr (?:"[^\n]*(?:\n|\Z))+', re.MULTILINE)
_LANGUAGE = re.compile(r'(["n]Language:)[^"\\\n]*')
_TRANSLATION = re.compile(r"\s*(?:#~\s*)?msgstr\b")
_CONTINUED = re.compile(r'\s*(?:#~\s*)?"')
# As GTK and Qt write the letter of an entry of a menu: "_Abrir", "&Abrir".
_MNEMONIC = re.compile(r"(?<![^\W_])[&_](?=[^\W_])(?!\w+;)")


class _Message(NamedTuple):
    """A message to translate."""

    begin: int  # its first line
    texts: tuple[str, ...]  # of each segment: singular and plural, or the only one
    kept: dict[int, str]  # forms that have a translation
    forms: int  # 0: it has no plural
    is_fuzzy: bool


class PoDocument(Document):
    """The messages of a catalogue that need a translation.

    A translation that equals its source is left out: gettext shows the source then.

    Args:
        data: a catalogue.
        options: the language to write into the header.

    Raises:
        UserError: it is damaged, or not in the encoding that its header names.
    """

    def __init__(self, data: bytes, options: DocumentOptions) -> None:
        text, self._encoding = decode_po(data)
        self._lines = io.StringIO(text, newline="").readlines()
        self._newline = "\r\n" if self._lines and self._lines[0].endswith("\r\n") else "\n"
        self._language = options.target_language
        self._rule = _find_rule(self._language)
        self._messages = list(self._find_messages(parse_po(text)))
        texts = [text for message in self._messages for text in message.texts]
        self.segments: Sequence[MarkedText] = [
            MarkedText(text.replace(_find_mnemonic(text), "")) for text in texts
        ]

    def _find_messages(self, catalogue: polib.POFile) -> Iterator[_Message]:
        rule = catalogue.metadata.get("Plural-Forms", "")
        match = _FORMS.search(rule.replace(_NO_RULE, self._rule))
        forms = int(match[1]) if match and len(match[1]) < 3 else _DEFAULT_FORMS
        if not 1 <= forms <= _MAX_FORMS:
            raise UserError(f"Plural-Forms has nplurals={forms}: write 1 to {_MAX_FORMS}")
        for entry in catalogue:
            begin = max(entry.linenum - 2, 0)  # from 1, and `parse_po` adds a line
            if entry.obsolete:
                continue
            has_plural = bool(entry.msgid_plural)
            filled = entry.msgstr_plural if has_plural else {0: entry.msgstr}
            kept = {} if entry.fuzzy else {form: text for form, text in filled.items() if text}
            if len(kept) >= (forms if has_plural else 1):
                continue
            if not has_plural:
                texts = [entry.msgid]
            elif forms == 1:
                texts = [entry.msgid_plural]
            else:
                texts = [entry.msgid, entry.msgid_plural]
            if not has_letters("".join(texts)):
                continue
            if is_message_format(entry.msgid):
                self.skipped += 1
            else:
                count = forms if has_plural else 0
                yield _Message(begin, tuple(texts), kept, count, entry.fuzzy)

    def fill(self, translations: Sequence[MarkedText]) -> bytes:
        """Return the catalogue with translations, flagged as fuzzy: see `Document.fill`."""
        lines = list(self._lines)
        filled = iter(zip(self.segments, translations, strict=True))
        for message in self._messages:
            pairs = [next(filled) for _ in message.texts]
            if any(segment != translation for segment, translation in pairs):
                self._replace(message, lines, [translation.text for _, translation in pairs])
        next(filled, None)  # `strict` finds a surplus only here
        text = "".join(lines)
        if lines != self._lines:
            text = text.replace(_NO_CHARSET, "charset=UTF-8", 1)
            text = text.replace(_NO_RULE, self._rule, 1)
        return self._encode(text)

    def _replace(self, message: _Message, lines: list[str], translations: list[str]) -> None:
        """Write one message; the number of items of ``lines`` stays the same."""
        at = message.begin
        is_flagged = message.is_fuzzy
        while not _TRANSLATION.match(lines[at]):
            line = lines[at].lstrip()
            if line.startswith("#,") and not is_flagged:
                lines[at] = f"#, fuzzy,{line[2:]}"
                is_flagged = True
            elif line.startswith("#|"):
                lines[at] = ""  # the source of the translation that is replaced
            elif line.startswith("msg") and not is_flagged:
                lines[at] = f"#, fuzzy{self._newline}{lines[at]}"
                is_flagged = True
            at += 1
        first = at
        while at < len(lines) and _is_translation(lines[at]):
            lines[at] = ""
            at += 1
        texts = [
            _copy_outer_line_breaks(_add_mnemonic(text, _find_mnemonic(source)), source)
            for text, source in zip(translations, message.texts, strict=True)
        ]
        if message.forms:
            forms = [
                message.kept.get(form, texts[min(form, len(texts) - 1)])
                for form in range(message.forms)
            ]
            written = [f"msgstr[{form}] {_quote(text)}" for form, text in enumerate(forms)]
        else:
            written = [f"msgstr {_quote(texts[0])}"]
        lines[first] = "".join(f"{text}\n" for text in written).replace("\n", self._newline)

    def _encode(self, text: str) -> bytes:
        if self._language != UNKNOWN_LANGUAGE:
            text = _HEADER.sub(lambda match: self._name_language(match[0]), text, count=1)
        try:
            return text.encode(self._encoding)
        except UnicodeError:  # a language with other characters
            return CHARSET.sub("UTF-8", text, count=1).encode()

    def _name_language(self, header: str) -> str:
        tag = self._language.replace("-", "_")
        header, count = _LANGUAGE.subn(rf"\g<1> {tag}", header, count=1)
        newline = self._newline
        return header if count else header.rstrip() + f'{newline}"Language: {tag}\\n"{newline}'


def _find_rule(language: str) -> str:
    """Return the rule of a language's plurals; that of English if it is unknown."""
    rules = (rule for tag, rule in _RULES.items() if covers_tag(tag, language))
    return next(rules, _TWO_FORMS)


def _is_translation(line: str) -> bool:
    """Whether a line is of the translation of a message, whose first line is known."""
    return bool(_TRANSLATION.match(line) or _CONTINUED.match(line))


def _find_mnemonic(text: str) -> str:
    """Return the sign that marks the letter of a text; empty if none is marked."""
    is_kept = make_kept_test(text)  # "$_GET" marks none
    signs = [match[0] for match in _MNEMONIC.finditer(text) if not is_kept(*match.span())]
    return signs[0] if len(signs) == 1 and text.count(signs[0]) == 1 else ""


def _add_mnemonic(text: str, sign: str) -> str:
    """Return a text with a sign before its first letter outside of kept spans, such as "%d"."""
    if not sign:
        return text
    kept = keep_spans(text, list(find_spans(text)))
    return restore_spans(re.sub(r"(?=[^\W\d_])", sign, kept.text, count=1), kept.values)[0]


def _copy_outer_line_breaks(text: str, source: str) -> str:
    """Return a text that begins and ends with line breaks where its source does."""
    core = source.strip("\n")
    begin = source.index(core)
    return source[:begin] + text.strip("\n") + source[begin + len(core) :]


def _quote(text: str) -> str:
    lines = polib.escape(text).translate(RARE_ENDS_TO_SPACES).replace(r"\n", "\\n\n").splitlines()
    return "\n".join(f'"{line}"' for line in (["", *lines] if len(lines) > 1 else lines or [""]))


extract = PoDocument
