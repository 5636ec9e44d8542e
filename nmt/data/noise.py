"""Packed training pairs as careless writers and other programs would write them.

How a pair changes is a function of the seed, the batch and the place of the pair in it, so a batch
remains a function of its address, and resuming changes nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple, Protocol

import numpy as np

from nmt.data.packing import PackedRows
from nmt.data.ragged import RaggedIds
from nmt.data.tokenizer import UNK, Tokenizer
from nmt.text.context import CONTEXT_MARK
from nmt.text.noise import SOURCE_CHANGES, TextNoise
from nmt.text.scripts import join_sentences
from nmt.text.spans import SLOTS

_JOINED = (2, 2, 3, 4)  # pairs that are joined: each entry is as likely as the others


class PackedPair(NamedTuple):
    """A pair in a row, without BOS and EOS."""

    source: list[int]  # [S - 1]
    target: list[int]  # [T - 1]
    weight: float = 1.0  # in the loss


def count_tokens(pairs: Sequence[PackedPair]) -> tuple[int, int]:
    """Return the tokens of pairs on both sides, EOS included."""
    return (
        sum(len(pair.source) + 1 for pair in pairs),
        sum(len(pair.target) + 1 for pair in pairs),
    )


class RowNoise(Protocol):
    """Changes pairs in the rows of a batch."""

    def change_rows(
        self, rows: PackedRows, length: int, addresses: Sequence[Sequence[int]]
    ) -> PackedRows:
        """Return rows with some of their pairs changed.

        Args:
            rows: the rows.
            length: tokens per side of a row.
            addresses: of the rows, see `BatchNoise.change`.
        """
        ...


class BatchNoise:
    """Changes pairs of a batch. A pair stays as it is if its row has no room for the change.

    Args:
        rates: kind of change, of `nmt.config.noise.NoiseConfig` -> share of pairs.
        tokenizer: the tokenizer of the pairs.
        languages: of source and target, BCP 47 tags.
        tags: words that may begin a source and are not text, such as ``<2en>``. A context is not
            changed either.
        seed: of all draws.
    """

    def __init__(
        self,
        rates: Mapping[str, float],
        tokenizer: Tokenizer,
        languages: tuple[str, str],
        tags: Sequence[str],
        seed: int,
    ) -> None:
        self._rates = {kind: rate for kind, rate in rates.items() if rate}
        self._tokenizer = tokenizer
        self._languages = languages
        self._slots = {*SLOTS[: tokenizer.slots]}
        self._text = TextNoise(SLOTS[: tokenizer.slots], languages)
        any_tag = "|".join([*(rf"{re.escape(tag)}\s+" for tag in tags), ""])
        # Decoded sources may be lower-cased.
        self._tag = re.compile(rf"(?:{any_tag})(?:.*{CONTEXT_MARK}\s*)?", re.IGNORECASE)
        self._seed = seed

    def change_rows(
        self, rows: PackedRows, length: int, addresses: Sequence[Sequence[int]]
    ) -> PackedRows:
        """See `RowNoise.change_rows`."""
        weights = [1.0] * len(rows.source) if rows.weights is None else rows.weights.tolist()
        pairs = map(PackedPair, _split(rows.source), _split(rows.target), weights)
        changed = [
            self.change(list(islice(pairs, count)), length, address)
            for count, address in zip(rows.per_row.tolist(), addresses, strict=True)
        ]
        flat = list(chain.from_iterable(changed))
        return PackedRows(
            np.array([len(row) for row in changed], np.int64),
            _join([pair.source for pair in flat]),
            _join([pair.target for pair in flat]),
            None if rows.weights is None else np.array([p.weight for p in flat], np.float32),
        )

    def change(
        self, pairs: Sequence[PackedPair], length: int, address: Sequence[int]
    ) -> list[PackedPair]:
        """Return the pairs of a row, some of them changed or joined.

        Args:
            pairs: the pairs of the row.
            length: tokens per side of the row, EOS included.
            address: numbers that seed the draws: the step and shuffle of the batch, and the row.
        """
        rng = random.Random(f"noise {self._seed} {address}")
        tokens = count_tokens(pairs)
        room = length - tokens[0], length - tokens[1]
        changed: list[PackedPair] = []
        first = 0  # pair that is not in `changed` yet
        for number in range(len(pairs)):
            kinds = [kind for kind, rate in self._rates.items() if rng.random() < rate]
            if not kinds or number < first:  # joined to one before
                continue
            end = number + (rng.choice(_JOINED) if "joined" in kinds else 1)
            old = pairs[number:end]
            new = self._change(old, kinds, rng)
            before, after = count_tokens(old), count_tokens(new)
            left = room[0] + before[0] - after[0], room[1] + before[1] - after[1]
            if min(left) < 0:
                continue
            room = left
            changed += [*pairs[first:number], *new]
            first = end
        return [*changed, *pairs[first:]]

    def _change(
        self, pairs: Sequence[PackedPair], kinds: Collection[str], rng: random.Random
    ) -> Sequence[PackedPair]:
        """Return one changed pair; all, unchanged, if tags or weights differ or slots repeat."""
        if any(UNK in pair.source or UNK in pair.target for pair in pairs):
            return pairs  # their text is not known
        sources = self._tokenizer.decode([pair.source for pair in pairs])
        tags = [self._tag.match(source)[0] for source in sources]  # type: ignore[index]
        if len(set(tags)) > 1 or len({pair.weight for pair in pairs}) > 1:
            return pairs
        if len(pairs) > 1:  # each numbers its slots from the first one
            slots = [slot for source in sources for slot in {*source} & self._slots]
            if len(set(slots)) < len(slots):
                return pairs
        keeps_target = len(pairs) == 1 and SOURCE_CHANGES.keys() >= set(kinds)
        targets = self._tokenizer.target.decode([] if keeps_target else [p.target for p in pairs])
        source, target = self._text.change(
            join_sentences([each.removeprefix(tags[0]) for each in sources], self._languages[0]),
            join_sentences(targets, self._languages[1]),
            kinds,
            rng,
        )
        if not source:
            return pairs
        source_ids = self._tokenizer.encode([tags[0] + source])[0].tolist()
        target_ids = (
            pairs[0].target if keeps_target else self._tokenizer.target.encode([target])[0].tolist()
        )
        if not source_ids or not target_ids:
            return pairs
        return [PackedPair(source_ids, target_ids, pairs[0].weight)]


def _split(side: RaggedIds) -> Iterator[list[int]]:
    """Return an iterator of the tokens of each pair."""
    ids = iter(side.ids.tolist())
    return (list(islice(ids, length)) for length in side.lengths.tolist())


def _join(sequences: Sequence[Sequence[int]]) -> RaggedIds:
    ids = np.fromiter(chain.from_iterable(sequences), np.int32)
    return RaggedIds.from_lengths(ids, [len(ids) for ids in sequences])
