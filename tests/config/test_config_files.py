"""A stored configuration is read back; errors name the file and the fault."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from sample_configs import COMPLETION, OPTIONS, PINNED, changed, configured
from sample_corpora import complaint

from nmt.config import Config, SourceConfig, files, upgrades
from nmt.config.model import MODEL_CONFIGS
from nmt.config.noise import NoiseConfig

pytestmark = pytest.mark.xdist_group("configurations")


@pytest.fixture(scope="module")
def default() -> Config:
    """A configuration of the embedded corpus; `changed` copies it."""
    return configured(*PINNED)


@pytest.mark.long
@pytest.mark.parametrize("option", OPTIONS)
def test_saved_and_loaded_it_is_the_same(option: str, tmp_path: Path) -> None:
    config = configured(option, *COMPLETION.get(option, []))
    path = tmp_path / "config.yaml"
    files.save(config, path)
    assert files.load(path) == config


def test_a_run_of_an_earlier_version_is_read(default: Config, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    files.save(default, path)
    later = ("attention_every:", "dropout_warmup_epochs:", "parallel_parts:", "word_dropout:")
    later += ("deterministic:", "max_skipped:", "spike_factor:", "on_spike:")
    later += ("typical_length_ratio:",)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    older = [line for line in lines if not line.strip().startswith(later)]
    assert len(lines) - len(older) == len(later)
    path.write_text("".join(older), encoding="utf-8")
    assert files.load(path).data.typical_length_ratio == 1  # as lengths were compared then
    training = files.load(path).training
    assert (training.dropout_warmup_epochs, training.parallel_parts) == (0, 1)
    assert training.word_dropout == 0
    assert training.max_skipped == 30
    assert not training.deterministic


def test_later_keys_are_those_of_the_kind_of_model() -> None:
    """A key that only some kinds of models have would be unknown to runs of the others."""
    assert upgrades._LATER_KEYS_OF_KIND.keys() == MODEL_CONFIGS.keys()
    for kind, config in MODEL_CONFIGS.items():
        later = upgrades.list_later_keys({"model": {"kind": kind}})["model"]
        assert later.keys() <= {item.name for item in fields(config)}


def test_a_recurrent_run_of_an_earlier_version_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the later keys of its kind of model."""
    path = tmp_path / "config.yaml"
    config = configured("model=rnn")
    files.save(config, path)
    monkeypatch.setitem(upgrades._LATER_KEYS_OF_KIND, "rnn", {"bridge": False})
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "bridge:" not in line), encoding="utf-8")
    assert files.load(path) == replace(config, model=replace(config.model, bridge=False))


