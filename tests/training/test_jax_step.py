"""The JAX update computes what the TensorFlow update computes, and needs no TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from conftest import tiny_overrides

STEPS = 50

# What both processes run; the first writes the state that it starts from.
PROGRAM = """
    import sys
    from pathlib import Path
    folder, overrides = Path(sys.argv[1]), sys.argv[2:]
    import keras
    import numpy as np
    from hydra import compose, initialize_config_dir
    from nmt.config import files
    from nmt.data.batches import Batches
    from nmt.data.encoded import EncodedCorpus, Sequences
    from nmt.runs.building import build_model, set_seed
    from nmt.training.step import make_step
    configuration.register()
    with initialize_config_dir(str(configuration.conf_dir()), version_base="1.3"):
        config = configuration.from_composed(compose("train", [
            "model=tiny", "training.jit_compile=off", *overrides]))
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 8, size=(2, 60))
    corpus = EncodedCorpus(*(
        Sequences.of([generator.integers(4, 40, size=n, dtype=np.int32) for n in side])
        for side in lengths))
    batches = Batches(corpus, row_lengths=[16], tokens=128, multiple=2, seed=3)
    set_seed(7)
    model = build_model(config, 40, precision="float32")
    step = make_step(model, config.training, precision="float32", seed=5)
    start = folder / "start.npz"
    if start.exists():
        step.restore(dict(np.load(start)))
    else:
        np.savez(start, **step.state())
    losses = []
    for number in range(1, 51):
        update = step.update(batches.batch(number), 1e-3, number)
        losses.append([float(update.nll) / float(update.tokens), float(update.gradient_norm)])
    name = keras.config.backend()
    with step.averaged():
        evaluated = step.evaluate(batches.batch(0))
    np.savez(folder / f"{name}.npz", losses=losses, evaluated=evaluated)
    assert name == "tensorflow" or "tensorflow" not in sys.modules
"""


OVERRIDES = [
    *("model.dropout=0.1", "model.attention_dropout=0.1", "training.ema_decay=0.9"),
    *("training.accumulate=2", "training.optimizer=adamw", "training.weight_decay=0.01"),
    "training.parallel_parts=2",
]


def test_fifty_updates_have_the_losses_of_tensorflow(tmp_path: Path) -> None:
    for backend in ("tensorflow", "jax"):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path), *OVERRIDES],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"KERAS_BACKEND": backend},
        )
        assert done.returncode == 0, done.stderr[-3000:]
    one, two = (dict(np.load(tmp_path / f"{name}.npz")) for name in ("tensorflow", "jax"))
    assert len(one["losses"]) == STEPS
    assert one["losses"][-1, 0] < one["losses"][0, 0] - 0.1
    np.testing.assert_allclose(two["losses"][:, 0], one["losses"][:, 0], atol=1e-4)
    np.testing.assert_allclose(two["losses"][:, 1], one["losses"][:, 1], rtol=1e-3)
    np.testing.assert_allclose(two["evaluated"], one["evaluated"], rtol=1e-4)


def test_a_run_on_jax_trains_and_scores_without_tensorflow(tmp_path: Path) -> None:
    program = """
        import sys
        sys.modules["tensorflow"] = None  # any import of it fails
        from nmt.train import main
        main()
    """
    overrides = tiny_overrides(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *overrides],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"KERAS_BACKEND": "jax"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "test split, 16 sentences" in done.stdout
    assert (tmp_path / "runs" / "latest" / "evaluation_test.json").exists()


@pytest.mark.backend
def test_the_loss_scale_of_float16_is_halved_by_an_overflow(compose: Callable[..., Any]) -> None:
    if keras.config.backend() != "jax":
        pytest.skip("tests/training/test_step.py has this test for TensorFlow")
    from nmt.data.batches import Batches
    from nmt.data.encoded import EncodedCorpus, Sequences
    from nmt.runs.building import build_model
    from nmt.training.step import make_step

    config = compose("model=tiny")
    model = build_model(config, 40, precision="mixed_float16")
    step = make_step(model, config.training, precision="mixed_float16", seed=1)
    ids = Sequences.of([np.arange(4, 4 + n, dtype=np.int32) for n in range(1, 8)])
    batch = Batches(EncodedCorpus(ids, ids), row_lengths=[16], tokens=64, seed=1).batch(0)
    state = step.state()
    (scale,) = [name for name, array in state.items() if array.size == 1 and array == 2.0**15]
    step.restore(state | {scale: np.array(2.0**40, np.float32)})
    update = step.update(batch, 1e-3, 1)
    assert np.isfinite(float(update.nll))
    assert not np.isfinite(float(update.gradient_norm))
    after = step.state()
    assert after[scale] == 2.0**39
    for name, array in after.items():
        if name.startswith("model/"):
            np.testing.assert_array_equal(array, state[name])
