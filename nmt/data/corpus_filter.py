"""Accepts or rejects the lines of all sources, and keeps pairs of dev and test out of training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from nmt.config.data import list_tags
from nmt.config.sources import RUN, TRANSLATIONS
from nmt.data.contexts import ContextReader
from nmt.data.filtering import (
    CORRECTED,
    DUPLICATE,
    HELD_OUT,
    choose_length_ratio,
    clean_line,
    find_superseded,
    read_head,
)
from nmt.data.language_check import check_languages
from nmt.data.mixture import Groups, PairsBySource
from nmt.data.reading import Line, Row, parse_row
from nmt.data.rejections import check_accepted
from nmt.data.splitting import DEV, TEST, TRAIN, Pair, normalized
from nmt.text.context import split_tag

if TYPE_CHECKING:
    from nmt.config import DataConfig
    from nmt.config.sources import SourceConfig


class CorpusFilter:
    """Accepts or rejects the lines of all sources, and counts them.

    Args:
        config: the ``data`` group.
        log: called with progress messages.
        on_reject: called with the reason and the line of each rejection.
        has_tests: whether pairs of ``data.tests`` are left out of training.
        checks_languages: whether sources in other languages are an error.
    """

    def __init__(
        self,
        config: DataConfig,
        log: Callable[[str], None],
        on_reject: Callable[[str, Line], None],
        *,
        has_tests: bool = False,
        checks_languages: bool = False,
    ) -> None:
        self._checks_languages = checks_languages
        self._tags = list_tags(config)
        self._config, self._log, self._on_reject = config, log, on_reject
        self.length_ratios: dict[str, float] = {}  # by source
        self.weights: dict[str, dict[Pair, float]] = {}  # source -> pair -> weight in the loss
        # Of ordered sources, by pair: of each time that it occurs.
        self.contexts: dict[str, dict[Pair, list[str]]] = {}
        self.groups: Groups = {}
        self.has_groups = False  # whether any accepted pair has a group
        self.rejected: Counter[str] = Counter()  # reason -> lines
        self.lines = 0
        # Training pairs accepted so far, by tag and direction.
        self._accepted: dict[tuple[str | None, bool], set[Pair]] = {}
        # Accepted pairs may be rejected as held out after all sources are read; this keeps their
        # lines for the report: source -> pair -> line.
        self._lines_of: dict[str, dict[Pair, Line]] = {}
        self._keeps_lines = has_tests or any(
            source.split != "shares" or source.group_column is not None
            for source in config.sources.values()
        )
        # Normalized source sentences of kind translations: pairs of another run with the same
        # sentence are rejected.
        self._corrected_sentences: set[str] = set()

    def read(self, name: str, rows: Iterator[Row]) -> list[Pair]:
        """Return the accepted pairs of a source.

        Raises:
            UserError: no line is accepted, or the source is in other languages.
        """
        source = self._config.sources[name]
        is_training = source.is_training
        accepted = self._accepted.setdefault((source.tag, source.reverse), set())
        weights = self.weights.setdefault(name, {}) if source.has_weights else None
        lines_of = self._lines_of.setdefault(name, {})
        pairs = []
        lines_before, rejected_before = self.lines, self.rejected.copy()
        rows = self._measure_source(name, rows)
        ratio = self.length_ratios.get(name, 1.0)
        clean = partial(clean_line, config=self._config, source=source, length_ratio=ratio)
        has_contexts = source.ordered and self._config.context > 0
        previous = ContextReader(self._config, source) if has_contexts else None
        contexts = self.contexts.setdefault(name, {})
        groups = self.groups.setdefault(name, {})
        superseded: set[int] = set()  # indices of rows
        if source.kind == TRANSLATIONS:
            rows = iter(all_rows := list(rows))
            superseded = find_superseded(all_rows, clean)
        for index, row in enumerate(rows):
            line = parse_row(row)
            context = previous.read(line) if previous else ""
            self.lines += 1
            pair = clean(line)
            if isinstance(pair, Pair):
                pair = self._judge(pair, source, accepted, is_superseded=index in superseded)
            if not isinstance(pair, Pair):
                self._reject(pair, line)
                continue
            if weights is not None:
                weights[pair] = float(line.weight)
            pairs.append(pair)
            if previous:
                contexts.setdefault(pair, []).append(context)
            if source.group_column is not None:
                groups.setdefault(pair, []).append(line.group)
                self.has_groups |= bool(line.group)
            if is_training:
                accepted.add(pair)
                if self._keeps_lines:
                    lines_of[pair] = line
        if source.kind == TRANSLATIONS:
            self._corrected_sentences |= {self._normalize(pair.source) for pair in pairs}
        lines = self.lines - lines_before
        check_accepted(self._config, name, len(pairs), lines, self.rejected - rejected_before)
        return pairs

    def _judge(
        self, pair: Pair, source: SourceConfig, accepted: Set[Pair], *, is_superseded: bool
    ) -> Pair | str:
        """Return a cleaned pair, or why other pairs supersede it."""
        is_old = source.kind == RUN and self._normalize(pair.source) in self._corrected_sentences
        if is_superseded or is_old:
            return CORRECTED
        return DUPLICATE if source.is_training and pair in accepted else pair

    def _normalize(self, text: str) -> str:
        """Return a text for comparison: normalized, and without the tag that it begins with."""
        return normalized(split_tag(text, self._tags)[1])

    def _measure_source(self, name: str, rows: Iterator[Row]) -> Iterator[Row]:
        """Check the languages of a source, measure its length ratio, and return its rows.

        Dev and test files have no length ratio, as they are not filtered by length.
        """
        head, rows = read_head(rows)
        if self._checks_languages:
            check_languages(self._config, name, head)
        if self._config.sources[name].is_training:
            self.length_ratios[name] = choose_length_ratio(self._config, name, head, self._log)
        return rows

    def without_file_overlap(self, pairs: PairsBySource) -> PairsBySource:
        """Return pairs by source, where sources with shares have nothing of a dev or test file.

        Otherwise a share drawn for test could hold pairs of the dev file, and the reverse.
        """
        sources = self._config.sources
        files = [name for name in pairs if sources[name].split in (DEV, TEST)]
        shared = {name: pairs[name] for name in pairs if sources[name].split == "shares"}
        in_files = {name: pairs[name] for name in files}
        held_out = list(chain(*in_files.values()))
        return pairs | self._without_overlap(shared, held_out, self._collect_groups(in_files))

    def without_held_out(
        self, splits: Mapping[str, PairsBySource], test_pairs: Sequence[Pair]
    ) -> PairsBySource:
        """Return training pairs, by source, that share no side or group with a pair to score on.

        Sources with shares are checked and returned only if there are test pairs or groups:
        otherwise `split` keeps shared sentences together.

        Args:
            splits: of the corpus.
            test_pairs: pairs of ``data.tests``, as the sources may have them.
        """
        held_out = chain(*splits[DEV].values(), *splits[TEST].values(), test_pairs)
        unchecked = {
            name: pairs
            for name, pairs in splits[TRAIN].items()
            if self._config.sources[name].split != "shares" or test_pairs or self.has_groups
        }
        groups = self._collect_groups(splits[DEV]) | self._collect_groups(splits[TEST])
        return self._without_overlap(unchecked, list(held_out), groups)

    def _collect_groups(self, pairs: PairsBySource) -> set[str]:
        """Return the groups of pairs."""
        return {
            group
            for name in pairs.keys() & self.groups.keys()
            for pair in pairs[name]
            for group in self.groups[name].get(pair, ())
            if group
        }

    def dev_without_test(self, splits: Mapping[str, PairsBySource]) -> PairsBySource:
        """Return the dev pairs of sources with shares that share no side with a test pair.

        Without groups, `split` makes sure of that.
        """
        if not self.has_groups:
            return {}
        shared = {
            name: pairs
            for name, pairs in splits[DEV].items()
            if self._config.sources[name].split == "shares"
        }
        return self._without_overlap(shared, list(chain(*splits[TEST].values())))

    def _without_overlap(
        self, pairs: PairsBySource, held_out: Sequence[Pair], held_groups: Set[str] = frozenset()
    ) -> PairsBySource:
        """Reject pairs with a normalized side of a held-out pair, or its group; return others."""
        if not held_out:
            return pairs
        held_sources = {normalized(pair.source) for pair in held_out}
        held_targets = {normalized(pair.target) for pair in held_out}
        untagged = {self._normalize(side) for pair in held_out for side in pair}
        disjoint: PairsBySource = {}
        for name, source_pairs in pairs.items():
            disjoint[name] = []
            groups = self.groups.get(name, {})
            normalize, sources, targets = normalized, held_sources, held_targets
            if self._config.sources[name].kind == RUN:  # may have tags and both directions
                normalize, sources, targets = self._normalize, untagged, untagged
            for pair in source_pairs:
                if (
                    normalize(pair.source) in sources
                    or normalize(pair.target) in targets
                    or not held_groups.isdisjoint(groups.get(pair, ()))
                ):
                    if name in self._lines_of:  # generated pairs come from no line
                        self._reject(HELD_OUT, self._lines_of[name][pair])
                else:
                    disjoint[name].append(pair)
        return disjoint

    def _reject(self, reason: str, line: Line) -> None:
        self.rejected[reason] += 1
        self._on_reject(reason, line)
