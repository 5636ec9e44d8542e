"""The sentences before each line of an ordered source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nmt.data.reading import Line
from nmt.data.splitting import Pair
from nmt.text.cleaning import clean_text
from nmt.text.context import PreviousSentences, add_contexts, remove_context, split_context

if TYPE_CHECKING:
    from nmt.config import DataConfig, SourceConfig


class ContextReader:
    """Reads the lines of a source in order, and tells what stands before each.

    Args:
        config: the ``data`` group.
        source: of the lines, which is ordered.
    """

    def __init__(self, config: DataConfig, source: SourceConfig) -> None:
        self._side = int(source.reverse != config.reverse)  # that the model reads
        language = (config.source_language, config.target_language)[self._side]
        self._previous = PreviousSentences(config.context, language)
        self._document = ""

    def read(self, line: Line) -> str:
        """Return the sentences before a line: see `nmt.text.context`. Empty at a beginning.

        A line that is rejected later is a context all the same.
        """
        if line.sides is None or not any(side.strip() for side in line.sides):
            self._previous.begin_document()
            return ""
        if line.document != self._document:
            self._previous.begin_document()
        self._document = line.document
        return split_context(self._previous.add_to(clean_text(line.sides[self._side])))[0]


def add_contexts_to_pairs(pairs: Sequence[Pair], count: int, language: str) -> list[Pair]:
    """Return the pairs of files in order, each source with the previous sentences in front.

    Args:
        pairs: an empty source begins another document.
        count: sentences before each source.
        language: BCP 47 tag of the sources.
    """
    sources = add_contexts((pair.source for pair in pairs), PreviousSentences(count, language))
    return [Pair(source, pair.target) for source, pair in zip(sources, pairs, strict=True)]


def remove_contexts(pairs: Iterable[Pair], tags: Sequence[str] = ()) -> list[Pair]:
    """Return pairs whose sources have no context.

    Args:
        pairs: as the model sees them.
        tags: words before a context that are kept; all others are removed.
    """
    return [Pair(remove_context(pair.source, tags), pair.target) for pair in pairs]
