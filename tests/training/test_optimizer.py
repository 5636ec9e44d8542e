"""The arithmetic around the optimizer, by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from keras import ops

from nmt.model.dropout import DropoutKey
from nmt.runs.building import build_model
from nmt.training.optimizer import (
    averaging_decay,
    compute_norm_and_factor,
    make_optimizer,
    sum_over_parts,
)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_weight_decay_spares_biases_norms_and_the_table(
    compose: Callable[..., Any], name: str
) -> None:
    config = compose("model=tiny", f"training.optimizer={name}", "training.weight_decay=0.1")
    optimizer = make_optimizer(config.training)
    model = build_model(config, 50, precision="float32")
    optimizer.build(model.trainable_variables)
    decayed = {name for name, w in model.named_weights().items() if optimizer._use_weight_decay(w)}
    assert decayed == {name for name in model.named_weights() if name.endswith("kernel")}


@pytest.mark.parametrize("loss_scale", [1.0, 1024.0])
@pytest.mark.parametrize(
    ("clip_norm", "applied"), [(None, [3.0, 4.0]), (10.0, [3.0, 4.0]), (1.0, [0.6, 0.8])]
)
def test_clipping_is_of_the_mean_gradient(
    loss_scale: float, clip_norm: float | None, applied: list[float]
) -> None:
    tokens, normalizer = 7.0, 50.0
    mean = [np.array([[3.0]], "float32"), np.array([4.0], "float32")]  # of norm 5
    scale = tokens / normalizer * loss_scale  # of the gradients of the summed loss
    norm, factor = compute_norm_and_factor(
        5.0 * scale, tokens, normalizer=normalizer, loss_scale=loss_scale, clip_norm=clip_norm
    )
    assert float(norm) == pytest.approx(5.0, rel=1e-6)
    # The optimizer divides by the loss scale.
    clipped = [float(part.sum()) * scale * float(factor) / loss_scale for part in mean]
    assert clipped == pytest.approx(applied, rel=1e-6)


def test_an_average_forgets_faster_at_first() -> None:
    assert float(averaging_decay(0.99, 1)) == pytest.approx(2 / 11)
    assert float(averaging_decay(0.99, 90)) == pytest.approx(0.91)
    assert float(averaging_decay(0.99, 10_000)) == pytest.approx(0.99)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_parts_add_up_and_have_the_masks_of_their_rows(parts: int) -> None:
    rows = np.arange(12.0, dtype="float32").reshape(6, 2)
    keys = []

    def compute_sums(batch: Any, key: Any) -> Any:
        keys.append((int(key.bits), int(key.first_row)))
        total = ops.sum(batch["labels"])
        return [total, 2 * total], total, ops.cast(ops.shape(batch["labels"])[0], "float32")

    key = DropoutKey(ops.convert_to_tensor(5, "uint32"), ops.convert_to_tensor(9, "uint32"))
    gradients, nll, count = sum_over_parts(compute_sums, {"labels": rows}, key.at_row(60), parts)
    assert [float(gradient) for gradient in gradients] == [66.0, 132.0]
    assert (float(nll), float(count)) == (66.0, 6.0)
    assert keys == [(5, 60 + i * 6 // parts) for i in range(parts)]
