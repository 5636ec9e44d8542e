"""Where the tags and texts of a page begin."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from itertools import accumulate, pairwise
from typing import NamedTuple

from nmt.text.scripts import WIDE

# Elements inside of a sentence; all others, unknown ones included, end it.
INLINE = frozenset(
    """a abbr acronym b bdi bdo big cite del dfn em font i ins label mark nobr q rb rt ruby s small
    span strike strong sub sup time tt u""".split()
)
EMPTY = frozenset("embed img input wbr".split())  # inside of a sentence, without content
VOID = EMPTY | frozenset("area base br col hr link meta source track".split())  # without content
# Elements whose end tag may be left out, and those whose beginning ends them.
_ENDED_BY = {
    **dict.fromkeys(("dt", "dd"), frozenset(("dt", "dd"))),
    **dict.fromkeys(("td", "th"), frozenset("td th tr tbody tfoot".split())),
    "li": frozenset(("li",)),
    "tr": frozenset("tr tbody tfoot".split()),
    "option": frozenset("option optgroup hr".split()),
    "p": frozenset(
        """address article aside blockquote details div dl fieldset figcaption figure footer form h1
        h2 h3 h4 h5 h6 header hgroup hr main menu nav ol p pre search section table ul""".split()
    ),
}
_TAG = re.compile("<[A-Za-z/!?]")
# Of ERB, EJS, JSP, PHP, Jinja, Twig, Handlebars; none goes beyond a comment or script, and those in
# braces not beyond an element.
_OUTER = "-->|</script|</style"
TEMPLATE = re.compile(
    rf"<%(?:(?!<%|{_OUTER}).)*?%>|<\?(?!xml)(?:(?!<\?|{_OUTER}).)*?\?>"
    r"|\{%(?:(?!\{%|</).)*?%\}|\{#(?:(?!\{#|</).)*?#\}|\{\{(?:(?!\{\{|</).)*?\}\}",
    re.DOTALL,
)
# Those that write a value; others are statements and comments.
_VALUE = re.compile(
    r"<%[=:]|<\?(?:=|php\s+echo\b)"
    r"|\{\{[~-]?(?![#/^!>]|\s*(?:block|define|else|end|if|range|with)\b)"
)
# Also of icons, whose text is their name.
_KEPT_CLASS = re.compile(
    r"(?<!\S)(?:notranslate|material-(?:icons|symbols)(?:-(?:outlined|rounded?|sharp|two-tone))?)"
    r"(?!\S)"
)
SPACE = " \t\n\r\f"
_SPACES = re.compile(f"[{SPACE}]+")
# A line break that does not stand for a space, in Chinese and Japanese (CSS Text, 4.1.3).
UNSPACED_BREAK = re.compile(rf"(?<=[{WIDE}])[ \t\f]*+[\r\n][{SPACE}]*+(?=[{WIDE}])")
_NO_LINE_BREAK = re.compile("[^\n]")
# `HTMLParser` stops at these, though browsers read l&#39eau, and fails at thousands of digits.
_BAD_REFERENCE = re.compile("&#(?!(?:[0-9]{1,7}|[xX][0-9a-fA-F]+)[^0-9a-fA-F])")
_DECIMAL_REFERENCE = re.compile("&#0*([0-9]+)")
_TOO_LARGE = "1114112"  # browsers show U+FFFD for it, and for all that are larger


def unescape(text: str) -> str:
    """Return a text with characters in place of its references.

    As `html.unescape`, which fails at references of more than 4,300 digits.
    """
    return html.unescape(
        _DECIMAL_REFERENCE.sub(
            lambda match: f"&#{match[1] if len(match[1]) < 8 else _TOO_LARGE}", text
        )
    )


def collapse(source: str) -> str:
    """Return the text of source, with one space in place of white space."""
    return _SPACES.sub(" ", UNSPACED_BREAK.sub("", unescape(source)))


class Token(NamedTuple):
    """A tag or text of a page."""

    # "start", "end", "text", "value" or "statement" of a template, or "other": a comment, a
    # declaration.
    kind: str
    begin: int  # its first character
    name: str = ""
    is_kept: bool = False  # translate="no"


def read_tokens(page: str) -> list[Token]:
    """Return the tags, texts and template code of a page in order."""
    return list(_split_texts(_Tokenizer(hide_templates(page)).tokens, page))


def hide_templates(source: str) -> str:
    """Return source with `_` in place of template code, in which there may be < and quotes."""
    return TEMPLATE.sub(lambda match: _NO_LINE_BREAK.sub("_", match[0]), source)


def _split_texts(tokens: Sequence[Token], page: str) -> Iterator[Token]:
    """Yield tokens, with template code in texts, and white space around them, as their own."""
    for token, following in pairwise([*tokens, Token("other", len(page))]):
        begin, end = token.begin, following.begin
        if token.kind != "text":
            yield token
            continue
        for match in TEMPLATE.finditer(page, begin, end):
            yield from _split_space(page, begin, match.start())
            yield Token("value" if _VALUE.match(match[0]) else "statement", match.start())
            begin = match.end()
        yield from _split_space(page, begin, end)


def _split_space(page: str, begin: int, end: int) -> Iterator[Token]:
    """Yield the text of characters [begin, end), if any, and the white space around it."""
    text = page[begin:end].strip(SPACE)
    first = page.find(text, begin) if text else end
    for at, following in pairwise((begin, first, first + len(text), end)):
        if at < following:
            yield Token("text", at)


def match_tags(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the end tag of each start tag that has one."""
    opened: dict[str, list[int]] = defaultdict(list)
    closing: dict[int, int] = {}
    for i, token in enumerate(tokens):
        if token.kind == "start":
            opened[token.name].append(i)
        elif token.kind == "end" and opened[token.name]:
            closing[opened[token.name].pop()] = i
    return closing


