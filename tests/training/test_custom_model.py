"""A model class from Python trains, resumes and translates; without the class it is refused."""

from __future__ import annotations

import functools
import io
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
import pytest
from keras import ops
from rich.console import Console

from nmt import Translator, explain
from nmt.config import Config
from nmt.data.tokenizer import EOS
from nmt.errors import UserError
from nmt.formats.export import export_run
from nmt.formats.verifying import verify_run
from nmt.formats.weights.converted import load_or_convert
from nmt.formats.weights.ctranslate2 import NotConvertibleError
from nmt.inference.contract import BeamOptions
from nmt.model import EncoderBlock, EncoderDecoder, FeedForward, TokenEmbedding, Transformer
from nmt.model.recurrent import Recurrent
from nmt.runs.averaging import average
from nmt.runs.building import build_model, choose_weights
from nmt.runs.checkpoint import read_arrays, write_arrays
from nmt.runs.folder import RunFolder
from nmt.text import known_words
from nmt.training.components import Components
from nmt.training.job import Run
from nmt.viewer import records

if TYPE_CHECKING:
    from workshop import Workshop

pytest_plugins = ("workshop",)
pytestmark = [pytest.mark.backend, pytest.mark.xdist_group("workshop")]

FEW = ("training.max_steps=4", "training.evaluate_every=2", "training.schedule=constant")
SENTENCES = ["Hoy hace frío.", "Tengo dos hermanas."]
KERNEL = "encoder_0/gate/kernel"


