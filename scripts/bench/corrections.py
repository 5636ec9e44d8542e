"""Measure how a run learns from corrections, and what it forgets. Prints a Markdown table.

    python scripts/bench/corrections.py --run RUN [--corrections 100] [OVERRIDE ...]

It simulates a reviewer who replaces contractions: "do not" for "don't". Corrections are pairs of
the run's dev split whose reference has a contraction, written out. The run that learns them and
the run that it starts from are both scored on such pairs of the test split, and on its other pairs.
No run was trained on these splits. Overrides are passed to nmt.train.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # loads Keras
    from nmt.data.splitting import Pair

# Contractions with one reading: 's and 'd have several.
_IRREGULAR = {"can't": "cannot", "won't": "will not", "shan't": "shall not"}
_ENDINGS = {"n't": " not", "'m": " am", "'re": " are", "'ve": " have", "'ll": " will"}
_CONTRACTION = re.compile(r"\b(can't|won't|shan't)\b|\b(\w+?)(n't|'m|'re|'ve|'ll)\b", re.IGNORECASE)
_WITHOUT_CONTRACTION = re.compile(r"\w'\w")  # also 's and 'd: such pairs are of neither kind
HEADER = ("scored on", "pairs", "BLEU before", "BLEU after", "contracted before", "after")


class Row(NamedTuple):
    """A row of the table: scores and shares of outputs with a contraction."""

    name: str
    pairs: int
    scores: tuple[float, float]  # before, after
    contracted: tuple[float, float]  # likewise


def expand(text: str) -> str:
    """Return a text with its contractions written out."""

    def write_out(match: re.Match[str]) -> str:
        if not match[1]:
            return match[2] + _ENDINGS[match[3].lower()]
        written = _IRREGULAR[match[1].lower()]
        return written.capitalize() if match[1][0].isupper() else written

    return _CONTRACTION.sub(write_out, text)


def has_contraction(text: str) -> bool:
    """Whether `expand` changes a text."""
    return _CONTRACTION.search(text) is not None


def list_corrected(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs that the reviewer corrects, with the corrections as targets."""
    return [
        pair._replace(target=expand(pair.target)) for pair in pairs if has_contraction(pair.target)
    ]


def main() -> None:
    from nmt.arguments import positive_int

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, default=Path("runs/latest"), help="(%(default)s)")
    parser.add_argument(
        "--corrections", type=positive_int, default=100, help="how many (%(default)s)"
    )
    parser.add_argument("overrides", nargs="*", help="of the configuration")
    arguments = parser.parse_args()

    from nmt.errors import exit_on_user_error
    from nmt.startup.commands import set_up_training

    set_up_training(Path(".cache"))
    exit_on_user_error(lambda: run(arguments))


def run(arguments: argparse.Namespace) -> None:
    """Let the run learn corrections, and print the table.

    Raises:
        UserError: the run, its corpus or an override is invalid.
    """
    from nmt.data.splitting import sample_evenly
    from nmt.runs.corpus import read_corpus
    from nmt.runs.folder import RunFolder

    folder = RunFolder.open(arguments.run.resolve())
    corpus = read_corpus(folder, print)
    learned = sample_evenly(list_corrected(corpus.dev), arguments.corrections)
    with tempfile.TemporaryDirectory() as temporary:
        table = Path(temporary) / "corrections.tsv"
        table.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in learned), "utf-8")
        began = time.monotonic()
        corrected_run = learn(folder.path, table, arguments.overrides)
        minutes = (time.monotonic() - began) / 60
    others = [pair for pair in corpus.test if not _WITHOUT_CONTRACTION.search(pair.target)]
    splits = {"corrected": learned, "the same kind": list_corrected(corpus.test), "other": others}
    runs = (folder.path, corrected_run)
    rows = [
        compare(name, pairs, runs, folder.config.data.languages[1])
        for name, pairs in splits.items()
    ]
    print(format_table(rows))
    print(f"\n{len(learned)} corrections, {minutes:.1f} minutes, {corrected_run}")


def learn(start: Path, table: Path, overrides: Sequence[str]) -> Path:
    """Train a run that starts from another one on a table of corrections; return its folder."""
    from nmt import fit

    corrections = ("data=corrections", f"data.train={table}")
    return fit([f"training.start_from={start}", *corrections, *overrides]).path


def compare(name: str, pairs: Sequence[Pair], runs: tuple[Path, Path], language: str) -> Row:
    """Score two runs on the same pairs."""
    from nmt.inference.evaluation import score_outputs
    from nmt.inference.translator import Translator

    scores, contracted = [], []
    for path in runs:
        outputs = Translator.load(path, unit="line").translate([pair.source for pair in pairs])
        scores.append(score_outputs(pairs, outputs, language).scores[0].value)
        contracted.append(sum(map(has_contraction, outputs)) / len(outputs))
    return Row(name, len(pairs), (scores[0], scores[1]), (contracted[0], contracted[1]))


def format_table(rows: Sequence[Row]) -> str:
    """Return a Markdown table."""
    lines = [HEADER, ["---"] * len(HEADER)]
    for row in rows:
        shares = [f"{share:.0%}" for share in row.contracted]
        lines.append(
            [row.name, f"{row.pairs:,}", *(f"{score:.1f}" for score in row.scores), *shares]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
