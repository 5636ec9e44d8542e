"""The parts that a paragraph of a DOCX document is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lxml import etree

from nmt.documents.xml import Element, XmlText, local_name
from nmt.documents.xml_marks import Inline, Role, match_pairs
from nmt.text.marked import has_letters, has_only_symbols
from nmt.text.spans import Span

_CONTAINERS = {"hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdt", "dir", "bdo"}
_DROPPED = {"pPr", "proofErr", "smartTagPr", "customXmlPr", "sdtPr", "sdtEndPr"}
_DROPPED_IN_RUNS = {"rPr", "softHyphen", "lastRenderedPageBreak"}
_CHOICES = {"dropDownList", "comboBox", "date"}  # controls whose text is one of a list
_BREAKS = {"br", "cr", "tab", "ptab"}
_KEPT_ELEMENTS = {"sym", "ruby", "fldSimple"}
_FIELD_CODES = {"fldChar", "instrText", "delInstrText"}
_PAIRED = re.compile(
    r"(bookmark|commentRange|perm|moveFromRange|moveToRange|customXml\w+Range)"
    r"(Start|End)"
)
_MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
# Properties that do not show: a spell checker's language, and whether it checks.
_UNSEEN = re.compile(r"<(?:\w+:)?(?:lang|noProof)\b[^>]*?/>")
_SUPERSCRIPT = re.compile(r"<(?:\w+:)?vertAlign\b[^>]*superscript")
_SPACE = str.maketrans("\t\r\n", "   ")


class Piece(NamedTuple):
    """A part of the document's text, and the properties of the run that it needs around it."""

    span: Span
    properties: Span | None = None  # None: it needs none


class Atom(NamedTuple):
    """A part of a paragraph that stays whole."""

    role: Role
    pieces: tuple[Piece, ...]
    key: str = ""  # of beginnings and ends; of codes of fields their type, or their instruction
    text: str = ""
    style: str = ""  # equal: the properties look the same
    is_code: bool = False  # of a field


def read_atoms(document: XmlText, paragraph: Element, namespace: str | None) -> list[Atom]:
    """Return the parts of a paragraph in order; its fields are whole.

    Args:
        document: the document.
        paragraph: the paragraph.
        namespace: of its elements.
    """
    return _fold_fields(list(_AtomReader(document, namespace).read(paragraph)))


def match_atoms(atoms: list[Atom]) -> dict[int, int]:
    """Return the index of the end of each beginning, and the other way round."""
    return match_pairs(Inline(atom.role, atom.key) for atom in atoms)


