"""List words of the embedded corpus that hunspell does not know, for manual review.

    python scripts/spellcheck.py [--patterns 20000]

Needs the `hunspell` command with the dictionaries es_ES and en_US (Debian: hunspell, hunspell-es,
hunspell-en-us). It is not a test, because names and loan words are unknown too.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter

from nmt.data.embedded import phrasebook_dir, read_patterns

DICTIONARIES = ("es_ES", "en_US")


def main() -> None:
    parser = argparse.ArgumentParser(description="List words that hunspell does not know.")
    parser.add_argument("--patterns", type=int, default=20_000, help="generated pairs to check too")
    arguments = parser.parse_args()
    if shutil.which("hunspell") is None:
        sys.exit("no hunspell command: install hunspell with its Spanish and English dictionaries")
    pairs = [
        (line.split("\t"), path.name)
        for path in sorted(phrasebook_dir().glob("*.tsv"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    pairs += [(list(pair), "patterns") for pair in read_patterns(arguments.patterns, "--patterns")]
    for side, dictionary in enumerate(DICTIONARIES):
        counts: Counter[str] = Counter()
        first: dict[str, str] = {}
        for sides, origin in pairs:
            for word in re.findall(r"[^\W\d_]+(?:['-][^\W\d_]+)*", sides[side]):
                counts[word] += 1
                first.setdefault(word, f"{origin}: {sides[side]}")
        unknown = subprocess.run(
            ["hunspell", "-i", "utf-8", "-d", dictionary, "-l"],
            input="\n".join(counts),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        print(f"{dictionary}: {len(unknown)} unknown of {len(counts)} words")
        for word in sorted(set(unknown), key=lambda word: (-counts[word], word)):
            print(f"{counts[word]:>7}  {word:<20}  {first.get(word, '')}")


if __name__ == "__main__":
    main()
