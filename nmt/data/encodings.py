"""Text files recoded to UTF-8, decoded documents, and messages about other encodings."""

from __future__ import annotations

import codecs
import io
from typing import BinaryIO, NamedTuple

from nmt.errors import UserError

UTF_8 = "utf-8"
OPTION = "--encoding "  # of commands
_BLOCK = 1 << 16  # bytes read at a time
_SAMPLE = 4096  # bytes at the beginning of a file, from which its encoding is guessed
_BYTE_ORDER_MARK = "\ufeff"
# First bytes of files that are not text.
_ARCHIVES = {b"\x1f\x8b": "gzip-compressed", b"PK\x03\x04": "a zip archive", b"BZh": "a bzip2 file"}
_MARKS = (  # byte order marks; one of UTF-32 begins with one of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Encodings whose decoding takes time that grows with the square of the length.
_HOST_NAMES = frozenset(("idna", "punycode"))
_MANY, _FEW = 0.6, 0.05  # shares of zeros in the high and in the low bytes of UTF-16


class _Failure(NamedTuple):
    """Where decoding stopped."""

    offset: int  # in the file, from 0
    line: int  # from 1
    rest: bytes  # of the current block, from the invalid byte
    follows_utf_8: bool  # whether valid UTF-8 beyond ASCII comes before it

    def __str__(self) -> str:
        return f"byte 0x{self.rest[:1].hex()} at offset {self.offset:,}, line {self.line:,}"


def is_text_encoding(name: str) -> bool:
    """Whether a name is that of an encoding of text files."""
    try:
        codecs.getincrementaldecoder(name)
        b"a".decode(name, "replace")  # refuses codecs that do not decode to text
        return codecs.lookup(name).name not in _HOST_NAMES
    except (LookupError, ValueError):
        return False


def is_utf_8(name: str) -> bool:
    """Whether a text encoding is UTF-8, with or without a byte order mark."""
    return codecs.lookup(name).name in (UTF_8, "utf-8-sig")


def find_mark(beginning: bytes) -> str | None:
    """Return the encoding that a byte order mark at the beginning of a file tells."""
    return next((name for mark, name in _MARKS if beginning.startswith(mark)), None)


def decode(data: bytes, encoding: str = UTF_8, remedy: str = "") -> tuple[str, str]:
    """Return the text of a document, and the encoding that gives its bytes back.

    Args:
        data: a document; a byte order mark decides its encoding.
        encoding: otherwise.
        remedy: for the message of the error. Empty: an option sets the encoding, and the message
            names the likely one.

    Raises:
        UserError: the bytes are not in this encoding.
    """
    encoding = find_mark(data) or encoding
    try:
        if codecs.lookup(encoding).name in _HOST_NAMES:
            raise LookupError("it is for names of hosts")
        "a".encode(encoding, "xmlcharrefreplace")  # some encodings only read
        return data.decode(encoding), encoding
    except (UnicodeError, LookupError) as error:
        if isinstance(error, UnicodeError) and is_utf_8(encoding) and not remedy:
            check_text(io.BytesIO(data), "the document", encoding)  # its error is more helpful
        remedy = remedy or f"give {OPTION}NAME"
        raise UserError(
            f"the document is not {encoding.upper()} ({error}): {remedy}, or convert it to UTF-8"
        ) from error


def open_text(
    file: BinaryIO, name: str, encoding: str = UTF_8, option: str = OPTION
) -> io.BufferedReader:
    """Return the content of a file as UTF-8, without a byte order mark.

    The first block is read at once, which waits for a pipe.

    Args:
        file: at its beginning. Closing the result does not close it.
        name: of the file, for messages.
        encoding: one of Python's text encodings.
        option: sets the encoding, for messages; the name of an encoding follows it. Empty: nothing
            sets it.

    Raises:
        UserError: the first block is in another encoding. Reading later blocks may raise it, too.
    """
    recoded = _Recoded(file, name, encoding, option)
    reader: io.BufferedReader = io.BufferedReader(recoded, 4 * _BLOCK)
    reader.peek(1)
    if recoded.error is not None:
        raise recoded.error
    return reader


def check_text(file: BinaryIO, name: str, encoding: str = UTF_8, option: str = OPTION) -> int:
    """Check that a whole file is in this encoding, and return its size as UTF-8: see `open_text`.

    Raises:
        UserError: it is not.
    """
    recoded = _Recoded(file, name, encoding, option)
    buffer = memoryview(bytearray(4 * _BLOCK))
    size = 0
    while count := recoded.readinto(buffer):
        size += count
    return size


class _Recoded(io.RawIOBase):
    """A file as UTF-8: see `open_text`. Text before an invalid byte can still be read."""

    def __init__(self, file: BinaryIO, name: str, encoding: str, option: str) -> None:
        self.error: UserError | None = None
        self._file, self._name, self._encoding, self._option = file, name, encoding, option
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._is_utf_8 = is_utf_8(encoding)
        self._beginning = b""
        self._ready = b""  # recoded, but not yet read
        self._ended = False
        self._offset = 0  # bytes read from the file
        self._line = 1
        self._has_text = self._beyond_ascii = False

    def readable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._file.isatty()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready and not self._ended:
            self._read_block()
        if not self._ready and self.error is not None:
            raise self.error
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _read_block(self) -> None:
        block = self._file.read1(_BLOCK)  # type: ignore[attr-defined]
        self._ended = not block
        if not self._offset:
            self._beginning = block[:_SAMPLE]
            if self._is_utf_8 and (wide := _find_utf_16(self._beginning)):
                self._fail(f"seems to be {wide.upper()}, not UTF-8: {_advise(wide, self._option)}")
                return
        state = self._decoder.getstate()
        try:
            text = self._decoder.decode(block, final=not block)
            self._append(text)
        except UnicodeError as error:
            self._fail_at(error, block, state)
        self._offset += len(block)

    def _append(self, text: str) -> None:
        if text and not self._has_text:
            text = text.removeprefix(_BYTE_ORDER_MARK)
            self._has_text = True
        self._ready = text.encode()
        self._line += text.count("\n")
        self._beyond_ascii = self._beyond_ascii or not text.isascii()

    def _fail_at(self, error: UnicodeError, block: bytes, state: tuple[bytes, int]) -> None:
        """Append the text of a block before an error, and fail."""
        pending = state[0]
        data, start = pending + block, 0
        if isinstance(error, UnicodeDecodeError):
            data, start = error.object, error.start
        if start > len(pending):
            self._decoder.setstate(state)
            self._append(self._decoder.decode(block[: start - len(pending)]))
        failure = _Failure(
            offset=self._offset - len(pending) + start,
            line=self._line,
            rest=data[start:],
            follows_utf_8=self._beyond_ascii,
        )
        if self._is_utf_8:
            self._fail(_explain(self._beginning, failure, self._option))
        else:
            option = self._option
            remedy = f"give its encoding by {option}NAME" if option else "convert it to UTF-8"
            self._fail(f"is not {self._encoding} ({failure}): {remedy}")

    def _fail(self, reason: str) -> None:
        self.error = UserError(f"{self._name} {reason}")
        self._ended = True


def _find_utf_16(beginning: bytes) -> str:
    """Return the encoding of UTF-16 text without a byte order mark; empty if it is another.

    It may be valid UTF-8. In most scripts, one byte of most UTF-16 characters is zero.
    """
    pairs = len(beginning) // 2
    if pairs < 2 or find_mark(beginning):
        return ""
    low, high = (beginning[i : 2 * pairs : 2].count(0) / pairs for i in (0, 1))
    if high >= _MANY and low <= _FEW:
        return "utf-16-le"
    return "utf-16-be" if low >= _MANY and high <= _FEW else ""


def _advise(encoding: str, option: str) -> str:
    """Return how to read a file in an encoding, if an option sets it, or how to convert it."""
    # iconv has names of its own.
    iconv = {"utf-16-le": "UTF-16LE", "utf-16-be": "UTF-16BE"}
    conversion = f"convert it: iconv -f {iconv.get(encoding, encoding.upper())} -t UTF-8"
    return f"give {option}{encoding}, or {conversion}" if option else conversion


def _explain(beginning: bytes, failure: _Failure, option: str) -> str:
    """Return what a file that is not UTF-8 seems to be, and the remedy."""
    for signature, kind in _ARCHIVES.items():
        if beginning.startswith(signature):
            return f"is {kind}, not text: unpack it first"
    encoding = (find_mark(beginning) or UTF_8)[: len("utf-16")]  # whichever byte is first
    if encoding in ("utf-16", "utf-32"):
        return f"is {encoding.upper()}, not UTF-8 ({failure}): {_advise(encoding, option)}"
    if failure.follows_utf_8 or _is_mostly_utf_8(failure.rest):
        return (
            f"is UTF-8 except for {failure}: correct that line, or drop all invalid bytes: "
            "iconv -c -f UTF-8 -t UTF-8"
        )
    guess = _guess_western(beginning + failure.rest)
    if guess:
        return f"seems to be {guess.upper()}, not UTF-8 ({failure}): {_advise(guess, option)}"
    question = f"give its encoding by {option}NAME, or " if option else ""
    return f"is not UTF-8 ({failure}): {question}convert it to UTF-8: iconv -f NAME -t UTF-8"


def _is_mostly_utf_8(rest: bytes) -> bool:
    text = rest.decode("utf-8", "replace")
    invalid = text.count("\ufffd")
    return sum(not sign.isascii() for sign in text) - invalid > invalid


def _guess_western(text: bytes) -> str:
    """Return the encoding of a text whose letters are mostly ASCII; empty: it is another.

    All characters of Latin-1 that texts have are the same in cp1252.
    """
    beyond = sum(byte > 0x7F for byte in text)
    letters = sum(chr(byte).isalpha() for byte in text if byte <= 0x7F)
    if beyond >= letters:
        return ""
    try:
        text.decode("cp1252")
    except UnicodeDecodeError:
        return ""
    return "cp1252"