class GatedBlock(EncoderBlock):
    """An encoder block whose input passes through a gate."""

    def __init__(self, sizes: Any = None, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        width, policy = self.sizes.d_model, self.dtype_policy
        self.gate = keras.layers.Dense(width, "sigmoid", name="gate", dtype=policy)

    def call(  # type: ignore[override]
        self,
        x: Any,
        attention_mask: Any = None,
        dropout_key: Any = None,
        return_weights: bool = False,
        distance_bias: Any = None,
    ) -> Any:
        x = 2 * self.gate(x) * x
        return super().call(x, attention_mask, dropout_key, return_weights, distance_bias)


class Gated(Transformer):
    encoder_block_class = GatedBlock


class BagState(NamedTuple):
    context: Any  # [B, 1, D]

    def reorder(self, parents: Any) -> BagState:
        return self

    def grow(self, positions: Any) -> BagState:
        return self

    def growing_axes(self) -> BagState:
        return BagState(-1)


class Bag(EncoderDecoder):
    """The least that a model needs: a bag of source words, and no attention to show."""

    embedding_name: str | None = "embedding"

    def __init__(self, sizes: Any = None, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        size, width = self.sizes.vocabulary_size, self.sizes.d_model
        name, policy = self.embedding_name, self.dtype_policy
        self.embedding = TokenEmbedding(size, width, name=name, dtype=policy)
        self.hidden = keras.layers.Dense(width, "relu", name="hidden", dtype=self.dtype_policy)

    def read(self, source: Any, mask: Any) -> Any:
        return ops.matmul(ops.cast(mask, self.compute_dtype), self.embedding(source)) / 8

    def forward(
        self, inputs: Any, source_segments: Any, target_segments: Any, *rest: Any
    ) -> tuple[Any, tuple[list[Any], ...]]:
        mask = ops.equal(target_segments[:, :, None], source_segments[:, None])  # [B, T, S]
        context = self.read(inputs["source"], mask)
        return self.embedding.logits(self.hidden(self.embedding(inputs["target"]) + context)), ()

    def start(self, source: Any, **arguments: Any) -> BagState:
        return BagState(self.read(source, ops.not_equal(source, 0)[:, None]))

    def step(self, tokens: Any, index: Any, state: BagState) -> tuple[Any, BagState]:
        return self.embedding.logits(self.hidden(self.embedding(tokens) + state.context)), state

    def capacity(self, state: BagState) -> Any:
        return ops.convert_to_tensor(self.max_length, "int32")


def weights(run: Run) -> dict[str, np.ndarray]:
    state, _ = run.folder.checkpoints.load_latest() or ({}, {})
    return {name: array for name, array in state.items() if name.startswith("model/")}


class Unnamed(Bag):
    """A bag whose embedding has the name that Keras gives it."""

    embedding_name = None


@pytest.fixture(scope="module")
def gated(shop: Workshop) -> Run:
    probes = 'training.probes=["Hoy hace frío."]', "training.attention_every=2"
    with shop.keeping():
        return shop.train(*FEW, *probes, model=Gated)


@pytest.fixture(scope="module")
def configured(shop: Workshop) -> Run:
    with shop.keeping():
        return shop.train(*FEW)


def test_a_run_translates_with_its_class(gated: Run, configured: Run) -> None:
    assert gated.folder.read_components() == {"model": "Gated"}
    added = weights(gated).keys() - weights(configured).keys()
    assert added == {f"model/{KERNEL}", "model/encoder_0/gate/bias"}
    lines: list[str] = []
    translator = Translator.load(gated.path, model=Gated, log=lines.append)
    reason = ": CTranslate2 does not support model=Gated, a class from Python"
    if keras.config.backend() != "tensorflow":
        reason = f", since Keras runs on {keras.config.backend()}"
    assert lines == [f"engine: Keras{reason}"]
    assert gated.evaluation is not None
    scored = gated.evaluation.pairs
    outputs = translator.translate([pair.source for pair in scored])
    assert outputs == gated.evaluation.outputs
    assert gated.translator().translate(SENTENCES) == translator.translate(SENTENCES)
    [attention] = translator.attentions([("Hoy hace frío.", "It is cold today.")])
    assert set(attention.weights) == {"encoder", "decoder", "cross"}


def test_the_embedding_is_found_whatever_its_name(
    kept: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = io.StringIO()
    few = "training.max_steps=1", "data.dev=0", "data.test=0"
    console = Console(file=output, width=1000)
    first = kept.train(*few, model=Unnamed, console=console)
    assert "token embeddings start from co-occurrences in" in output.getvalue()
    remaining = [each for each in kept.overrides if not each.startswith(("model", "tokenizer"))]
    monkeypatch.setattr(kept, "overrides", remaining)
    start = f"training.start_from={first.path}", "tokenizer.vocabulary_size=450"
    kept.train(*few, *start, model=Unnamed, console=console)
    [shared] = re.findall(r"; (\d+) of \d+ pieces are also in its vocabulary", output.getvalue())
    assert int(shared) > 100


def test_the_class_computes_what_is_translated(gated: Run) -> None:
    model = RunFolder.open(gated.path, Gated).load_model()
    assert isinstance(model, Gated)
    inputs = {"source": np.array([[5, 6, 2]]), "target": np.array([[1, 7]])}
    before = np.asarray(model(inputs))
    model.named_weights()[KERNEL].assign(np.zeros((64, 64)))
    assert np.abs(np.asarray(model(inputs)) - before).max() > 1e-4


def test_a_run_resumes_with_its_class_and_with_no_other(kept: Workshop) -> None:
    few = *FEW, "data.dev=0", "data.test=0"
    whole = kept.train(*few, model=Gated)
    half = kept.train(*few, "training.max_steps=2", model=Gated)
    resume = f"training.resume={half.path}"
    for other in ({}, {"model": Transformer}):
        with pytest.raises(UserError, match=r"with model=Gated: to resume it, pass model=Gated in"):
            kept.train(resume, "training.max_steps=4", **other)
    resumed = kept.train(resume, "training.max_steps=4", model=Gated)
    assert len(weights(whole)) == len(weights(resumed))
    for name, array in weights(whole).items():
        np.testing.assert_array_equal(weights(resumed)[name], array, err_msg=name)


@pytest.mark.parametrize("model", [None, Transformer])
@pytest.mark.parametrize(
    "use",
    [
        lambda run, model: Translator.load(run, model=model),
        lambda run, model: Translator.load(run, model=model, engine="ctranslate2"),
        lambda run, model: Translator.load([run, run], model=model),
        lambda run, model: RunFolder.open(run, model).load_model(),
        lambda run, model: export_run(RunFolder.open(run, model), run / "exports", "keras"),
    ],
)
def test_a_run_is_refused_without_its_class(
    gated: Run, use: Callable[[Path, Any], Any], model: Any
) -> None:
    message = (
        f"{gated.path} was trained with model=Gated: in Python, pass model=Gated to "
        "nmt.Translator.load or nmt.fit"
    )
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        use(gated.path, model)


def test_a_configured_run_is_refused_with_a_class(configured: Run) -> None:
    with pytest.raises(UserError, match=r"with model=as configured: leave out model=Gated"):
        Translator.load(configured.path, model=Gated)


def test_a_run_starts_from_one_of_its_class(
    kept: Workshop, gated: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    inherited = ("model", "tokenizer")
    remaining = [each for each in kept.overrides if not each.startswith(inherited)]
    monkeypatch.setattr(kept, "overrides", remaining)
    monkeypatch.setattr(known_words, "_MIN_SCORE", 1e9)  # the second run counts all words twice
    start = f"training.start_from={gated.path}", "training.new_vocabulary=false", *FEW
    runs = len(list(kept.runs.iterdir()))
    with pytest.raises(UserError, match=r"was trained with model=Gated: in Python, pass"):
        kept.train(*start)
    assert len(list(kept.runs.iterdir())) == runs
    still = "training.learning_rate=1e-30", "training.max_steps=1", f"data.tests.all={gated.path}"
    run = kept.train(*start, *still, model=Gated)
    before = choose_weights(gated.folder.load_weights()[0])[KERNEL]
    np.testing.assert_array_equal(weights(run)[f"model/{KERNEL}"], before)
    assert run.tests["all"].before is not None
    assert run.tests["all"].before.outputs == run.tests["all"].evaluation.outputs


def test_changed_classes_do_not_fit(gated: Run, tmp_path: Path) -> None:
    class Renamed(Transformer): ...

    Renamed.__qualname__ = "Gated"
    with pytest.raises(UserError, match=r"the model: it has no weight encoder_0/gate/bias"):
        Translator.load(gated.path, model=Renamed)
    moved = tmp_path / "moved"
    shutil.copytree(gated.path, moved)
    arrays, metadata = read_arrays(moved / "checkpoints" / "best.npz")
    kept = {name: array for name, array in arrays.items() if not name.endswith(KERNEL)}
    write_arrays(moved / "checkpoints" / "best.npz", kept, metadata)
    with pytest.raises(UserError, match=f"{KERNEL} is missing"):
        Translator.load(moved, model=Gated)


def test_formats_that_know_no_other_models_are_refused(gated: Run, tmp_path: Path) -> None:
    folder = RunFolder.open(gated.path, Gated)
    for name in ("ctranslate2", "keras", "transformers"):
        with pytest.raises(UserError, match=f"{name} has no model=Gated, .* savedmodel, tflite"):
            export_run(folder, tmp_path / name, name)
        assert not (tmp_path / name).exists()
    with pytest.raises(NotConvertibleError, match="does not support model=Gated"):
        load_or_convert(folder, folder.load_tokenizer())


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="the format needs TensorFlow")
def test_a_saved_model_translates_as_the_run(gated: Run, tmp_path: Path) -> None:
    comparison = export_run(RunFolder.open(gated.path, Gated), tmp_path / "out", "savedmodel")
    assert comparison.sentences > 0
    assert not comparison.wrong


def test_files_and_means_of_runs_need_no_class(gated: Run, configured: Run, tmp_path: Path) -> None:
    assert {verdict.verdict for verdict in verify_run(gated.path)} <= {"sound", "unknown"}
    mean = average([gated.path, gated.path], tmp_path / "mean")
    loaded = Translator.load(mean.path, model=Gated)
    assert loaded.translate(SENTENCES) == gated.translator().translate(SENTENCES)
    with pytest.raises(UserError, match="trained with another model class than"):
        average([gated.path, configured.path], tmp_path / "other")


def test_a_model_without_attention_trains_and_translates(kept: Workshop) -> None:
    few = *FEW, "training.max_steps=2", "model.decoder_layers=2", "data.dev=50", "data.test=0"
    run = kept.train(*few, f'training.probes=["{SENTENCES[0]}"]', model=Bag)
    tag = records.tag(1, SENTENCES[0]).encode()
    assert not any(tag in path.read_bytes() for path in run.folder.logs.iterdir())
    translator = run.translator()
    engine, sources = translator.keras_engine(), translator.tokenizer.encode(SENTENCES)
    limits, options = np.array([6, 6], np.int32), BeamOptions(2, length_penalty=0.0)
    hypotheses = [best for [best] in engine.search(sources, limits, options, np.zeros(0, np.int32))]
    scores = engine.score(sources, [np.array(best.tokens[:-1], np.int32) for best in hypotheses])
    for best, log_probs in zip(hypotheses, scores, strict=True):
        assert best.tokens[-1] == EOS
        assert sum(log_probs) == pytest.approx(best.log_prob, abs=1e-4)
    [attention] = translator.attentions([("Hoy hace frío.", "It is cold today.")])
    assert attention.weights == {}
    assert attention._repr_html_() == "<p>The model has no attention.</p>"
    assert translator.attention("Hoy hace frío.") is None
    explanation = explain(translator, "Hoy hace frío.")
    assert "this is a Bag model" in explanation.reason
    for word in explanation.words:  # a bag's words add up in front of one layer: each matters
        assert all(share.contrast for share in word.source)
        assert word.support != 0


class Tailed(Transformer):
    """Adds layers after those of its base class, without names."""

    def __init__(self, sizes: Any = None, width: int = 7, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        self.tail = [keras.layers.Dense(width), keras.layers.Dense(width)]


def test_layers_have_the_same_names_in_every_model(compose: Callable[..., Config]) -> None:
    def build(model_class: Any) -> dict[str, tuple[int, ...]]:
        model = build_model(compose("model=tiny"), 40, precision="float32", model_class=model_class)
        return {name: tuple(weight.shape) for name, weight in model.named_weights().items()}

    first = build(Tailed)
    assert first["dense_1/kernel"] == (64, 7)
    assert build(Tailed) == first
    narrow = functools.partial(Tailed, width=3)
    assert build(narrow)["dense/bias"] == (3,)
    assert Components(model=narrow).names == {"model": "Tailed"}
    # Names of the caller's own layers stay taken.
    outer = keras.layers.Dense(1), build(Tailed), keras.layers.Dense(1)
    assert outer[0].name != outer[2].name


class Twins(Transformer):
    def __init__(self, sizes: Any = None, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        self.twins = [keras.layers.Dense(2, name="twin") for _ in range(2)]


class Unfinished(EncoderDecoder):
    capacity = 3


def make_sequential(sizes: Any, name: str, dtype: str) -> Any:
    return keras.Sequential()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Twins, "model=Twins has several weights called model/twin/kernel: name its layers"),
        (Unfinished, "model=Unfinished lacks start, step, forward: see nmt.model.EncoderDecoder"),
        (make_sequential, "model=make_sequential makes a Sequential: derive the class from"),
    ],
)
def test_other_models_are_refused(compose: Callable[..., Config], model: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_model(compose("model=tiny"), 40, precision="float32", model_class=model)


class OwnRecurrent(Recurrent): ...


@pytest.mark.parametrize(
    ("option", "model", "message"),
    [
        ("tiny", OwnRecurrent, "RecurrentSizes, .* TransformerSizes: add model=rnn to"),
        ("rnn", functools.partial(Tailed, width=3), "model=Tailed .* add model=compact or another"),
        ("rnn", Bag, "model=Bag is built from TransformerSizes, and the configured model has"),
    ],
)
def test_classes_that_need_another_kind_of_sizes_are_refused(
    compose: Callable[..., Config], option: str, model: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        build_model(compose(f"model={option}"), 40, precision="float32", model_class=model)


def test_a_recurrent_class_is_built_from_recurrent_sizes(compose: Callable[..., Config]) -> None:
    model = build_model(compose("model=rnn"), 40, precision="float32", model_class=OwnRecurrent)
    assert type(model) is OwnRecurrent


def test_objects_that_are_no_class_are_refused() -> None:
    with pytest.raises(UserError, match="model='tiny' cannot be called: pass a class"):
        Components(model="tiny")  # type: ignore[arg-type]
    sizes = {"d_model": 8, "num_heads": 2, "ffn_width": 8}
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    built = Gated(vocabulary_size=9, **sizes, **layers)
    with pytest.raises(UserError, match=r"Gated\(\.\.\.\) is built .* pass model=Gated$"):
        Components(model=built)


class Shifted(Transformer):
    """Adds to the state of each source token that of the one before it, whichever pair it is of."""

    def encode(self, source: Any, mask: Any, **arguments: Any) -> Any:
        memory, weights = super().encode(source, mask, **arguments)
        return memory + ops.roll(memory, 1, axis=1), weights


def test_a_model_that_decodes_something_else_is_named(kept: Workshop) -> None:
    shown = io.StringIO()
    few = *FEW, "training.max_steps=1", "data.dev=0", "data.test=0"
    for model in (Shifted, Gated):
        kept.train(*few, model=model, console=Console(file=shown, width=300))
    assert re.findall("warning: .*decodes other", shown.getvalue()) == [
        "warning: model=Shifted decodes other"
    ]


class Wide(FeedForward): ...


def test_blocks_take_other_feed_forward_layers() -> None:
    class Block(EncoderBlock):
        feed_forward_class = Wide

    block = Block(d_model=8, num_heads=2, ffn_width=16)
    assert type(block.feed_forward) is Wide
    assert block(np.zeros((1, 3, 8), np.float32)).shape == (1, 3, 8)
