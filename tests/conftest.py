"""Shared fixtures: composed configurations, and a tiny trained run."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from rich.console import Console

from nmt.startup.compilation import use_compilation_cache

if TYPE_CHECKING:
    from nmt import Translator
    from nmt.config import Config
    from nmt.data.tokenizer import Tokenizer
    from nmt.model import Transformer

if not os.environ.get("CI"):  # where Hypothesis has a profile of its own
    patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # a busy machine
    settings.register_profile("nmt", **patient)
    settings.load_profile("nmt")

SLOW_LIMIT = 3600  # seconds of a slow test, on a busy machine
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
PATIENCE = 60_000  # ms to wait for a browser, on a busy machine
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH")
# Sizes of a tiny transformer.
SMALL = {"d_model": 16, "num_heads": 2, "ffn_width": 24, "encoder_layers": 1, "decoder_layers": 1}
# Everything else of a tiny transformer.
PLAIN: dict[str, Any] = {
    "norm": "pre",
    "positions": "sinusoidal",
    "activation": "relu",
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "ffn_dropout": 0.0,
    "max_length": 16,
    "attention_kernel": "explicit",
    "remat": False,
}

# Sizes of a tiny recurrent model.
RECURRENT: dict[str, Any] = {
    "vocabulary_size": 11,
    "d_model": 6,
    "state_width": 8,
    "cell": "gru",
    "encoder_layers": 1,
    "decoder_layers": 1,
    "attention": "additive",
    "num_heads": 1,
    "input_feeding": True,
    "bridge": True,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "max_length": 16,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests more time than the others."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(SLOW_LIMIT))


def pytest_configure(config: pytest.Config) -> None:
    """Store the programs that JAX compiles; in CI, fail without a browser."""
    if os.environ.get("CI") and CHROMIUM is None:
        raise pytest.UsageError(f"CI needs one of {', '.join(BROWSERS)}: see .ci/run")
    flags = {name: value for name, value in os.environ.items() if name == "TF_XLA_FLAGS"}
    use_compilation_cache(config.cache.mkdir("compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    # For JAX alone: TensorFlow logs each program it loads, and tests compile few of them for it.
    os.environ.pop("TF_XLA_FLAGS", None)
    os.environ.update(flags)


@contextmanager
def cpu_seconds(limit: float) -> Iterator[None]:
    """Fail if the block takes more processor time, however busy the machine is."""
    begin = time.process_time()
    yield
    assert time.process_time() - begin < limit


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Restore the default effect of signals that stop a program, here and in child processes.

    Ignored signals are inherited: a background job of a script ignores SIGINT, ``nohup`` ignores
    SIGHUP. There, a test that sends one would wait forever.
    """
    defaults = dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1), signal.SIG_DFL)
    defaults[signal.SIGINT] = signal.default_int_handler  # what Python starts with
    previous = {number: signal.signal(number, handler) for number, handler in defaults.items()}
    yield
    for number, handler in previous.items():
        signal.signal(number, handler)


CORPUS = Path(__file__).parent.parent / "data" / "phrasebook"
# The first lines of some topics, from which tests draw: the same ones however the corpus grows.
TOPICS = """
    body:174 celebrations:185 city:335 clothes:197 commands_and_requests:362
    conditions:293 cooking:249 directions:227 emergencies:201 everyday_things:238
    family:242 feelings:222 food:284 friends_and_love:230 greetings:178 health:250
    hobbies_and_sport:246 home:337 hotel:170 media_and_phone:300 money:223
    nature_and_animals:336 office:273 opinions_and_reasons:317 people_and_looks:279
    plans_and_wishes:297 restaurant:245 school:319 shopping:246 small_talk:214
    stories_in_the_past:424 time:283 train_and_airport:279 travel:293 weather:248
    work:255
"""


