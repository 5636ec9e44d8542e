"""Sentences with spans that a translation must keep unchanged, of each kind, from a seed.

Half of them are sentences of `carriers.tsv`, which is Spanish; the others are sentences of a test
split into which a span is inserted.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from text_changes import FINAL_MARKS

from nmt.text.scripts import primary_subtag

Values = tuple[str, ...]

FOLDER = Path(__file__).parent
TAG_PAIR = "tag pair"
NAME = "unseen name"
_SUBSTITUTED = 0.5  # of test sentences with a word that a span can replace
_ATTEMPTS = 20  # to draw a value that its sentence does not contain already

_NAMES = (
    "ana luis marta jorge elena pablo lucia diego carmen raul nuria ivan perez soto vega ruiz gil "
    "mora campos leon"
).split()
_WORDS = (
    "noticias tienda viajes musica mapa receta factura informe agenda fotos pedido escuela archivo "
    "notas cocina prueba datos copia lista verano"
).split()
_FIELDS = "name user count total price city date file nombre usuario precio pedido cantidad".split()
_DOMAINS = "com es org net mx com.ar io edu".split()
_EXTENSIONS = "pdf docx txt csv xlsx jpg png zip mp3 py json html odt".split()
_CODE = (
    "print({0})|git {1}|x = {2}|len({0})|{0}[{2}]|npm install {1}|def {0}(x):|for i in {0}:|"
    "rm -rf {1}|SELECT * FROM {0}|{0}.sort()|sudo apt update|cd ../{1}|if {0} == {2}:|"
    "return {0} + {2}|#include <{1}>"
).split("|")
_PLACEHOLDERS = (
    "{{{0}}}|{{{1}}}|{{{{{0}}}}}|{{{{ {0} }}}}|%s|%d|%i|%1$s|%2$s|%({0})s|${{{0}}}|<{1}/>|"
    "&nbsp;|&lt;|$HOME|[[{0}]]|:{0}"
).split("|")
_EMOJI = (
    "😀 😂 😍 🎉 🔥 👍 🙏 😢 🤔 🚀 🍕 🐱 🌧️ ❤️ ☕ 👍🏽 🤷‍♀️ 👨‍👩‍👧 🇪🇸 🇲🇽 😂😂 🎂🎉 💪🏿 🥳 ✅ ⚠️ 🏖️ 🧉"
).split()
_PAIRS = (
    ("<b>", "</b>"),
    ("<i>", "</i>"),
    ("<em>", "</em>"),
    ("<strong>", "</strong>"),
    ("<0>", "</0>"),
    ("<u>", "</u>"),
    ('<span class="nota">', "</span>"),
    ('<a href="https://example.com/ayuda">', "</a>"),
)
# Words of test sentences that a number replaces.
_NUMBER_WORD = re.compile(
    r"\b(?:dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce|quince|veinte|treinta)\b"
)
_WORD = re.compile(r"[^\W\d_]+")
_CAPITALIZED = re.compile(r"(?<=[a-záéíóúñ,] )[A-ZÁÉÍÓÚÑ][a-záéíóúñ]+\b")
_BEFORE = ("{span}: {text}", "{span} – {text}")
_INSIDE = ("{bare} ({span}){mark}", "{bare}: {span}{mark}", "{bare}, {span}{mark}")
_AFTER = ("{text} {span}", "{text} ({span})", "{text} {span}.")


class Carrier(NamedTuple):
    """A sentence with spans; its translation must contain each of them exactly once."""

    text: str
    spans: Values


def read_table(path: Path) -> list[list[str]]:
    """Return the cells of a file's lines, separated by tabs; "# " begins a comment."""
    lines = path.read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("# ")]


def _email(rng: random.Random) -> str:
    first, last = rng.sample(_NAMES, 2)
    user = rng.choice((f"{first}.{last}", f"{first}_{last}", f"{first}{rng.randint(1, 99)}", first))
    user = rng.choice((user, user, user, user.title(), f"{user}+{rng.choice(_WORDS)}"))
    return f"{user}@{rng.choice(_WORDS)}.{rng.choice(_DOMAINS)}"


def _url(rng: random.Random) -> str:
    begin = rng.choice(("https://", "https://www.", "http://", "www."))
    first, last = rng.sample(_WORDS, 2)
    path = rng.choice(
        (
            "",
            f"/{last}",
            f"/{first}/{last}.html",
            f"/{last}?id={rng.randint(1, 9999)}",
            f"/{last}/{rng.randint(2000, 2030)}/#{first}",
            f"/{first}-{last}/",
        )
    )
    return f"{begin}{first}-{rng.choice(_NAMES)}.{rng.choice(_DOMAINS)}{path}"


def _number(rng: random.Random) -> str:
    digits = rng.randint(2, 5)
    number = rng.randrange(10 ** (digits - 1), 10**digits)
    return rng.choice(
        (
            *(f"{number}",) * 4,
            f"{rng.randint(1, 99)},{rng.randint(1, 99)}",
            f"{rng.randint(2, 99)}.{rng.randint(100, 999)}",
            f"{rng.randint(2, 99)}%",
            f"{rng.randint(0, 23)}:{rng.randint(10, 59)}",
        )
    )


def _date(rng: random.Random) -> str:
    day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1950, 2035)
    return rng.choice(
        (
            f"{day}/{month}/{year}",
            f"{day:02}/{month:02}/{year}",
            f"{day:02}-{month:02}-{year}",
            f"{year}-{month:02}-{day:02}",
            f"{day}.{month}.{year}",
            f"{day}/{month}",
        )
    )


