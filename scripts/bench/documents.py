"""Measure how well a run carries markup. Prints a Markdown table.

    python scripts/bench/documents.py --run RUN --gold tests/analysis/alignments.tsv

Sentences of the test split get one to three inline tags around random words, some of them nested,
and are translated as an HTML page. Tags of hand-aligned pairs (--gold) are carried to references:
a tag is placed right if it is around all words that are surely linked to its own, and around no
word that is not linked to them. The time of a page of 1 MB is compared with that of its sentences
alone. Tags are functions of --seed.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.analysis.heads.gold import Gold
    from nmt.inference.translator import Translator
    from nmt.text.marked import MarkedText

TAGS = ("b", "i", "a", "span")
PAGE_BYTES = 1_000_000
MAX_WORDS = 4  # inside of one tag
TRIES = 10  # tags for each hand-aligned pair


def main() -> None:
    from nmt.arguments import positive_int

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, default=Path("runs/latest"), help="(%(default)s)")
    parser.add_argument("--gold", type=Path, help="hand-aligned pairs, as nmt.inspect align")
    parser.add_argument("--sentences", type=positive_int, default=2000, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the tags (%(default)s)")
    arguments = parser.parse_args()

    from nmt.errors import exit_on_user_error
    from nmt.startup.commands import set_up_translation

    set_up_translation()
    exit_on_user_error(lambda: run(arguments))


def run(arguments: argparse.Namespace) -> None:
    """Measure the run that the command line names, and print the table.

    Raises:
        UserError: the run, its test split or the hand-aligned pairs cannot be read.
    """
    from nmt.inference.translator import Translator
    from nmt.runs.corpus import read_corpus
    from nmt.runs.folder import RunFolder

    folder = RunFolder.open(arguments.run)
    pairs = read_corpus(folder, print).scored_pairs("test")[: arguments.sentences]
    translator = Translator.load(folder.path)
    rng = random.Random(arguments.seed)
    rows = measure_tags(translator, pairs, rng)
    if arguments.gold:
        from nmt.analysis.heads.gold import read_gold

        rows += measure_places(translator, read_gold(arguments.gold), rng)
    rows += measure_time(translator, [pair.source for pair in pairs], rng)
    print("| measure | value |\n| --- | ---: |")
    for name, value in rows:
        print(f"| {name} | {value} |")


def add_tags(text: str, rng: random.Random) -> MarkedText:
    """Return a text with one to three tags around random words; a tag may be inside of another."""
    from nmt.text.marked import Mark, MarkedText
    from nmt.text.words import find_words

    words = find_words(text)
    ranges: list[tuple[int, int]] = []
    for _ in range(rng.randint(1, 3)):
        first = rng.randrange(len(words))
        last = min(first + rng.randint(1, MAX_WORDS), len(words))
        if all(b <= first or last <= a or (a <= first and last <= b) for a, b in ranges):
            ranges.append((first, last))
    ranges.sort(key=lambda each: (each[0], -each[1]))
    marks = []
    for number, (first, last) in enumerate(ranges):
        outer = [i for i in range(number) if ranges[i][0] <= first and last <= ranges[i][1]]
        parent = outer[-1] if outer else None
        marks.append(Mark(words[first][0], words[last - 1][1], parent))
    return MarkedText(text, tuple(marks))


def write_paragraph(marked: MarkedText) -> str:
    """Write a marked text as HTML; the tags have numbers."""
    from nmt.text.marked import walk

    parts = []
    for event in walk(marked):
        if event.begins is not None:
            parts.append(f'<{TAGS[event.begins % len(TAGS)]} id="{event.begins}">')
        elif event.ends is not None:
            parts.append(f"</{TAGS[event.ends % len(TAGS)]}>")
        else:
            parts.append(escape(event.text, quote=False))
    return "<p>" + "".join(parts) + "</p>"


def translate_page(translator: Translator, page: str) -> str:
    """Return a page in the other language."""
    from nmt.documents.formats import DocumentOptions, extract
    from nmt.documents.translating import translate_document

    document = extract(page.encode(), "html", DocumentOptions())
    return translate_document(document, translator)[0].decode()


def measure_tags(
    translator: Translator, pairs: Sequence[Any], rng: random.Random
) -> list[tuple[str, str]]:
    """Return how many sentences keep their tags, and BLEU with and without tags."""
    from lxml import etree
    from sacrebleu import corpus_bleu

    marked = [add_tags(pair.source, rng) for pair in pairs]
    page = "\n".join(map(write_paragraph, marked))
    paragraphs = translate_page(translator, page).split("\n")
    texts = []
    whole = tags = 0
    for source, paragraph in zip(marked, paragraphs, strict=True):
        root = etree.fromstring(paragraph)  # raises an error if it is not well-formed
        parents = {
            element.get("id"): element.getparent().get("id")
            for element in root.iter()
            if element is not root
        }
        expected = {
            str(i): None if mark.parent is None else str(mark.parent)
            for i, mark in enumerate(source.marks)
        }
        whole += parents == expected
        tags += len(expected)
        texts.append("".join(root.itertext()))
    plain = translator.translate([pair.source for pair in pairs])
    references = [[pair.target for pair in pairs]]
    scores = [corpus_bleu(each, references, lowercase=True).score for each in (plain, texts)]
    return [
        ("sentences with tags", f"{len(pairs):,}"),
        ("tags", f"{tags:,}"),
        ("sentences with all tags, nested as before", f"{100 * whole / len(pairs):.1f}%"),
        ("BLEU without tags", f"{scores[0]:.1f}"),
        ("BLEU with tags", f"{scores[1]:.1f}"),
    ]


def measure_places(
    translator: Translator, gold: Sequence[Gold], rng: random.Random
) -> list[tuple[str, str]]:
    """Return how often a tag is around the words that are linked to its own by hand."""
    from nmt.analysis.heads.alignment import align
    from nmt.inference.markup_projection import project_marks
    from nmt.inference.results import Word
    from nmt.inference.word_links import choose_sources
    from nmt.text.marked import Mark, MarkedText

    tags = right = covered = linked = found = sure = 0
    for pair, weights in zip(
        gold, align(translator, [each.sentences for each in gold]), strict=True
    ):
        assert weights is not None
        source, target, source_words, target_words = pair.sentences
        words = [
            Word(*span, None, tuple(source_words[i] for i in choose_sources(row[:-1], row[-1])))
            for span, row in zip(target_words, weights, strict=True)
        ]
        for _ in range(TRIES):
            first = rng.randrange(len(source_words))
            last = min(first + rng.randint(1, MAX_WORDS), len(source_words))
            inside = range(first, last)
            surely = {t for s, t in pair.sure if s in inside}
            if not surely:
                continue
            possibly = {t for s, t in pair.possible if s in inside}
            mark = Mark(source_words[first][0], source_words[last - 1][1])
            [placed] = project_marks(MarkedText(source, (mark,)), target, words).marks
            around = {
                t for t, (a, b) in enumerate(target_words) if placed.begin <= a and b <= placed.end
            }
            tags += 1
            right += surely <= around <= possibly
            covered, linked = covered + len(around), linked + len(around & possibly)
            sure, found = sure + len(surely), found + len(around & surely)
    return [
        ("tags on hand-aligned pairs", f"{tags:,}"),
        ("of the words inside of them, linked to the tag's", f"{100 * linked / covered:.1f}%"),
        ("of the words surely linked to them, inside", f"{100 * found / sure:.1f}%"),
        ("tags around exactly the linked words", f"{100 * right / tags:.1f}%"),
    ]


def measure_time(
    translator: Translator, sources: Sequence[str], rng: random.Random
) -> list[tuple[str, str]]:
    """Return the time of a page, a third of whose paragraphs has tags, beside its sentences."""
    sentences: list[str] = []
    paragraphs: list[str] = []
    size = 0
    while size < PAGE_BYTES:
        # Numbers make sentences distinct: a page translates repeated ones once.
        sentence = f"{sources[len(sentences) % len(sources)]} ({len(sentences)})"
        sentences.append(sentence)
        marked = add_tags(sentence, rng)
        is_tagged = rng.random() < 1 / 3
        paragraphs.append(write_paragraph(marked) if is_tagged else f"<p>{escape(sentence)}</p>")
        size += len(paragraphs[-1].encode()) + 1
    page = "\n".join(paragraphs)
    seconds = {"page": 0.0, "sentences": 0.0}
    for turn in ("page", "sentences", "sentences", "page"):
        begin = time.perf_counter()
        if turn == "page":
            translate_page(translator, page)
        else:
            translator.translate(sentences)
        seconds[turn] += (time.perf_counter() - begin) / 2
    return [
        ("paragraphs in a page of 1 MB", f"{len(sentences):,}"),
        ("seconds, sentences alone", f"{seconds['sentences']:.1f}"),
        ("seconds, page", f"{seconds['page']:.1f}"),
        ("ratio", f"{seconds['page'] / seconds['sentences']:.2f}"),
    ]


if __name__ == "__main__":
    main()
