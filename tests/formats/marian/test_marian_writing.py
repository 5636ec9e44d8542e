"""What goes out comes in again, of whatever the model is made of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import corpus_lines
from safetensors.numpy import load_file
from sample_configs import configured

from nmt.config import TokenizerConfig
from nmt.data.tokenizer import BOS, Tokenizer
from nmt.data.tokenizer_training import train_tokenizer
from nmt.errors import UserError
from nmt.formats.marian.reading import convert, read_marian
from nmt.formats.marian.writing import load, write
from nmt.inference.keras_engine import KerasEngine
from nmt.runs.building import build_model, set_seed

RECORDED = Path(__file__).parent / "recorded"
MADE = ["model=marian", "model.d_model=16", "model.ffn_width=24", "model.num_heads=4"]
MADE += ["model.encoder_layers=2", "model.decoder_layers=1", "model.max_length=64"]
HOLDS = {
    "as it is": [],
    "sines and cosines in turn": ["model.positions=sinusoidal"],
    "no bias of logits": ["model.output_bias=false"],
    "relu": ["model.activation=relu"],
    "squared relu": ["model.activation=relu2"],
    "gelu": ["model.activation=gelu"],
    "heads of their own": ["model.heads=own"],
    "shared keys": ["model.key_value_heads=2"],
    "one head of keys": ["model.key_value_heads=1", "model.heads=own"],
    "no biases": ["model.attention_biases=false"],
    "no output projection": ["model.attention_output=false"],
}
REFUSED = {
    "model.norm=pre": ["model.norm=pre"],
    "model.norm_epsilon=1e-06": ["model.norm_epsilon=1e-6"],
    "model.positions=rotary": ["model.positions=rotary"],
    "model.activation=swiglu": ["model.activation=swiglu"],
    "model.heads=pooled": ["model.heads=pooled"],
    "model.qk_norm=true": ["model.qk_norm=true"],
    "model.qk_norm=self": ["model.qk_norm=self"],
}


def train(*, lowercase_source: bool, slots: int) -> Tokenizer:
    texts = [text for line in corpus_lines(300) for text in line.split("\t")[:2]]
    config = TokenizerConfig("unigram", 400, 0, 1.0, lowercase_source, slots)
    return train_tokenizer(config, texts, lambda line: None)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train(lowercase_source=False, slots=0)


def test_a_folder_that_came_in_goes_out_as_it_was(tmp_path: Path) -> None:
    run = convert(RECORDED, tmp_path / "run")
    out = tmp_path / "out"
    out.mkdir()
    write(run.load_model(), run.load_tokenizer(), run.config, out)
    expected, exported = (load_file(folder / "model.safetensors") for folder in (RECORDED, out))
    assert exported.keys() <= expected.keys()
    for name, array in exported.items():
        np.testing.assert_array_equal(array, expected[name])
    for name in ("vocab.json", "tokenizer_config.json"):
        assert (
            json.loads((out / name).read_text()).items()
            >= json.loads((RECORDED / name).read_text()).items()
        )
    for name in ("source.spm", "target.spm"):
        assert (out / name).read_bytes() == (RECORDED / name).read_bytes()
    config, written = (
        json.loads((folder / "config.json").read_text()) for folder in (RECORDED, out)
    )
    shared = config.keys() & written.keys()
    assert len(shared) > 25
    shared -= {"architectures", "bos_token_id", "dropout"}
    assert {key: written[key] for key in shared} == {key: config[key] for key in shared}


def make(tokenizer: Tokenizer, overrides: list[str]) -> tuple:
    config = configured(*MADE, "model.dropout=0", *overrides)
    set_seed(1)
    model = build_model(config, tokenizer.vocabulary_size, precision="float32")
    rng = np.random.default_rng(1)
    for weight in model.weights:  # biases, too
        weight.assign(rng.normal(size=weight.shape) / weight.shape[0] ** 0.5)
    return config, model


@pytest.mark.parametrize("name", HOLDS)
def test_every_form_it_holds_says_the_same(tmp_path: Path, tokenizer: Tokenizer, name: str) -> None:
    config, model = make(tokenizer, HOLDS[name])
    assert config.model.make_sizes(tokenizer.vocabulary_size) == model.sizes
    write(model, tokenizer, config, tmp_path)
    marian = read_marian(tmp_path)
    texts = ["¿Dónde está la estación?", "Sí."]
    source, target = (ids.tolist() for ids in tokenizer.encode(texts))
    theirs = [ids.tolist() for ids in marian.tokenizer.encode(texts)]
    assert theirs == [source, target]  # ids keep their places
    batch = {"source": np.array([source]), "target": np.array([[BOS, *target]])}
    expected = np.asarray(model(batch))
    loaded = load(tmp_path, config)
    assert isinstance(loaded.engine, KerasEngine)
    logits = np.asarray(loaded.engine.model(batch))
    assert np.ptp(expected) > 0.3
    np.testing.assert_allclose(logits[..., 1:], expected[..., 1:], atol=2e-5)


def test_the_search_of_the_run_is_written(tmp_path: Path, tokenizer: Tokenizer) -> None:
    search = ["decoding.beam_size=3", "decoding.length_penalty=0", "decoding.no_repeat_ngram=2"]
    config, model = make(tokenizer, search)
    write(model, tokenizer, config, tmp_path)
    written = json.loads((tmp_path / "generation_config.json").read_text())
    keys = ("num_beams", "length_penalty", "no_repeat_ngram_size")
    assert [written[key] for key in keys] == [3, 0, 2]


@pytest.mark.parametrize("setting", REFUSED)
def test_what_it_cannot_hold_is_said(tmp_path: Path, tokenizer: Tokenizer, setting: str) -> None:
    config, model = make(tokenizer, REFUSED[setting])
    with pytest.raises(UserError, match=f"MarianMT has no {setting}"):
        write(model, tokenizer, config, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_with_slots_is_refused(tmp_path: Path) -> None:
    slotted = train(lowercase_source=True, slots=3)
    config, model = make(slotted, [])
    with pytest.raises(UserError, match=r"MarianMT has no slots .*: train with tokenizer\.slots=0"):
        write(model, slotted, config, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_targets_keep_their_case_where_sources_are_lower_cased(tmp_path: Path) -> None:
    lowering = train(lowercase_source=True, slots=0)
    config, model = make(lowering, [])
    write(model, lowering, config, tmp_path)
    both = read_marian(tmp_path).tokenizer
    lower, upper = (np.concatenate(both.target.encode([text])).tolist() for text in ("sí", "SÍ"))
    assert lower != upper
    [lower, upper] = (ids.tolist() for ids in both.encode(["sí", "SÍ"]))
    assert lower == upper