class _AtomReader:
    """Reads the parts of a paragraph.

    Args:
        document: the document.
        namespace: of its elements.
    """

    def __init__(self, document: XmlText, namespace: str | None) -> None:
        self._document = document
        self._namespace = namespace

    def read(self, paragraph: Element) -> Iterator[Atom]:
        """Yield the parts of a paragraph in order."""
        walker = etree.iterwalk(paragraph, events=("start", "end"))
        for event, node in walker:
            name = local_name(node, self._namespace)
            if node is paragraph or name == "sdtContent":
                continue
            content = self._find_content(node, name)
            if content is not None:
                begin, end = self._document.spans[node][::3]
                if event == "start":
                    yield Atom(Role.OPEN, (Piece((begin, content[0])),))
                else:
                    yield Atom(Role.CLOSE, (Piece((content[1], end)),))
            elif event == "start":
                walker.skip_subtree()
                if name == "r":
                    yield from self._read_run(node)
                elif name not in _DROPPED:
                    yield self._read_point(node, name)

    def _find_content(self, node: Element, name: str) -> Span | None:
        """Return where an element has its runs; None: its content is not translated."""
        if name not in _CONTAINERS:
            return None
        begin, end = self._document.spans[node][1:3]
        properties = node.find(f"{{{self._namespace}}}{name}Pr")
        if properties is not None:
            begin = self._document.spans[properties].end
        if name == "sdt":
            content = node.find(f"{{{self._namespace}}}sdtContent")
            is_choice = properties is not None and any(
                local_name(each, self._namespace) in _CHOICES for each in properties
            )
            if content is None or is_choice:
                return None
            begin, end = self._document.spans[content][1:3]
        return begin, end

    def _read_point(self, node: Element, name: str) -> Atom:
        """Return an element that is not in a run."""
        begin, end = self._document.spans[node][::3]
        piece = (Piece((begin, end)),)
        paired = _PAIRED.fullmatch(name)
        if paired:
            key = f"{paired[1]} {node.get(f'{{{self._namespace}}}id')}"
            return Atom(Role.START if paired[2] == "Start" else Role.END, piece, key)
        is_kept = name in (*_KEPT_ELEMENTS, "sdt") or bool(local_name(node, _MATH))
        return Atom(Role.KEPT if is_kept else Role.EMPTY, piece)

    def _read_run(self, run: Element) -> Iterator[Atom]:
        """Yield the parts of a run."""
        spans = self._document.spans
        outer: Span = (spans[run].content,) * 2
        style, is_raised = "", False
        properties = run.find(f"{{{self._namespace}}}rPr")
        if properties is not None:
            begin, content, content_end, end = spans[properties]
            outer = begin, end
            style = _UNSEEN.sub("", self._document.text[content:content_end]).strip()
            is_raised = _SUPERSCRIPT.search(style) is not None
        for child in run.iterchildren("*"):
            name = local_name(child, self._namespace)
            if name in _DROPPED_IN_RUNS:
                continue
            begin, end = spans[child][::3]
            pieces = (Piece((begin, end), outer),)
            if name in ("t", "noBreakHyphen"):
                text = "\u2011" if name == "noBreakHyphen" else _read_text(child)
                # The number of a note, for example.
                is_note = is_raised and bool(text.strip()) and not has_letters(text)
                if has_only_symbols(text) or is_note:
                    yield Atom(Role.EMPTY, pieces)
                else:
                    yield Atom(Role.TEXT, pieces, text=text, style=style)
            elif name in _FIELD_CODES:
                type_name = child.get(f"{{{self._namespace}}}fldCharType", "")
                key = type_name or f"code {''.join(child.itertext())}"
                yield Atom(Role.EMPTY, pieces, key, is_code=True)
            elif name in _BREAKS:
                yield Atom(Role.BREAK, pieces)
            else:
                yield Atom(Role.KEPT if name in _KEPT_ELEMENTS else Role.EMPTY, pieces)


def _read_text(element: Element) -> str:
    """Return the text of a run's text element."""
    text: str = "".join(element.itertext())
    if element.get("{http://www.w3.org/XML/1998/namespace}space") != "preserve":
        text = text.strip(" \t\r\n")
    return text.translate(_SPACE)


def _is_link(atoms: list[Atom], begin: int, separate: int | None) -> bool:
    """Whether a field is a link; its text is translated."""
    if separate is None:
        return False
    codes = atoms[begin + 1 : min(separate, begin + 9)]
    instruction = "".join(atom.key.removeprefix("code ") for atom in codes if atom.is_code)
    return instruction.split()[:1] == ["HYPERLINK"]


def _fold_fields(atoms: list[Atom]) -> list[Atom]:
    """Return the parts of a paragraph with its fields whole: links have text, others are kept."""
    fields: list[tuple[int, int, int]] = []  # begin, last code (of others: end), end
    scopes: list[list[tuple[int, int | None]]] = [[]]
    for index, atom in enumerate(atoms):
        opened = scopes[-1]
        if atom.role is Role.OPEN:
            scopes.append([])
        elif atom.role is Role.CLOSE:
            scopes.pop()
        elif atom.is_code and atom.key == "begin":
            opened.append((index, None))
        elif atom.is_code and atom.key == "separate" and opened:
            opened[-1] = opened[-1][0], index
        elif atom.is_code and atom.key == "end" and opened:
            begin, separate = opened.pop()
            last = separate if _is_link(atoms, begin, separate) else None
            fields.append((begin, index if last is None else last, index))
    folded: list[Atom] = []
    ends: dict[int, str] = {}  # of links, their keys
    done = 0
    for begin, last, end in [*sorted(fields), (len(atoms), 0, 0)]:
        if begin < done:
            continue  # inside of a kept field, or of the code of a link
        for index in range(done, begin):
            is_end = index in ends
            atom = atoms[index]
            folded.append(Atom(Role.END, atom.pieces, ends[index]) if is_end else atom)
        if begin < len(atoms):
            pieces = tuple(piece for atom in atoms[begin : last + 1] for piece in atom.pieces)
            key = f"field {begin}"
            if last < end:
                ends[end] = key
            folded.append(Atom(Role.START if last < end else Role.KEPT, pieces, key))
        done = last + 1
    return folded
