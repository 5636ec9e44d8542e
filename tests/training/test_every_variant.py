"""Every kind of attention, head and position goes the whole way: it learns, resumes, and searches.

One update of each is in the default suite. That a variant learns to reverse sequences of letters,
is resumed bit for bit and scores what it finds as forced decoding does takes minutes, and is slow.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sample_configs import configured

from nmt import fit
from nmt.config.noise import NoiseConfig
from nmt.runs.building import build_model, set_seed
from nmt.runs.checkpoint import read_arrays
from nmt.training.backend import make_step
from nmt.training.defaults import resolve_config

TRANSFORMERS = {
    "default": [],
    "one head": ["model.num_heads=1"],
    "own": ["model.heads=own"],
    "pooled": ["model.heads=pooled"],
    "multi-query": ["model.num_heads=4", "model.key_value_heads=1"],
    "grouped": ["model.num_heads=4", "model.key_value_heads=2"],
    "no biases": ["model.attention_biases=false"],
    "no output projection": ["model.attention_output=false"],
    "query-key norm": ["model.qk_norm=true"],
    "query-key norm in self-attention": ["model.qk_norm=self"],
    "learned": ["model.positions=learned"],
    "rotary": ["model.positions=rotary"],
    "relative": ["model.positions=relative"],
    # Of two heads the slopes are 1/16 and 1/256: too little to tell nine letters apart.
    "alibi": ["model.positions=alibi", "model.num_heads=8"],
    "chunked": ["model.attention_kernel=chunked"],
    "fused": ["model.attention_kernel=fused"],
    "post-norm": ["model.norm=post"],
}
RECURRENT = {
    "additive": ["model.attention=additive"],
    "dot, LSTM": ["model.attention=dot", "model.cell=lstm"],
    "general": ["model.attention=general"],
    "cross": ["model.attention=cross", "model.num_heads=4"],
    "cross, LSTM": ["model.attention=cross", "model.num_heads=2", "model.cell=lstm"],
    "no input feeding": ["model.input_feeding=false"],
    "no bridge": ["model.bridge=false", "model.decoder_layers=2", "model.encoder_layers=2"],
}
WITHOUT_ORDER = {"no positions": ["model.positions=none"]}

# Together they hold every choice of a transformer, and of a recurrent model.
TOGETHER = {
    "own, multi-query, rotary, normalised": [
        *("model.heads=own", "model.num_heads=4", "model.key_value_heads=1"),
        *("model.positions=rotary", "model.qk_norm=true"),
    ],
    "pooled, relative, chunked": [
        *("model.heads=pooled", "model.positions=relative", "model.attention_kernel=chunked"),
    ],
    "alibi, bare": [
        *("model.positions=alibi", "model.attention_biases=false", "model.attention_output=false"),
    ],
    "grouped, without positions, fused": [
        *("model.num_heads=4", "model.key_value_heads=2", "model.positions=none"),
        "model.attention_kernel=fused",
    ],
}
RECURRENT_TOGETHER = {
    "additive, no input feeding": ["model.attention=additive", "model.input_feeding=false"],
    "dot, LSTM": ["model.attention=dot", "model.cell=lstm"],
    "general, deep, no bridge": [
        *("model.attention=general", "model.bridge=false"),
        *("model.decoder_layers=2", "model.encoder_layers=2"),
    ],
    "cross, input feeding": ["model.attention=cross", "model.num_heads=4"],
}
SMALL = ["model=tiny", "model.d_model=16", "model.ffn_width=24", "model.max_length=64"]
SMALL_RNN = ["model=rnn", "model.d_model=16", "model.state_width=16", "model.max_length=64"]
ONE_STEP = {name: [*SMALL, *changes] for name, changes in TOGETHER.items()} | {
    name: [*SMALL_RNN, *changes] for name, changes in RECURRENT_TOGETHER.items()
}


def make_rows() -> dict[str, Any]:
    """Return a batch of two rows, the first of two pairs, the second padded."""
    rng = np.random.default_rng(0)
    segments = np.array([[1, 1, 1, 1, 2, 2, 2, 2], [1, 1, 1, 1, 1, 0, 0, 0]], np.int32)
    positions = np.array([[0, 1, 2, 3, 0, 1, 2, 3], [0, 1, 2, 3, 4, 0, 0, 0]], np.int32)
    batch = {name: rng.integers(4, 20, (2, 8)) for name in ("source", "target", "labels")}
    batch = {name: (ids * (segments > 0)).astype(np.int32) for name, ids in batch.items()}
    for side in ("source", "target"):
        batch |= {f"{side}_segments": segments, f"{side}_positions": positions}
    return batch


@pytest.mark.parametrize("name", ONE_STEP)
def test_one_update_changes_every_weight(name: str) -> None:
    """And the loss of the same batch is lower after it."""
    config = resolve_config(
        configured(
            *(*ONE_STEP[name], "model.dropout=0.1", "training.jit_compile=off"),
            *("training.parallel_parts=1", "training.batch_tokens=16", "training.row_lengths=[8]"),
        ),
        pairs=100,
    )
    set_seed(1)
    model = build_model(config, 20, precision="float32")
    step = make_step(model, config.training, seed=1)
    batch = make_rows()
    before, (loss, tokens) = step.state(), step.evaluate(batch)
    assert tokens == 13
    update = step.update(batch, 1e-2, 1)
    assert not bool(update.skipped)
    after = step.state()
    weights = [key for key in before if key.startswith("model/")]
    assert len(weights) == len(model.weights)
    # A bias of keys adds the same to all scores of a query, and a softmax does not see that; what
    # is left of its gradient is rounding, and nothing at all for some.
    unchanged = [key for key in weights if np.array_equal(before[key], after[key])]
    assert [key for key in unchanged if not key.endswith("key/bias")] == []
    assert step.evaluate(batch)[0] < loss
    assert config.model.make_sizes(20) == model.sizes


# --- Slow: the whole way. -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write sequences of three to nine letters, and the same reversed, or sorted.

    No letter occurs more than twice: three in a row, in an output alone, would count as a loop.
    """
    folder = tmp_path_factory.mktemp("letters")
    rng = random.Random(1)
    sequences: dict[tuple[str, ...], None] = {}
    while len(sequences) < 6000:
        sequences[tuple(rng.sample("aabbccddeeffgghhiijj", rng.randint(3, 9)))] = None
    for name, order in (("reversed", lambda one: one[::-1]), ("sorted", sorted)):
        lines = (f"{' '.join(one)}\t{' '.join(order(one))}\n" for one in sequences)
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    return folder


