"""MarianMT's folders become runs that say what `transformers` says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.errors import UserError
from nmt.formats.marian.reading import convert, read_marian
from nmt.inference.translator import Translator
from nmt.runs.folder import RunFolder

RECORDED = Path(__file__).parent / "recorded"
FOUND = json.loads((RECORDED / "found.json").read_text(encoding="utf-8"))
VOCABULARY = json.loads((RECORDED / "vocab.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return convert(RECORDED, tmp_path_factory.mktemp("converted") / "run")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "opus-mt"))


def change(path: Path, **values: Any) -> None:
    stored = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(stored | values), encoding="utf-8")


def ours(run: RunFolder) -> dict[int, int]:
    """Return our id of each of theirs."""
    tokenizer = run.load_tokenizer()
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    ids = {VOCABULARY[piece]: i for i, piece in enumerate(pieces) if i not in (PAD, BOS)}
    return ids | {VOCABULARY["<pad>"]: BOS}


def test_texts_have_their_ids(run: RunFolder) -> None:
    ids = ours(run)
    for encoded, theirs in zip(
        run.load_tokenizer().encode(FOUND["lines"]), FOUND["ids"], strict=True
    ):
        assert [*encoded.tolist(), EOS] == [ids[i] for i in theirs]


def test_logits_are_theirs(run: RunFolder) -> None:
    ids, model = ours(run), run.load_model()
    source = np.array([[ids[i] for i in FOUND["ids"][0]]])
    target = np.array([[BOS, *(ids[i] for i in FOUND["ids"][1][:-1])]])
    logits = np.asarray(model({"source": source, "target": target}))[0]
    expected = np.array(FOUND["logits"])
    assert np.ptp(expected) > 1
    places = [ids[i] for i in range(len(VOCABULARY))]
    np.testing.assert_allclose(logits[:, places], expected, atol=1e-4)
    assert np.all(logits[:, PAD] < -1e8)  # is never written


def test_a_beam_finds_what_theirs_does_or_better(run: RunFolder) -> None:
    translator = Translator.load(run.path, engine="keras")
    translator.decoding = replace(translator.decoding, beam_size=4, length_penalty=0.0)
    hypotheses = [best for best, *_ in translator.hypotheses(FOUND["lines"], no_repeat_ngram=0)]
    for ours, (_, log_prob) in zip(hypotheses, FOUND["beam"], strict=True):
        assert ours.log_prob >= log_prob - 1e-3


@pytest.mark.parametrize("form", ["bin", "legacy"])
def test_weights_are_the_same_whatever_file_they_are_in(folder: Path, form: str) -> None:
    expected = read_marian(RECORDED).weights
    (folder / "model.safetensors").unlink()
    (folder / f"{form}.bin").rename(folder / "pytorch_model.bin")
    weights = read_marian(folder).weights
    assert weights.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(weights[name], array)


def test_the_run_says_what_it_is(run: RunFolder) -> None:
    config = run.config
    assert (config.name, config.data.languages) == ("recorded", ("es", "en"))
    assert config.decoding.beam_size == 4
    assert run.read_corpus_record()["converted_from"].endswith("recorded")
    converted = convert(RECORDED, run.path.with_name("other"), ("es-MX", "en-GB"))
    assert converted.config.data.languages == ("es-MX", "en-GB")


@pytest.mark.parametrize("group", ["ROMANCE", "cat+oci+spa", None])
def test_languages_of_a_folder_for_several_are_undetermined(
    folder: Path, group: str | None
) -> None:
    change(folder / "tokenizer_config.json", target_lang=group)
    assert read_marian(folder).config.data.languages == ("es", "und")


def test_pieces_without_a_name_are_told_apart(folder: Path) -> None:
    names = {piece: i for piece, i in VOCABULARY.items() if i not in (7, 8)}
    names["<s>"] = 7
    (folder / "vocab.json").write_text(json.dumps(names), encoding="utf-8")
    tokenizer = read_marian(folder).tokenizer
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    assert len(set(pieces)) == len(pieces) == len(VOCABULARY) + 1
    assert pieces[BOS] == "<s>_"


def without(*names: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / name).unlink() for name in names] and None


def configured(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / "config.json", **values)


def weighing(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        arrays = load_file(folder / "model.safetensors")
        change(arrays)
        save_file(arrays, folder / "model.safetensors")

    return changed


WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "no configuration": (without("config.json"), r"config\.json cannot be read"),
    "no weights": (without("model.safetensors"), "neither model.safetensors nor"),
    "no tokenizer": (without("target.spm"), r"target\.spm cannot be read"),
    "no table of ids": (without("vocab.json"), r"vocab\.json cannot be read"),
    "another model": (configured(model_type="bart"), "model_type='bart'"),
    "unscaled": (configured(scale_embedding=False), "scale_embedding=False"),
    "learned positions": (configured(static_position_embeddings=False), "static_position"),
    "pre-norm": (configured(normalize_before=True), "normalize_before=True"),
    "two tables": (configured(decoder_vocab_size=50), "two vocabularies"),
    "tables of their own": (configured(share_encoder_decoder_embeddings=False), "share_encoder"),
    "another activation": (configured(activation_function="gelu"), "activation_function='gelu'"),
    "other heads": (configured(decoder_attention_heads=4), "another attention_heads"),
    "another beginning": (configured(decoder_start_token_id=3), "begins decoding with another id"),
    "other ids": (configured(eos_token_id=5), "or has other ids"),
    "not a number": (configured(d_model="8"), "d_model is '8'"),
    "more layers": (
        configured(encoder_layers=3),
        r"layers\.2\.self_attn\.q_proj\.weight is missing",
    ),
    "fewer rows": (configured(vocab_size=90, decoder_vocab_size=90), "more ids than"),
    "more rows": (
        configured(vocab_size=110, decoder_vocab_size=110),
        "shared.weight is of shape",
    ),
    "more rows than memory": (
        configured(vocab_size=10**12, decoder_vocab_size=10**12),
        "shared.weight is of shape",
    ),
    "a weight of another shape": (
        weighing(lambda arrays: arrays.update({"model.decoder.layers.0.fc1.bias": np.zeros(3)})),
        r"model\.decoder\.layers\.0\.fc1\.bias is of shape",
    ),
    "vectors of its own": (
        weighing(lambda arrays: arrays.update({"lm_head.weight": np.zeros((100, 8))})),
        "another table in lm_head.weight",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_it_is_not_is_said_in_one_line(folder: Path, tmp_path: Path, name: str) -> None:
    spoil, message = WRONG[name]
    spoil(folder)
    with pytest.raises(UserError, match=message) as raised:
        convert(folder, tmp_path / "run")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_damaged_files_are_said_to_be(folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "vocab.json", "model.safetensors", "source.spm"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2 + 1])
        with pytest.raises(UserError):
            convert(folder, tmp_path / "run")
        (folder / name).write_bytes(content)
    convert(folder, tmp_path / "run")
    with pytest.raises(UserError, match="exists already"):
        convert(folder, tmp_path / "run")