def corpus_lines(count: int) -> list[str]:
    lines = [
        line
        for topic, _, first in (entry.partition(":") for entry in TOPICS.split())
        for line in (CORPUS / f"{topic}.tsv").read_text(encoding="utf-8").splitlines()[: int(first)]
    ]
    return lines[:: max(1, len(lines) // count)][:count]


@pytest.fixture(scope="session")
def compose() -> Callable[..., Config]:
    """Compose a configuration as the train command does."""
    from nmt.runs.resuming import compose_config

    def composed(*overrides: str) -> Config:
        return compose_config(overrides)

    return composed


@pytest.fixture(scope="session")
def quiet_console() -> Console:
    return Console(quiet=True)


def users_environment() -> dict[str, str]:
    """Return the environment without the variables that `scripts/test.sh` sets for tests."""
    return {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}


def transformer(**settings: Any) -> Transformer:
    """Return an untrained transformer with ``settings``, and plain defaults for the rest."""
    from nmt.model import Transformer, TransformerSizes

    others = {key: settings.pop(key) for key in ("name", "dtype") if key in settings}
    return Transformer(TransformerSizes(**PLAIN | settings), **others)


@cache
def small_tokenizer(*, lowercases: bool, slots: int) -> Tokenizer:
    """Return a tokenizer of 500 pieces that was trained on some lines of the embedded corpus."""
    from nmt.config import TokenizerConfig
    from nmt.data.tokenizer_training import train_tokenizer

    texts = [side for line in corpus_lines(200) for side in line.split("\t")[:2]]
    config = TokenizerConfig("unigram", 500, 0, 0.9998, lowercases, slots)
    return train_tokenizer(config, texts, str)


def tiny_overrides(folder: Path, lines: int = 200) -> list[str]:
    """Return overrides for a run of seconds on a few lines of the embedded corpus."""
    corpus = folder / "corpus.tsv"
    corpus.write_text("\n".join(corpus_lines(lines)) + "\n", encoding="utf-8")
    return [
        "data=files",
        f"data.train={corpus}",
        "data.source_language=es",
        "data.target_language=en",
        "data.dev=16",
        "data.test=16",
        "training.evaluation_share=null",  # evaluations at the same updates, however slow
        "tokenizer.vocabulary_size=500",
        "model=tiny",
        "model.dropout=0.1",
        f"runs_dir={folder / 'runs'}",
        f"cache_dir={folder / 'cache'}",
        "training.batch_tokens=256",
        "training.learning_rate=1e-3",
        "training.jit_compile=off",
        "training.max_minutes=null",
        "training.max_steps=12",
        "training.log_every=1",
        "training.evaluate_every=5",
        "training.probes=[]",
        "decoding.max_length_margin=8",
    ]


@pytest.fixture(scope="session")
def tiny_run(
    tmp_path_factory: pytest.TempPathFactory,
    compose: Callable[..., Config],
    quiet_console: Console,
) -> Path:
    """Train a tiny model for a few updates, once for all tests that need a run folder."""
    from nmt.training.job import train

    folder = tmp_path_factory.mktemp("tiny")
    probes = ['training.probes=["¿Dónde está la estación?"]', "training.probe_every=2"]
    probes.append("training.attention_every=4")
    train(compose(*tiny_overrides(folder), *probes), quiet_console)
    return (folder / "runs" / "latest").resolve()


@pytest.fixture(scope="session")
def parrot_run(tmp_path_factory: pytest.TempPathFactory, compose: Callable[..., Config]) -> Path:
    """Return a run that has memorised two dozen sentences: as confident as a trained model.

    It is trained in seconds, without the training loop.
    """
    import keras

    from nmt.config import Config
    from nmt.data.tokenizer import BOS, EOS
    from nmt.data.tokenizer_training import train_tokenizer
    from nmt.runs.building import build_model, set_seed
    from nmt.runs.checkpoint import write_arrays
    from nmt.runs.folder import RunFolder
    from nmt.text.cleaning import clean_text

    folder = tmp_path_factory.mktemp("parrot")
    config = compose(
        *tiny_overrides(folder), "model.max_length=64", "model.dropout=0", "name=parrot"
    )
    assert isinstance(config, Config)
    run = RunFolder.create(config)
    rows = [line.split("\t") for line in corpus_lines(160)]
    rows = [row for row in rows if len(row[0]) < 30][:24]  # characters
    sides = [[clean_text(row[side]) for row in rows] for side in (0, 1)]
    set_seed(1)
    tokenizer = train_tokenizer(config.tokenizer, sides[0] + sides[1], str)
    tokenizer.save(run.path)
    model = build_model(config, tokenizer.vocabulary_size, precision="float32")

    def padded(sequences: list[list[int]]) -> np.ndarray:
        longest = max(map(len, sequences))
        return np.array([ids + [0] * (longest - len(ids)) for ids in sequences])

    source, target = (
        [ids.tolist() for ids in encoder.encode(side)]
        for encoder, side in zip((tokenizer, tokenizer.target), sides, strict=True)
    )
    inputs = {
        "source": padded([[*ids, EOS] for ids in source]),
        "target": padded([[BOS, *ids] for ids in target]),
    }
    outputs = padded([[*ids, EOS] for ids in target])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(4e-3), loss)
    for _ in range(100):  # `fit` would spend more time on its own overhead
        model.train_on_batch(inputs, outputs, sample_weight=outputs > 0)
    arrays = {f"model/{name}": array.numpy() for name, array in model.named_weights().items()}
    write_arrays(run.checkpoints.best, arrays, {})
    run.samples.mkdir()
    lines = ["source\treference\toutput", *(f"{row[0]}\t{row[1]}\t-" for row in rows[:12])]
    (run.samples / "step_00000100.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return run.path


class Letters:
    """A tokenizer whose tokens are the letters a to z; other characters have none."""

    vocabulary = ("<pad>", "<s>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz")
    vocabulary_size = len(vocabulary)
    slots = 0
    lowercases = False

    @property
    def target(self) -> Letters:
        return self

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        index = self.vocabulary.index
        return [np.array([index(c) for c in text if c.isalpha()], np.int32) for text in texts]

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        return ["".join(self.pieces([i for i in ids if i > 3])) for ids in sequences]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self.vocabulary[i] for i in ids]

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(at, at + 1) for at in range(len(text))]


@pytest.fixture(scope="session")
def letters() -> Translator:
    """Return a translator of letters with random weights, on any backend."""
    from nmt import Translator
    from nmt.config import DecodingConfig
    from nmt.inference.engines import Engines
    from nmt.inference.keras_engine import KerasEngine

    model = transformer(
        vocabulary_size=Letters.vocabulary_size,
        d_model=16,
        num_heads=2,
        ffn_width=24,
        encoder_layers=2,
        decoder_layers=2,
        activation="gelu",  # smooth, for finite differences
        dropout=0.1,
        max_length=24,
    )
    for number, weight in enumerate(model.weights):
        values = np.random.default_rng(number).standard_normal(weight.shape)
        weight.assign(1 + 0.2 * values if weight.name == "gamma" else 0.4 * values)
    decoding = DecodingConfig(
        beam_size=4,
        length_penalty=0.6,
        max_length_ratio=1.0,
        max_length_margin=8,
        batch_size=8,
        no_repeat_ngram=0,
    )
    return Translator(Engines(KerasEngine(model)), Letters(), decoding)  # type: ignore[arg-type]
