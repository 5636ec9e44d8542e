"""How often the terms of a glossary occurred, and how often translations use their targets."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from nmt.files import write_text
from nmt.inference.results import TermUse
from nmt.text.terms import Glossary

_SHOWN = 3  # terms that the summary names
HEADER = "source\ttarget\tfound\tused\tnote"


class TermReport:
    """Counts the terms of texts and their use.

    Args:
        glossary: the terms; None: nothing is counted.
    """

    def __init__(self, glossary: Glossary | None) -> None:
        self.glossary = glossary
        self._found: Counter[tuple[str, str]] = Counter()
        self._used: Counter[tuple[str, str]] = Counter()

    def add(self, uses: Iterable[TermUse]) -> None:
        """Count the terms of a translation."""
        for source, target, is_used in uses:
            self._found[source, target] += 1
            self._used[source, target] += is_used

    def write(self, path: Path) -> None:
        """Write a table with a line for each term of the glossary, the most frequent first.

        Raises:
            UserError: the file cannot be written.
        """
        assert self.glossary is not None
        notes = {term[:2]: term.note for term in self.glossary.terms}
        pairs = dict.fromkeys([*(pair for pair, _ in self._found.most_common()), *notes])
        rows = ((*pair, self._found[pair], self._used[pair], notes.get(pair, "")) for pair in pairs)
        lines = [HEADER, *("\t".join(map(str, row)) for row in rows)]
        write_text(path, "".join(f"{line}\n" for line in lines))

    def print_summary(self) -> None:
        """Print on standard error how many terms were used, and which ones were not."""
        if self.glossary is None:
            return
        unused = self._found - self._used
        examples = ", ".join(" → ".join(pair) for pair, _ in unused.most_common(_SHOWN))
        more = f"; not used: {examples}" if unused else ""
        print(
            f"terms: {self._used.total():,} of {self._found.total():,} used{more}", file=sys.stderr
        )
