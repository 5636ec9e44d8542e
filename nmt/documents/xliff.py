"""XLIFF 1.2 and 2.0, and TMX 1.4: texts that have no translation yet get one.

Where text is filled in, a start tag may get an attribute; all other bytes stay. A text whose
translation equals it is left without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lxml import etree

from nmt.data.bilingual import LINE_BREAKS
from nmt.data.languages import are_variants, covers_tag
from nmt.documents.formats import Document, DocumentOptions
from nmt.documents.xml import (
    Edit,
    Edits,
    Element,
    XmlText,
    find_indent,
    get_attribute,
    local_name,
    set_attribute,
)
from nmt.documents.xml_marks import Inline, Role, Segment, read_segment
from nmt.errors import UserError
from nmt.text.marked import MarkedText, has_letters, is_message_format
from nmt.text.scripts import UNKNOWN_LANGUAGE

_XML = "{http://www.w3.org/XML/1998/namespace}"
_ROLES = {
    "g": Role.OPEN,
    "pc": Role.OPEN,
    "hi": Role.OPEN,
    "mrk": Role.OPEN,
    "it": Role.EMPTY,
    "ut": Role.EMPTY,
    "x": Role.KEPT,
    "ph": Role.KEPT,
}
# Beginnings and ends; the first of these attributes says which belong together.
_PAIRS = {
    "bx": (Role.START, "x", ("rid", "id")),
    "ex": (Role.END, "x", ("rid", "id")),
    "bpt": (Role.START, "pt", ("rid", "i", "id")),
    "ept": (Role.END, "pt", ("rid", "i", "id")),
    "sc": (Role.START, "c", ("id",)),
    "ec": (Role.END, "c", ("startRef",)),
    "sm": (Role.START, "m", ("id",)),
    "em": (Role.END, "m", ("startRef",)),
}
_WRITTEN_BREAK = re.compile(r"\s*<br\b|LINE_BREAK\b")
_WRITTEN_PAIR = re.compile(r"(START|CLOSE)_(\w+?)(?:_\d+)?")  # identifiers that Angular gives
# Elements of a translation that is not there yet; any other one is content.
_FRAMES = {"g", "mrk", "pc"}
# States in which a target may be a copy of its source.
_UNTRANSLATED = {"new", "needs-translation", "needs-l10n", "initial"}


@dataclass
class _Unit:
    """A place for a translation.

    Attributes:
        source: the element with the text.
        parts: elements inside of it that are translated, or itself.
        segments: the texts of the parts.
        target: the element for the translation, still empty.
    """

    source: Element
    parts: list[Element]
    segments: list[Segment]
    target: Element | None = None

    def write(self, translations: Sequence[MarkedText], document: XmlText) -> str:
        """Return the translation as the content of an element."""
        edits = Edits(document.text)
        changes = list(zip(self.parts, self.segments, translations, strict=True))
        for part, segment, translation in reversed(changes):
            span = document.spans[part]
            edits.replace(span.content, span.content_end, segment.write(translation, edits))
        span = document.spans[self.source]
        return edits.read(span.content, span.content_end)


class _BilingualDocument(Document):
    """A document of pairs of texts; formats differ in where they are.

    Attributes:
        segments: texts without a translation.

    Args:
        document: the document.
        options: languages.
    """

    def __init__(self, document: XmlText, options: DocumentOptions) -> None:
        self._document = document
        self._options = options
        self._namespace: str | None = etree.QName(document.root).namespace
        self._inherited: dict[tuple[Element, str], str] = {}
        self._units = [unit for unit in self._find_units() if unit.segments]
        self.segments: Sequence[MarkedText] = [
            segment.marked for unit in self._units for segment in unit.segments
        ]

    def fill(self, translations: Sequence[MarkedText]) -> bytes:
        """Return the document with translations: see `Document.fill`."""
        edits: list[Edit] = []
        filled: list[_Unit] = []
        done = 0
        for unit in self._units:
            texts = translations[done : done + len(unit.segments)]
            done += len(unit.segments)
            if any(
                text != segment.marked.without_kept()
                for text, segment in zip(texts, unit.segments, strict=True)
            ):
                filled.append(unit)
                edits += self._fill_unit(unit, unit.write(texts, self._document))
        if filled and self._options.target_language != UNKNOWN_LANGUAGE:
            edits += self._name_language(filled)
        edited = Edits(self._document.text)
        for edit in sorted(set(edits), reverse=True):  # sentences may share a target
            edited.replace(*edit)
        return self._document.encode(edited.finish())

    def _find_units(self) -> Iterator[_Unit]:
        raise NotImplementedError

    def _fill_unit(self, unit: _Unit, content: str) -> list[Edit]:
        raise NotImplementedError

    def _name_language(self, filled: list[_Unit]) -> list[Edit]:
        """Return edits that write the target language; a tag that says more of it stays."""
        return []

    def _iterate(self, name: str) -> Iterator[Element]:
        yield from self._document.root.iter(self._qualify(name))

    def _find(self, element: Element, name: str) -> Element | None:
        return element.find(self._qualify(name))

    def _inherit(self, element: Element | None, name: str) -> str:
        """Return an attribute of the nearest element that has it, from this one outwards."""
        if element is None:
            return ""
        if (element, name) not in self._inherited:  # libxml2 refuses more than 256 levels
            own = element.get(name)
            value = self._inherit(element.getparent(), name) if own is None else own
            self._inherited[element, name] = value
        return self._inherited[element, name]

    def _qualify(self, name: str) -> str:
        return f"{{{self._namespace}}}{name}" if self._namespace else name

    def _make_unit(self, source: Element, parts: list[Element], target: Element | None) -> _Unit:
        """Return a unit; one without letters has no segments."""
        keeps_space = self._inherit(source, f"{_XML}space") == "preserve"
        unit = _Unit(source, [], [], target)
        for part in parts:
            segment = read_segment(self._document, part, self._classify, keeps_space=keeps_space)
            text = segment.marked.text
            if is_message_format(text):
                self.skipped += 1
            elif has_letters(text):
                unit.parts.append(part)
                unit.segments.append(segment)
        return unit

    def _has_content(self, target: Element) -> bool:
        return bool("".join(target.itertext()).strip()) or any(
            local_name(element, self._namespace) not in _FRAMES
            for element in target.iterdescendants("*")
        )

    def _classify(self, element: Element) -> Inline:
        """Return what an element is inside of a text."""
        name = local_name(element, self._namespace)
        if name in _PAIRS:
            role, kind, attributes = _PAIRS[name]
            keys = filter(None, (get_attribute(element, each) for each in attributes))
            if name == "sm" and get_attribute(element, "translate") == "no":
                role = Role.KEPT_START
            return Inline(role, f"{kind} {next(keys, '')}")
        if name in ("x", "ph"):
            return _classify_placeholder(element)
        is_protected = (
            get_attribute(element, "translate") == "no"
            or get_attribute(element, "mtype") == "protected"
        )
        return Inline(Role.KEPT if is_protected else _ROLES.get(name, Role.KEPT))

    def _edit_language(self, element: Element, name: str) -> list[Edit]:
        """Return the edit that writes the target language."""
        language = self._options.target_language
        if covers_tag(language, get_attribute(element, name)):
            return []
        return [self._document.edit_tag(element, name, language)]

    def _place_target(self, unit: _Unit, content: str, **attributes: str) -> Edit:
        """Return the edit that writes a translation into its element, or into a new one."""
        if unit.target is not None:
            return self._document.edit_content(unit.target, content, **attributes)
        text, spans = self._document.text, self._document.spans
        prefix = f"{unit.source.prefix}:" if unit.source.prefix else ""
        source = self._find(unit.source.getparent(), "source")
        end = spans[unit.source].end
        tag = f"<{prefix}target>"
        for name, value in attributes.items():
            tag = set_attribute(tag, name, value)
        indent = find_indent(text, spans[source].begin)
        return end, end, f"{indent}{tag}{content}</{prefix}target>"


class _Xliff1(_BilingualDocument):
    """XLIFF 1.2: units with a source and a target."""

    def _find_units(self) -> Iterator[_Unit]:
        for unit in self._iterate("trans-unit"):
            source, target = self._find(unit, "source"), self._find(unit, "target")
            if (
                source is None
                or get_attribute(unit, "approved") == "yes"
                or self._inherit(unit, "translate") == "no"
            ):
                continue
            # The sentences of a text that is cut already keep their frames.
            cut = self._find(unit, "seg-source")
            sentences = self._find_sentences(cut)
            if self._is_translated(source, target, target):
                targets = self._find_sentences(target)
                by_number = {get_attribute(each, "mid"): each for each in targets}
                for sentence in sentences:
                    empty = by_number.pop(get_attribute(sentence, "mid"), None)
                    if empty is not None and not self._has_content(empty):
                        yield self._make_unit(sentence, [sentence], empty)
            elif sentences:
                yield self._make_unit(cut, sentences, target)
            else:
                yield self._make_unit(source, [source], target)

    def _find_sentences(self, text: Element | None) -> list[Element]:
        """Return the sentences of a text that is cut."""
        sentences = []
        if text is not None:
            walker = etree.iterwalk(text, ("start",), self._qualify("mrk"))
            for _, mark in walker:
                if get_attribute(mark, "mtype") == "seg":
                    sentences.append(mark)
                    walker.skip_subtree()
        return sentences

    def _is_translated(self, source: Element, target: Element | None, stated: Element) -> bool:
        """Whether a target is a translation: not empty, and no copy that waits for one.

        Args:
            source: the text.
            target: its translation.
            stated: the element with the state of the translation.
        """
        if target is None or not self._has_content(target):
            return False
        text, original = ("".join(each.itertext()).split() for each in (target, source))
        return text != original or get_attribute(stated, "state") not in _UNTRANSLATED

    def _fill_unit(self, unit: _Unit, content: str) -> list[Edit]:
        state = "needs-review-translation"
        if unit.target is None or local_name(unit.target, self._namespace) == "target":
            return [self._place_target(unit, content, state=state)]
        target = next(unit.target.iterancestors(self._qualify("target")))
        document = self._document
        return [
            document.edit_tag(target, "state", state),
            document.edit_content(unit.target, content),
        ]

    def _name_language(self, filled: list[_Unit]) -> list[Edit]:
        files = [next(unit.source.iterancestors(self._qualify("file")), None) for unit in filled]
        edits = []
        for file in dict.fromkeys(files):
            if file is not None:
                edits += self._edit_language(file, "target-language")
        return edits


class _Xliff2(_Xliff1):
    """XLIFF 2: units of segments with a source and a target."""

    def _find_units(self) -> Iterator[_Unit]:
        for segment in self._iterate("segment"):
            source, target = self._find(segment, "source"), self._find(segment, "target")
            if (
                source is None
                or self._is_translated(source, target, segment)
                or get_attribute(segment, "state") in ("reviewed", "final")
                or self._inherit(segment, "translate") == "no"
            ):
                continue
            yield self._make_unit(source, [source], target)

    def _fill_unit(self, unit: _Unit, content: str) -> list[Edit]:
        segment = unit.source.getparent()
        state = self._document.edit_tag(segment, "state", "translated")
        return [state, self._place_target(unit, content)]

    def _name_language(self, filled: list[_Unit]) -> list[Edit]:
        return self._edit_language(self._document.root, "trgLang")


class _Tmx(_BilingualDocument):
    """TMX: units of one variant for each language."""

    def _find_units(self) -> Iterator[_Unit]:
        if self._options.target_language == UNKNOWN_LANGUAGE:
            raise UserError("a TMX document needs the target language of its new variants: set it")
        header = self._find(self._document.root, "header")
        common = "" if header is None else get_attribute(header, "srclang")
        for unit in self._iterate("tu"):
            language = self._options.source_language
            if language == UNKNOWN_LANGUAGE:
                language = get_attribute(unit, "srclang", common)
            if language in ("", "*all*"):
                raise UserError("the TMX document names no source language: set it")
            variants = unit.findall(self._qualify("tuv"))
            sources = [each for each in variants if are_variants(_get_language(each), language)]
            target = self._options.target_language
            targets = [each for each in variants if are_variants(_get_language(each), target)]
            filled = [seg for each in targets if (seg := self._find(each, "seg")) is not None]
            if not sources or any(map(self._has_content, filled)):
                continue
            source = self._find(sources[0], "seg")
            if source is not None:
                yield self._make_unit(source, [source], filled[0] if filled else None)

    def _fill_unit(self, unit: _Unit, content: str) -> list[Edit]:
        if unit.target is not None:
            return [self._document.edit_content(unit.target, content)]
        text, spans = self._document.text, self._document.spans
        variant = unit.source.getparent()
        end = spans[variant].end
        language = set_attribute("<tuv>", "xml:lang", self._options.target_language)
        before_end = find_indent(text, spans[variant].content_end)
        return [
            (
                end,
                end,
                f"{find_indent(text, spans[variant].begin)}{language}"
                f"{find_indent(text, spans[unit.source].begin)}<seg>{content}</seg>"
                f"{before_end}</tuv>",
            )
        ]


def extract(data: bytes, options: DocumentOptions) -> _BilingualDocument:
    """Return the texts of an XLIFF or TMX document that have no translation.

    Raises:
        UserError: it is neither, damaged or hostile, or its languages are unknown.
    """
    document = XmlText(data)
    root = etree.QName(document.root)
    name = root.localname
    version = get_attribute(document.root, "version") or (root.namespace or "").rpartition(":")[2]
    if name == "tmx":
        return _Tmx(document, options)
    if name == "xliff" and version.startswith("1."):
        return _Xliff1(document, options)
    if name == "xliff" and version.startswith("2."):
        return _Xliff2(document, options)
    shown = f"{name} {version}".strip()
    raise UserError(f"the document is {shown}: convert it to XLIFF 1.2, XLIFF 2.0 or TMX 1.4")


def _classify_placeholder(element: Element) -> Inline:
    """Return what an element without text is: a line break, an image, a tag, or like a noun."""
    names = ("ctype", "type", "subType")
    kinds = {get_attribute(element, name) for name in names}
    pair = _WRITTEN_PAIR.fullmatch(get_attribute(element, "id"))
    written = (
        element.text,
        *(get_attribute(element, each) for each in ("id", "equiv", "equiv-text", "disp")),
    )
    if pair:
        return Inline(Role.START if pair[1] == "START" else Role.END, f"tag {pair[2]}")
    if kinds & LINE_BREAKS or any(_WRITTEN_BREAK.match(each or "") for each in written):
        return Inline(Role.BREAK)
    return Inline(Role.EMPTY if "image" in kinds else Role.KEPT)


def _get_language(variant: Element) -> str:
    return get_attribute(variant, f"{_XML}lang") or get_attribute(variant, "lang")
