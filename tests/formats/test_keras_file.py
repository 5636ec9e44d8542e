"""The ``.keras`` file loads with the model's package and Keras alone, on another backend too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nmt.errors import UserError
from nmt.formats import ctranslate2, keras_file
from nmt.formats.manifest import MANIFEST_FILE
from nmt.runs.folder import RunFolder

pytestmark = pytest.mark.xdist_group("exports")


def test_a_fresh_process_on_jax_loads_it(parrot_run: Path, tmp_path: Path) -> None:
    run = RunFolder.open(parrot_run)
    model = run.load_model()
    keras_file.write(model, run.load_tokenizer(), run.config, tmp_path)
    script = """
import sys
import jax, keras, numpy as np
from nmt.model import Transformer  # registers its layers
model = keras.saving.load_model(sys.argv[1])
inputs = {"source": np.array([[5, 6, 2]]), "target": np.array([[1, 7]])}
np.save(sys.argv[2], jax.jit(model)(inputs))
"""
    logits = tmp_path / "logits.npy"
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / keras_file.MODEL_FILE, logits],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"KERAS_BACKEND": "jax", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
    )
    assert done.returncode == 0, done.stderr
    expected = model({"source": np.array([[5, 6, 2]]), "target": np.array([[1, 7]])})
    np.testing.assert_allclose(np.load(logits), expected, atol=1e-5)


def test_a_folder_that_is_no_export_is_refused(parrot_run: Path) -> None:
    with pytest.raises(UserError, match=r"has no model\.keras"):
        keras_file.load(parrot_run)


@pytest.mark.parametrize("load", [keras_file.load, ctranslate2.load])
def test_a_damaged_export_is_refused(
    parrot_run: Path, tmp_path: Path, load: Callable[[Path], object]
) -> None:
    """Another beam size, say, would give other translations in silence."""
    place = Path(shutil.copytree(parrot_run, tmp_path / "export"))
    for name in (keras_file.MODEL_FILE, "model.bin"):
        (place / name).touch()
    digests = {"config.yaml": "of what was written"}
    (place / MANIFEST_FILE).write_text(json.dumps({"files": digests}), encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.yaml is damaged: its SHA-256"):
        load(place)
