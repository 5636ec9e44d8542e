"""Attention without a model: its alignment sharpens from one update to the next."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nmt.inference.results import Attention
from nmt.model.contract import AttentionKind
from nmt.training.events import EventWriter
from nmt.viewer import cells, records

KINDS = (
    AttentionKind("encoder", "encoder self-attention", "source", "source"),
    AttentionKind(
        "decoder", "decoder masked self-attention", "target_in", "target_in", causal=True
    ),
    AttentionKind("cross", "cross-attention", "target_out", "source"),
)

SOURCE = ["▁La", "▁casa", "▁roja", "</s>"]
TARGET = ["▁The", "▁red", "▁house", "▁.", "</s>"]
STEPS = {100: 0.0, 200: 2.0, 300: 4.0}  # update: sharpness
SENTENCES = ("La casa roja", "¿Qué / quién? </script>")


def weights(
    layers: int, heads: int, rows: int, columns: int, sharpness: float
) -> NDArray[np.float32]:
    """Return [layers, heads, rows, columns]: head h of layer l looks l + h places to the right."""
    scores = np.zeros((layers, heads, rows, columns))
    for layer, head, row in np.ndindex(layers, heads, rows):
        scores[layer, head, row, (row + layer + head) % columns] = sharpness
    exponentials = np.exp(scores)
    return (exponentials / exponentials.sum(-1, keepdims=True)).astype(np.float32)


def attention(
    source: list[str] = SOURCE,
    target: list[str] = TARGET,
    *,
    layers: int = 2,
    heads: int = 3,
    sharpness: float = 4.0,
) -> Attention:
    s, t = len(source), len(target)
    decoder = np.tril(weights(layers, heads, t, t, sharpness))  # causal
    return Attention(
        source=list(source),
        target_in=["<s>", *target[:-1]],
        target_out=list(target),
        weights={
            "encoder": weights(layers, heads, s, s, sharpness),
            "decoder": decoder / decoder.sum(-1, keepdims=True),
            "cross": weights(layers, heads, t, s, sharpness),
        },
        kinds=KINDS,
    )


def log(
    folder: Path,
    step: int,
    *,
    layers: int = 2,
    purge_step: int | None = None,
    targets: Sequence[list[str]] = (TARGET, TARGET),
    references: Sequence[str] = ("", ""),
) -> None:
    """Write what a run logs at one evaluation of two probes: a target and a reference for each."""
    with EventWriter(folder, purge_step=purge_step) as writer:
        for number, sentence in enumerate(SENTENCES, start=1):
            target, reference = targets[number - 1], references[number - 1]
            fake = attention(target=target, layers=layers, sharpness=STEPS.get(step, 1.0))
            record = records.encode(sentence, fake, reference)
            writer.blob(records.tag(number, sentence), record, step, plugin=records.PLUGIN)


def log_runs(folder: Path) -> None:
    """Write three runs: without attention, of one update, of three; ``latest`` is the last one."""
    losses = {"2025-12-31_before": 1.0, "2026-01-01_old": 0.75, "2026-01-02_new": 0.5}
    for run, loss in losses.items():
        with EventWriter(folder / run / "logs") as writer:
            writer.scalar("train/loss", loss, 10)
    log(folder / "2026-01-01_old" / "logs", 50, layers=1)
    for step in STEPS:
        log(folder / "2026-01-02_new" / "logs", step)
    (folder / "latest").symlink_to("2026-01-02_new", target_is_directory=True)


def unpack_frame(source: str) -> str:
    """Return the page that a frame's ``srcdoc`` unpacks; without a viewer, with this version's."""
    viewer, data = (
        source.partition(f"{name} = `")[2].partition("`")[0] for name in ("viewer", "data")
    )
    record = base64.b64encode(_unpack(data)).decode("ascii")
    content = json.dumps([{"sentence": "", "record": record}])
    page = _unpack(viewer or cells._packed_viewer()).decode("utf-8")
    return page.replace(cells._DATA, content)


def _unpack(packed: str) -> bytes:
    return gzip.decompress(base64.b64decode(packed))
