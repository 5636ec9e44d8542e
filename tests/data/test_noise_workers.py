"""Processes change the rows of a batch exactly as one process does, and end in time."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from nmt.config import TokenizerConfig
from nmt.config.noise import NoiseConfig
from nmt.data.batches import InMemoryBatches
from nmt.data.encoded import encode_pairs
from nmt.data.noise import BatchNoise
from nmt.data.noise_workers import NoiseWorkers
from nmt.data.splitting import Pair
from nmt.data.tokenizer import Tokenizer
from nmt.data.tokenizer_training import list_texts, train_tokenizer

pytestmark = pytest.mark.xdist_group("tokenizers")

PAIRS = [
    Pair(f"Ana tiene {word} gatos en su jardín.", f"Ana has {number} cats in the garden.")
    for word, number in (("dos", "two"), ("tres", "three"), ("muchos", "many"))
] * 20
RATES = NoiseConfig.off().rates | {"typos": 0.5, "spans": 0.5, "joined": 0.2}


def make_noise(kind: str) -> tuple[Tokenizer, BatchNoise]:
    slots = 4 if kind == "unigram" else 0
    config = TokenizerConfig(kind, 400, 0, 1.0, lowercase_source=False, slots=slots)
    tokenizer = train_tokenizer(config, list_texts(config, PAIRS), lambda line: None)
    return tokenizer, BatchNoise(RATES, tokenizer, ("es", "en"), [], seed=1)


@pytest.mark.parametrize(
    ("kind", "count", "weights"),
    [
        ("unigram", 5, np.linspace(0, 1, len(PAIRS), dtype=np.float32)),
        ("wordpiece", 2, None),
    ],
)
def test_batches_are_those_of_one_process(
    kind: str, count: int, weights: np.ndarray | None
) -> None:
    tokenizer, noise = make_noise(kind)
    tokenizer.in_graph()  # cannot be pickled
    corpus = encode_pairs(PAIRS, tokenizer)
    corpus.weights = weights
    alone, shared, clean = (
        InMemoryBatches(corpus, row_lengths=[64], positions=256, seed=3, noise=changes)  # 4 rows
        for changes in (noise, NoiseWorkers(noise, count), None)
    )
    for step in range(alone.steps_per_epoch):
        expected, batch = alone.batch(step), shared.batch(step)
        assert batch.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(batch[name], array)
            assert batch[name].dtype == array.dtype
    assert any(
        (alone.batch(step)["source"] != clean.batch(step)["source"]).any()
        for step in range(alone.steps_per_epoch)
    )


def test_a_process_that_has_ended_is_an_error() -> None:
    tokenizer, noise = make_noise("unigram")
    workers = NoiseWorkers(noise, 2)
    batches = InMemoryBatches(
        encode_pairs(PAIRS, tokenizer), row_lengths=[64], positions=256, seed=3, noise=workers
    )
    batches.batch(0)
    workers._workers[1].kill()
    workers._workers[1].wait()
    with pytest.raises(RuntimeError, match="a process that adds noise has ended"):
        batches.batch(1)


def test_processes_end_with_the_object() -> None:
    tokenizer, noise = make_noise("unigram")
    workers = NoiseWorkers(noise, 2)
    InMemoryBatches(
        encode_pairs(PAIRS, tokenizer), row_lengths=[64], positions=256, seed=3, noise=workers
    ).batch(0)
    processes = list(workers._workers)
    assert [process.poll() for process in processes] == [None, None]
    del workers
    gc.collect()
    assert [process.returncode for process in processes] == [0, 0]
