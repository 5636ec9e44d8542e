"""What a new run starts from: embeddings of co-occurrences, and a model that passes them on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from nmt.data.batches import BatchPlan
from nmt.data.cooccurrence import embed_tokens
from nmt.data.ragged import RaggedIds
from nmt.model.attention_roles import CrossAttention
from nmt.model.blocks import FeedForward
from nmt.model.multi_head import MultiHeadAttention
from nmt.model.transformer import Transformer
from nmt.training.process_group import ProcessGroup

_MAX_COOCCURRENCES = 50_000_000  # that are counted: 0.8 GiB of memory for 32,000 tokens
_FILE = "initial_embeddings.npy"  # in the run's folder, while several processes start


def initialize_embeddings(
    table: keras.Variable,
    plan: BatchPlan,
    folder: Path,
    process_group: ProcessGroup,
    log: Callable[[str], object],
) -> None:
    """Give the token table of a new model the vectors of `embed_tokens`.

    They are as long as the random vectors, which tokens keep that no pair has, such as slots.

    Args:
        table: float32 [V, D], random.
        plan: the batches of the first stage.
        folder: the run's folder, which all processes share. All get the vectors of the main
            process: those of two machines may differ in the last bits.
        process_group: the processes that train together.
        log: called with a message before the vectors are computed.
    """
    random, path = np.asarray(table, np.float32), folder / _FILE
    if process_group.is_main_process:
        source, target = sample_pairs(plan)
        log(f"token embeddings start from co-occurrences in {len(source):,} pairs")
        vectors = embed_tokens((source, target), *random.shape)
        if process_group.processes > 1:
            np.save(path, vectors)
    process_group.barrier()
    if not process_group.is_main_process:
        vectors = np.load(path)
    process_group.barrier()
    if process_group.is_main_process:
        path.unlink(missing_ok=True)
    length = np.linalg.norm(random, axis=1).mean()
    table.assign(np.where(vectors.any(axis=1, keepdims=True), length * vectors, random))


def initialize_residual_branches(model: Transformer) -> None:
    """Change random weights so that the embeddings of source tokens reach the logits.

    Embeddings of co-occurrences tell much before the first update, and random branches hide it. So
    the outputs of all N residual branches start with 1 / sqrt(N) of their random kernels (Radford
    et al. 2019, section 2.3), but for cross-attention: it starts by adding what it attends to, as
    its values and its output are the identity.

    Args:
        model: freshly built. Post-norm models stay as they are, and so do branches of other
            classes, and cross-attention whose heads share values, do not divide the width of the
            model among them, or have no output projection.
    """
    if model.sizes.norm != "pre":
        return
    layers = model._flatten_layers()
    attention = [layer for layer in layers if isinstance(layer, MultiHeadAttention)]
    cross_attention = [layer for layer in attention if isinstance(layer, CrossAttention)]
    self_attention = [layer for layer in attention if layer not in cross_attention]
    feed_forward = [layer for layer in layers if isinstance(layer, FeedForward)]
    outputs: list[Any] = [each.output_projection for each in self_attention if each.sizes.output]
    outputs += [each.outer for each in feed_forward]
    branches = len(attention) + len(feed_forward)
    for output in outputs:
        output.kernel.assign(np.asarray(output.kernel) * branches**-0.5)
    for each in cross_attention:
        sizes = each.sizes
        if sizes.output and sizes.heads == "split" and sizes.groups == sizes.num_heads:
            identity: list[Any] = [each.value, each.output_projection]
            for projection in identity:
                projection.kernel.assign(np.eye(sizes.d_model, dtype=np.float32))


def sample_pairs(plan: BatchPlan) -> tuple[RaggedIds, RaggedIds]:
    """Return the sources and targets of pairs of a plan: all, or some at even intervals."""
    share = min(1.0, _MAX_COOCCURRENCES * plan.pairs / max(1, plan.tokens_per_epoch) ** 2)
    count = max(1, round(share * plan.steps_per_epoch))
    numbers = np.linspace(0, plan.steps_per_epoch - 1, count).round().astype(int)
    rows = [plan.read_rows(*plan.rows_of_batch(number)) for number in numbers.tolist()]
    source = RaggedIds.join([each.source for each in rows])
    target = RaggedIds.join([each.target for each in rows])
    # Where pairs are of very different lengths, there are more than their mean tells.
    cooccurrences = np.cumsum((source.lengths + target.lengths) ** 2)
    pairs = max(1, int(np.searchsorted(cooccurrences, _MAX_COOCCURRENCES, "right")))
    return source.slice(0, pairs), target.slice(0, pairs)
