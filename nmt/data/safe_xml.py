"""XML parsed safely: nothing outside of a document is read, and no entity is expanded."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from nmt.data.encodings import decode, find_mark, open_text
from nmt.errors import UserError

MAX_TAGS = 2_000_000  # an element takes up to 1 KB of memory and 50 µs

_BEGINNING = 1024  # bytes in which a document declares its encoding
_DEFINITIONS = "the document's DOCTYPE has definitions of its own: remove its [...]"
_DECLARED = re.compile(rb"<\?xml\s[^>]*?encoding\s*=\s*[\"']([A-Za-z][\w.-]*)[\"']")
# Those in which no sequence of bytes hides markup, and which decode in linear time.
_ENCODINGS = re.compile(
    r"utf-?8|(us-)?ascii|iso-?8859-?\d+|latin-?1|(windows-?|cp)125\d|koi8-[ru]"
    r"|shift_jis|euc-(jp|kr)|gb(2312|k|18030)|big5",
    re.IGNORECASE,
)
_INTERNAL_SUBSET = re.compile(
    r"(?:\s++|<\?(?>.*?\?>)|<!--(?>.*?-->))*+<!DOCTYPE(?:[^\"'\[>]++|\"[^\"]*\"|'[^']*')*+\[",
    re.DOTALL,
)


def decode_xml(data: bytes) -> tuple[str, str]:
    """Return the text of an XML document, and the encoding that gives its bytes back.

    Raises:
        UserError: its encoding is unsupported, or its bytes are not in it.
    """
    remedy = "correct the encoding that it declares"
    text, encoding = decode(data, declared_encoding(data), remedy)
    if text.encode(encoding, "replace") != data:
        raise UserError(f"the document is not plain {encoding}: convert it to UTF-8")
    return text, encoding


def declared_encoding(beginning: bytes) -> str:
    """Return the encoding that an XML document declares, by default UTF-8.

    Raises:
        UserError: it is unsupported.
    """
    declared = _DECLARED.match(beginning.removeprefix(b"\xef\xbb\xbf"))
    encoding = declared[1].decode() if declared else "utf-8"
    is_utf_16 = re.fullmatch(r"utf-?16(le|be)?", encoding, re.IGNORECASE)
    if not (is_utf_16 or _ENCODINGS.fullmatch(encoding)):
        raise UserError(f"the document's encoding {encoding} is unsupported: convert it to UTF-8")
    return encoding


def parse_xml(text: str) -> Any:
    """Return the root of a document, an element of lxml, which has no types.

    Raises:
        UserError: it is not well-formed, too large or too deep, or it defines entities.
    """
    from lxml import etree

    text = text.removeprefix("\ufeff")
    if text.count("<") > MAX_TAGS:
        raise UserError(f"the document has more than {MAX_TAGS:,} tags: split it")
    if _INTERNAL_SUBSET.match(text):
        raise UserError(_DEFINITIONS)
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        huge_tree=False,
        load_dtd=False,
        strip_cdata=False,
        encoding="utf-8",  # of these bytes, whatever the declaration says
    )
    try:
        root = etree.fromstring(text.encode(), parser)
    except etree.XMLSyntaxError as error:
        raise UserError(_explain_syntax(error)) from error
    _check_entities(root)
    return root


def iterate_xml(file: io.BufferedReader, root_name: str, name: str) -> Iterator[Any]:
    """Yield the elements of a name in a document of any size, each with its content.

    An element is valid until the next one; only one is held in memory.

    Args:
        file: at its beginning.
        root_name: what the root must be called, without a namespace.
        name: of the elements, in any namespace.

    Raises:
        UserError: the document is not well-formed or too deep, or it defines entities.
    """
    from lxml import etree

    beginning = file.peek(_BEGINNING)
    encoding = find_mark(beginning) or declared_encoding(beginning)
    text = open_text(file, "the document", encoding, "the declaration encoding=")
    events = etree.iterparse(
        text,
        events=("start", "end"),
        resolve_entities=False,
        no_network=True,
        huge_tree=False,
        load_dtd=False,
        encoding="utf-8",  # of these bytes, whatever the declaration says
    )
    root = None
    try:
        for event, element in events:
            if root is None:
                root = element
                check_root(root, root_name)
                definitions = root.getroottree().docinfo.internalDTD
                if definitions is not None and next(definitions.iterentities(), None) is not None:
                    raise UserError(_DEFINITIONS)
            if event == "end" and local_name(element) == name:
                _check_entities(element)
                yield element
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise UserError(_explain_syntax(error)) from error


def local_name(element: Any) -> str:
    """Return the name of an element; empty for comments and instructions."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def check_root(root: Any, name: str) -> None:
    """Check the name of the root of a document.

    Raises:
        UserError: it has another one.
    """
    if local_name(root) != name:
        raise UserError(f"its root is <{local_name(root)}> and not <{name}>: rename the file")


def _check_entities(element: Any) -> None:
    from lxml import etree

    entity = next(element.iter(etree.Entity), None)
    if entity is not None:
        raise UserError(f"the document does not define {entity.text}: write the character instead")


def _explain_syntax(error: Any) -> str:
    reason = " ".join(str(error.msg).split()).replace(", use XML_PARSE_HUGE option", "")
    return f"the document is not well-formed XML ({reason}): repair it, or save it again"
