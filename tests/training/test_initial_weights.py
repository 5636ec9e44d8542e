"""Runs that start from another: its weights, its tokenizer or a new one, and what is trained."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from conftest import transformer
from keras import ops
from rich.console import Console

from nmt.config import Config
from nmt.data.tokenizer import UNK
from nmt.errors import UserError
from nmt.formats.verifying import verify_run
from nmt.runs.building import choose_weights, merge_adapters
from nmt.runs.checkpoint import read_arrays
from nmt.runs.corpus import read_corpus
from nmt.runs.folder import RunFolder
from nmt.train import tabulate
from nmt.training import initial_weights
from nmt.training.defaults import START_SHARE, default_learning_rate
from nmt.training.initial_weights import freeze, initialize_weights, transfer_rows
from nmt.training.job import Run
from nmt.training.process_group import ProcessGroup

if TYPE_CHECKING:
    from workshop import Workshop

pytest_plugins = ("workshop",)
pytestmark = pytest.mark.xdist_group("workshop")

FEW = ("training.max_steps=4", "training.evaluate_every=2", "decoding.beam_size=1", "data.test=0")
SIZES: dict[str, Any] = {
    **{"vocabulary_size": 20, "d_model": 12, "num_heads": 3, "ffn_width": 16},
    **{"encoder_layers": 2, "decoder_layers": 2},
}
STILL = "training.learning_rate=1e-30"  # too little to change a number


@pytest.fixture(scope="module")
def general(shop: Workshop) -> Run:
    """The run that others start from."""
    with shop.keeping():
        return shop.train(*FEW, "name=general", "training.learning_rate=1e-2")


def adapt(shop: Workshop, general: Run, *overrides: str, console: Console | None = None) -> Run:
    start = f"training.start_from={general.path}"
    if not any("vocabulary" in override for override in overrides):
        overrides = ("training.new_vocabulary=false", *overrides)
    with pytest.MonkeyPatch.context() as patch, shop.keeping():
        inherited = ("model", "tokenizer")  # from the run that it starts from
        remaining = [override for override in shop.overrides if not override.startswith(inherited)]
        patch.setattr(shop, "overrides", remaining)
        return shop.train(*FEW, start, *overrides, console=console)


def best_weights(run: Run) -> dict[str, np.ndarray]:
    return choose_weights(run.folder.load_weights()[0])


# --- Starting from another run. -------------------------------------------------------------------


def test_it_begins_with_the_weights_the_tokenizer_and_the_sizes(
    shop: Workshop, general: Run
) -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=300)
    run = adapt(shop, general, STILL, "model.dropout=0.2", console=console)
    assert f"starting from the weights of {general.path}" in shown.getvalue()
    assert "the confidence is that of" not in shown.getvalue()  # that run has a lexicon only
    expected, weights = best_weights(general), best_weights(run)
    for name, array in expected.items():
        np.testing.assert_allclose(weights[name], array, atol=1e-6, err_msg=name)
    assert run.folder.load_tokenizer().fingerprint == general.folder.load_tokenizer().fingerprint
    ours, theirs = run.folder.config, general.folder.config
    assert ours.model.d_model == theirs.model.d_model == 64
    assert ours.tokenizer == theirs.tokenizer
    assert (ours.model.dropout, theirs.model.dropout) == (0.2, 0.1)
    assert ours.training.start_from == str(general.path)
    assert run.metrics[0]["step"] == 1


def test_the_same_corpus_keeps_the_tokenizer(shop: Workshop, general: Run) -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=300)
    run = adapt(shop, general, STILL, "training.new_vocabulary=null", console=console)
    assert "training.new_vocabulary=false" in shown.getvalue()
    config = run.folder.config
    assert config.training.new_vocabulary is False
    assert config.tokenizer == general.folder.config.tokenizer
    assert run.folder.load_tokenizer().fingerprint == general.folder.load_tokenizer().fingerprint


@pytest.mark.long
def test_what_is_left_open_is_chosen_for_a_short_training(shop: Workshop, general: Run) -> None:
    rates = ("training.learning_rate=null", "training.max_steps=1", "training.evaluate_every=1")
    whole = adapt(shop, general, *rates).folder.config
    assert whole.training.learning_rate == pytest.approx(START_SHARE * default_learning_rate(64))
    assert whole.model.dropout == 0.3  # of a small corpus


@pytest.mark.long
def test_it_goes_on_without_the_run_it_started_from(
    shop: Workshop, general: Run, tmp_path: Path
) -> None:
    moved = tmp_path / "general"
    run = adapt(shop, general, "training.max_steps=2")
    general.path.rename(moved)
    try:
        again = shop.train(f"training.resume={run.path}", "training.max_steps=4")
    finally:
        moved.rename(general.path)
    assert again.complete
    assert again.metrics[-1]["step"] == 4


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model=small", "keeps its model: .* leave it out"),
        ("model.d_model=32", "keeps its model.d_model"),
        ("tokenizer=bpe", "keeps its tokenizer: tokenizer.* needs training.new_vocabulary=true"),
        ("tokenizer.character_coverage=0.9", "keeps its tokenizer"),
        ("training.start_from=nowhere", "run nowhere does not exist"),
    ],
)
def test_what_contradicts_it_is_refused(
    shop: Workshop, general: Run, override: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        adapt(shop, general, override)


def test_a_new_vocabulary_needs_a_run(shop: Workshop) -> None:
    with pytest.raises(UserError, match=r"training\.new_vocabulary needs training\.start_from"):
        shop.train("training.new_vocabulary=true")


# --- Another vocabulary. --------------------------------------------------------------------------


class Spelling:
    """A tokenizer of given pieces, the longest first, with a space before every text.

    Sources are lower-cased, and targets are not.
    """

    def __init__(self, *pieces: str, lowercases: bool = True) -> None:
        self._pieces = ["<pad>", "<s>", "</s>", "<unk>", *pieces]
        self.vocabulary_size = len(self._pieces)
        self._lowercases = lowercases

    @property
    def target(self) -> Spelling:
        return Spelling(*self._pieces[UNK + 1 :], lowercases=False)

    def pieces(self, ids: Any) -> list[str]:
        return [self._pieces[i] for i in ids]

    def decode(self, sequences: Any) -> list[str]:
        return ["".join(self.pieces(ids)).replace("▁", " ").strip() for ids in sequences]

    def encode(self, texts: list[str]) -> list[np.ndarray]:
        texts = [text.lower() for text in texts] if self._lowercases else texts
        return [np.array(list(self._ids("▁" + text)), np.int32) for text in texts]

    def _ids(self, text: str) -> Any:
        while text:
            prefixes = [piece for piece in self._pieces[UNK + 1 :] if text.startswith(piece)]
            longest = max(prefixes, key=len, default="")
            yield self._pieces.index(longest) if longest else UNK
            text = text[len(longest) or 1 :]


def test_pieces_keep_their_vectors_and_new_ones_begin_as_means() -> None:
    old = Spelling("▁", "s", "o", "l", "▁so")
    new = Spelling("l", "▁sol", "os", "x")
    table = np.random.default_rng(0).standard_normal((old.vocabulary_size, 3)).astype(np.float32)
    vectors, shared = transfer_rows(table, old, new)  # type: ignore[arg-type]
    assert vectors.dtype == np.float32
    assert shared == 4 + 1
    np.testing.assert_array_equal(vectors[:4], table[:4])
    np.testing.assert_array_equal(vectors[4], table[7])  # l
    np.testing.assert_allclose(vectors[5], (table[8] + table[7]) / 2, rtol=1e-6)  # ▁so l
    np.testing.assert_allclose(
        vectors[6], (table[6] + table[5]) / 2, rtol=1e-6
    )  # o s, and no space
    np.testing.assert_allclose(vectors[7], table[4:].mean(axis=0), rtol=1e-6)  # all unknown


def test_biases_of_pieces_move_with_them() -> None:
    old, new = Spelling("▁", "s", "o", "l", "▁so", "▁S"), Spelling("l", "▁sol", "▁So")
    biases = np.arange(old.vocabulary_size, dtype=np.float32)
    moved, _ = transfer_rows(biases, old, new)  # type: ignore[arg-type]
    np.testing.assert_array_equal(moved, [0, 1, 2, 3, 7, 7.5, 7.5])  # ▁S o: targets keep capitals


def test_the_bias_of_logits_takes_another_vocabulary(shop: Workshop) -> None:
    with shop.keeping():
        biased = shop.train(*FEW, "name=biased", "model.output_bias=true")
    run = adapt(shop, biased, "tokenizer.vocabulary_size=400", "tokenizer.kind=bpe", STILL)
    tokenizer, old = run.folder.load_tokenizer(), biased.folder.load_tokenizer()
    expected, _ = transfer_rows(best_weights(biased)["embedding/bias"], old, tokenizer)
    np.testing.assert_allclose(best_weights(run)["embedding/bias"], expected, atol=1e-6)


def test_a_run_takes_another_vocabulary(shop: Workshop, general: Run) -> None:
    shown = io.StringIO()
    wished = ("tokenizer.vocabulary_size=400", "tokenizer.kind=bpe", STILL)  # which is the default
    run = adapt(shop, general, *wished, console=Console(file=shown, width=300))
    assert run.folder.config.training.new_vocabulary is True
    tokenizer, old = run.folder.load_tokenizer(), general.folder.load_tokenizer()
    assert run.folder.config.tokenizer.kind == "bpe"
    assert tokenizer.fingerprint != old.fingerprint
    both = set(tokenizer.pieces(range(tokenizer.vocabulary_size))) & set(
        old.pieces(range(old.vocabulary_size))
    )
    assert len(both) > 300
    assert f"; {len(both)} of {tokenizer.vocabulary_size} pieces" in shown.getvalue()
    weights, expected = best_weights(run), best_weights(general)
    for name, array in expected.items():
        if name != "embedding/table":
            np.testing.assert_allclose(weights[name], array, atol=1e-6, err_msg=name)
    translated, _ = transfer_rows(expected["embedding/table"], old, tokenizer)
    np.testing.assert_allclose(weights["embedding/table"], translated, atol=1e-6)


# --- Embeddings. ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ((), ["vectors", "branches"]),
        (("training.initial_embeddings=random",), []),
        (("start_from",), ["weights"]),
        (("resume",), []),
    ],
)
def test_only_a_new_run_gets_vectors_of_co_occurrences(
    overrides: tuple[str, ...],
    expected: list[str],
    compose: Callable[..., Config],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = list[str]()
    config = compose(*(each for each in overrides if "=" in each))
    changes = {each: str(tmp_path) for each in overrides if "=" not in each}
    config = replace(config, training=replace(config.training, **changes))
    monkeypatch.setattr(initial_weights, "initialize_embeddings", lambda *_: done.append("vectors"))
    branches = "initialize_residual_branches"
    monkeypatch.setattr(initial_weights, branches, lambda _: done.append("branches"))
    monkeypatch.setattr(initial_weights, "load_start_weights", lambda *_: "weights")
    monkeypatch.setattr(RunFolder, "open", lambda path: path)
    model, run, unused = transformer(**SIZES), RunFolder(tmp_path), cast(Any, None)
    initialize_weights(model, config, run, unused, unused, ProcessGroup(), done.append)
    assert done == expected


# --- Freezing. ------------------------------------------------------------------------------------


def test_patterns_name_weights_or_what_is_around_them() -> None:
    model = transformer(**SIZES)
    before = set(model.trained_weights())
    freeze(model, ["encoder_*", "*/cross_attention/query/bias"])
    frozen = before - set(model.trained_weights())
    assert frozen == {
        name
        for name in before
        if name.startswith("encoder_") or name.endswith("cross_attention/query/bias")
    }
    with pytest.raises(UserError, match=r"no weight matches 'encoder0'; .*encoder_0"):
        freeze(model, ["encoder0"])
    with pytest.raises(UserError, match="leaves nothing to train"):
        freeze(model, ["*"])


@pytest.mark.backend
def test_frozen_weights_stay_and_are_kept_once(shop: Workshop, general: Run) -> None:
    run = adapt(shop, general, "training.freeze=[embedding,encoder_*]")
    expected, weights = best_weights(general), best_weights(run)
    for name, array in expected.items():
        frozen = name.startswith(("embedding", "encoder_"))
        assert np.array_equal(weights[name], array) == frozen or name.endswith("key/bias"), name
    start, _ = read_arrays(run.folder.checkpoints.start)
    best, _ = read_arrays(run.folder.checkpoints.best)
    last, _ = read_arrays(run.folder.checkpoints.path(4))
    assert not {name for name in (*best, *last) if "encoder_0/" in name and "decoder" not in name}
    assert start.keys() | best.keys() == {f"model/{name}" for name in expected}
    assert not start.keys() & best.keys()
    judged = {verdict.name: verdict.verdict for verdict in verify_run(run.path)}
    assert set(judged.values()) <= {"sound", "unknown"}
    assert judged["checkpoints/start.npz"] == judged["checkpoints/best.npz"] == "sound"


# --- Adapters. ------------------------------------------------------------------------------------


def test_adapters_begin_as_nothing_and_are_merged_as_they_are_computed() -> None:
    model = transformer(**SIZES)
    ids = np.arange(4, 12, dtype=np.int32).reshape(2, 4)
    inputs = {"source": ids, "target": ids[:, ::-1].copy()}
    before = ops.convert_to_numpy(model(inputs))
    model.add_adapters(2, ["*"])
    trained = model.trained_weights()
    assert {name.rsplit("/", 1)[1] for name in trained} == {"lora_kernel_a", "lora_kernel_b"}
    kernels = {name.rsplit("/", 1)[0] for name in model.named_weights() if name.endswith("/kernel")}
    assert {name.rsplit("/", 1)[0] for name in trained} == kernels
    np.testing.assert_array_equal(ops.convert_to_numpy(model(inputs)), before)
    rng = np.random.default_rng(0)
    for weight in trained.values():
        weight.assign(rng.standard_normal(weight.shape) * 0.3)
    adapted = ops.convert_to_numpy(model(inputs))
    assert np.abs(adapted - before).max() > 0.1
    merged = merge_adapters({name: np.asarray(w) for name, w in model.named_weights().items()})
    plain = transformer(**SIZES)
    assert merged.keys() == plain.named_weights().keys()
    for name, weight in plain.named_weights().items():
        weight.assign(merged[name])
    np.testing.assert_allclose(ops.convert_to_numpy(plain(inputs)), adapted, atol=2e-5)


def test_adapters_of_some_parts() -> None:
    model = transformer(**SIZES)
    model.add_adapters(2, ["value", "inn*"])
    adapted = {name.split("/")[-2] for name in model.trained_weights()}
    assert adapted == {"value", "inner"}
    with pytest.raises(ValueError, match="no matrix matches 'values'; choose from: "):
        transformer(**SIZES).add_adapters(2, ["values"])


@pytest.mark.backend
def test_adapters_alone_are_trained_saved_and_resumed(shop: Workshop, general: Run) -> None:
    adapters = ("model.lora_rank=2", "training.learning_rate=1e-2")
    shown = io.StringIO()
    whole = adapt(shop, general, *adapters, console=Console(file=shown, width=300))
    assert "of them trained, " in shown.getvalue()
    assert "MFLOP per token to train all weights" in shown.getvalue()
    half = adapt(shop, general, *adapters, "training.max_steps=2")
    again = shop.train(f"training.resume={half.path}", "training.max_steps=4")
    arrays = [read_arrays(run.folder.checkpoints.path(4))[0] for run in (whole, again)]
    assert arrays[0].keys() == arrays[1].keys()
    for name, array in arrays[0].items():
        np.testing.assert_array_equal(arrays[1][name], array, err_msg=name)
    assert all("lora" in name or name.startswith("optimizer") for name in arrays[0])
    kept, _ = read_arrays(whole.folder.checkpoints.best)
    assert all("lora" in name for name in kept)
    expected, weights = best_weights(general), best_weights(whole)
    assert expected.keys() == weights.keys()
    changed = {name for name in expected if not np.array_equal(expected[name], weights[name])}
    assert changed == {
        name for name in expected if name.endswith(("value/kernel", "inner/kernel", "outer/kernel"))
    }
    # What is loaded has no adapters, on any engine, and another run may start from it.
    sources = ["Hoy hace frío.", "Sí."]
    model = whole.folder.load_model()
    assert model.named_weights().keys() == expected.keys()
    from nmt import Translator

    outputs = [
        Translator.load(whole.path, engine=engine).translate(sources, beam_size=1)
        for engine in ("keras", "ctranslate2")
    ]
    assert outputs[0] == outputs[1]
    judged = {verdict.verdict for verdict in verify_run(whole.path)}
    assert judged <= {"sound", "unknown"}
    further = adapt(shop, whole, STILL)
    assert further.folder.config.model.lora_rank is None
    for name, array in best_weights(further).items():
        np.testing.assert_allclose(array, weights[name], atol=1e-6, err_msg=name)


@pytest.mark.parametrize("pattern", ["encoder_*", "*lora_kernel_a"])
def test_frozen_adapters_are_resumed(shop: Workshop, general: Run, pattern: str) -> None:
    frozen = ("model.lora_rank=2", f"training.freeze=['{pattern}']")
    whole = adapt(shop, general, *frozen)
    half = adapt(shop, general, *frozen, "training.max_steps=2")
    again = shop.train(f"training.resume={half.path}", "training.max_steps=4")
    expected, weights = best_weights(whole), best_weights(again)
    for name, array in expected.items():
        np.testing.assert_array_equal(weights[name], array, err_msg=name)


@pytest.mark.long
def test_damaged_frozen_weights_are_said(shop: Workshop, general: Run) -> None:
    run = adapt(shop, general, "model.lora_rank=1", "training.max_steps=2")
    folder = RunFolder.open(run.path)
    folder.checkpoints.start.unlink()
    with pytest.raises(UserError, match=r"start.npz does not fit .* is missing"):
        shop.train(f"training.resume={run.path}", "training.max_steps=4")
    with pytest.raises(UserError, match="does not fit the run's configuration"):
        folder.load_model()


# --- Named test sets. -----------------------------------------------------------------------------


def test_several_tests_are_scored_before_and_after(
    shop: Workshop, general: Run, tmp_path: Path
) -> None:
    """What is learned and what is forgotten stand in one table, and nothing of it is trained on."""
    corpus = next(one for one in shop.overrides if one.startswith("data.train=")).split("=", 1)[1]
    lines = Path(corpus).read_text(encoding="utf-8").splitlines()
    held_out = tmp_path / "held_out.tsv"
    held_out.write_text("\n".join(lines[:10]) + "\nno pair\n", encoding="utf-8")
    with shop.keeping():
        tested = shop.train(*FEW[:-1], "name=tested", "data.test=16", "training.learning_rate=3e-2")
    run = adapt(
        shop,
        tested,
        STILL,
        "data.test=8",
        f"data.tests.verses={held_out}",
        f"data.tests.before={tested.path}",
    )
    assert list(run.tests) == ["test", "verses", "before"]
    assert run.evaluation == run.tests["test"].evaluation
    assert tested.evaluation is not None
    assert run.tests["before"].evaluation.pairs == tested.evaluation.pairs
    assert len(run.tests["verses"].evaluation.pairs) == 10
    for name, scores in run.tests.items():
        assert scores.before is not None
        assert scores.before.outputs == scores.evaluation.outputs  # it has not learned anything
        file = "evaluation_test.json" if name == "test" else f"evaluation_test_{name}.json"
        stored = json.loads((run.path / file).read_text(encoding="utf-8"))
        assert stored["before"].keys() == stored["scores"].keys() == {"BLEU", "chrF2++", "TER"}
    trained = read_corpus(run.folder, str).train
    held = {
        side for scores in run.tests.values() for pair in scores.evaluation.pairs for side in pair
    }
    assert not held & {side for pair in trained for side in pair}
    shown = io.StringIO()
    Console(file=shown, width=120).print(tabulate(run.tests))
    assert [
        line.split("│")[1].strip() for line in shown.getvalue().splitlines() if "│" in line
    ] == [*("test", "verses", "before")]
    assert "BLEU before" in shown.getvalue()
    with pytest.raises(UserError, match="there is no split 'verse'; did you mean 'verses'"):
        read_corpus(run.folder, str).scored_pairs("verse")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.tests.dev=x.tsv", "data.tests: invalid name 'dev'"),
        ("data.tests.verses=", "data.tests.verses needs a file of pairs, or a run"),
        ("data.tests.verses=nowhere.tsv", "data.tests.verses=nowhere.tsv"),
    ],
)
def test_a_test_that_is_none_is_refused(shop: Workshop, override: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        shop.train(override)
