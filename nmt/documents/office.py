"""DOCX and ODT: paragraphs of the text, headers, footers and notes.

Unchanged paragraphs keep their bytes; so does a document without a changed paragraph. Comments and
deleted text stay. What changed paragraphs lose is in `nmt.documents.docx` and `odt`.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy

from nmt.documents import docx, odt
from nmt.documents.formats import Document, DocumentOptions
from nmt.documents.xml import XmlText, get_attribute
from nmt.errors import UserError
from nmt.text.marked import MarkedText
from nmt.text.scripts import UNKNOWN_LANGUAGE, primary_subtag

MAX_ENTRIES = 10_000
MAX_BYTES = 200 << 20  # of all entries, unpacked; books with pictures have about 50 MB
MAX_RATIO = 200  # of unpacked to packed bytes of an entry with text, which has about 10
_SMALL = 1 << 20  # bytes of an entry for which the ratio does not matter

_CONTENT_TYPES = "[Content_Types].xml"
_DOCX_MAIN = re.compile(r"application/vnd\.openxmlformats-.*\.(document|template)\.main\+xml")
_DOCX_OTHERS = re.compile(
    r"application/vnd\.openxmlformats-.*\.(header|foot(er|notes)|endnotes)\+xml"
)
_DOCX_STYLES = re.compile(r"application/vnd\.openxmlformats-.*\.styles\+xml")
_DOCX_LANGUAGE = re.compile(rb"""(<w:lang\b[^<>]*?\bw:val=["'])([\w-]+)""")
_ODT_TAG = re.compile(rb"<[^<>]*\bfo:language=[^<>]*>")
_ODT_LANGUAGE = re.compile(rb"""(\bfo:language=["'])([\w-]+)""")
_ODT_COUNTRY = re.compile(rb"""(\bfo:country=["'])([\w-]+)""")
_ODT = b"application/vnd.oasis.opendocument.text"
_MACROS = re.compile(r"(.*/)?vba(Project|Data)[^/]*|(Basic|Scripts)/.+", re.IGNORECASE)
_OUTSIDE = re.compile(r"[/\\]|[A-Za-z]:|(.*[/\\])?\.\.([/\\]|\Z)", re.DOTALL)
_OLE = b"\xd0\xcf\x11\xe0"  # old Word files, and encrypted new ones
_CENTRAL_HEADER = b"PK\x01\x02"
_LOCAL_HEADER_BYTES = 30
_NAME_IS_UTF8 = 0x800
_IS_ENCRYPTED = 0x1


class OfficeDocument(Document):
    """The paragraphs of a package of XML documents.

    Attributes:
        segments: paragraphs, in the order of the parts.

    Args:
        package: the package.
        parts: its parts with text or styles, by the names of their entries.
        options: languages: text that is marked as in the source language, for spell checkers, is
            marked as in the target language.
    """

    def __init__(
        self, package: Package, parts: Mapping[str, Document], options: DocumentOptions
    ) -> None:
        self._package = package
        self._parts = parts
        self._options = options
        self.segments: Sequence[MarkedText] = [
            segment for part in parts.values() for segment in part.segments
        ]

    def fill(self, translations: Sequence[MarkedText]) -> bytes:
        """Return the document with other paragraphs: see `Document.fill`."""
        if all(
            text == segment.without_kept()
            for text, segment in zip(translations, self.segments, strict=True)
        ):
            return self._package.replace({})
        changes: dict[str, bytes] = {}
        done = 0
        for name, part in self._parts.items():
            texts = translations[done : done + len(part.segments)]
            done += len(part.segments)
            old = self._package.read(name)
            new = _name_language(part.fill(texts), self._options)
            if new != old:
                changes[name] = new
        return self._package.replace(changes)


def _name_language(data: bytes, options: DocumentOptions) -> bytes:
    """Return a part in UTF-8 that names the target language wherever it named the source's."""
    if options.target_language == UNKNOWN_LANGUAGE:
        return data
    source, target = primary_subtag(options.source_language), options.target_language.encode()
    language, _, subtags = target.partition(b"-")
    region_match = re.search(
        rb"(?:^|-)([A-Za-z]{2}|[0-9]{3})(?=-|$)", subtags
    )  # not a script: zh-Hans
    region = region_match[1] if region_match else b""

    def is_source(tag: bytes) -> bool:
        return primary_subtag(tag.decode()) == source

    def name_in_docx(match: re.Match[bytes]) -> bytes:
        return match[1] + target if is_source(match[2]) else match[0]

    def name_in_odt(match: re.Match[bytes]) -> bytes:
        named = _ODT_LANGUAGE.search(match[0])
        if named is None or not is_source(named[2]):
            return match[0]
        tag = _ODT_LANGUAGE.sub(rb"\g<1>" + language, match[0])
        return _ODT_COUNTRY.sub(rb"\g<1>" + (region or b"none"), tag)

    return _ODT_TAG.sub(name_in_odt, _DOCX_LANGUAGE.sub(name_in_docx, data))


class Package:
    """A ZIP archive that was checked before anything is unpacked.

    Args:
        data: the archive.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        if data.startswith(_OLE):
            raise UserError("the document is encrypted or of an old format: save it as DOCX or ODT")
        if data.count(_CENTRAL_HEADER) > MAX_ENTRIES:
            raise UserError(f"the document has more than {MAX_ENTRIES} entries: save it again")
        with _explain_damage():
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        self._entries = {info.filename: info for info in self._archive.infolist()}
        if len(self._entries) < len(self._archive.infolist()):
            raise UserError("the document has two entries of one name: save it again")
        for info in self._entries.values():
            _check_entry(info)
        if sum(info.file_size for info in self._entries.values()) > MAX_BYTES:
            raise UserError(f"the document unpacks to more than {MAX_BYTES >> 20} MB: split it")
        self._ends = self._find_ends()

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def read(self, name: str) -> bytes:
        """Return the bytes of an entry, never more than it declares.

        Raises:
            UserError: it is damaged, or it declares too much for its size.
        """
        info = self._entries[name]
        if info.file_size > max(_SMALL, MAX_RATIO * info.compress_size):
            raise UserError(
                f"the document's entry {name!r} unpacks to more than {MAX_RATIO} times its size: "
                "save it again"
            )
        with _explain_damage(), self._archive.open(info) as file:
            data = file.read(info.file_size + 1)
            if len(data) != info.file_size:
                raise zipfile.BadZipFile(f"{name!r} is cut")
        return data

    def replace(self, changes: Mapping[str, bytes]) -> bytes:
        """Return the archive with other contents of entries; all others are copied as packed."""
        if not changes:
            return self._data
        output = io.BytesIO()
        with zipfile.ZipFile(output, "w") as target:
            target.comment = self._archive.comment
            for info in self._entries.values():
                changed = changes.get(info.filename)
                if changed is None and _has_portable_name(info):
                    _copy_packed(self._data, info, self._ends[info.filename], target)
                    continue
                written = copy(info)
                target.writestr(written, self.read(info.filename) if changed is None else changed)
                written.external_attr = info.external_attr  # permissions were added
        return output.getvalue()

    def _find_ends(self) -> dict[str, int]:
        """Return where each entry ends, by its name."""
        entries = sorted(self._entries.values(), key=lambda info: info.header_offset)
        ends = [*(info.header_offset for info in entries[1:]), self._archive.start_dir]
        for info, end in zip(entries, ends, strict=False):
            if info.header_offset + _LOCAL_HEADER_BYTES + info.compress_size > end:
                raise UserError("the document's entries overlap: save it again")
        return {info.filename: end for info, end in zip(entries, ends, strict=False)}


def extract(data: bytes, options: DocumentOptions) -> OfficeDocument:
    """Return the paragraphs of a DOCX or ODT document.

    Raises:
        UserError: it is neither, damaged, hostile or encrypted, or it has macros.
    """
    package = Package(data)
    if _CONTENT_TYPES in package:
        names = _find_docx_parts(package)
        docx_parts = {name: docx.DocxPart(package.read(name)) for name in names}
        return OfficeDocument(package, docx_parts, options)
    if "content.xml" in package and "mimetype" in package:
        if not package.read("mimetype").startswith(_ODT):
            raise UserError("the document has no text but a table or slides: only ODT is supported")
        manifest = "META-INF/manifest.xml"
        if manifest in package and b"encryption-data" in package.read(manifest):
            raise UserError("the document is encrypted: save it without a password")
        names = [name for name in ("content.xml", "styles.xml") if name in package]
        odt_parts = {name: odt.OdtPart(package.read(name)) for name in names}
        return OfficeDocument(package, odt_parts, options)
    raise UserError("the document is neither DOCX nor ODT: save it as one of them")


def _find_docx_parts(package: Package) -> list[str]:
    """Return the names of the parts with text, the main one first, and of those with styles."""
    by_name: dict[str, str] = {}
    main_extensions = set()
    for element in XmlText(package.read(_CONTENT_TYPES)).root.iterchildren("{*}*"):
        content_type = get_attribute(element, "ContentType")
        name = get_attribute(element, "PartName").removeprefix("/")
        if name and "macroenabled" in content_type.lower():
            raise UserError("the document has macros: save it as DOCX without them")
        if name in package:
            by_name[name] = content_type
        elif _DOCX_MAIN.fullmatch(content_type):
            main_extensions.add(get_attribute(element, "Extension"))
    main = [name for name in by_name if _DOCX_MAIN.fullmatch(by_name[name])]
    if not main:  # its type is that of its extension
        unnamed = (name for name in package if name not in by_name)
        main = [name for name in unnamed if name.rpartition(".")[2] in main_extensions]
    if not main:
        raise UserError("the document has no text: only DOCX and ODT are supported")
    return [
        *main,
        *(
            name
            for kind in (_DOCX_OTHERS, _DOCX_STYLES)
            for name in package
            if kind.fullmatch(by_name.get(name, ""))
        ),
    ]


def _check_entry(info: zipfile.ZipInfo) -> None:
    """Raise a `UserError` for an entry that is hostile or not readable."""
    name = info.filename
    if _OUTSIDE.match(name) or _OUTSIDE.match(info.orig_filename):
        raise UserError(f"the document has an entry outside of it, {name!r}: save it again")
    if info.flag_bits & _IS_ENCRYPTED:
        raise UserError("the document is encrypted: save it without a password")
    if _MACROS.fullmatch(name):
        raise UserError(f"the document has macros, {name!r}: save it as DOCX or ODT without them")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UserError(f"the document's entry {name!r} is packed in a rare way: save it again")


def _has_portable_name(info: zipfile.ZipInfo) -> bool:
    """Whether the name is written in the directory as it is in the entry."""
    return info.filename.isascii() or bool(info.flag_bits & _NAME_IS_UTF8)


def _copy_packed(data: bytes, info: zipfile.ZipInfo, end: int, target: zipfile.ZipFile) -> None:
    """Copy an entry, its header and its packed bytes to the end of an archive."""
    copied = copy(info)
    copied.header_offset = target.start_dir
    assert target.fp is not None
    target.fp.seek(target.start_dir)
    target.fp.write(data[info.header_offset : end])
    target.start_dir = target.fp.tell()
    target.filelist.append(copied)
    target.NameToInfo[copied.filename] = copied


@contextmanager
def _explain_damage() -> Iterator[None]:
    """Turn what `zipfile` raises for damaged archives into a `UserError`."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        OSError,
        OverflowError,
        RuntimeError,
        ValueError,
    ) as error:
        reason = str(error)[:80]  # which may quote a whole entry
        raise UserError(
            f"the document is a damaged DOCX or ODT archive ({reason}): save it again"
        ) from error
