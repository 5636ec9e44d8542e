"""The paragraphs of a part of a DOCX document.

Runs of changed paragraphs are built anew: text takes the properties of its mark, or else those of
most of the text around it. They lose marks of the spell checker, revision identifiers of runs,
page breaks of the last layout, soft hyphens, and comments of XML. All other bytes stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lxml import etree

from nmt.documents.docx_atoms import Atom, Piece, match_atoms, read_atoms
from nmt.documents.formats import Document
from nmt.documents.xml import Edits, Element, XmlText, escape, local_name
from nmt.documents.xml_marks import Role, write_marks
from nmt.text.marked import MarkedText, MarkedTextBuilder, has_letters
from nmt.text.spans import Span

_DELETED = {"del", "moveFrom"}


@dataclass
class _Mark:
    """What a mark is written as."""

    properties: Span  # of text directly inside of it
    opening: tuple[Piece, ...] = ()
    closing: tuple[Piece, ...] = ()


@dataclass
class _Paragraph:
    """A paragraph with text.

    Attributes:
        content: where its content is.
        prefix: name of the namespace with a colon.
        before: the parts before the text.
        after: the parts after it.
        marked: the text.
        properties: of text outside of marks.
        marks: what each mark is written as.
        followed: mark -> the mark that must come before it, if any.
    """

    content: Span
    prefix: str
    before: list[Atom]
    after: list[Atom]
    marked: MarkedText
    properties: Span
    marks: list[_Mark]
    followed: dict[int, int]

    def write(self, translation: MarkedText, edits: Edits) -> str:
        """Return a translation as the content of the paragraph."""

        def write_run(content: str, properties: Span) -> str:
            name = f"{self.prefix}r"
            return f"<{name}>{edits.read(*properties)}{content}</{name}>"

        def write_text(text: str, mark: int | None) -> str:
            name = f"{self.prefix}t"
            properties = self.properties if mark is None else self.marks[mark].properties
            element = f'<{name} xml:space="preserve">{escape(text)}</{name}>'
            return write_run(element, properties)

        def write_pieces(pieces: Sequence[Piece]) -> str:
            return "".join(
                edits.read(*span)
                if properties is None
                else write_run(edits.read(*span), properties)
                for span, properties in pieces
            )

        tags = [(write_pieces(mark.opening), write_pieces(mark.closing)) for mark in self.marks]
        before, after = (
            "".join(write_pieces(atom.pieces) for atom in atoms)
            for atoms in (self.before, self.after)
        )
        return before + write_marks(translation, tags, self.followed, write_text) + after


class DocxPart(Document):
    """Paragraphs of an XML document.

    Attributes:
        segments: paragraphs with text.

    Args:
        data: the document.
    """

    def __init__(self, data: bytes) -> None:
        self._document = XmlText(data)
        self._paragraphs: list[_Paragraph] = []
        namespace = etree.QName(self._document.root).namespace
        walker = etree.iterwalk(self._document.root, events=("start",))
        for _, element in walker:
            name = local_name(element, namespace)
            if name in _DELETED:
                walker.skip_subtree()
            elif name == "p":
                paragraph = _read_paragraph(self._document, element, namespace)
                if paragraph is not None:
                    self._paragraphs.append(paragraph)
        self.segments: Sequence[MarkedText] = [each.marked for each in self._paragraphs]

    def fill(self, translations: Sequence[MarkedText]) -> bytes:
        """Return the document with other paragraphs: see `Document.fill`."""
        edits = Edits(self._document.text)
        filled = zip(self._paragraphs, translations, strict=True)
        for paragraph, translation in reversed(list(filled)):
            if translation != paragraph.marked.without_kept():
                edits.replace(*paragraph.content, paragraph.write(translation, edits))
        return self._document.encode(edits.finish())


def _read_paragraph(
    document: XmlText, element: Element, namespace: str | None
) -> _Paragraph | None:
    """Return a paragraph; None: it has no text, or a field of several paragraphs cuts it."""
    atoms = read_atoms(document, element, namespace)
    if not has_letters("".join(atom.text for atom in atoms)):
        return None
    first, last = _find_text(atoms)
    if any(atom.is_code for atom in atoms[first:last]):
        return None
    begin, end = document.spans[element][1:3]
    properties = element.find(f"{{{namespace}}}pPr")
    if properties is not None:
        begin = document.spans[properties].end
    builder = _ParagraphBuilder(atoms[first:last])
    return _Paragraph(
        (begin, end),
        f"{element.prefix}:" if element.prefix else "",
        atoms[:first],
        atoms[last:],
        builder.build(),
        builder.properties,
        builder.marks,
        builder.followed,
    )


def _find_text(atoms: list[Atom]) -> Span:
    """Return which parts of a paragraph have its text, and pairs that begin or end inside of it."""
    solid = (Role.TEXT, Role.OPEN, Role.CLOSE, Role.KEPT)
    indices = [index for index, atom in enumerate(atoms) if atom.role in solid]
    first, last = indices[0], indices[-1] + 1
    partners = match_atoms(atoms)
    begin = min((i for i in range(first) if first <= partners.get(i, -1) < last), default=first)
    ends = (i + 1 for i in range(last, len(atoms)) if first <= partners.get(i, -1) < last)
    return begin, max(ends, default=last)


class _ParagraphBuilder:
    """Makes a text with marks of the parts of a paragraph.

    Attributes:
        properties: of text outside of marks.
        marks: what each mark is written as.
        followed: mark -> the mark that must come before it, if any.

    Args:
        atoms: the parts.
    """

    def __init__(self, atoms: list[Atom]) -> None:
        self._atoms = atoms
        self._partners = match_atoms(atoms)
        self._ranges: dict[str, Span] = {}  # properties, by style
        for atom in atoms:
            if atom.role is Role.TEXT and atom.pieces[0].properties is not None:
                self._ranges.setdefault(atom.style, atom.pieces[0].properties)
        self._styles = self._find_styles()
        self.properties = self._ranges[self._styles[0]]
        self.marks: list[_Mark] = []
        self.followed: dict[int, int] = {}
        self._builder = MarkedTextBuilder()
        self._run: str | None = None  # style of the open mark of runs
        self._points: list[Atom] = []  # after the last text
        self._unpaired: dict[str, int] = {}  # marks of beginnings without an end, by key

    def build(self) -> MarkedText:
        """Return the text."""
        opened = [self._styles[0]]
        styles = iter(self._styles[1:])
        for index, atom in enumerate(self._atoms):
            if atom.role is Role.TEXT:
                self._add_text(atom, opened[-1])
            elif self._opens(index):
                self._change_run(None)
                opened.append(next(styles))
                self._open(_Mark(self._ranges[opened[-1]], atom.pieces))
            elif self._closes(index):
                self._change_run(None)
                opened.pop()
                self.marks[self._builder.close()].closing = atom.pieces
            else:
                self._points.append(atom)
        self._change_run(None)
        return self._builder.build()

    def _opens(self, index: int) -> bool:
        role = self._atoms[index].role
        return role is Role.OPEN or (role is Role.START and index in self._partners)

    def _closes(self, index: int) -> bool:
        role = self._atoms[index].role
        return role is Role.CLOSE or (role is Role.END and index in self._partners)

    def _find_styles(self) -> list[str]:
        """Return the style of most text directly in the paragraph, and in each of its elements."""
        counts: list[Counter[str]] = [Counter()]
        parents = [0]
        opened = [0]
        for index, atom in enumerate(self._atoms):
            if atom.role is Role.TEXT:
                # However the text is cut into runs, its spaces do not count.
                counts[opened[-1]][atom.style] += len("".join(atom.text.split()))
            elif self._opens(index):
                parents.append(opened[-1])
                opened.append(len(counts))
                counts.append(Counter())
            elif self._closes(index):
                opened.pop()
        if not counts[0]:
            counts[0] = sum(counts, Counter()) or Counter(list(self._ranges))
        styles: list[str] = []
        for count, parent in zip(counts, parents, strict=True):
            styles.append(max(count, key=count.__getitem__) if count else styles[parent])
        return styles

    def _open(self, mark: _Mark) -> None:
        self._builder.open()
        self.marks.append(mark)

    def _add_text(self, atom: Atom, outer: str) -> None:
        """Add text; a mark is around it if it looks different from most text around it."""
        if not atom.text:
            return
        if not atom.text.strip():
            self._add_points()
        elif atom.style == outer:
            self._change_run(None)
        else:
            self._change_run(atom.style)
        self._builder.add_text(atom.text)

    def _change_run(self, style: str | None) -> None:
        """Close the mark of runs of another style, add points, and open one of this style."""
        if self._run is not None and self._run != style:
            self._builder.close()
            self._run = None
        self._add_points()
        if self._run != style and style is not None:
            self._open(_Mark(self._ranges[style]))
            self._run = style

    def _add_points(self) -> None:
        for atom in self._points:
            if atom.role in (Role.KEPT, Role.BREAK):
                index = self._builder.add_kept(breaks_line=atom.role is Role.BREAK)
            else:
                index = self._builder.add_empty()
            self.marks.append(_Mark((0, 0), atom.pieces))
            if atom.role is Role.START:
                self._unpaired[atom.key] = index
            elif atom.role is Role.END and atom.key in self._unpaired:
                self.followed[index] = self._unpaired[atom.key]
        self._points.clear()
