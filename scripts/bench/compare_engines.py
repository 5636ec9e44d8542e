"""Compare the translations of both engines. Prints one JSON line per kind of search.

    python scripts/bench/compare_engines.py --run runs/latest --lines FILE --count 2000

The lines are of every length in the file, with two empty ones and two that are too long for one
segment. A result is equal (the same texts, best first), a tie (other texts whose scores at the same
rank differ by less than 0.001 nats), or different. The first few different results are printed with
both scores.
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
    from nmt.inference.forced_decoding import count_pair_tokens
    from nmt.inference.translator import Translator

    lines = choose(arguments.lines.read_text("utf-8").splitlines(), arguments.count)
    fast = Translator.load(arguments.run, engine="auto", log=print)
    keras = fast.with_keras_engine()
    requests = {
        "greedy": SearchRequest(1),
        "beam 4": SearchRequest(4),
        "beam 5": SearchRequest(5),
        "beam 4, length penalty 0": SearchRequest(4, 0.0),
        "beam 4, length penalty 1": SearchRequest(4, 1.0),
        "4 best of beam 4": SearchRequest(4, n_best=4),
    }
    expected: list[list[Any]] = []
    for name, request in requests.items():
        expected = keras.run(lines, request)
        report(name, lines, expected, fast.run(lines, request))
    # Each line has the first word of its translation as prefix, so each needs a call of its keras.
    indices = [i for i in range(0, len(lines), 20) if expected[i][0].text]
    ours: list[Any] = []
    theirs: list[Any] = []
    for i in indices:
        request = SearchRequest(4, prefix=expected[i][0].text.split()[0])
        ours += keras.run([lines[i]], request)
        theirs += fast.run([lines[i]], request)
    report("beam 4, a prefix", [lines[i] for i in indices], ours, theirs)
    pairs = [(lines[i], expected[i][0].text) for i in indices]
    pairs = [
        pair
        for pair in pairs
        if count_pair_tokens(keras.tokenizer, [pair])[0] <= keras.segmenter.max_tokens
    ]
    furthest = max(
        abs(a_log_prob - b_log_prob)
        for a, b in zip(keras.score(pairs), fast.score(pairs), strict=True)
        for a_log_prob, b_log_prob in zip(a.log_probs, b.log_probs, strict=True)
    )
    print(json.dumps({"row": "scores of pairs", "pairs": len(pairs), "furthest": furthest}))


def choose(lines: Sequence[str], count: int) -> list[str]:
    """Return lines of every length, two empty ones, and two of many sentences."""
    by_length = sorted(filter(None, lines), key=len)
    chosen = [by_length[i * len(by_length) // count] for i in range(count - 4)]
    return [*chosen, "", " ", " ".join(by_length[-40:]), " ".join(by_length[:400])]


def report(name: str, lines: Sequence[str], ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    """Print how many results are equal, ties or different."""
    different, ties, equal = [], 0, 0
    for line, keras, fast in zip(lines, ours, theirs, strict=True):
        if [best.text for best in keras] == [best.text for best in fast]:
            equal += 1
        elif len(keras) == len(fast) and all(
            abs(a.score - b.score) < TIE for a, b in zip(keras, fast, strict=True)
        ):
            ties += 1
        else:
            first = next(i for i, best in enumerate(keras) if fast[i : i + 1] != [best])
            different.append(
                {
                    "source": line[:80],
                    "place": first,
                    "own": [round(keras[first].score, 4), keras[first].text[:80]],
                    "fast": [round(fast[first].score, 4), fast[first].text[:80]]
                    if first < len(fast)
                    else None,
                }
            )
    furthest = max(
        (
            abs(a.log_prob - b.log_prob)
            for keras, fast in zip(ours, theirs, strict=True)
            for a, b in zip(keras, fast, strict=False)
            if a.tokens == b.tokens
        ),
        default=0.0,
    )
    row = {"row": name, "lines": len(lines), "equal": equal, "ties": ties}
    row |= {"different": len(different), "furthest_log_prob": furthest}
    print(json.dumps(row | {"shown": different[:SHOWN]}, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
