"""Token embeddings that a new run starts from: co-occurrences in its training pairs."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np

from nmt.data.batches import BatchPlan
from nmt.data.cooccurrence import embed_tokens
from nmt.data.packing import Side
from nmt.model.contract import Model
from nmt.training.process_group import ProcessGroup

TABLE = "embedding/table"  # the name of the weight [V, D]
_MAX_COOCCURRENCES = 100_000_000  # that are counted: 1 GB of memory


def initialize_embeddings(model: Model, plan: BatchPlan, process_group: ProcessGroup) -> str:
    """Give the token table of a new model the vectors of `embed_tokens`; return a message.

    They are as long as the random vectors, which tokens keep that no pair has, such as slots.

    Args:
        model: freshly built.
        plan: the batches of the first stage.
        process_group: all processes get the vectors of the main process: those of two machines may
            differ in the last bits.
    """
    weight = model.named_weights()[TABLE]
    table = np.asarray(weight, np.float32)
    pairs = sample_pairs(plan)
    encoded = ""
    if process_group.is_main_process:
        vectors = embed_tokens(pairs, *table.shape)
        encoded = base64.b64encode(vectors.astype(np.float16).tobytes()).decode()
    received = base64.b64decode(process_group.broadcast(encoded))
    vectors = np.frombuffer(received, np.float16).reshape(table.shape).astype(np.float32)
    length = np.linalg.norm(table, axis=1).mean()
    weight.assign(np.where(vectors.any(axis=1, keepdims=True), length * vectors, table))
    return f"embeddings begin with the co-occurrences of tokens in {len(pairs[0].lengths):,} pairs"


def sample_pairs(plan: BatchPlan) -> tuple[Side, Side]:
    """Return the sources and targets of pairs of a plan: all, or batches at even intervals."""
    cooccurrences = plan.tokens_per_epoch**2 / max(1, plan.pairs)
    share = min(1.0, _MAX_COOCCURRENCES / max(1.0, cooccurrences))
    count = max(1, round(share * plan.steps_per_epoch))
    numbers = np.linspace(0, plan.steps_per_epoch - 1, count).round().astype(int)
    rows = [plan.read_rows(*plan.rows_of_batch(number)) for number in numbers.tolist()]
    return _join([each.source for each in rows]), _join([each.target for each in rows])


def _join(sides: Sequence[Side]) -> Side:
    lengths, ids = zip(*sides, strict=True)
    return Side(np.concatenate(lengths), np.concatenate(ids))
