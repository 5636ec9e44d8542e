"""How much a model needs each of its heads: by taking them away, one by one and together."""

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
from nmt.inference.perplexity import perplexity
from nmt.inference.translator import Translator
from nmt.model.contract import Model


class Head(NamedTuple):
    """One attention head of a model."""

    kind: str  # of attention: name of an `AttentionKind`
    layer: int  # from 1
    number: int  # from 1


class Quality(NamedTuple):
    """How good a model is on a set of sentences."""

    loss: float  # nats per target piece, end marks included
    bleu: float  # of greedy translations, 0 to 100
    signature: str  # of BLEU, by sacreBLEU

    def scores(self) -> dict[str, float]:
        """Return the two figures by name."""
        return {"loss": self.loss, "bleu": self.bleu}


@dataclass
class Ablation:
    """What was measured with heads taken away."""

    sentences: int
    whole: Quality  # with all heads
    without: dict[Head, Quality] = field(default_factory=dict)

    def loss_increase(self, head: Head) -> float:
        """Return by how many nats per target piece the loss is higher without a head."""
        return self.without[head].loss - self.whole.loss

    def order(self) -> list[Head]:
        """Return the heads, the least important first.

        By loss: on a few hundred sentences, BLEU without one head changes by less than it changes
        from sample to sample, and where no output changes, it does not move at all.
        """
        return sorted(self.without, key=self.loss_increase)


@dataclass
class Pruning:
    """What was measured with ever more heads taken away together."""

    sentences: int  # others than those that the order was found on
    whole: Quality
    order: Sequence[Head]
    without: dict[int, Quality] = field(default_factory=dict)  # by number of heads


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
    """Run the model without some of its heads, and restore its weights whatever happens.

    With the weights at zero that a head passes through, nothing of it comes through: the same as a
    head whose output is zero.
    """
    kept: list[tuple[keras.Variable, np.ndarray]] = []
    try:
        for head in heads:
            layer = model.attention_layers(head.kind)[head.layer - 1]
            for weight, part in layer.head_weights(head.number - 1):
                values = np.array(ops.convert_to_numpy(weight))
                kept.append((weight, values.copy()))
                values[part] = 0
                weight.assign(values)
        yield
    finally:
        for weight, values in reversed(kept):  # a weight of several heads ends as it began
            weight.assign(values)


def measure_quality(translator: Translator, pairs: Sequence[Pair], language: str) -> Quality:
    """Measure loss and BLEU on sentence pairs whose targets are in a language, a BCP 47 tag.

    Raises:
        UserError: a pair is longer than the model has positions.
    """
    outputs = translator.translate([pair.source for pair in pairs], beam_size=1)
    references = [pair.target for pair in pairs]
    (bleu,) = corpus_scores(outputs, references, language=language, names=("BLEU",))
    loss = perplexity(translator.score(pairs)).nats_per_piece
    return Quality(loss, bleu.value, bleu.signature)


def ablate_each(
    translator: Translator, pairs: Sequence[Pair], language: str
) -> Iterator[tuple[Head, Quality]]:
    """Yield each head, and how good the model is without it (Michel et al. 2019, section 3.2)."""
    translator = translator.with_keras_engine("head analysis")  # whose weights are changed
    model = translator.keras_engine("head analysis").model
    for head in list_heads(model):
        with mask_heads(model, [head]):
            found = measure_quality(translator, pairs, language)
        yield head, found


def plan_pruning(heads: int) -> list[int]:
    """Return how many heads `prune` takes away: 1, 2, 4, … of them, and never all."""
    return [1 << power for power in range(heads.bit_length()) if 1 << power < heads]


def prune(
    translator: Translator, pairs: Sequence[Pair], language: str, order: Sequence[Head]
) -> Iterator[tuple[int, Quality]]:
    """Yield how good the model is without the first 1, 2, 4, … heads of an order."""
    translator = translator.with_keras_engine("head analysis")  # whose weights are changed
    model = translator.keras_engine("head analysis").model
    for count in plan_pruning(len(order)):
        with mask_heads(model, order[:count]):
            found = measure_quality(translator, pairs, language)
        yield count, found
