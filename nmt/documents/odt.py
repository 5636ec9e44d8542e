"""The paragraphs and headings of a part of an ODT document.

Changed paragraphs lose comments of XML, page breaks of the last layout, and white space that is
not shown; otherwise all bytes stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree

from nmt.documents.formats import Document
from nmt.documents.xml import Edits, Element, XmlText, get_attribute, local_name
from nmt.documents.xml_marks import Inline, Role, Segment, read_segment
from nmt.text.marked import MarkedText, has_letters, has_only_symbols

_NAMES = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT = f"{_NAMES}text:1.0"
_OFFICE = f"{_NAMES}office:1.0"
_PARAGRAPHS = {f"{{{_TEXT}}}p", f"{{{_TEXT}}}h"}
_ANNOTATION = f"{{{_OFFICE}}}name"
# Comments and text that was deleted.
_SKIPPED = {f"{{{_OFFICE}}}annotation", f"{{{_TEXT}}}tracked-changes"}
_ROLES = {
    "span": Role.OPEN,
    "a": Role.OPEN,
    "meta": Role.OPEN,
    "s": Role.SPACE,
    "tab": Role.BREAK,
    "line-break": Role.BREAK,
    "soft-page-break": Role.DROPPED,
    "note": Role.EMPTY,
    "bookmark": Role.EMPTY,
    "reference-mark": Role.EMPTY,
    "change": Role.EMPTY,
}
_PAIRED = {"bookmark", "reference-mark", "change"}
_PAIRED |= {"toc-mark", "user-index-mark", "alphabetical-index-mark"}
_KEYS = (f"{{{_TEXT}}}name", f"{{{_TEXT}}}id", f"{{{_TEXT}}}change-id")


class OdtPart(Document):
    """Paragraphs and headings of an XML document.

    Attributes:
        segments: paragraphs with text.

    Args:
        data: the document.
    """

    def __init__(self, data: bytes) -> None:
        self._document = XmlText(data)
        self._paragraphs: list[tuple[Element, Segment]] = []
        walker = etree.iterwalk(self._document.root, events=("start",))
        for _, element in walker:
            if element.tag in _SKIPPED:
                walker.skip_subtree()
            elif element.tag in _PARAGRAPHS:
                segment = read_segment(self._document, element, _classify, keeps_space=False)
                if has_letters(segment.marked.text):
                    self._paragraphs.append((element, segment))
        self.segments: Sequence[MarkedText] = [segment.marked for _, segment in self._paragraphs]

    def fill(self, translations: Sequence[MarkedText]) -> bytes:
        """Return the document with other paragraphs: see `Document.fill`."""
        edits = Edits(self._document.text)
        filled = zip(self._paragraphs, translations, strict=True)
        for (element, segment), translation in reversed(list(filled)):
            if translation != segment.marked.without_kept():
                span = self._document.spans[element]
                content = segment.write(translation, edits)
                edits.replace(span.content, span.content_end, content)
        return self._document.encode(edits.finish())


def _classify(element: Element) -> Inline:
    """Return what an element is inside of a paragraph."""
    name = local_name(element, _TEXT)
    paired, _, side = name.rpartition("-")
    if paired in _PAIRED and side in ("start", "end"):
        key = next((get_attribute(element, key) for key in _KEYS if element.get(key)), "")
        return Inline(Role.START if side == "start" else Role.END, f"{paired} {key}")
    if local_name(element, _OFFICE) in ("annotation", "annotation-end"):
        is_end = element.tag.endswith("end")
        return Inline(Role.END if is_end else Role.START, f"annotation {element.get(_ANNOTATION)}")
    if name == "span" and not len(element) and has_only_symbols(element.text or ""):
        return Inline(Role.EMPTY)
    if name in _ROLES:
        return Inline(_ROLES[name])
    if name and any(text.strip() for text in element.itertext()):
        return Inline(Role.KEPT)  # a field, such as the page number
    return Inline(Role.EMPTY)  # a picture, a frame, a comment
