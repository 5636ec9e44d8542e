"""How much a model needs each of its heads: by taking them away, one by one and together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from nmt.data.corpus import Pair
from nmt.inference.evaluation import perplexity
from nmt.inference.metrics import corpus_scores
from nmt.inference.translator import Translator
from nmt.model.attention import MultiHeadAttention
from nmt.model.transformer import Transformer


class Head(NamedTuple):
    """One attention head of a model."""

    kind: str  # encoder, decoder or cross
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


def heads_of(model: Transformer) -> list[Head]:
    """Return every head of the model: encoder, decoder, cross-attention, layer by layer."""
    layers = {
        "encoder": len(model.encoder_blocks),
        "decoder": len(model.decoder_blocks),
        "cross": len(model.decoder_blocks),
    }
    return [
        Head(kind, layer, number)
        for kind, count in layers.items()
        for layer in range(1, count + 1)
        for number in range(1, model.num_heads + 1)
    ]


def attention_layer(model: Transformer, head: Head) -> MultiHeadAttention:
    """Return the layer that a head is part of."""
    if head.kind == "encoder":
        return model.encoder_blocks[head.layer - 1].attention
    block = model.decoder_blocks[head.layer - 1]
    return block.self_attention if head.kind == "decoder" else block.cross_attention


@contextmanager
def masked(model: Transformer, heads: Iterable[Head]) -> Iterator[None]:
    """Run the model without some of its heads, and restore its weights whatever happens.

    The output projection multiplies the outputs of all heads side by side, [.., H * K], by a kernel
    [D, D]. With rows h * K to (h + 1) * K of the kernel at zero, nothing of head h comes through:
    the same as a head whose output is zero.
    """
    kept: list[tuple[keras.Variable, np.ndarray]] = []
    try:
        for head in heads:
            layer = attention_layer(model, head)
            kernel = layer.output_projection.kernel
            values = np.array(ops.convert_to_numpy(kernel))
            kept.append((kernel, values.copy()))
            width = layer.d_model // layer.num_heads  # K
            values[(head.number - 1) * width : head.number * width] = 0
            kernel.assign(values)
        yield
    finally:
        for kernel, values in reversed(kept):  # a kernel of several heads ends as it began
            kernel.assign(values)


def quality(translator: Translator, pairs: Sequence[Pair]) -> Quality:
    """Measure loss and BLEU on sentence pairs.

    Raises:
        UserError: a pair is longer than the model has positions.
    """
    outputs = translator.translate([pair.source for pair in pairs], beam_size=1)
    (bleu,) = corpus_scores(outputs, [pair.target for pair in pairs], names=("BLEU",))
    loss = perplexity(translator.score(pairs)).nats_per_piece
    return Quality(loss, bleu.value, bleu.signature)


def one_at_a_time(translator: Translator, pairs: Sequence[Pair]) -> Iterator[tuple[Head, Quality]]:
    """Yield each head, and how good the model is without it (Michel et al. 2019, section 3.2)."""
    model = translator.own_engine("its heads").model
    for head in heads_of(model):
        with masked(model, [head]):
            found = quality(translator, pairs)
        yield head, found


def prunings(heads: int) -> list[int]:
    """Return how many heads `pruned` takes away: 1, 2, 4, … of them, and never all."""
    return [1 << power for power in range(heads.bit_length()) if 1 << power < heads]


def pruned(
    translator: Translator, pairs: Sequence[Pair], order: Sequence[Head]
) -> Iterator[tuple[int, Quality]]:
    """Yield how good the model is without the first 1, 2, 4, … heads of an order."""
    model = translator.own_engine("its heads").model
    for count in prunings(len(order)):
        with masked(model, order[:count]):
            found = quality(translator, pairs)
        yield count, found