def test_a_run_whose_sources_have_no_hash_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    config = configured("data=tatoeba")
    files.save(config, path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    older = [line for line in lines if line.strip() != "sha256: null"]
    assert len(lines) - len(older) == 1
    path.write_text("".join(older), encoding="utf-8")
    assert files.load(path) == config


# The data group as it was before corpora had sources, and the sources that it stands for.
ONE_CORPUS: dict[str, Any] = {
    "source_language": "es",
    "target_language": "en",
    "archive": None,
    "url": None,
    "path": None,
    "columns": [0, 1],
    "source_path": None,
    "target_path": None,
    "patterns": 0,
    "pattern_share": 0.5,
    "min_words": 1,
    "max_words": 100,
    "max_characters": 800,
    "max_length_ratio": 3.0,
    "length_ratio_margin": 20,
    "rejected_file": None,
    "dev": 400.0,
    "test": 500.0,
    "split_seed": 1,
}
WRITTEN = {"kind": "phrasebook", "columns": [0, 1]}
UPGRADED: list[tuple[dict[str, Any], dict[str, dict[str, Any]]]] = [
    (
        {"kind": "phrasebook", "patterns": 60000, "pattern_share": 0.3},
        {
            "written": WRITTEN | {"weight": 0.7},
            "patterns": {"kind": "patterns", "pairs": 60000, "weight": 0.3, "split": "train"},
        },
    ),
    ({"kind": "phrasebook", "path": "unused"}, {"written": WRITTEN}),
    (
        {"kind": "phrasebook", "columns": [1, 0], "patterns": 5},
        {
            "written": WRITTEN | {"columns": [1, 0], "weight": 0.5},
            "patterns": {"kind": "patterns", "pairs": 5, "weight": 0.5, "split": "train"},
        },
    ),
    (
        {"kind": "tatoeba", "url": "http://a/b.zip", "columns": [1, 0], "path": "unused"},
        {"pairs": {"kind": "zip", "url": "http://a/b.zip", "columns": [1, 0]}},
    ),
    (
        {"kind": "tatoeba", "url": "http://a/b.zip", "archive": "~/b.zip"},
        {
            "pairs": {
                "kind": "zip",
                "url": "http://a/b.zip",
                "archive": "~/b.zip",
                "columns": [0, 1],
            }
        },
    ),
    (
        {"kind": "tsv", "path": "a.tsv.gz", "columns": [2, 0]},
        {"pairs": {"kind": "files", "path": "a.tsv.gz", "columns": [2, 0]}},
    ),
    (
        {"kind": "parallel", "source_path": "a", "target_path": "b", "columns": [1, 0]},
        {"pairs": {"kind": "files", "path": ["a", "b"]}},
    ),
]


def write_before_sources(config: Config, path: Path, changes: dict[str, Any]) -> None:
    """Write a configuration as a run of before corpora had sources did."""
    files.save(config, path)
    stored = yaml.safe_load(path.read_text(encoding="utf-8"))
    stored["data"] = {key: value for key, value in (ONE_CORPUS | changes).items() if value != ...}
    path.write_text(yaml.safe_dump(stored, allow_unicode=True), encoding="utf-8")


def test_a_run_that_calls_its_patterns_a_grammar_is_read(default: Config, tmp_path: Path) -> None:
    """As version 0.2 did."""
    path = tmp_path / "config.yaml"
    files.save(default, path)
    text = path.read_text(encoding="utf-8")
    assert text.count("kind: patterns") == 1
    path.write_text(text.replace("kind: patterns", "kind: grammar"), encoding="utf-8")
    assert files.load(path) == default


@pytest.mark.parametrize(("changes", "sources"), UPGRADED)
def test_a_run_of_before_corpora_had_sources_is_read(
    default: Config, tmp_path: Path, changes: dict[str, Any], sources: dict[str, Any]
) -> None:
    path = tmp_path / "config.yaml"
    write_before_sources(default, path, changes)
    read = files.load(path)
    expected = {name: SourceConfig(**keys) for name, keys in sources.items()}
    assert list(read.data.sources.items()) == list(expected.items())  # in this order
    data = replace(
        default.data,
        name=changes["kind"],
        sources=expected,
        typical_length_ratio=1.0,
        check_languages=False,
        noise=NoiseConfig.off(),
        phrases=0.0,
    )
    assert read == replace(default, data=data)
    files.save(read, path)
    assert files.load(path) == read


def test_the_embedded_corpus_of_before_is_that_of_today(default: Config, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    write_before_sources(default, path, UPGRADED[0][0])
    expected = changed(
        default,
        {
            "data.typical_length_ratio": 1.0,
            "data.check_languages": False,
            "data.phrases": 0.0,
            "data.sources.written.columns": [0, 1],
        },
    )
    expected.data.noise = NoiseConfig.off()
    assert files.load(path) == expected


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"kind": "tsv", "path": "a", "pth": "b"}, "unknown configuration key 'data.pth'"),
        ({"kind": "tsv"}, "data=tsv needs data.train=FILE"),
        ({"kind": "tsvv", "path": "a"}, "data.sources.pairs.kind must be one of"),
        ({"path": "a"}, "unknown configuration key 'data."),
        (
            {"kind": "phrasebook", "patterns": 9, "pattern_share": "x"},
            "data.pattern_share must be",
        ),
        (
            {"kind": "phrasebook", "patterns": "x"},
            "data.sources.patterns.pairs must be a whole number, got x",
        ),
        ({"kind": "tsv", "path": "a", "dev": ...}, "no value for configuration key 'data.dev'"),
        ({"kind": "tsv", "sources": {"a": {"kind": "tsv"}}}, "no source of data="),
    ],
)
def test_a_file_of_before_that_was_edited_badly(
    default: Config, tmp_path: Path, changes: dict[str, Any], fragment: str
) -> None:
    path = tmp_path / "config.yaml"
    write_before_sources(default, path, changes)
    message = complaint(lambda: files.load(path))
    assert message.startswith(f"{path}: ")
    assert fragment in message


