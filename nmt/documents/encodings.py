"""Bytes of a document to text and back."""

from __future__ import annotations

import codecs

from nmt.errors import UserError

_MARKS = (  # those of UTF-32 begin with one of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Encodings whose decoding takes time that grows with the square of the length.
_HOST_NAMES = frozenset(("idna", "punycode"))


def is_text_encoding(name: str) -> bool:
    """Whether a name is that of an encoding of text files."""
    try:
        codecs.getincrementaldecoder(name)
        b"a".decode(name, "replace")  # refuses codecs that do not decode to text
        return codecs.lookup(name).name not in _HOST_NAMES
    except (LookupError, ValueError):
        return False


def decode(data: bytes, encoding: str = "utf-8") -> tuple[str, str]:
    """Return the text of a document, and the encoding that gives its bytes back.

    Args:
        data: a document; a byte order mark decides its encoding.
        encoding: otherwise.

    Raises:
        UserError: the bytes are not in this encoding.
    """
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), encoding)
    try:
        if codecs.lookup(encoding).name in _HOST_NAMES:
            raise LookupError("it is for names of hosts")
        "a".encode(encoding, "xmlcharrefreplace")  # some encodings only read
        return data.decode(encoding), encoding
    except (UnicodeError, LookupError) as error:
        raise UserError(
            f"the document is not {encoding.upper()} ({error}): give --encoding NAME, or convert "
            "it to UTF-8"
        ) from error
