"""How sources combine into an epoch: their weights, repeats, tags and directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from nmt.config.sources import PATTERNS
from nmt.data.splitting import Pair, sample_evenly
from nmt.text.cleaning import clean_text
from nmt.text.context import split_context

if TYPE_CHECKING:  # numpy is imported where it is needed: see `nmt.startup`
    import numpy as np

    from nmt.config import DataConfig


@dataclass(frozen=True)
class SourcePairs:
    """The training pairs of one source, as the model sees them."""

    name: str  # of the source
    pairs: list[Pair]
    repeats: int  # how often an epoch has each pair
    is_read: bool  # from lines, rather than generated
    weights: list[float] | None = None  # of each pair in the loss; None: all are 1


Mixture: TypeAlias = tuple[SourcePairs, ...]  # an epoch, source by source
PairsBySource: TypeAlias = dict[str, list[Pair]]
# Source -> pair -> the sentences before it, as `nmt.text.context` puts them before a text: one item
# for each time that it occurs, in order, as dev and test files may repeat a pair.
Contexts: TypeAlias = Mapping[str, Mapping[Pair, Sequence[str]]]
# Source -> pair -> its document or speaker: one item for each time that it occurs, "" for none.
Groups: TypeAlias = dict[str, dict[Pair, list[str]]]


def mix_sources(
    config: DataConfig,
    train: PairsBySource,
    pair_weights: Mapping[str, Mapping[Pair, float]],
    source_weights: Mapping[str, float],
    contexts: Contexts,
) -> Mixture:
    """Return the pairs of an epoch, each source repeated by its weight: see `count_repeats`.

    Args:
        config: the ``data`` group.
        train: pairs to train on, as the sources have them.
        pair_weights: weights of pairs in the loss, for the sources that have any.
        source_weights: override the configured weights of sources; 0 leaves a source out.
        contexts: of pairs, for ordered sources.
    """
    sizes = {name: len(pairs) for name, pairs in train.items()}
    mixture = []
    for name, repeats in count_repeats(config, sizes, source_weights).items():
        weights = pair_weights.get(name)
        mixture.append(
            SourcePairs(
                name,
                to_model_view(config, name, train[name], contexts.get(name)),
                repeats,
                is_read=config.sources[name].kind != PATTERNS,
                weights=None if weights is None else [weights[pair] for pair in train[name]],
            )
        )
    return tuple(mixture)


def count_repeats(
    config: DataConfig,
    sizes: Mapping[str, int],
    source_weights: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, int]:
    """Return how often an epoch has each pair of a source.

    The source with most pairs for its weight has each of them once. The others are repeated to
    come near their weights, except generated pairs: more of those can be configured instead.

    Args:
        config: the ``data`` group.
        sizes: pairs of each source.
        source_weights: override the configured weights of sources; 0 leaves a source out.

    Returns:
        At least 1 for each source that has pairs and is not left out, in configured order.
    """
    sources = config.sources
    sizes = {
        name: sizes[name] for name in sources if sizes.get(name) and source_weights.get(name) != 0
    }
    weights = {
        name: weight
        for name, size in sizes.items()
        if (weight := source_weights.get(name, _source_weight(config, name, size))) is not None
    }
    per_weight = max((sizes[name] / weights[name] for name in weights), default=0)
    return {
        name: 1
        if sources[name].kind == PATTERNS
        else max(1, round(per_weight * weights.get(name, 0) / size))
        for name, size in sizes.items()
    }


def _source_weight(config: DataConfig, name: str, size: int) -> float | None:
    """Return the weight of a source: its own, or else the one that the temperature gives it.

    Arivazhagan et al. 2019, Massively Multilingual Neural Machine Translation in the Wild, 4.2.
    """
    source = config.sources[name]
    if source.weight is not None or config.temperature is None or source.kind == PATTERNS:
        return source.weight
    return size ** (1 / config.temperature)


def sample_run(
    config: DataConfig, name: str, pairs: Sequence[Pair], sizes: Mapping[str, int]
) -> Sequence[Pair]:
    """Return pairs of another run: all, or as many as its weight gives, at even intervals.

    Args:
        config: the ``data`` group.
        name: of the source of kind ``run``.
        pairs: training pairs of the run.
        sizes: pairs of each other source; those without a weight do not count.
    """
    weight = config.sources[name].weight
    weights = {other: config.sources[other].weight for other in sizes}
    per_weights = [sizes[other] / each for other, each in weights.items() if each]
    if weight is None or not per_weights:
        return pairs
    return sample_evenly(pairs, round(weight * max(per_weights)))


def add_phrases(mixture: Mixture, phrases: Mapping[str, Sequence[Pair]], share: float) -> Mixture:
    """Return a mixture with the phrases of its sources, repeated and weighed like their pairs.

    Args:
        mixture: of sentences.
        phrases: of each source, the most frequent first.
        share: most phrases of a source, as a share of its pairs.
    """
    added = []
    for source in mixture:
        if chosen := list(phrases[source.name][: round(share * len(source.pairs))]):
            name = f"{source.name} phrases"
            weights = source.weights and [fmean(source.weights)] * len(chosen)
            added.append(SourcePairs(name, chosen, source.repeats, is_read=False, weights=weights))
    return (*mixture, *added)


def list_pairs(mixture: Sequence[SourcePairs]) -> list[Pair]:
    """Return the pairs of an epoch, repeats included."""
    return [pair for source in mixture for pair in source.pairs * source.repeats]


def list_weights(mixture: Sequence[SourcePairs]) -> np.ndarray | None:
    """Return the loss weight of each pair of `list_pairs`: float32 [pairs]; None: all are 1."""
    import numpy as np

    if all(source.weights is None for source in mixture):
        return None
    repeated = [
        (source.weights or [1.0] * len(source.pairs)) * source.repeats for source in mixture
    ]
    return np.array([weight for weights in repeated for weight in weights], np.float32)


def to_model_view(
    config: DataConfig,
    name: str,
    pairs: list[Pair],
    contexts: Mapping[Pair, Sequence[str]] | None = None,
) -> list[Pair]:
    """Return the pairs of a source as the model sees them: with direction, tag and context.

    Args:
        config: the ``data`` group.
        name: of the source.
        pairs: in its order.
        contexts: pair -> the sentences before it, once per occurrence; None: no contexts.
    """
    source = config.sources[name]
    views = pairs
    if source.reverse != config.reverse:
        views = [Pair(pair.target, pair.source) for pair in pairs]
    if contexts:
        views = [
            Pair(context + view.source, view.target)
            for context, view in zip(list_by_occurrence(pairs, contexts), views, strict=True)
        ]
    if source.tag is None:
        return views
    # Cleaned, as the translator will read it.
    return [Pair(clean_text(f"{source.tag} {view.source}"), view.target) for view in views]


def list_by_occurrence(pairs: Iterable[Pair], values: Mapping[Pair, Sequence[str]]) -> list[str]:
    """Return the value of each pair, its n-th for its n-th occurrence; "" if missing."""
    remaining = {pair: iter(each) for pair, each in values.items()}
    return [next(remaining.get(pair, iter(())), "") for pair in pairs]


def to_source_view(config: DataConfig, pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs as their sources may have them: without tags and contexts, in any direction."""
    flips: dict[str, set[bool]] = {}  # tag ("" for none) -> whether its sources are reversed
    for source in config.sources.values():
        tag = f"{clean_text(source.tag)} " if source.tag is not None else ""
        flips.setdefault(tag, set()).add(source.reverse != config.reverse)
    flips.setdefault("", {config.reverse})  # a table without tags
    views = []
    for pair in pairs:
        # The longest tag that matches; the empty one always does.
        tag = max((tag for tag in flips if pair.source.startswith(tag)), key=len)
        bare = Pair(split_context(pair.source.removeprefix(tag))[1], pair.target)
        views += [Pair(bare.target, bare.source) if flip else bare for flip in sorted(flips[tag])]
    return views
