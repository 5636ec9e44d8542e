"""Importance of attention heads: quality of the model without single heads or several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from nmt.data.splitting import Pair
from nmt.inference.metrics import corpus_scores
from nmt.inference.perplexity import measure_perplexity
from nmt.inference.translator import Translator
from nmt.model.contract import Model


class Head(NamedTuple):
    """One attention head of a model."""

    kind: str  # name of an `AttentionKind`
    layer: int  # from 1
    number: int  # from 1


class HeadScores(NamedTuple):
    """Loss and BLEU of a model on a set of sentences."""

    loss: float  # nats per target token, EOS included
    bleu: float  # of greedy translations, 0 to 100
    signature: str  # of BLEU, by sacreBLEU

    def scores(self) -> dict[str, float]:
        """Return loss and BLEU by name."""
        return {"loss": self.loss, "bleu": self.bleu}


@dataclass
class Ablation:
    """Scores without each head."""

    sentences: int
    baseline: HeadScores  # with all heads
    without: dict[Head, HeadScores] = field(default_factory=dict)

    def loss_increase(self, head: Head) -> float:
        """Return the increase of the loss without a head, in nats per target token."""
        return self.without[head].loss - self.baseline.loss

    def order(self) -> list[Head]:
        """Return the heads, least important first.

        The criterion is the loss. On a few hundred sentences, removing one head changes BLEU less
        than another sample of sentences does, or not at all where no output changes.
        """
        return sorted(self.without, key=self.loss_increase)


@dataclass
class Pruning:
    """Scores without the least important heads, for growing numbers of them."""

    sentences: int  # not those that the order was measured on
    baseline: HeadScores
    order: Sequence[Head]
    without: dict[int, HeadScores] = field(default_factory=dict)  # by number of heads


def list_heads(model: Model) -> list[Head]:
    """Return every head of the model: kind by kind, layer by layer."""
    return [
        Head(kind.name, number, head)
        for kind in model.attention_kinds
        for number, layer in enumerate(model.attention_layers(kind.name), start=1)
        for head in range(1, layer.num_heads + 1)
    ]


@contextmanager
def mask_heads(model: Model, heads: Iterable[Head]) -> Iterator[None]:
    """Run the model without some of its heads; its weights are restored in any case.

    The weights that a head's output passes through are set to zero, as if its output were zero.
    """
    saved: list[tuple[keras.Variable, np.ndarray]] = []
    try:
        for head in heads:
            layer = model.attention_layers(head.kind)[head.layer - 1]
            for weight, part in layer.head_weights(head.number - 1):
                values = np.array(ops.convert_to_numpy(weight))
                saved.append((weight, values.copy()))
                values[part] = 0
                weight.assign(values)
        yield
    finally:
        for weight, values in reversed(saved):  # a weight shared by heads gets its first values
            weight.assign(values)


def measure_quality(translator: Translator, pairs: Sequence[Pair], language: str) -> HeadScores:
    """Return loss and BLEU on sentence pairs whose target language is a BCP 47 tag.

    Raises:
        UserError: a pair is longer than the model has positions.
    """
    outputs = translator.translate([pair.source for pair in pairs], beam_size=1)
    references = [pair.target for pair in pairs]
    (bleu,) = corpus_scores(outputs, references, language=language, names=("BLEU",))
    loss = measure_perplexity(translator.score(pairs), references).nats_per_piece
    return HeadScores(loss, bleu.value, bleu.signature)


def ablate_each(
    translator: Translator, pairs: Sequence[Pair], language: str
) -> Iterator[tuple[Head, HeadScores]]:
    """Yield each head with the quality without it (Michel et al. 2019, section 3.2)."""
    translator = translator.with_keras_engine("head analysis")  # whose weights are changed
    model = translator.keras_engine("head analysis").model
    for head in list_heads(model):
        with mask_heads(model, [head]):
            quality = measure_quality(translator, pairs, language)
        yield head, quality


def plan_pruning(heads: int) -> list[int]:
    """Return the numbers of heads that `prune` removes: 1, 2, 4, …, never all."""
    return [1 << power for power in range(heads.bit_length()) if 1 << power < heads]


def prune(
    translator: Translator, pairs: Sequence[Pair], language: str, order: Sequence[Head]
) -> Iterator[tuple[int, HeadScores]]:
    """Yield the quality without the first 1, 2, 4, … heads of an order."""
    translator = translator.with_keras_engine("head analysis")  # whose weights are changed
    model = translator.keras_engine("head analysis").model
    for count in plan_pruning(len(order)):
        with mask_heads(model, order[:count]):
            quality = measure_quality(translator, pairs, language)
        yield count, quality
