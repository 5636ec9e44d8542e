"""The JAX update computes what the TensorFlow update computes, and needs no TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import pytest
from conftest import tiny_overrides
from sample_configs import configured

from nmt.data.batches import InMemoryBatches
from nmt.data.encoded import EncodedCorpus
from nmt.data.ragged import RaggedIds
from nmt.runs.building import build_model, set_seed
from nmt.training.backend import make_step
from nmt.training.defaults import resolve_config
from nmt.training.train_step import TrainStep

pytestmark = pytest.mark.xdist_group("jax")

STEPS = 50
OVERRIDES = [
    *("model.dropout=0.1", "model.attention_dropout=0.1", "training.ema_decay=0.9"),
    *("training.accumulate=2", "training.optimizer=adamw", "training.weight_decay=0.01"),
    "training.parallel_parts=2",
]


def make(*overrides: str) -> TrainStep:
    plain = ("model=tiny", "training.jit_compile=off")
    config = resolve_config(configured(*plain, *overrides), pairs=60)
    set_seed(7)
    model = build_model(config, 40, precision=config.training.precision)
    return make_step(model, config.training, seed=5)


def learn(step: TrainStep) -> dict[str, np.ndarray]:
    """Make the updates; return what was measured."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 8, size=(2, 60))
    corpus = EncodedCorpus(
        *(
            RaggedIds.of([generator.integers(4, 40, size=n, dtype=np.int32) for n in side])
            for side in lengths
        )
    )
    batches = InMemoryBatches(corpus, row_lengths=[16], positions=128, seed=3)
    updates = [step.update(batches.batch(n), 1e-3, n) for n in range(1, STEPS + 1)]
    with step.use_averages():
        evaluated = step.evaluate(batches.batch(0))
    return {
        "losses": np.array([float(update.nll) / float(update.tokens) for update in updates]),
        "norms": np.array([float(update.gradient_norm) for update in updates]),
        "evaluated": np.array(evaluated),
    }


class OnJax(NamedTuple):
    """What was done in a process without TensorFlow."""

    start: dict[str, np.ndarray]  # state before the updates
    measured: dict[str, np.ndarray]
    printed: str
    run: Path


@pytest.fixture(scope="module")
def on_jax(tmp_path_factory: pytest.TempPathFactory) -> OnJax:
    """Make the updates, then train a run, in one process that cannot import TensorFlow."""
    program = """
        import sys
        sys.modules["tensorflow"] = None  # any import of it fails
        sys.path[:0] = sys.argv[1:3]
        from pathlib import Path
        import numpy as np
        from test_jax_step import OVERRIDES, learn, make
        folder = Path(sys.argv[3])
        step = make(*OVERRIDES)
        np.savez(folder / "start.npz", **step.state())
        np.savez(folder / "measured.npz", **learn(step))
        del sys.argv[1:4]
        from nmt.train import main
        main()
    """
    folder = tmp_path_factory.mktemp("jax")
    here = Path(__file__).parent
    arguments = [here.parent, here, folder, *tiny_overrides(folder)]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"KERAS_BACKEND": "jax", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    start, measured = (dict(np.load(folder / f"{name}.npz")) for name in ("start", "measured"))
    return OnJax(start, measured, done.stdout, folder / "runs" / "latest")


def test_fifty_updates_have_the_losses_of_tensorflow(on_jax: OnJax) -> None:
    step = make(*OVERRIDES)
    step.restore(on_jax.start)
    ours, theirs = learn(step), on_jax.measured
    assert len(ours["losses"]) == STEPS
    assert ours["losses"][-1] < ours["losses"][0] - 0.1
    np.testing.assert_allclose(theirs["losses"], ours["losses"], atol=1e-4)
    np.testing.assert_allclose(theirs["norms"], ours["norms"], rtol=1e-3)
    np.testing.assert_allclose(theirs["evaluated"], ours["evaluated"], rtol=1e-4)


def test_a_run_on_jax_trains_and_scores_without_tensorflow(on_jax: OnJax) -> None:
    assert "test split, 16 sentences" in on_jax.printed
    assert (on_jax.run / "evaluation_test.json").exists()


@pytest.mark.backend
def test_the_loss_scale_of_float16_is_halved_by_an_overflow() -> None:
    if keras.config.backend() != "jax":
        pytest.skip("tests/training/test_train_step.py has this test for TensorFlow")
    step = make("training.precision=mixed_float16")
    ids = RaggedIds.of([np.arange(4, 4 + n, dtype=np.int32) for n in range(1, 8)])
    batch = InMemoryBatches(EncodedCorpus(ids, ids), row_lengths=[16], positions=64, seed=1).batch(
        0
    )
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


def test_the_device_holds_four_copies_of_the_parameters(tmp_path: Path) -> None:
    """Weights, two slots of Adam and averages; the model's own weights are in host memory.

    The second of two virtual devices stands for the host.
    """
    program = """
        import math, sys
        sys.path[:0] = sys.argv[1:3]
        import jax
        import numpy as np
        import nmt.training.jax_step as jax_step
        jax_step._host = lambda: jax.devices("cpu")[1]
        from nmt.data.batches import InMemoryBatches
        from nmt.data.encoded import EncodedCorpus
        from nmt.data.ragged import RaggedIds
        from test_jax_step import make
        ids = RaggedIds.of([np.arange(4, 4 + n, dtype=np.int32) for n in range(1, 8)])
        batches = InMemoryBatches(EncodedCorpus(ids, ids), row_lengths=[16], positions=64, seed=1)
        batch = batches.batch(0)
        step = make("training.ema_decay=0.9")
        parameters = 4 * sum(math.prod(weight.shape) for weight in step._weights)

        def copies(device):
            arrays = [array for array in jax.live_arrays() if array.devices() == {device}]
            return sum(array.nbytes for array in arrays) / parameters

        device, host = jax.devices("cpu")
        for when in ("made", "updated", "restored"):
            if when == "updated":
                step.update(batch, 1e-3, 1)
            elif when == "restored":
                step.restore(step.state())
            with step.use_averages():
                assert copies(device) < 5.1, (when, copies(device))
            assert copies(device) < 4.1, (when, copies(device))
            assert 0.9 < copies(host) < 1.1, (when, copies(host))
    """
    here = Path(__file__).parent
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), here.parent, here],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"KERAS_BACKEND": "jax", "XLA_FLAGS": flags},
    )
    assert done.returncode == 0, done.stderr[-3000:]
