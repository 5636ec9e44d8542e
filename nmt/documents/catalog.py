"""JSON and YAML catalogues: the string values that are texts; keys and all else stay.

Where the catalogue names its language, it names that of the translations: in ``@@locale`` of ARB,
and in the only key at the root of a YAML document, as in those of Rails.

The file is not rebuilt: only the characters of translated strings change. A YAML string without
quotes gets them where it needs them, and a YAML block of lines where it cannot hold the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import yaml

from nmt.data.encodings import decode
from nmt.data.languages import are_variants
from nmt.documents.formats import Document, DocumentOptions
from nmt.errors import UserError
from nmt.text.marked import MarkedText, is_message_format, splice
from nmt.text.scripts import UNKNOWN_LANGUAGE
from nmt.text.spans import find_spans, has_letters_outside

_JSON_EXTENSIONS = (".json", ".arb")
_MAX_LEVELS = 200  # of nested objects and lists
_MAX_NODES = 1_000_000  # of a YAML document whose aliases are resolved
_JSON_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"(?P<key>[ \t\r\n]*:)?|[\[{]|[\]}]')
_METADATA = re.compile(r'"@@?\w+"')  # keys of Flutter's catalogues (ARB) and of JSON-LD
_LOCALE = '"@@locale"'
_STRING_TAGS = ("tag:yaml.org,2002:str", "!")
# Not printable to YAML, or a line break to it.
_UNPRINTABLE = re.compile(
    "[^ -~\u00a0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_PLAIN = re.compile(r"[^\W\d_](?:[\w ,;.!?'()¿¡…/%+-]*[\w.!?)…])?")  # needs no quotes
_RESOLVER = yaml.resolver.Resolver()
_PROPERTIES = re.compile(r"(?:(?:[&!]\S*|#[^\r\n]*)\s+)+")  # anchor and tag before a string
_YAML_BREAKS = "\r\n\x85\u2028\u2029"
_YAML_BREAK = re.compile(f"(\r\n|[{_YAML_BREAKS}])")
_BLOCK_HEADER = re.compile("[|>][-+0-9]*")

_FORMAT = "(?:d{1,4}|D{1,4}|M{1,4}|y|[yY]{2,4}|H{1,2}|h{1,2}|m{1,2}|s{1,2}|[aA]|E{1,4}|Z{1,2})"
_BETWEEN = r"(?:(?u:[^\w'\[\]])|_|'[^']*'|\[[^\[\]]*\])+"  # also literals: 'de', [de]
_PROPERTY = (
    "(?:-?[a-z]+(?:-[a-z]+)+|background|border|bottom|color|cursor|display|flex|float|font|gap"
    "|height|left|margin|opacity|outline|overflow|padding|position|right|top|transform|width)"
)
# Values that programs read, beyond the spans that the translator keeps in any text.
_CODE = re.compile(
    r"[a-z]{2}|[a-z]{2,3}(?:[-_](?:[A-Z][a-z]{3}|[A-Z]{2}|[0-9]{3})){1,2}"  # locale
    r"|(?:rgb|hsl)a?\([^()]*\)|#[0-9A-Fa-f]{3,8}"  # color
    r"|(?:application|audio|font|image|multipart|text|video)/[a-z0-9.*+-]+"  # type of a file
    r"|[a-z]+(?:[A-Z][a-z0-9]*)+"  # identifier, also with dots, underscores or digits
    r"|[A-Za-z0-9-]+(?:[._][A-Za-z0-9-]+)+|[A-Za-z0-9-]*[0-9][A-Za-z0-9-]*"
    r"|(?:mailto|tel|data|urn|javascript):\S+|[a-z]+://\S+|(?:\.{0,2}|~)/\S*|[A-Za-z]:\\\S*"
    r"|(?=\S*[0-9_.]|(?:app|assets|dist|images|img|lib|public|src|static)/)"
    r"[a-z0-9_.-]+(?:/[a-z0-9_.-]+){2,}"  # path
    rf"|(?:{_PROPERTY}\s*:[^:;]+;\s*)+(?:{_PROPERTY}\s*:[^:;]+)?"  # style
    # Classes of CSS: "btn btn-lg".
    r"|(?=(?:\S+ )*([a-z]+)(?:-[a-z0-9-]+)? (?:\S+ )*\1-)[a-z0-9-]+(?: [a-z0-9-]+)+"
    # Format of a date; letters, as in "más", end none, and "H y M" is a text.
    rf"|(?!. y .$){_FORMAT}(?:{_BETWEEN}{_FORMAT})+",
    re.ASCII,
)
_LONGEST_CODE = 200  # characters; longer ones are texts if they have white space
_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a character


class _String(NamedTuple):
    """A string value: characters [begin, end) of the document."""

    begin: int
    end: int
    value: str
    write: Callable[[str], str]  # another value in its form
    is_locale: bool = False  # it names the language of the catalogue


class CatalogDocument(Document):
    """The texts of a JSON or YAML catalogue.

    Args:
        data: a catalogue.
        options: the language of its texts, and the one to write into it. A file whose name is that
            of JSON must be JSON.

    Raises:
        UserError: it is neither JSON nor YAML, or too deep, or not UTF-8 or UTF-16.
    """

    def __init__(self, data: bytes, options: DocumentOptions) -> None:
        self._text, self._encoding = decode(data)
        self._language = options.target_language
        strings = _find_strings(self._text, options)
        self._locales = [each for each in strings if each.is_locale]
        self.skipped = sum(is_message_format(each.value) for each in strings)
        self._strings = [
            each for each in strings if not each.is_locale and _is_translatable(each.value)
        ]
        self.segments: Sequence[MarkedText] = [MarkedText(each.value) for each in self._strings]

    def fill(self, translations: Sequence[MarkedText]) -> bytes:
        """Return the catalogue with other texts: see `Document.fill`."""
        texts = zip(self._strings, self.segments, translations, strict=True)
        changes = [
            (string.begin, string.end, string.write(translation.text))
            for string, segment, translation in texts
            if translation != segment
        ]
        if self._language != UNKNOWN_LANGUAGE:
            changes += [
                (each.begin, each.end, each.write(self._language)) for each in self._locales
            ]
        return splice(self._text, sorted(changes)).encode(self._encoding)


def _find_strings(text: str, options: DocumentOptions) -> list[_String]:
    """Return the string values of a document, and the key that names its language.

    Raises:
        UserError: it is neither JSON nor YAML, or its name says JSON and it is not, or too deep.
    """
    try:
        # Digits are not read: there may be more than Python converts.
        json.loads(text.removeprefix("\ufeff"), parse_int=str, parse_float=str)
    except RecursionError as error:
        raise _too_deep() from error
    except json.JSONDecodeError as json_error:
        if text.lstrip("\ufeff \t\r\n")[:2] in ("//", "/*"):
            raise UserError("the catalogue is JSON with comments: remove them") from json_error
        if options.extension in _JSON_EXTENSIONS:
            raise UserError(
                f"the catalogue is not valid JSON ({json_error}): correct it"
            ) from json_error
        try:
            return _drop_other_keys(list(_find_yaml_strings(text)), options.source_language)
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            reason = " ".join(str(error).split())
            raise UserError(
                f"the catalogue is neither JSON ({json_error}) nor YAML ({reason}): correct it"
            ) from error
    return list(_find_json_strings(text))


def _drop_other_keys(strings: list[_String], language: str) -> list[_String]:
    """Return the strings of a YAML document; of its keys only the one that names its language.

    That is one that all values are below, as in catalogues of Rails.
    """
    keys = [each.value for each in strings if each.is_locale]
    has_locale = len(keys) == 1 and are_variants(keys[0], language)
    return [each for each in strings if not each.is_locale or has_locale]


def _too_deep() -> UserError:
    return UserError(
        f"the catalogue has more than {_MAX_LEVELS} nested levels: split it, or make it flatter"
    )


def _find_json_strings(text: str) -> Iterator[_String]:
    """Yield the string values of a valid JSON document, without metadata but for the locale."""
    write = json.dumps if text.isascii() and "\\u" in text else _quote
    level = 0
    key = ""  # of the next value
    metadata_level: int | None = None  # of the open object or list of metadata
    for match in _JSON_TOKEN.finditer(text):
        if match["key"]:
            key = match[0][: -len(match["key"])]
            continue
        is_metadata = _METADATA.fullmatch(key) is not None
        sign = text[match.start()]
        if sign in "[{":
            if is_metadata and metadata_level is None:
                metadata_level = level
            level += 1
            if level > _MAX_LEVELS:
                raise _too_deep()
        elif sign in "]}":
            level -= 1
            if level == metadata_level:
                metadata_level = None
        elif metadata_level is None and (not is_metadata or key == _LOCALE):
            is_locale = key == _LOCALE
            write_value = _write_locale if is_locale else write
            yield _String(*match.span(), json.loads(match[0]), write_value, is_locale)
        key = ""


@dataclass
class _Collection:
    """An open mapping or sequence of a YAML document."""

    is_mapping: bool
    is_flow: bool  # within brackets
    is_key: bool  # it is, or is inside of, a key
    anchor: str | None
    size: int = 1  # nodes so far
    has_key: bool = False  # the next node of a mapping is a value

    def expects_key(self) -> bool:
        """Whether the next node is a key, or is inside of one."""
        return self.is_key or (self.is_mapping and not self.has_key)


def _find_yaml_strings(text: str) -> Iterator[_String]:
    """Yield the string values of a YAML document, and the keys at its root, which may be a locale.

    Aliases are not resolved.

    Raises:
        UserError: it is too deep, or aliases make it too large.
        yaml.YAMLError: it is damaged.
        ValueError, OverflowError: an escape names no character.
    """
    loader = yaml.SafeLoader(text)
    opened = [_Collection(False, False, False, None)]
    sizes: dict[str, int] = {}  # of the nodes with an anchor
    while loader.check_event():
        event = loader.get_event()
        inside = opened[-1]
        if isinstance(event, yaml.CollectionStartEvent):
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            opened.append(
                _Collection(is_mapping, event.flow_style, inside.expects_key(), event.anchor)
            )
            if len(opened) > _MAX_LEVELS + 1:
                raise _too_deep()
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            node = opened.pop()
            size, anchor = node.size, node.anchor
            inside = opened[-1]
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise UserError(
                    f"the alias *{event.anchor} has no anchor before it: add &{event.anchor}"
                )
            size, anchor = sizes[event.anchor], None
        elif isinstance(event, yaml.ScalarEvent):
            size, anchor = 1, event.anchor
            is_root_key = len(opened) == 2 and inside.expects_key()
            if is_root_key or (not inside.expects_key() and _is_string(event)):
                string = _yaml_string(text, event, is_flow=inside.is_flow)
                yield string._replace(is_locale=is_root_key)
        else:  # where a document or the stream begins or ends
            continue
        if anchor is not None:
            sizes[anchor] = size
        inside.size += size
        inside.has_key = not inside.has_key
        if inside.size > _MAX_NODES:
            raise UserError(
                f"the catalogue has more than {_MAX_NODES} values once its aliases are resolved: "
                "remove aliases, or split it"
            )


def _is_string(event: yaml.ScalarEvent) -> bool:
    tag = event.tag
    if tag is None or (tag == "!" and event.style is None):
        tag = _RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit)
    return tag in _STRING_TAGS


def _yaml_string(text: str, event: yaml.ScalarEvent, *, is_flow: bool) -> _String:
    end = event.end_mark.index
    before = _PROPERTIES.match(text, event.start_mark.index, end)
    begin = before.end() if before else event.start_mark.index
    write: Callable[[str], str] = _quote
    if event.style is None:
        write = partial(_write_plain, is_flow=is_flow)
    elif event.style == "'":
        write = _write_single
    elif event.style in "|>":
        write = partial(_write_block, text[begin:end], folds=event.style == ">")
    return _String(begin, end, event.value, write)


def _quote(value: str) -> str:
    """Return a string in double quotes, for JSON and YAML."""
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _write_locale(language: str) -> str:
    return _quote(language.replace("-", "_"))


def _write_single(value: str) -> str:
    if _UNPRINTABLE.search(value):
        return _quote(value)
    return "'" + value.replace("'", "''") + "'"


def _write_plain(value: str, *, is_flow: bool) -> str:
    is_string = _RESOLVER.resolve(yaml.ScalarNode, value, (True, False)) in _STRING_TAGS
    is_safe = is_string and _PLAIN.fullmatch(value) and not (is_flow and "," in value)
    return value if is_safe else _quote(value)


def _write_block(raw: str, value: str, *, folds: bool) -> str:
    """Return a block of lines, or where it cannot hold the value, a string in double quotes.

    Args:
        raw: the block.
        value: another value.
        folds: a line break of the block is a space.
    """
    header, newline, body = _YAML_BREAK.split(raw, maxsplit=1)
    content = body.rstrip(f" {_YAML_BREAKS}")
    end = body[len(content) :]
    first = content.lstrip(_YAML_BREAKS)
    indent = first[: len(first) - len(first.lstrip(" "))]
    lines = value.rstrip("\n").split("\n")
    begins_with_space = any(line.startswith(" ") for line in (lines if folds else lines[:1]))
    is_unprintable = any(map(_UNPRINTABLE.search, lines))
    is_indent_explicit = bool(re.match("[|>][-+]?[0-9]", header))
    if not lines[0].strip() or begins_with_space or is_unprintable or is_indent_explicit:
        quoted = _quote(value)
        return _BLOCK_HEADER.sub(lambda _: quoted, header, count=1) + end
    if folds:
        lines = re.sub("\n+", r"\g<0>\n", "\n".join(lines)).split("\n")
    written = newline.join(indent + line if line else "" for line in lines)
    return f"{header}{newline}{written}{end}"


def _is_translatable(value: str) -> bool:
    """Whether a value is a text: it has letters, and is nothing that only programs read."""
    core = value.strip()
    if len(core) > _LONGEST_CODE:
        is_code = core.isascii() and len(core.split(maxsplit=1)) == 1
    else:
        is_code = bool(_CODE.fullmatch(core))
    if is_code or is_message_format(core) or _SURROGATE.search(core):
        return False
    return has_letters_outside(core, list(find_spans(core)))


extract = CatalogDocument