def learn(letters: Path, task: str, *overrides: str) -> Any:
    """Train on a task; return the run."""
    return fit(
        [
            *("data=files", "data.source_language=es", "data.target_language=en"),
            *(f"data.train={letters / task}.tsv", "data.dev=100", "data.test=200"),
            *("tokenizer.vocabulary_size=300", "model=tiny", f"runs_dir={letters / 'runs'}"),
            *(f"cache_dir={letters / 'cache'}", "training.batch_tokens=1024"),
            *("training.row_lengths=[32]", "training.learning_rate=2e-3"),
            *("training.label_smoothing=0", "training.max_minutes=null"),
            *("training.max_steps=1500", "training.evaluate_every=500", "training.probes=[]"),
            "training.evaluation_share=null",
            *("training.ema_decay=0.99", "training.warmup_steps=100", "model.dropout=0"),
            # Typing errors double letters: "g g" would be as good as "g g g".
            *(f"data.noise.{kind}=0" for kind in vars(NoiseConfig.off())),
            "data.phrases=0",
            # Letters drawn at random have no meaning that their neighbours tell.
            "training.initial_embeddings=random",
            *overrides,
        ],
        console=Console(quiet=True),
    )


WHOLE_WAY = (
    {name: ("reversed", changes) for name, changes in TRANSFORMERS.items()}
    | {name: ("reversed", ["model=rnn", *changes]) for name, changes in RECURRENT.items()}
    # Who does not know the order cannot turn it around, but can sort.
    | {name: ("sorted", changes) for name, changes in WITHOUT_ORDER.items()}
)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE_WAY)
def test_it_learns_to_turn_letters_around(letters: Path, name: str) -> None:
    task, overrides = WHOLE_WAY[name]
    run = learn(letters, task, *overrides)
    pairs = run.evaluation.pairs
    right = [
        one.target == output for one, output in zip(pairs, run.evaluation.outputs, strict=True)
    ]
    assert np.mean(right) >= 0.99
    # What a beam finds is worth what forced decoding makes of it.
    translator = run.translator().with_keras_engine()
    sources = [pair.source for pair in pairs[:20]]
    for source, found in zip(sources, translator.hypotheses(sources, beam_size=4), strict=True):
        [forced] = translator.score([(source, found[0].text)])
        assert found[0].log_prob == pytest.approx(forced.log_prob, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE_WAY)
def test_it_resumes_bit_for_bit(letters: Path, name: str) -> None:
    task, overrides = WHOLE_WAY[name]
    short = [*overrides, "model.dropout=0.1", "training.evaluate_every=4"]
    whole = learn(letters, task, *short, "training.max_steps=8")
    half = learn(letters, task, *short, "training.max_steps=4")
    resumed = fit(
        [f"training.resume={half.path}", "training.max_steps=8"], console=Console(quiet=True)
    )
    expected, found = (read_arrays(run.folder.checkpoints.path(8))[0] for run in (whole, resumed))
    assert expected.keys() == found.keys()
    for key, array in expected.items():
        np.testing.assert_array_equal(found[key], array, err_msg=key)
