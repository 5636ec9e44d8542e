"""Tokens of Markdown, with the characters that they come from."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable
from itertools import islice, takewhile
from typing import Literal

from markdown_it import MarkdownIt, rules_block, rules_inline
from markdown_it.common.utils import normalizeReference
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from nmt.documents.html_tokens import UNSPACED_BREAK
from nmt.documents.markdown_links import LINK_HELPERS

Item = tuple[str, str]  # what a token means: its type, and its text or source
TEXTS = frozenset(("text", "text_special", "softbreak"))
SOURCES = frozenset(("code_inline", "html_inline", "image", "kept", "empty"))

_NESTING = 100  # levels of quotes, lists and brackets; deeper text is not translated
_SPACE = re.compile("[\x00-\x20\x85\u2028\u2029]+")
# What begins a footnote, and one or the definition of a word or an abbreviation.
_NOTE = re.compile(r"\[\^[^\[\]\s]+\]:")
ABBREVIATED = r"\*\[[^\[\]\n]+\]:[ \t]+(?![^\n]*\*[ \t]*(?:\n|\Z))"  # not emphasis
_DEFINITION = re.compile(rf"{_NOTE.pattern}|{ABBREVIATED}|:[ \t]")
# Lines between texts: containers, blocks, alerts, tables of contents, template tags, attributes.
_KEPT_LINE = re.compile(
    r":::.*|\[!\w+\][+-]?|\[\[?_?TOC_?\]\]?|\{%.*%\}|\{\{[<%].*[>%]\}\}"
    r"|\{ ?[#.:][^{}]*\}|/{3,}.*"
)
# The first line of an admonition or a tab: !!! note "Title", ???+ note, === "Title".
_ADMONITION = re.compile(
    r"""(?:(?:!!!|\?\?\?\+?)(?=[ \t]+["a-z])(?:[ \t]+[\w-]+)*|===[+!]{0,2}(?=[ \t]+"))"""
    r"""(?:[ \t]+"(?P<title>.*)")?"""
)
_ADMONITION_INDENT = 4
# The first line of a callout or container: [!NOTE] Title, :::tip[Title], ::: tip Title, and
# /// tip | Title. A title has no attributes.
_TITLED = re.compile(
    r"\[!\w+\][+-]?[ \t]+(\S.*)|:{3,}[ \t]*[\w-]+(?:\[(.+)\]|[ \t]++((?:[^{}:=]|:(?= ))++))"
    r"|/{3,}[ \t]*(?!html\b|[\w-]*caption\b)[\w-]+[ \t]*\|[ \t]*(.+)"
)
# A line of MDX that imports or exports names. Without a path, it ends before a blank line.
_MODULE = re.compile(
    r"""import\s++(?:[^'"]+\sfrom\s++)?(?P<path>'[^']+'|"[^"]+");?(?:\s*//.*)?"""
    r"|import\s++(?:\w+,\s*)?\{[\w\s,]*"
    r"|export\s+(?:(?:const|let|var)\s+[\w${\[][^=]*=|(?:async\s+)?function\s*\*?\s*\w*\s*\("
    r"|class\s+\w+[^{]*\{|default\s+(?:[\w.$]+;?$|[\[({<]|(?:async\s+)?function\b|class\b)|[{*]).*"
)
# What begins no paragraph of a footnote.
_BLOCK = re.compile(r"(?:[-+*]|\d{1,9}[.)]|#{1,6})(?:[ \t]|$)|[>|<]|```|~~~")
_EXTENSION = re.compile(
    r"""(?P<empty>\[\^[^\[\]\s]+\]|(?<!\{)\{\ ?(?:[#.:]|[\w-]+=)[^{}]*\}(?!\})
        # [^1], {#id .class}, {width=9}
        |\^[+−-]?\d+\^)  # ^2^
    |(?P<kept>\\\([^=^_{}\\+<>\n]*(?!\\[()])[=^_{}\\+<>](?:(?!\\[()])[^\n])*\\\)  # \(x^2\)
        |\$\$(?!\$).+?\$\$|\$(?![\s$])(?:[^$\\]|\\.)*(?<!\s)\$(?!\d)
        |(?<!\+)\+\+(?:[a-z0-9-]+(?:\+[a-z0-9-]+)+  # ++ctrl+c++, ++enter++
        |f\d\d?|enter|return|tab|esc(?:ape)?|space|backspace|del(?:ete)?|insert|ctrl|control|alt
        |shift|cmd|command|meta|win(?:dows)?|home|end|page-(?:up|down)|caps-lock|print-screen
        |(?:arrow-)?(?:up|down|left|right))\+\+(?!\+))""",
    re.VERBOSE | re.DOTALL,
)
# ==marked==, ++inserted++, H~2~O, 1^er^
_STYLED = re.compile(
    # Not the operators of x ==y and ++i.
    r"""(?P<sign>(?<![\w=])==|(?<![\w+])\+\+)(?![\s=+]|\w\b(?!(?P=sign)))
    (?:`[^`]*`|\\.|(?!(?P=sign))[^\\`])+(?<!\s)(?P=sign)(?![\w=+])
    |(?<=[^\W_])(?P<script>[~^])[\w+−-]+(?P=script)(?!(?P=script))""",
    re.VERBOSE | re.DOTALL,
)
_STYLES = {"==": "mark", "++": "ins", "~": "sub", "^": "sup"}  # HTML tags
# A link or an included file of a wiki; brackets around a link are none.
_WIKI = re.compile(
    r"(?P<included>!?)\[\[(?P<target>[^\s\[\]|`^][^\[\]|`\n]*)"
    r"(?:\|(?P<text>(?:\\.|[^\[\]\\\n])*))?\]\](?![(\[])"
)
_InlineRule = Callable[[StateInline, bool], bool]


class MarkdownParser:
    """CommonMark with extensions; links know the definitions so far.

    Tokens of blocks have `meta["begins"]`, where the lines of their text begin. Tokens inside of
    lines have `meta["span"]`, their characters; those that open a link `meta["parts"]`: where the
    link begins, where its label begins and ends, and where the link ends.
    """

    def __init__(self) -> None:
        self._parser = MarkdownIt("commonmark", {"maxNesting": _NESTING})
        self._parser.enable(["table", "strikethrough"])
        self._parser.helpers = LINK_HELPERS
        blocks, inline = self._parser.block.ruler, self._parser.inline.ruler
        for name, block_rule in (
            ("math", _skip_math),
            ("kept_line", _skip_kept_line),
            ("admonition", _read_admonition),
            ("definition", _end_before_definition),
        ):
            interrupted = ["paragraph", "reference", "blockquote", "list"]
            blocks.before("fence", name, block_rule, {"alt": interrupted})
        blocks.before("fence", "module", _skip_module)
        blocks.at("reference", _read_reference)
        blocks.at("code", _read_code)
        for name, rule in (
            ("backticks", rules_inline.backtick),
            ("image", rules_inline.image),
            ("autolink", rules_inline.autolink),
            ("html_inline", rules_inline.html_inline),
            ("escape", rules_inline.escape),
        ):
            inline.at(name, _with_span(rule))
        inline.at("newline", _read_newline)
        inline.at("link", _read_link)
        inline.before("escape", "extension", _with_span(_read_extension))
        inline.before("backticks", "styled", _read_styled)
        inline.before("link", "wiki", _with_span(_read_wiki))
        self._references: dict[str, object] = {}

    def parse_blocks(self, text: str, *, is_excerpt: bool = False) -> list[Token]:
        """Return the tokens of a document or, without new definitions, of an excerpt."""
        references = ChainMap({}, self._references) if is_excerpt else self._references
        state = _BlockState(text, self._parser, {"references": references}, [])
        self._parser.block.tokenize(state, 0, state.lineMax)
        return state.tokens

    def parse_inline(self, content: str) -> list[Token]:
        """Return the tokens of the text of a block."""
        return self._parser.inline.parse(
            content, self._parser, {"references": self._references}, []
        )


def describe(tokens: Iterable[Token], content: str) -> list[Item]:
    """Return what tokens mean; adjacent texts are joined.

    Args:
        tokens: tokens of a text.
        content: the text.
    """
    items: list[Item] = []
    for token in tokens:
        if token.type in TEXTS:
            items.append(("text", read_text(token)))
        elif token.type in SOURCES:
            items.append((token.type, to_one_line(content[slice(*token.meta["span"])])))
        else:
            items.append((token.type, ""))
    return join_texts(items)


def read_text(token: Token) -> str:
    """Return the text of a token of `TEXTS`."""
    return collapse(token.content)


def join_texts(items: Iterable[Item]) -> list[Item]:
    """Return items without two adjacent texts and without an empty one."""
    joined: list[Item] = []
    for kind, value in items:
        if kind == "text" and joined and joined[-1][0] == "text":
            value = joined.pop()[1] + value
        if kind != "text" or value:
            joined.append((kind, collapse(value) if kind == "text" else value))
    return joined


def collapse(text: str) -> str:
    """Return a text with one space in place of white space and control characters.

    Unicode's other spaces have a meaning, so they stay.
    """
    return _SPACE.sub(" ", text)


def to_one_line(source: str) -> str:
    """Return the source of an element on one line."""
    return source.replace("\n", " ")


class _BlockState(StateBlock):
    """Notes where the lines of a text begin, which only the parser knows."""

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        last = self.tokens[-1] if self.tokens else None
        if last is not None and last.type == "inline" and last.map:
            lines = range(*last.map)
            last.meta["begins"] = [self.bMarks[line] + self.tShift[line] for line in lines]
        return super().push(ttype, tag, nesting)


def _get_line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip()


def _skip_kept_line(state: StateBlock, begin: int, end: int, silent: bool) -> bool:
    """Skip a line between texts; of the first one of a callout or container, read the title."""
    line = _get_line(state, begin)
    titled = _TITLED.fullmatch(line)
    if state.is_code_block(begin) or not (titled or _KEPT_LINE.fullmatch(line)):
        return False
    if not silent:
        state.line = begin + 1
        if titled:
            _push_title(state, begin, titled[titled.lastindex or 0])
    return True


def _skip_module(state: StateBlock, begin: int, end: int, silent: bool) -> bool:
    """Skip an import or export of MDX, which begins a block at the left margin."""
    match = _MODULE.fullmatch(_get_line(state, begin))
    if match is None or state.level or state.sCount[begin]:
        return False
    blank_lines = filter(state.isEmpty, range(begin + 1, end))
    state.line = begin + 1 if match["path"] else next(blank_lines, end)
    return True


def _read_admonition(state: StateBlock, begin: int, end: int, silent: bool) -> bool:
    """Read an admonition or a tab of MkDocs: a line with a title, and an indented block."""
    match = _ADMONITION.fullmatch(_get_line(state, begin))
    if match is None or state.is_code_block(begin):
        return False
    if silent:
        return True
    state.push("admonition_open", "", 1)
    if match["title"]:
        _push_title(state, begin, match["title"])
    outer = state.blkIndent, state.lineMax
    state.blkIndent += _ADMONITION_INDENT
    lines = takewhile(
        lambda line: state.isEmpty(line) or state.sCount[line] >= state.blkIndent,
        range(begin + 1, end),
    )
    filled = (line for line in lines if not state.isEmpty(line))
    state.lineMax = max(filled, default=begin) + 1
    state.md.block.tokenize(state, begin + 1, state.lineMax)
    state.line = state.lineMax
    state.blkIndent, state.lineMax = outer
    state.push("admonition_close", "", -1)
    return True


def _push_title(state: StateBlock, line: int, title: str) -> None:
    """Add the tokens of a text at the end of a line."""
    state.push("title_open", "", 1)
    inline = state.push("inline", "", 0)
    inline.content, inline.map, inline.children = title.strip(), [line, line + 1], []
    state.push("title_close", "", -1)


def _skip_math(state: StateBlock, begin: int, end: int, silent: bool) -> bool:
    """Skip lines from one that begins with $$ to one that ends with it and has no other $$.

    A block with a blank line is not math.
    """
    first = _get_line(state, begin)
    if state.is_code_block(begin) or not first.startswith("$$") or "$$" in first[2:]:
        return False
    for line in range(begin + 1, end):
        text = _get_line(state, line)
        if not text or state.sCount[line] < state.blkIndent:
            return False
        if "$$" in text:
            is_end = text.index("$$") == len(text) - 2
            if is_end and not silent:
                state.line = line + 1
            return is_end
    return False


def _end_before_definition(state: StateBlock, begin: int, end: int, silent: bool) -> bool:
    """Definitions are paragraphs, but each begins one of its own."""
    at = state.bMarks[begin] + state.tShift[begin]
    return silent and _DEFINITION.match(state.src, at) is not None


def _read_code(state: StateBlock, begin: int, end: int, silent: bool) -> bool:
    """Read an indented block, unless it is a further paragraph of a footnote."""
    is_code = state.is_code_block(begin) and not _continues_note(state, begin, end)
    return is_code and rules_block.code(state, begin, end, silent)


def _continues_note(state: StateBlock, begin: int, end: int) -> bool:
    """Whether an indented line begins a paragraph below that of a footnote."""
    last = state.tokens[-2] if len(state.tokens) > 1 else None
    if last is None or last.type != "inline" or not last.map:
        return False
    is_note = _NOTE.match(last.content) or state.is_code_block(last.map[0])
    if not is_note or state.sCount[begin] - state.blkIndent >= 8:
        return False
    lines = takewhile(lambda line: not state.isEmpty(line), range(begin, end))
    return not any(_BLOCK.match(_get_line(state, line)) for line in lines)


def _read_reference(state: StateBlock, begin: int, end: int, silent: bool) -> bool:
    at = state.bMarks[begin] + state.tShift[begin]
    is_definition = _DEFINITION.match(state.src, at) is not None
    return not is_definition and rules_block.reference(state, begin, end, silent)


def _read_extension(state: StateInline, silent: bool) -> bool:
    match = _EXTENSION.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.push(match.lastgroup or "", "", 0)
    state.pos = match.end()
    return True


def _read_styled(state: StateInline, silent: bool) -> bool:
    match = _STYLED.match(state.src, state.pos, state.posMax)
    if match is None or silent:
        return False
    sign = match["sign"] or match["script"]
    tag = _STYLES[sign]
    state.push(f"{tag}_open", tag, 1).markup = sign
    _tokenize_inside(state, match.start() + len(sign), match.end() - len(sign))
    state.push(f"{tag}_close", tag, -1)
    state.pos = match.end()
    return True


def _tokenize_inside(state: StateInline, begin: int, end: int) -> None:
    """Add the tokens of the text that an element has."""
    outer_end = state.posMax
    state.pos, state.posMax = begin, end
    state.md.inline.tokenize(state)
    state.posMax = outer_end


def _with_span(rule: _InlineRule) -> _InlineRule:
    """Return a rule whose last token knows its characters."""

    def read(state: StateInline, silent: bool) -> bool:
        begin, count = state.pos, len(state.tokens)
        is_match = rule(state, silent)
        if len(state.tokens) > count:
            state.tokens[-1].meta["span"] = begin, state.pos
        return is_match

    return read


def _read_newline(state: StateInline, silent: bool) -> bool:
    """Read a line break; as text, it is a space, or nothing in Chinese and Japanese."""
    begin = len(state.src[: state.pos].rstrip(" \t"))
    is_match = rules_inline.newline(state, silent)
    if is_match and not silent:
        state.tokens[-1].content = "" if UNSPACED_BREAK.match(state.src, begin) else " "
    return is_match


def _read_link(state: StateInline, silent: bool) -> bool:
    begin, count = state.pos, len(state.tokens)
    is_match = rules_inline.link(state, silent)
    if is_match and not silent:
        added = islice(state.tokens, count, None)
        opening = next(token for token in added if token.type == "link_open")
        label_end = state.md.helpers.parseLinkLabel(state, begin, True)
        opening.meta["parts"] = begin, begin + 1, label_end, state.pos
    return is_match


def _read_wiki(state: StateInline, silent: bool) -> bool:
    """Read [[target]] or ![[file]], which stay, or [[target|text]], a link."""
    match = _WIKI.match(state.src, state.pos, state.posMax)
    # In the label of a link, they are brackets.
    if match is None or silent or state.linkLevel:
        return False
    begin, label_end = match.start("target"), match.end() - 2
    if normalizeReference(state.src[begin:label_end]) in state.env["references"]:
        return False  # a link in brackets
    if match["included"]:
        state.push("empty", "", 0)
    elif match["text"] is None:
        state.push("kept", "", 0)
    else:
        opening = state.push("link_open", "a", 1)
        opening.meta["parts"] = match.start(), match.start("text"), label_end, match.end()
        _tokenize_inside(state, match.start("text"), label_end)
        state.push("link_close", "a", -1)
    state.pos = match.end()
    return True