@pytest.mark.parametrize(
    ("sources", "fragment"),
    [
        (None, "data.sources"),
        (3, "data.sources"),
        ([1], "Cannot merge"),
        ({}, "data.sources is empty"),
        ({"a": None}, "data.sources.a must be a source"),
        ({"a": 3}, "data.sources.a must be a source"),
        ({1: {"kind": "tsv"}}, "data.sources.1"),
        ({"a": {"path": "b"}}, "data.sources.a has no kind"),
        ({"a": {"kind": "tsv", "pth": "b"}}, "did you mean 'data.sources.a.path'?"),
        ({"a": {"kind": "tsv", "path": "b", "weight": "x"}}, "data.sources.a.weight"),
        ({"a": "${nowhere}"}, "nowhere"),
    ],
)
def test_sources_that_were_edited_badly(
    default: Config, tmp_path: Path, sources: Any, fragment: str
) -> None:
    path = tmp_path / "config.yaml"
    files.save(default, path)
    stored = yaml.safe_load(path.read_text(encoding="utf-8"))
    stored["data"]["sources"] = sources
    path.write_text(yaml.safe_dump(stored), encoding="utf-8")
    assert fragment in complaint(lambda: files.load(path))


def test_odd_values_survive_the_file(default: Config, tmp_path: Path) -> None:
    odd = changed(
        default,
        {
            "name": "año: {nuevo} #1",
            "runs_dir": "~/a b/ñ",
            "seed": 0,
            "data.rejected_file": "null",
            "data.sources.written.columns": [1, 0],
            "data.sources.patterns.tag": "<null>",
            "training.probes": ["- no", "¿Sí?: 'quizá'", "👍", "1.0", "null", "on"],
            "training.epsilon": 1e-12,
            "training.learning_rate": 0.1 + 0.2,
            "training.max_steps": 2**40,
            "training.clip_norm": None,
            "training.early_stopping": None,
            "training.ema_decay": 0.999,
        },
    )
    path = tmp_path / "config.yaml"
    files.save(odd, path)
    assert files.load(path) == odd
    assert "👍" in path.read_text(encoding="utf-8")  # readable, not escaped


def test_the_file_holds_values_and_no_references(default: Config, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    files.save(default, path)
    text = path.read_text(encoding="utf-8")
    assert "name: phrasebook_small" in text
    assert "${" not in text
    assert "???" not in text


@pytest.mark.parametrize(
    ("old", "new", "fragment"),
    [
        ("d_model: 256", "d_modle: 256", "'model.d_modle'; did you mean 'model.d_model'?"),
        ("d_model: 256", "d_model: wide", "model.d_model must be a whole number, got wide"),
        ("d_model: 256", "d_model: ???", "'model.d_model'"),
        ("d_model: 256", "d_model: 255", "model.d_model=255"),
        ("seed: 1\n", "", "'seed'"),
        ("seed: 1\n", "seed: [1\n", "config.yaml"),
        ("seed: 1\n", "seed: 1\nsede: 2\n", "'sede'; did you mean 'seed'?"),
        ("seed: 1\n", "seed: 1\nseed: 2\n", "config.yaml"),
        ("decoding:\n", "decoding: 3\nold:\n", "config.yaml"),
    ],
)
def test_a_file_that_was_edited_badly(
    default: Config, tmp_path: Path, old: str, new: str, fragment: str
) -> None:
    path = tmp_path / "config.yaml"
    files.save(default, path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert fragment in complaint(lambda: files.load(path))


@pytest.mark.parametrize(
    ("old", "new", "fragment"),
    [
        ("name: phrasebook", "name: ${oc.env:SECRET} phrasebook", "SECRET}"),
        ("seed: 1\n", "seed: ${oc.decode:1}\n", "oc.decode"),
        ("seed: 1\n", "seed: &a 1\nother: *a\n", "*a"),
        ("seed: 1\n", f"seed: {'[' * 10_000}{']' * 10_000}\n", "16 deep"),
    ],
)
def test_a_file_reads_nothing_from_elsewhere(
    default: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    old: str,
    new: str,
    fragment: str,
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    path = tmp_path / "config.yaml"
    files.save(default, path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    message = complaint(lambda: files.load(path))
    assert fragment in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    "content", [b"", b"- a\n- b\n", b"only words\n", b"a: [1\n", b"\tx: 1\n", b"name: \xff\n"]
)
def test_a_file_that_is_no_configuration(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    message = complaint(lambda: files.load(path))
    assert str(path) in message or "no value for configuration key" in message


def test_conf_dir_holds_the_primary_configuration() -> None:
    assert (files.conf_dir() / "train.yaml").is_file()
