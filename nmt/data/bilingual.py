"""Pairs of files that hold a text beside its translation: TMX, XLIFF and gettext's PO.

Translators work on such files in tools of their own. Only finished translations are pairs.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from nmt.data.encodings import decode
from nmt.data.languages import are_variants
from nmt.data.safe_xml import check_root, decode_xml, iterate_xml, local_name, parse_xml
from nmt.errors import UserError
from nmt.text.cleaning import LINE_ENDS
from nmt.text.scripts import UNKNOWN_LANGUAGE
from nmt.text.sentence_pairs import align_sentences

if TYPE_CHECKING:
    import polib

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_TEXT_ELEMENTS = {"g", "hi", "mrk", "pc"}  # other inline elements hold codes
LINE_BREAKS = {"lb", "pb", "xlf:lb", "xlf:pb"}
# States of a translation that somebody has still to make or to check: XLIFF 1.2, 2.0.
_UNFINISHED = re.compile(r"new|needs-.*|initial")

CHARSET = re.compile(r"(?<=charset=)[\w.:-]+", re.ASCII)
_HEAD = 8192  # bytes in which the header of a catalogue names its encoding
# polib needs a space after the signs of a comment.
_COMMENT = re.compile(r"^[ \t]*#(?:~\||[,:.|~])?(?=[^\s#,:.|~])", re.MULTILINE)
# Ends of lines for polib and Python, but not for gettext.
RARE_ENDS_TO_SPACES = dict.fromkeys(map(ord, set(LINE_ENDS) - set("\r\n")), " ")
_UNCLOSED = re.compile(r'\s*(?:msg\w+(?:\[\d+\])?\s*)?"(?:[^"\\]|\\.)*+$')
_MAX_LANGUAGES = 8  # that an error names
_MAX_LINES = 5_000  # of one message: polib's time grows with their square


class BilingualText(NamedTuple):
    """A text and its translation, as a file has them: either may be several sentences."""

    line: int  # of the file, from 1
    source: str
    target: str


def is_bilingual(suffix: str) -> bool:
    """Whether a suffix is that of TMX, XLIFF or PO."""
    return suffix in _READERS


def read_translations(
    file: io.BufferedReader, suffix: str, languages: tuple[str, str]
) -> Iterator[tuple[int, str, str]]:
    """Yield line, source and target of each finished translation, sentence by sentence.

    A text of several sentences stays whole if its translation has another number of them. Inline
    codes are removed. Empty translations, and those that equal their source, are left out.

    Args:
        file: at its beginning. TMX is read piece by piece, the others at once.
        suffix: of its name, in lower case, for which `is_bilingual`.
        languages: BCP 47 tags of source and target; variants match (en, en-GB), and "und" matches
            any. In TMX, "und" is a language of the first unit.

    Raises:
        UserError: the file is damaged or hostile, it is of other languages, or a library that reads
            it is missing.
        OSError: it cannot be read.
    """
    try:
        for text in _READERS[suffix](file, languages):
            if text.source.strip() != text.target.strip() and text.target.strip():
                for pair in align_sentences(text.source, text.target, languages):
                    yield text.line, *pair
    except ModuleNotFoundError as error:
        raise UserError(f"{suffix} needs {error.name}: pip install 'nmt[documents]'") from error


def _read_tmx(file: io.BufferedReader, languages: tuple[str, str]) -> Iterator[BilingualText]:
    is_empty = True
    others: set[str] = set()
    for unit in iterate_xml(file, "tmx", "tu"):
        variants = [
            (each.get(_LANG) or each.get("lang", ""), each) for each in unit.iterfind("{*}tuv")
        ]
        if UNKNOWN_LANGUAGE in languages and len(variants) > 1:
            languages = _identify_languages(languages, [tag for tag, _ in variants])
        sides: list[Any] = [None, None]
        for tag, variant in variants:
            matches = [side for side in (0, 1) if are_variants(tag, languages[side])]
            others |= {tag} if not matches and len(others) < _MAX_LANGUAGES else set()
            for side in matches:
                if sides[side] is None:
                    sides[side] = variant.find("{*}seg")
        source, target = sides
        if source is not None and target is not None:
            is_empty = False
            yield BilingualText(unit.sourceline, _read_text(source), _read_text(target))
    if is_empty and others:
        raise UserError(
            f"no unit has both {' and '.join(languages)}, others are {', '.join(sorted(others))}: "
            "set data.source_language and data.target_language"
        )


def _identify_languages(languages: tuple[str, str], tags: Sequence[str]) -> tuple[str, str]:
    """Return languages, in which the next other tag stands for each that is unknown."""
    known_languages = [each for each in languages if each != UNKNOWN_LANGUAGE]
    others = (tag for tag in tags if not any(are_variants(tag, each) for each in known_languages))
    source, target = (
        next(others, each) if each == UNKNOWN_LANGUAGE else each for each in languages
    )
    return source, target


def _read_xliff(file: io.BufferedReader, languages: tuple[str, str]) -> Iterator[BilingualText]:
    """Yield the finished translations of XLIFF 1.2 and 2.0."""
    root = parse_xml(decode_xml(file.read())[0])
    check_root(root, "xliff")
    _check_languages((root.get("srcLang"), root.get("trgLang")), languages)
    for part in root.iter("{*}file"):
        _check_languages((part.get("source-language"), part.get("target-language")), languages)
    for unit in root.iter("{*}trans-unit", "{*}segment"):
        source, target = unit.find("{*}source"), unit.find("{*}target")
        if source is None or target is None:
            continue
        state = target.get("state") or unit.get("state", "")
        if unit.get("approved") == "yes" or not _UNFINISHED.fullmatch(state):
            yield BilingualText(unit.sourceline, _read_text(source), _read_text(target))


def _read_po(file: io.BufferedReader, languages: tuple[str, str]) -> Iterator[BilingualText]:
    """Yield the translations of a catalogue that are neither fuzzy nor obsolete."""
    catalogue = parse_po(decode_po(file.read())[0])
    language = catalogue.metadata.get("Language", "").partition("@")[0]  # sr@latin
    _check_languages((None, language or None), languages)
    for entry in catalogue.translated_entries():
        forms = entry.msgstr_plural
        line = entry.linenum - 1  # see `parse_po`
        # The first form is of one thing, the last of many; some languages have only one form.
        if len(forms) != 1:
            first = forms[min(forms)] if forms else entry.msgstr
            yield BilingualText(line, entry.msgid, first)
        if forms:
            yield BilingualText(line, entry.msgid_plural, forms[max(forms)])


_Reader = Callable[[io.BufferedReader, tuple[str, str]], Iterator[BilingualText]]
_READERS: dict[str, _Reader] = {
    ".tmx": _read_tmx,
    ".xlf": _read_xliff,
    ".xliff": _read_xliff,
    ".po": _read_po,
}


def _read_text(element: Any) -> str:
    """Return the text of an element without inline codes; the parser limits the depth."""
    parts = [element.text or ""]
    for child in element:
        if local_name(child) in _TEXT_ELEMENTS:
            parts.append(_read_text(child))
        elif LINE_BREAKS & {child.get(name) for name in ("ctype", "type", "subType")}:
            parts.append("\n")
        parts.append(child.tail or "")
    return "".join(parts)


def _check_languages(named: tuple[str | None, str | None], languages: tuple[str, str]) -> None:
    for side, tag, language in zip(("source", "target"), named, languages, strict=True):
        if tag and language != UNKNOWN_LANGUAGE and not are_variants(tag, language):
            raise UserError(
                f"its {side} language is {tag}, and data.{side}_language={language}: choose a file "
                "in the run's languages"
            )


def decode_po(data: bytes) -> tuple[str, str]:
    """Return the text of a catalogue, and the encoding that gives its bytes back.

    Raises:
        UserError: it is not in the encoding that its header names.
    """
    match = CHARSET.search(data[:_HEAD].decode("latin-1"))
    encoding = match[0] if match and match[0] != "CHARSET" else "utf-8"
    return decode(data, encoding, remedy="correct the charset of its header")


def parse_po(text: str) -> polib.POFile:
    """Return what polib reads, with spaces for rare line ends; its line numbers are greater by one.

    Raises:
        UserError: the catalogue is damaged, or a message too long.
    """
    import polib

    begin, text = 0, text.translate(RARE_ENDS_TO_SPACES)
    for number, line in enumerate(text.splitlines()):
        if _UNCLOSED.match(line):
            raise UserError(f"a quote in line {number + 1} of the gettext catalogue is not closed")
        if line.lstrip("#~ \t").startswith("msg"):
            begin = number
        if number - begin > _MAX_LINES:
            raise UserError(
                f"a message has more than {_MAX_LINES} lines (line {begin + 1}): "
                "is the document a gettext catalogue?"
            )
    text = _COMMENT.sub(r"\g<0> ", text.removeprefix("\ufeff"))
    # polib would open a file whose name is the text. Without the comment, it can miss the end.
    text = f"\n{text}\n#\n"
    try:
        return polib.pofile(text, encoding="utf-8")
    except OSError as error:
        match = re.search(r"line (\d+)\)(.*)", str(error))
        place = f"in line {int(match[1]) - 1}{match[2]}" if match else ""
        raise UserError(
            f"the gettext catalogue has a syntax error {place}: correct it, msgfmt tells more"
        ) from error