def _file_name(rng: random.Random) -> str:
    first, last = rng.sample(_WORDS, 2)
    name = rng.choice((first, f"{first}_{last}", f"{first}-{rng.randint(1, 2030)}", first.title()))
    folder = rng.choice(("", "", "", f"{last}/", f"/home/{rng.choice(_NAMES)}/", "C:\\temp\\"))
    return f"{folder}{name}.{rng.choice(_EXTENSIONS)}"


def _placeholder(rng: random.Random) -> str:
    return rng.choice(_PLACEHOLDERS).format(rng.choice(_FIELDS), rng.randint(0, 9))


def _code(rng: random.Random) -> str:
    form = rng.choice(_CODE)
    return f"`{form.format(rng.choice(_FIELDS), rng.choice(_WORDS), rng.randint(0, 99))}`"


def _hashtag(rng: random.Random) -> str:
    words = rng.sample(_WORDS, 2)
    return "#" + rng.choice((words[0], "".join(words).title(), words[0].title() + words[1].title()))


def _name(rng: random.Random) -> str:
    return rng.choice(read_table(FOLDER / "rare_names.txt"))[0]


# Kind -> what draws a span. A pair of tags is two spans.
KINDS: dict[str, Callable[[random.Random], Values]] = {
    "e-mail": lambda rng: (_email(rng),),
    "URL": lambda rng: (_url(rng),),
    "number": lambda rng: (_number(rng),),
    "date": lambda rng: (_date(rng),),
    "placeholder": lambda rng: (_placeholder(rng),),
    "code": lambda rng: (_code(rng),),
    "file name": lambda rng: (_file_name(rng),),
    "hashtag": lambda rng: (_hashtag(rng),),
    "emoji": lambda rng: (rng.choice(_EMOJI),),
    TAG_PAIR: lambda rng: rng.choice(_PAIRS),
    NAME: lambda rng: (_name(rng),),
}


def draw_carriers(
    kind: str, count: int, pairs: Sequence[tuple[str, str]], language: str, seed: int
) -> list[Carrier]:
    """Return up to ``count`` sentences with spans of a kind, a function of the seed and the pairs.

    A sentence that already contains its span, or has no place for it, is left out.

    Args:
        kind: one of `KINDS`.
        count: sentences.
        pairs: of the test split: sources and references.
        language: of the sources, a BCP 47 tag. `carriers.tsv` is used if it is Spanish.
        seed: of all choices.
    """
    table = read_table(FOLDER / "carriers.tsv") if primary_subtag(language) == "es" else []
    templates = [text for name, text in table if name == kind]
    carriers = []
    for index in range(count):
        rng = random.Random(f"{seed} {kind} {index}")
        for _ in range(_ATTEMPTS):
            spans = KINDS[kind](rng)
            if index % 2 or not templates:
                text = _insert(kind, spans, *rng.choice(pairs), rng)
            else:
                text = _fill(templates[index // 2 % len(templates)], kind, spans)
            if contains_once(text, spans):
                carriers.append(Carrier(text, spans))
                break
    return carriers


def _fill(template: str, kind: str, spans: Values) -> str:
    """Return a template of `carriers.tsv` with spans."""
    if kind == TAG_PAIR:
        return template.replace("[", spans[0]).replace("]", spans[1])
    return template.replace("{}", spans[0])


def contains_once(text: str, spans: Values) -> bool:
    """Return whether a text has each span exactly once, as a span of its own, in their order."""
    begins = []
    for span in spans:
        matches = list(re.finditer(_as_whole(span), text))
        if len(matches) != 1:
            return False
        begins.append(matches[0].start())
    return begins == sorted(begins)


def _as_whole(span: str) -> str:
    """Return an expression for a span that is not a part of a longer word, number or the like."""
    begin, end = re.escape(span[0]), re.escape(span[-1])
    if re.match(r"\w", span[0]):
        begin = r"\w)(?<!\d[.,:/-]" if span[0].isdigit() else r"\w"
    if re.match(r"\w", span[-1]):
        end = r"\w|[.,:/-]\d" if span[-1].isdigit() else r"\w"
    return f"(?<!{begin}){re.escape(span)}(?!{end})"


def _insert(kind: str, spans: Values, source: str, reference: str, rng: random.Random) -> str:
    """Return a test sentence with spans: in place of a word, or before, inside or after it."""
    if kind == TAG_PAIR:
        return _wrap_words(source, spans, rng)
    bare = source.rstrip(FINAL_MARKS)
    mark = source[len(bare) :]
    if kind == "emoji":
        templates: tuple[str, ...] = ("{span} {text}", "{text} {span}", "{bare} {span}{mark}")
    else:
        words = _list_replaceable(kind, source, reference)
        if words and (kind == NAME or rng.random() < _SUBSTITUTED):
            word = rng.choice(words)
            return source[: word.start()] + spans[0] + source[word.end() :]
        templates = _INSIDE if kind == NAME else (*_BEFORE, *_INSIDE, *_AFTER)
    return rng.choice(templates).format(span=spans[0], text=source, bare=bare, mark=mark)


def _list_replaceable(kind: str, source: str, reference: str) -> list[re.Match[str]]:
    """Return words that a span of a kind can replace: number words, or names in both languages."""
    if kind == "number":
        return list(_NUMBER_WORD.finditer(source))
    words = set(_WORD.findall(reference))
    return [word for word in _CAPITALIZED.finditer(source) if word[0] in words]


def _wrap_words(text: str, tags: Values, rng: random.Random) -> str:
    """Return a text with tags around one to three words in a row."""
    words = list(_WORD.finditer(text))
    if not words:
        return text
    first = rng.randrange(len(words))
    last = min(first + rng.randrange(3), len(words) - 1)
    begin, end = words[first].start(), words[last].end()
    return text[:begin] + tags[0] + text[begin:end] + tags[1] + text[end:]
