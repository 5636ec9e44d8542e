"""Tell translations from hallucinations by what the source contributes. Prints a Markdown table.

    python scripts/bench/hallucinations.py --run RUN

Real pairs of a split against made hallucinations: the same targets with the sources of other
pairs, in forced decoding. The table has the area under the ROC curve of each statistic, the mean
over the tokens of a target unless it says otherwise, on the dev and the test split. Statistics and
thresholds are to be chosen on dev. The log-probability of the target is there to compare: it also
knows how fluent the target is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from nmt.data.splitting import Pair
    from nmt.data.tokenizer import Tokenizer
    from nmt.inference.keras_engine import KerasEngine

SPLITS = ("dev", "test")
BATCH = 50  # pairs that are measured at a time
FALSE_ALARMS = 0.05  # of the words of real dev pairs, the share below a threshold


class Measured(NamedTuple):
    """The numbers of a pair."""

    source: np.ndarray  # [T, S], see `Contributions`
    prefix: np.ndarray  # [T, T]
    log_probs: np.ndarray  # [T]
    support: np.ndarray  # [T], log-probability with the source less that without it
    word_support: np.ndarray  # [words], its sums over the tokens of each target word


STATISTICS: dict[str, Callable[[Measured], float]] = {
    "source contribution (ALTI+)": lambda pair: float(pair.source.sum(-1).mean()),
    "its minimum": lambda pair: float(pair.source.sum(-1).min()),
    "its log-odds": lambda pair: float(_log_odds(pair.source.sum(-1)).mean()),
    "its largest source token": lambda pair: float(pair.source.max(-1).mean()),
    "minus its entropy": lambda pair: -float(_entropy(pair.source).mean()),
    "its mutual information": lambda pair: _measure_information(pair.source),
    "**support of the source**": lambda pair: float(pair.support.mean()),
    "its minimum ": lambda pair: float(pair.support.min()),
    "share of words with support": lambda pair: float((pair.word_support > 0).mean()),
    "log-probability": lambda pair: float(pair.log_probs.mean()),
}


def main() -> None:
    from nmt.arguments import positive_int

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, default=Path("runs/latest"), help="(%(default)s)")
    parser.add_argument(
        "--pairs", type=positive_int, default=500, help="of each split (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the shuffle (%(default)s)")
    arguments = parser.parse_args()

    from nmt.errors import exit_on_user_error
    from nmt.startup.commands import set_up_translation

    set_up_translation()
    exit_on_user_error(lambda: run(arguments))


def run(arguments: argparse.Namespace) -> None:
    """Measure the run that the command line names, and print the table.

    Raises:
        UserError: the run or its corpus cannot be read, or its model is not a transformer.
    """
    from nmt.analysis.explaining.explanation import MIN_SUPPORT
    from nmt.inference.translator import Translator
    from nmt.runs.corpus import read_corpus
    from nmt.runs.folder import RunFolder

    folder = RunFolder.open(arguments.run)
    corpus = read_corpus(folder, print)
    translator = Translator.load(folder.path, engine="keras")
    engine = translator.keras_engine("contributions")
    areas: dict[str, list[float]] = {name: [] for name in STATISTICS}
    words: list[np.ndarray] = []  # their support: real and shuffled, dev first
    for split in SPLITS:
        pairs = corpus.scored_pairs(split)[: arguments.pairs]
        others = shuffle(len(pairs), arguments.seed)
        mixed = [
            pair._replace(source=pairs[i].source) for pair, i in zip(pairs, others, strict=True)
        ]
        measured = [measure(engine, translator.tokenizer, each) for each in (pairs, mixed)]
        for name, statistic in STATISTICS.items():
            real, made = (np.array([statistic(pair) for pair in side]) for side in measured)
            areas[name].append(area_under_curve(real, made))
        words += [np.concatenate([pair.word_support for pair in side]) for side in measured]
        sums = [pair.source.sum(-1) + pair.prefix.sum(-1) for side in measured for pair in side]
        error = max(float(np.abs(total - 1).max()) for total in sums)
        print(f"{split}: {len(pairs)} pairs; contributions sum to 1 within {error:.1e}")
    print("\n| statistic | dev AUC | test AUC |\n|---|---:|---:|")
    for name, values in areas.items():
        print(f"| {name.strip()} | " + " | ".join(f"{value:.3f}" for value in values) + " |")
    print("\n| words below | dev, real | dev, shuffled | test, real | test, shuffled |")
    print("|---|---:|---:|---:|---:|")
    chosen = float(np.quantile(words[0], FALSE_ALARMS))
    for name, limit in (
        (f"{FALSE_ALARMS:.0%} of real dev words", chosen),
        ("MIN_SUPPORT", MIN_SUPPORT),
        ("zero", 0.0),
    ):
        shares = " | ".join(f"{(support < limit).mean():.1%}" for support in words)
        print(f"| {limit:.2f} nats ({name}) | {shares} |")


def shuffle(count: int, seed: int) -> np.ndarray:
    """Return a permutation of 0 … count - 1 that leaves no number in its place."""
    order = np.random.default_rng(seed).permutation(count)
    others = np.empty(count, np.int64)
    others[order] = np.roll(order, 1)
    return others


def measure(engine: KerasEngine, tokenizer: Tokenizer, pairs: Sequence[Pair]) -> list[Measured]:
    """Return the numbers of each pair, in forced decoding."""
    from nmt.analysis.explaining.contributions import make_contributions
    from nmt.analysis.explaining.words import group_tokens
    from nmt.data.tokenizer import BOS, EOS
    from nmt.text.cleaning import clean_text

    run_batch = engine.cached(make_contributions)
    sides = zip(
        *((clean_text(pair.source), clean_text(pair.target)) for pair in pairs), strict=True
    )
    texts, references = map(list, sides)
    sources, targets = tokenizer.encode(texts), tokenizer.target.encode(references)
    measured: dict[int, Measured] = {}
    by_length = np.argsort([len(a) + len(b) for a, b in zip(sources, targets, strict=True)])
    for first in range(0, len(pairs), BATCH):
        indices = by_length[first : first + BATCH].tolist()
        read, written = [sources[i] for i in indices], [targets[i] for i in indices]
        shown = engine.score(read, written)
        hidden = engine.score([ids[:0] for ids in read], written)
        batch = run_batch(
            [np.append(ids, EOS) for ids in read],
            [np.append(BOS, ids) for ids in written],
            [np.append(ids, EOS) for ids in written],
        )
        for i, contributions, log_probs, without in zip(indices, batch, shown, hidden, strict=True):
            support = log_probs - without
            tokens = [*targets[i].tolist(), EOS]
            begins = [word.begin for word in group_tokens(tokenizer.target, tokens)]
            measured[i] = Measured(
                contributions.source,
                contributions.prefix,
                log_probs,
                support,
                np.add.reduceat(support, begins),
            )
    return [measured[i] for i in range(len(pairs))]


def area_under_curve(positives: np.ndarray, negatives: np.ndarray) -> float:
    """Return the probability that a positive is larger than a negative; ties count half."""
    larger = positives[:, None] > negatives
    return float((larger + 0.5 * (positives[:, None] == negatives)).mean())


def _log_odds(shares: np.ndarray) -> np.ndarray:
    kept = np.clip(shares, 1e-3, 1 - 1e-3)
    return np.log(kept / (1 - kept))


def _entropy(rows: np.ndarray) -> np.ndarray:
    """Return the entropy in nats of rows, which need not sum to 1."""
    rows = rows / np.maximum(rows.sum(-1, keepdims=True), 1e-9)
    return -(rows * np.log(rows + 1e-9)).sum(-1)


def _measure_information(rows: np.ndarray) -> float:
    """Return the information that an output token has about the source token it comes from."""
    rows = rows / np.maximum(rows.sum(-1, keepdims=True), 1e-9)
    return float(_entropy(rows.mean(0)) - _entropy(rows).mean())


if __name__ == "__main__":
    main()
