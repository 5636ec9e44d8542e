"""What several test files share: composed configurations, and one tiny trained run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

CORPUS = Path(__file__).parent.parent / "data" / "phrasebook"


def corpus_lines(count: int) -> list[str]:
    lines = [
        line
        for path in sorted(CORPUS.glob("*.tsv"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return lines[:: max(1, len(lines) // count)][:count]


@pytest.fixture(scope="session")
def compose() -> Callable[..., object]:
    """Compose a configuration as the train command does."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    from nmt import config as configuration

    configuration.register()

    def composed(*overrides: str) -> configuration.Config:
        with initialize_config_dir(str(configuration.conf_dir()), version_base="1.3"):
            return configuration.from_composed(hydra_compose("train", list(overrides)))

    return composed


@pytest.fixture(scope="session")
def quiet_console() -> Console:
    return Console(quiet=True)


def tiny_overrides(folder: Path, lines: int = 200) -> list[str]:
    """Overrides for a run of seconds on a few lines of the embedded corpus."""
    corpus = folder / "corpus.tsv"
    corpus.write_text("\n".join(corpus_lines(lines)) + "\n", encoding="utf-8")
    return [
        "data=tsv",
        f"data.path={corpus}",
        "data.dev=16",
        "data.test=16",
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
    compose: Callable[..., object],
    quiet_console: Console,
) -> Path:
    """Train a tiny model for a few updates, once for all tests that need a run folder."""
    from nmt.train import train

    folder = tmp_path_factory.mktemp("tiny")
    probes = ['training.probes=["¿Dónde está la estación?"]', "training.probe_every=2"]
    train(compose(*tiny_overrides(folder), *probes), quiet_console)  # type: ignore[arg-type]
    return (folder / "runs" / "latest").resolve()
