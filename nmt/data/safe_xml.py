"""XML parsed safely: nothing outside of a document is read, and no entity is expanded."""

from __future__ import annotations

import re
from typing import Any

from nmt.data.encodings import decode
from nmt.errors import UserError

MAX_TAGS = 2_000_000  # an element takes up to 1 KB of memory and 50 µs

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
    declared = _DECLARED.match(data.removeprefix(b"\xef\xbb\xbf"))
    encoding = declared[1].decode() if declared else "utf-8"
    if declared and not re.fullmatch(r"utf-?16(le|be)?", encoding, re.IGNORECASE):
        _check_encoding(encoding)
    text, encoding = decode(data, encoding)
    if text.encode(encoding, "replace") != data:
        raise UserError(f"the document is not plain {encoding}: convert it to UTF-8")
    return text, encoding


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
        raise UserError("the document's DOCTYPE has definitions of its own: remove its [...]")
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
        reason = " ".join(str(error.msg).split()).replace(", use XML_PARSE_HUGE option", "")
        raise UserError(
            f"the document is not well-formed XML ({reason}): repair it, or save it again"
        ) from error
    entity = next(root.iter(etree.Entity), None)
    if entity is not None:
        raise UserError(f"the document does not define {entity.text}: write the character instead")
    return root


def _check_encoding(encoding: str) -> None:
    if not _ENCODINGS.fullmatch(encoding):
        raise UserError(f"the document's encoding {encoding} is unsupported: convert it to UTF-8")
