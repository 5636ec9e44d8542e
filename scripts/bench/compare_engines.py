"""Compare what both engines make of the same lines. One JSON line per way to search.

    python scripts/bench/compare_engines.py --run runs/latest --lines FILE --count 2000

Lines are taken from all over the file, from the shortest to the longest, with two empty ones and
two that are too long for one piece. An answer is equal (the same texts, best first), a tie (other
texts whose scores differ by less than 0.001 nats, place by place), or different; of these, the
first few are printed with both scores.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TIE = 1e-3  # nats
SHOWN = 10


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare both engines.")
    parser.add_argument("--run", type=Path, default=Path("runs/latest"))
    parser.add_argument("--lines", type=Path, required=True)
    parser.add_argument("--count", type=int, default=2000)
    arguments = parser.parse_args()

    from nmt.startup.commands import set_up_translation

    set_up_translation()
    from nmt.inference.contract import SearchRequest
    from nmt.inference.forcing import count_tokens
    from nmt.inference.translator import Translator

    lines = choose(arguments.lines.read_text("utf-8").splitlines(), arguments.count)
    fast = Translator.load(arguments.run, engine="auto", log=print)
    own = fast.with_keras_engine()
    ways = {
        "greedy": SearchRequest(1),
        "beam 4": SearchRequest(4),
        "beam 5": SearchRequest(5),
        "beam 4, length penalty 0": SearchRequest(4, 0.0),
        "beam 4, length penalty 1": SearchRequest(4, 1.0),
        "4 best of beam 4": SearchRequest(4, n_best=4),
    }
    expected: list[list[Any]] = []
    for name, how in ways.items():
        expected = own.run(lines, how)
        report(name, lines, expected, fast.run(lines, how))
    # Each line with the first word of its own translation: a prefix is one for all of a call.
    few = [i for i in range(0, len(lines), 20) if expected[i][0].text]
    ours, theirs = [], []
    for i in few:
        how = SearchRequest(4, prefix=expected[i][0].text.split()[0])
        ours += own.run([lines[i]], how)
        theirs += fast.run([lines[i]], how)
    report("beam 4, a prefix", [lines[i] for i in few], ours, theirs)
    pairs = [(lines[i], expected[i][0].text) for i in few]
    pairs = [
        pair for pair in pairs if count_tokens(own.tokenizer, [pair])[0] <= own.segmenter.max_tokens
    ]
    furthest = max(
        abs(one - other)
        for a, b in zip(own.score(pairs), fast.score(pairs), strict=True)
        for one, other in zip(a.log_probs, b.log_probs, strict=True)
    )
    print(json.dumps({"row": "scores of pairs", "pairs": len(pairs), "furthest": furthest}))


def choose(lines: Sequence[str], count: int) -> list[str]:
    """Return lines of every length, two empty ones, and two of many sentences."""
    by_length = sorted(filter(None, lines), key=len)
    chosen = [by_length[i * len(by_length) // count] for i in range(count - 4)]
    return [*chosen, "", " ", " ".join(by_length[-40:]), " ".join(by_length[:400])]


def report(name: str, lines: Sequence[str], ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    """Print how many answers are equal, ties or different."""
    different, ties, equal = [], 0, 0
    for line, own, fast in zip(lines, ours, theirs, strict=True):
        if [one.text for one in own] == [one.text for one in fast]:
            equal += 1
        elif len(own) == len(fast) and all(
            abs(one.score - other.score) < TIE for one, other in zip(own, fast, strict=True)
        ):
            ties += 1
        else:
            first = next(i for i, one in enumerate(own) if fast[i : i + 1] != [one])
            different.append(
                {
                    "source": line[:80],
                    "place": first,
                    "own": [round(own[first].score, 4), own[first].text[:80]],
                    "fast": [round(fast[first].score, 4), fast[first].text[:80]]
                    if first < len(fast)
                    else None,
                }
            )
    furthest = max(
        (
            abs(one.log_prob - other.log_prob)
            for own, fast in zip(ours, theirs, strict=True)
            for one, other in zip(own, fast, strict=False)
            if one.tokens == other.tokens
        ),
        default=0.0,
    )
    row = {"row": name, "lines": len(lines), "equal": equal, "ties": ties}
    row |= {"different": len(different), "furthest_log_prob": furthest}
    print(json.dumps(row | {"shown": different[:SHOWN]}, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