def find_end(tokens: Sequence[Token], closing: Mapping[int, int], index: int) -> int:
    """Return the last token of an element.

    It is the end tag. Where HTML lets that be left out, the element ends before another one that
    ends it, and before the end of its parent (HTML Standard, section 13.1.2.4).

    Args:
        tokens: of the page.
        closing: of `match_tags`.
        index: of the start tag.
    """
    ending = _ENDED_BY.get(tokens[index].name)
    if index in closing or ending is None:
        return closing.get(index, index)
    at = index + 1
    while at < len(tokens):
        token = tokens[at]
        if token.kind == "end" or (token.kind == "start" and token.name in ending):
            break
        at = closing.get(at, at) + 1
    return at - 1


class _Tokenizer(HTMLParser):
    """Finds where the tags and texts of a page begin."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        lines = (len(line) + 1 for line in page.split("\n"))
        self._line_begins = [0, *accumulate(lines)]
        self.tokens: list[Token] = []
        # A tag that does not end is read again and again: what follows the last > is not parsed.
        end = page.rfind(">") + 1
        self._lacks_comment_end = False
        self.feed(_BAD_REFERENCE.sub("xx", page[:end]))  # only places are read
        self.close()
        tag = _TAG.search(page, end)
        text_end = end if self._is_in_script else tag.start() if tag else len(page)
        if end < text_end:
            self.tokens.append(Token("text", end))
        if text_end < len(page):
            self.tokens.append(Token("other", text_end))

    @property
    def _is_in_script(self) -> bool:
        """Whether a script or style is open; newer Pythons set `cdata_elem` in titles, too."""
        return self.cdata_elem in self.CDATA_CONTENT_ELEMENTS

    def _add(self, kind: str, name: str = "", *, is_kept: bool = False) -> None:
        line, column = self.getpos()
        self.tokens.append(Token(kind, self._line_begins[line - 1] + column, name, is_kept))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        is_kept = (values.get("translate") or "").lower() == "no"
        is_kept = is_kept or _KEPT_CLASS.search(values.get("class") or "") is not None
        self._add("start", tag, is_kept=is_kept)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            self.handle_starttag(tag, attrs)
        else:
            self._add("other" if tag in INLINE else "end", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("end", tag)

    def handle_data(self, data: str) -> None:
        self._add("other" if self._is_in_script else "text")

    def handle_entityref(self, name: str) -> None:
        self._add("text")

    def handle_charref(self, name: str) -> None:
        self._add("text")

    def handle_comment(self, data: str) -> None:
        self._add("other")

    def handle_decl(self, decl: str) -> None:
        self._add("other")

    def handle_pi(self, data: str) -> None:
        self._add("other")

    def parse_comment(self, i: int, report: bool = True) -> int:
        """Skip a comment; once an end is missing, none is looked for: see `HTMLParser`."""
        end = -1 if self._lacks_comment_end else super().parse_comment(i, report)
        self._lacks_comment_end = end < 0
        return end

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """Skip a marked section (<![); HTML has only CDATA: see `HTMLParser`."""
        closing = "]]>" if self.rawdata.startswith("<![CDATA[", i) else ">"
        end = self.rawdata.find(closing, i)
        if end >= 0:
            self._add("other")
        return end + len(closing) if end >= 0 else -1

    def unknown_decl(self, data: str) -> None:
        self._add("other")
