"""Measure how well a run translates text that is not clean. Prints a Markdown table.

    python scripts/bench/text.py --run RUN --output table.md

The test split is translated as it is, under each change of `text_changes.py`, and in paragraphs,
which are compared with the same sentences translated one by one. BLEU ignores case. Spans of each
kind of `text_spans.py` count as copied if they occur exactly once in the translation. The sources
of the changes, spans and paragraphs are functions of --seed. From Spanish to English, tables
written for this script follow: the share of `short_texts.tsv` that is right, without those that the
run was trained on, and chrF of those in `HARD_TEXTS`. --show shows these translations and the spans
that were lost.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from text_changes import (
    AFTER_LABEL,
    CHANGES,
    DOTTED,
    ENCLOSED,
    FINAL,
    INSERTED,
    MARKED,
    change_all,
    end_as,
    loops,
    strip_marks,
    without_label,
)
from text_spans import (
    FOLDER,
    KINDS,
    Carrier,
    contains_once,
    draw_carriers,
    read_table,
)

from nmt.text.scripts import primary_subtag

PARAGRAPHS = (2, 3, 5)  # sentences
CLEAN = "as it is"
# Name in the table -> file.
HARD_TEXTS = {
    "long sentences": "long_texts.tsv",
    "hard texts": "hard_texts.tsv",
    "abbreviations": "abbreviated_texts.tsv",
    "words joined by a slash": "slashed_texts.tsv",
    "dates with the name of a month": "dated_texts.tsv",
    "dashes, ranges, units, ordinals": "dashed_texts.tsv",
    "remarks in brackets": "bracketed_texts.tsv",
}
HEADER = ("source", "texts", "measure", "value", "compared with", "difference", "loops", "empty")


class HardText(NamedTuple):
    """A line of a table of `HARD_TEXTS`."""

    name: str  # of the table
    source: str
    references: Sequence[str]  # one or two


class ShortText(NamedTuple):
    """A line of `short_texts.tsv`."""

    kind: str  # word, phrase, heading or label
    source: str
    references: Sequence[str]

    def is_right(self, translation: str) -> bool:
        """Whether a translation is a reference; the case of the first letter is ignored."""
        return any(
            translation[:1].lower() == reference[:1].lower() and translation[1:] == reference[1:]
            for reference in self.references
        )


class Row(NamedTuple):
    """A row of the table."""

    name: str
    texts: int
    measure: str
    value: float
    baseline: float | None  # the value that it is compared with
    looping: float  # % of the outputs
    empty: float  # % of the outputs

    def cells(self) -> tuple[str, ...]:
        """Return the cells as text."""
        value = f"{self.value:.1f}" + ("%" if self.measure in ("copied", "right") else "")
        compared = ("", "")
        if self.baseline is not None:
            compared = (f"{self.baseline:.1f}", f"{self.value - self.baseline:+.1f}")
        shares = (f"{self.looping:.1f}%", f"{self.empty:.1f}%")
        return (self.name, f"{self.texts:,}", self.measure, value, *compared, *shares)


@dataclass(frozen=True)
class Sources:
    """Texts to translate for one row of the table."""

    name: str
    texts: Sequence[str]
    references: Sequence[str] = ()
    sentences: Sequence[Sequence[str]] = ()  # of each paragraph
    carriers: Sequence[Carrier] = ()  # of the spans to find in the translations


def main() -> None:
    from nmt.arguments import positive_int

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, default=Path("runs/latest"), help="(%(default)s)")
    parser.add_argument("--sentences", type=positive_int, help="of the test split (default: all)")
    parser.add_argument(
        "--spans", type=positive_int, default=400, help="of each kind (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of all changes (%(default)s)")
    parser.add_argument("--unit", choices=("line", "sentence"), help="(default: the run's)")
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="for the table")
    parser.add_argument("--show", action="store_true", help="print hard texts and lost spans")
    arguments = parser.parse_args()

    from nmt.errors import exit_on_user_error
    from nmt.startup.commands import set_up_translation

    set_up_translation()
    exit_on_user_error(lambda: run(arguments))


def run(arguments: argparse.Namespace) -> None:
    """Measure the run that the command line names, and print the table.

    Raises:
        UserError: the run or its test split cannot be read, or has too few sentences.
    """
    from nmt.files import write_text
    from nmt.runs.folder import RunFolder
    from nmt.startup.console import make_console
    from nmt.startup.quiet import quiet_start

    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt.data.splitting import normalized
        from nmt.inference.evaluation import translate_with_progress
        from nmt.inference.translator import Translator
        from nmt.runs.corpus import read_corpus
    console = make_console(stderr=True)
    corpus = read_corpus(folder, console.print)
    test = corpus.scored_pairs("test")
    languages = folder.config.data.languages
    rows = list_rows(sample_pairs(test, arguments.sentences, arguments.seed), arguments, languages)
    trained = {normalized(pair.source) for pair in corpus.train}
    short_texts = [
        text for text in read_short_texts(languages) if normalized(text.source) not in trained
    ]
    hard_texts = read_hard_texts(languages)
    unit: dict[str, Any] = {"unit": arguments.unit} if arguments.unit else {}
    translator = Translator.load(folder.path, **unit)
    # A text of several rows is translated once.
    texts = list(dict.fromkeys(text for row in rows for text in row.texts))
    texts += [text.source for text in short_texts]
    texts += [text.source for text in hard_texts]
    outputs = dict(zip(texts, translate_with_progress(translator, texts, console), strict=True))
    measured = measure(rows, outputs, languages[1])
    measured += measure_short_texts(short_texts, outputs)
    measured += measure_hard_texts(hard_texts, outputs)
    table = format_table(measured)
    print(table)
    if arguments.output:
        write_text(arguments.output, table + "\n")
    if arguments.show:
        show(rows, [*short_texts, *hard_texts], outputs)


def sample_pairs(pairs: Sequence[Any], count: int | None, seed: int) -> list[tuple[str, str]]:
    """Return ``count`` pairs in random order; None: all.

    Raises:
        UserError: fewer than the longest paragraph needs.
    """
    from nmt.errors import UserError

    count = len(pairs) if count is None else min(count, len(pairs))
    if count < max(PARAGRAPHS):
        raise UserError(f"the table needs {max(PARAGRAPHS)} or more test sentences, got {count}")
    return [tuple(pair) for pair in random.Random(seed).sample(pairs, count)]


def list_rows(
    pairs: Sequence[tuple[str, str]], arguments: argparse.Namespace, languages: tuple[str, str]
) -> list[Sources]:
    """Return the texts of the rows from test pairs: clean, changed, paragraphs, spans by kind."""
    sources, references = [list(side) for side in zip(*pairs, strict=True)]
    rows = [Sources(CLEAN, sources, references)]
    rows += [
        Sources(name, change_all(sources, name, arguments.seed), references) for name in CHANGES
    ]
    rows += [
        Sources(name, [marked.format(source) for source in sources], references)
        for name, marked in MARKED.items()
    ]
    for size in PARAGRAPHS:
        sentences, joined = group(sources, size), map(" ".join, group(references, size))
        texts = [" ".join(paragraph) for paragraph in sentences]
        rows.append(Sources(f"paragraphs of {size} sentences", texts, list(joined), sentences))
    for kind in KINDS:
        carriers = draw_carriers(kind, arguments.spans, pairs, languages[0], arguments.seed)
        rows.append(Sources(kind, [carrier.text for carrier in carriers], carriers=carriers))
    return [row for row in rows if row.texts]


def group(items: Sequence[str], size: int) -> list[Sequence[str]]:
    """Return groups of ``size`` consecutive items; the rest is left out."""
    return [items[i : i + size] for i in range(0, len(items) - size + 1, size)]


def measure(rows: Sequence[Sources], outputs: Mapping[str, str], language: str) -> list[Row]:
    """Return the rows of the table.

    Args:
        rows: the clean texts first.
        outputs: text -> translation.
        language: of the translations, a BCP 47 tag.
    """
    measured: list[Row] = []
    clean = 0.0
    for row in rows:
        translations = [outputs[text] for text in row.texts]
        add = partial(make_row, row.name, row.texts, translations)
        if row.carriers:
            copied = [contains_once(outputs[c.text], c.spans) for c in row.carriers]
            measured.append(add("copied", percent(copied)))
        elif row.sentences:
            one_by_one = [" ".join(outputs[s] for s in group) for group in row.sentences]
            baseline = bleu(one_by_one, row.references, language)
            measured.append(add("BLEU", bleu(translations, row.references, language), baseline))
        elif row.name == CLEAN:
            clean = bleu(translations, row.references, language)
            cased = bleu(translations, row.references, language, lowercase=False)
            measured += [add("BLEU", clean), add("BLEU with case", cased)]
        else:
            if row.name in {*FINAL, DOTTED}:
                translations = list(map(end_as, translations, row.references))
            if row.name == AFTER_LABEL:
                translations = list(map(without_label, translations))
            strip = strip_marks if row.name in {*ENCLOSED, *INSERTED, *MARKED} else str
            value = bleu(list(map(strip, translations)), list(map(strip, row.references)), language)
            measured.append(add("BLEU", value, clean))
    return measured


def make_row(
    name: str,
    texts: Sequence[str],
    translations: Sequence[str],
    measure: str,
    value: float,
    baseline: float | None = None,
) -> Row:
    """Return a row, with the share of translations that are empty or loop where no source does."""
    looping = percent([loops(b) and not loops(a) for a, b in zip(texts, translations, strict=True)])
    empty = percent([not translation.strip() for translation in translations])
    return Row(name, len(texts), measure, value, baseline, looping, empty)


def percent(flags: Sequence[bool]) -> float:
    """Return the share of true flags, in percent; 0 of none."""
    return 100 * sum(flags) / max(len(flags), 1)


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], language: str, *, lowercase: bool = True
) -> float:
    """Return the BLEU of translations into a language."""
    from sacrebleu.metrics.bleu import BLEU

    from nmt.inference.metrics import choose_tokenizer

    tokenizer = choose_tokenizer(primary_subtag(language))
    metric = BLEU(lowercase=lowercase, tokenize=tokenizer)
    return float(metric.corpus_score(list(hypotheses), [list(references)]).score)


def read_hard_texts(languages: tuple[str, str]) -> list[HardText]:
    """Return the texts of `HARD_TEXTS`; none if the languages are not Spanish and English."""
    texts = []
    for name, file in HARD_TEXTS.items():
        for cells in read_spanish_table(file, languages):
            source, *references = (cell.replace("\\n", "\n") for cell in cells)
            texts.append(HardText(name, source, references))
    return texts


def read_short_texts(languages: tuple[str, str]) -> list[ShortText]:
    """Return the texts of `short_texts.tsv`, as `read_hard_texts`."""
    lines = read_spanish_table("short_texts.tsv", languages)
    return [ShortText(kind, source, references) for kind, source, *references in lines]


def read_spanish_table(name: str, languages: tuple[str, str]) -> list[list[str]]:
    """Return the cells of a table; none if the languages are not Spanish and English."""
    is_spanish = tuple(map(primary_subtag, languages)) == ("es", "en")
    return read_table(FOLDER / name) if is_spanish else []


def measure_short_texts(texts: Sequence[ShortText], outputs: Mapping[str, str]) -> list[Row]:
    """Return the rows of the short texts, by kind: the share that is right."""
    rows = []
    for kind in dict.fromkeys(text.kind for text in texts):
        chosen = [text for text in texts if text.kind == kind]
        translations = [outputs[text.source] for text in chosen]
        right = [text.is_right(each) for text, each in zip(chosen, translations, strict=True)]
        sources = [text.source for text in chosen]
        rows.append(make_row(f"{kind}s", sources, translations, "right", percent(right)))
    return rows


def measure_hard_texts(texts: Sequence[HardText], outputs: Mapping[str, str]) -> list[Row]:
    """Return the rows of the hard texts, by table: chrF, with case."""
    from sacrebleu.metrics.chrf import CHRF

    rows = []
    for name in dict.fromkeys(text.name for text in texts):
        chosen = [text for text in texts if text.name == name]
        sources = [text.source for text in chosen]
        translations = [outputs[source] for source in sources]
        references = [[text.references[i] for text in chosen] for i in (0, -1)]
        value = float(CHRF().corpus_score(translations, references).score)
        rows.append(make_row(name, sources, translations, "chrF", value))
    return rows


def format_table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = [HEADER, ("---",) * len(HEADER), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def show(
    rows: Sequence[Sources], texts: Sequence[ShortText | HardText], outputs: Mapping[str, str]
) -> None:
    """Print short and hard texts, and sentences whose spans were lost, with their translations."""
    for text in texts:
        print(f"\n{text.source}\n  = {outputs[text.source]}\n  ~ {text.references[0]}")
    for row in rows:
        for carrier in row.carriers:
            if not contains_once(outputs[carrier.text], carrier.spans):
                print(f"\n{row.name}: {carrier.text}\n  = {outputs[carrier.text]}")


if __name__ == "__main__":
    main()
