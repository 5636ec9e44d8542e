"""What `nmt.translate` tells about its translations: confidence as JSON Lines, lost spans."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from nmt.files import format_json_line
from nmt.inference.results import Translation
from nmt.inference.text_files import open_output
from nmt.text.context import split_context


class QualityLines:
    """Writes the confidence of each text, whatever pace translations come at.

    Args:
        path: of the file; None: nothing is written.
        resources: closes the file.

    Raises:
        UserError: the file cannot be written.
    """

    def __init__(self, path: Path | None, resources: ExitStack) -> None:
        self._out = resources.enter_context(open_output(path)) if path else None
        self._sources: deque[str] = deque()

    def watch(self, chunks: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
        """Yield chunks of texts, and remember them until their translations are written."""
        for chunk in chunks:
            if self._out is not None:
                self._sources.extend(chunk)
            yield chunk

    def write(self, translations: Sequence[Sequence[Translation]]) -> None:
        """Write a line for the best translation of each of the texts that come next."""
        if self._out is None:
            return
        for [best, *_] in translations:
            self._out.write(format_json_line(describe(self._sources.popleft(), best)))
        self._out.flush()


def describe(source: str, translation: Translation) -> dict[str, object]:
    """Return a translation with its confidence, for a JSON file."""
    return {
        "source": split_context(source)[1],
        "translation": translation.text,
        **describe_quality(translation),
        "lost_spans": list(translation.lost_spans),
        **({"terms": [use._asdict() for use in translation.terms]} if translation.terms else {}),
    }


def describe_quality(translation: Translation) -> dict[str, object]:
    """Return the confidence of a translation and of its words, for JSON."""
    return {
        "confidence": round_confidence(translation.confidence),
        "words": [
            {
                "begin": word.begin,
                "end": word.end,
                "confidence": round_confidence(word.confidence),
                "sources": [list(span) for span in word.sources],
            }
            for word in translation.words
        ],
    }


def round_confidence(value: float | None) -> float | None:
    """Return a confidence with as many digits as have a meaning."""
    return None if value is None else round(value, 3)


class LostSpans:
    """Counts the URLs, numbers and other kept spans that a model left out of best translations."""

    def __init__(self) -> None:
        self.count = 0
        self.example = ""

    def add(self, translations: Sequence[Sequence[Translation]]) -> None:
        """Count those of the best translation of each text."""
        for best in (hypotheses[0] for hypotheses in translations if hypotheses):
            if best.lost_spans and not self.example:
                self.example = best.lost_spans[0]
            self.count += len(best.lost_spans)

    def warn(self) -> None:
        """Print the count on standard error, unless it is 0."""
        if self.count:
            print(
                f"warning: the model left out {self.count:,} of the names, numbers and other parts "
                f"that it copies, such as {self.example!r}; they were inserted where they most "
                "likely belong",
                file=sys.stderr,
            )
