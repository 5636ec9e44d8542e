"""Text files in any encoding: read as UTF-8, or refused with what they seem to be."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.encodings import check_text, decode, open_text
from nmt.errors import UserError

ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-7", "gb18030", "hz"]


class Pipe(io.RawIOBase):
    """Gives the bytes written to a pipe piece by piece, as they were written."""

    def __init__(self, content: bytes, size: int) -> None:
        self._pieces = [content[i : i + size] for i in range(0, len(content), size)]

    def read1(self, size: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def recoded(content: bytes, encoding: str = "utf-8", size: int = 1 << 16) -> bytes:
    return open_text(Pipe(content, size), "in.txt", encoding).read()  # type: ignore[arg-type]


def complaint(content: bytes, encoding: str = "utf-8") -> str:
    with pytest.raises(UserError) as caught:
        recoded(content, encoding)
    with pytest.raises(UserError) as again:
        check_text(io.BytesIO(content), "in.txt", encoding)
    assert str(caught.value) == str(again.value)
    return str(caught.value)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=20), size=st.integers(1, 7))
def test_every_encoding_reads_as_utf_8(encoding: str, text: str, size: int) -> None:
    """However the bytes come: U+0A0D and U+0D0A hold the bytes of line ends."""
    text = f"\u0a0d\u0d0a\n{text}" if "utf" in encoding else "".join(filter(str.isascii, text))
    try:
        content = text.encode(encoding)
    except UnicodeEncodeError:
        return
    if content.decode(encoding) == text:  # HZ has its own use of ~
        assert recoded(content, encoding, size).decode() == text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_is_no_text(encoding: str) -> None:
    text = "\ufeffsol\n\ufeffmar\n"
    assert recoded(text.encode(encoding), encoding, 1).decode() == text[1:]


SPANISH = "¿Dónde está la estación? Mañana será otro día.\n"
BYTE_AND_PLACE = r"\(byte 0x[0-9a-f]{2} at offset [\d,]+, line [\d,]+\)"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            SPANISH.encode("latin-1"),
            "seems to be CP1252, not UTF-8 (byte 0xbf at offset 0, line 1)",
        ),
        (b"caf\xe9", "seems to be CP1252, not UTF-8 (byte 0xe9 at offset 3, line 1)"),
        (
            f"1\n“{SPANISH}”".encode("cp1252"),
            "seems to be CP1252, not UTF-8 (byte 0x93 at offset 2",
        ),
        (SPANISH.encode("utf-16"), "is UTF-16, not UTF-8 (byte 0xff at offset 0, line 1)"),
        (
            SPANISH.encode("utf-16-le"),
            "seems to be UTF-16-LE, not UTF-8: give --encoding utf-16-le",
        ),
        (b"a\nb\n".decode().encode("utf-16-be"), "seems to be UTF-16-BE, not UTF-8"),
        (SPANISH.encode("utf-32"), "is UTF-32, not UTF-8"),
        (
            "Где вокзал?\n".encode("koi8-r"),
            "is not UTF-8 (byte 0xe7 at offset 0, line 1): give its",
        ),
        ("车站在哪里？\n".encode("gbk"), "is not UTF-8 (byte 0xb3 at offset 0, line 1): give its"),
        ("“こんにちは”\n".encode("shift-jis"), "is not UTF-8"),
        (SPANISH.encode() * 2 + b"\xff", "is UTF-8 except for byte 0xff at offset 108, line 3: "),
        (b"a\xff\n" + SPANISH.encode(), "is UTF-8 except for byte 0xff at offset 1, line 1: "),
        (SPANISH.encode()[:-1] + b"\xc3", "is UTF-8 except for byte 0xc3 at offset 53, line 1: "),
        (b"\x1f\x8b\x08\x00\xff", "is gzip-compressed, not text: unpack it first"),
        (b"PK\x03\x04\x14\0\xff", "is a zip archive, not text: unpack it first"),
    ],
)
def test_what_a_file_seems_to_be_is_said(content: bytes, message: str) -> None:
    assert complaint(content).startswith(f"in.txt {message}")


@pytest.mark.parametrize(
    "content",
    [SPANISH.encode("cp1252"), SPANISH.encode("utf-16-le"), b"a\xff\n" + SPANISH.encode()],
)
def test_a_document_gets_the_same_message(content: bytes) -> None:
    with pytest.raises(UserError) as caught:
        decode(content)
    assert str(caught.value) == complaint(content).replace("in.txt", "the document")


def test_a_document_that_names_its_encoding_needs_another_remedy() -> None:
    message = r"is not UTF-8 .*: correct its name, or convert it to UTF-8"
    with pytest.raises(UserError, match=message):
        decode(SPANISH.encode("cp1252"), remedy="correct its name")


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("Sí.\n".encode(), "ascii"),
        (b"\x81", "cp1252"),
        ("sol".encode("utf-16-le")[:-1], "utf-16-le"),
    ],
)
def test_a_wrong_name_is_said(content: bytes, encoding: str) -> None:
    message = complaint(content, encoding)
    assert message.startswith(f"in.txt is not {encoding} (byte 0x")
    assert message.endswith("give its encoding by --encoding NAME")


@given(content=st.binary(max_size=40), sizes=st.lists(st.integers(1, 9), min_size=2, max_size=2))
def test_an_error_is_the_same_wherever_blocks_end(content: bytes, sizes: list[int]) -> None:
    """It names the first byte that cannot be decoded, and all before it can be read."""
    content = b"abc " * 9 + content  # no UTF-16
    try:
        content.decode()
        place = -1
    except UnicodeDecodeError as error:
        place = error.start
    messages = []
    for size in sizes:
        recoded_file = open_text(Pipe(content[:4], 4), "in.txt")  # type: ignore[arg-type]
        raw = recoded_file.raw
        raw._file = Pipe(content[4:], size)  # type: ignore[attr-defined]  (never the first block)
        read, message = b"", ""
        try:
            while piece := recoded_file.read1():
                read += piece
        except UserError as error:
            message = str(error)
        messages.append(message.split(" at offset ")[-1].split(":")[0])
        assert read == (content if place < 0 else content[:place])
        assert bool(message) == (place >= 0)
    for shorter, longer in pairwise(messages):
        assert shorter == longer


def test_zeros_are_text() -> None:
    content = b"uno\n" + b"\0" * 9999
    assert recoded(content) == content
