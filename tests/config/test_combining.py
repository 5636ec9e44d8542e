"""A resumed run keeps its configuration; a run that starts from another keeps its model."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sample_configs import LANGUAGES, composed, configured, job
from sample_corpora import complaint

from nmt.config import Config, files
from nmt.config.combining import combine_for_resume
from nmt.config.data import list_reserved, list_tags
from nmt.config.schema import flatten
from nmt.runs.resuming import compose_config, job_config

pytestmark = pytest.mark.xdist_group("configurations")

TSV = ("data=files", *LANGUAGES, "data.sources.pairs.path=a.tsv")


class Run:
    """A run folder with a configuration and, by its name, a checkpoint."""

    def __init__(self, path: Path, *overrides: str, step: int | None = 300) -> None:
        self.path = path
        self.config = replace(
            configured("model=tiny", "seed=5", *overrides),
            runs_dir=str(path.parent),
        )
        (path / "checkpoints").mkdir(parents=True)
        files.save(self.config, path / "config.yaml")
        if step is not None:
            (path / "checkpoints" / f"step_{step:08d}.npz").touch()

    def resume(self, *overrides: str) -> Config:
        return resume(self.path, *overrides)


def resume(path: Path | str, *overrides: str) -> Config:
    """Return the configuration with which `nmt.train training.resume=PATH` resumes."""
    return job(f"training.resume={path}", *overrides)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that the tests share and must not change."""
    return Run(tmp_path_factory.mktemp("resuming") / "runs" / "one", "data=tatoeba")


def differences(before: Config, after: Config) -> dict[str, Any]:
    """Return the keys in which two configurations differ, with the second one's values."""
    values = dict(flatten(before))
    return {key: value for key, value in flatten(after) if value != values[key]}


def test_a_new_run_takes_every_override() -> None:
    overrides = ["model=tiny", "seed=9", "training.batch_tokens=512"]
    config = job(*overrides)
    assert config == configured(*overrides)
    assert (config.seed, config.model.name, config.training.resume) == (9, "tiny", None)


def test_a_new_run_is_checked() -> None:
    assert "not divisible by num_heads=3" in complaint(lambda: job("model.num_heads=3"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.lora_rank=4"], "model.lora_rank trains adapters only: set training.start_from"),
        (["model.lora_on=[value]"], "model.lora_on needs model.lora_rank"),
        (["training.on_spike=go_back"], "needs training.spike_factor"),
        (["training.max_update_tokens=4096"], "needs training.batch_tokens=auto, got 512"),
        (
            ["training.parallel_parts=4", "training.devices=2"],
            "training.parallel_parts=4 is for one device, got training.devices=2: leave one",
        ),
        (["training.parallel_parts=4", "training.devices=multiworker"], "is for one device"),
        (
            ["+data.sources.verses={kind: files, path: b.tsv, weight: 2}"],
            "data.sources.verses.weight is relative to the weights of other sources: give them "
            "weights, too: pairs",
        ),
    ],
)
def test_settings_without_effect_are_rejected(overrides: list[str], message: str) -> None:
    assert message in complaint(lambda: job(*TSV, *overrides))


@pytest.mark.parametrize(
    "overrides",
    [
        ["training.on_spike=go_back", "training.spike_factor=10"],
        ["training.batch_tokens=auto", "training.max_update_tokens=4096"],
        ["size=s", "training.batch_tokens=512"],
        [
            "+data.sources.verses={kind: files, path: b.tsv, weight: 2}",
            "data.sources.pairs.weight=1",
        ],
        ["+data.sources.verses={kind: files, path: b.tsv, weight: 2}", "data.temperature=5"],
        [
            "+data.sources.news={kind: files, path: b.tsv, split: dev}",
            "data.sources.pairs.weight=1",
        ],
        ["training.max_update_tokens=null"],
        ["training.parallel_parts=4", "training.devices=1"],
        ["training.parallel_parts=1", "training.devices=2"],
    ],
)
def test_settings_with_effect_are_accepted(overrides: list[str]) -> None:
    job(*TSV, *overrides)


def test_parts_of_a_batch_are_for_tensorflow(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has some is resumed on JAX all the same."""
    parts = "training.parallel_parts=2"
    job(*TSV, parts)
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert "training.parallel_parts=2 needs TensorFlow, as JAX" in complaint(
        lambda: job(*TSV, parts)
    )
    job(*TSV, "training.parallel_parts=1")
    assert run.resume(parts, "training.devices=2").training.parallel_parts == 2


def test_weights_of_stages_and_patterns_count() -> None:
    job("data=phrasebook", "+data.sources.mine={kind: files, path: a.tsv}")
    stages = "data.stages=[{weights: {verses: 3}, share: 0.5}, {weights: {pairs: 1}}]"
    verses = "+data.sources.verses={kind: files, path: b.tsv}"
    job(*TSV, verses, "data.sources.pairs.weight=1", stages)


def test_a_resumed_run_keeps_its_configuration(run: Run) -> None:
    """Whatever the files in conf/ choose: the run has other values."""
    assert run.config.seed == 5
    assert differences(run.config, run.resume()) == {"training.resume": str(run.path)}


CHANGES: list[tuple[str, str, Any]] = [
    ("training.max_steps=1000", "training.max_steps", 1000),
    ("training.max_epochs=2.5", "training.max_epochs", 2.5),
    ("training.max_minutes=99", "training.max_minutes", 99.0),
    ("training.early_stopping=null", "training.early_stopping", None),
    ("training.log_every=7", "training.log_every", 7),
    ("training.evaluate_every=7", "training.evaluate_every", 7),
    ("training.evaluation_share=0.5", "training.evaluation_share", 0.5),
    ("training.keep_checkpoints=7", "training.keep_checkpoints", 7),
    ("training.samples=7", "training.samples", 7),
    ("training.probes=['Hola.','Adiós.']", "training.probes", ["Hola.", "Adiós."]),
    ("training.probe_every=7", "training.probe_every", 7),
    ("training.attention_every=7", "training.attention_every", 7),
    ("training.jit_compile=off", "training.jit_compile", "off"),
    ("training.parallel_parts=7", "training.parallel_parts", 7),
    ("training.deterministic=true", "training.deterministic", True),
    ("training.max_skipped=7", "training.max_skipped", 7),
    ("training.spike_factor=7", "training.spike_factor", 7.0),
    ("training.on_spike=go_back", "training.on_spike", "go_back"),
    ("++training.log_every=7", "training.log_every", 7),
    ("decoding.beam_size=7", "decoding.beam_size", 7),
    ("decoding.length_penalty=2", "decoding.length_penalty", 2.0),
    ("cache_dir=elsewhere", "cache_dir", "elsewhere"),
    ("data.archive=a.zip", "data.sources.pairs.archive", "a.zip"),
    ("data.rejected_file=r.txt", "data.rejected_file", "r.txt"),
]


@pytest.mark.parametrize(("override", "key", "value"), CHANGES)
def test_what_a_resumed_run_may_change(run: Run, override: str, key: str, value: Any) -> None:
    at = f"training.resume={run.path}"
    # The composed configuration has a value for every key; only overrides may be applied.
    everything = {key: override for override, key, _ in CHANGES if not override.startswith("+")}
    config = job_config(composed(at, *(everything | {key: override}).values()), [at, override])
    assert differences(run.config, config) == {"training.resume": str(run.path), key: value}


def test_one_of_two_limits_can_be_lifted(tmp_path: Path) -> None:
    """The run sets max_steps; conf/ sets none, which does not matter."""
    run = Run(tmp_path / "runs" / "one", "training.max_steps=500", "training.max_minutes=8")
    config = run.resume("training.max_minutes=null")
    assert (config.training.max_steps, config.training.max_minutes) == (500, None)


def test_several_changes_at_once(run: Run) -> None:
    config = run.resume("training.max_steps=900", "decoding.beam_size=2", "training.samples=3")
    assert differences(run.config, config) == {
        "training.resume": str(run.path),
        "training.max_steps": 900,
        "decoding.beam_size": 2,
        "training.samples": 3,
    }


def test_corpus_files_may_have_moved(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one", "data=files", *LANGUAGES, "data.train=old.tsv")
    changes = differences(run.config, run.resume("data.train=new.tsv"))
    assert changes == {"training.resume": str(run.path), "data.sources.pairs.path": "new.tsv"}
    run = Run(
        tmp_path / "runs" / "two",
        "data=files",
        *LANGUAGES,
        "data.train=a,b",
    )
    changes = differences(run.config, run.resume("data.train=c,d"))
    assert changes == {"training.resume": str(run.path), "data.sources.pairs.path": ["c", "d"]}


def test_files_of_dev_and_test_may_have_moved(tmp_path: Path) -> None:
    files = ("data.dev=a.tsv", "data.test=b.es,b.en", "data.tests.news=c.tsv")
    run = Run(tmp_path / "runs" / "one", *TSV, *files)
    moved = ("data.dev=/x/a.tsv", "data.test=d.es,d.en", "data.tests.news=/x/c.tsv")
    assert differences(run.config, run.resume(*moved)) == {
        "training.resume": str(run.path),
        "data.sources.dev.path": "/x/a.tsv",
        "data.sources.test.path": ["d.es", "d.en"],
        "data.tests.news": "/x/c.tsv",
    }
    run = Run(tmp_path / "runs" / "two", *TSV)  # dev is a share
    assert "a resumed run keeps its data.dev" in complaint(lambda: run.resume("data.dev=a.tsv"))


def test_files_of_several_sources_may_have_moved(tmp_path: Path) -> None:
    verses = "data.sources.verses={kind: files, path: b.tsv, weight: 2}"
    run = Run(tmp_path / "runs" / "one", *TSV, verses)
    changes = differences(run.config, run.resume("data.sources.verses.path=c.tsv"))
    assert changes == {"training.resume": str(run.path), "data.sources.verses.path": "c.tsv"}
    changes = differences(run.config, run.resume("data.train=c.tsv"))
    assert changes == {"training.resume": str(run.path), "data.sources.pairs.path": "c.tsv"}
    message = complaint(lambda: run.resume("data.sources.verse.path=c.tsv"))
    assert message == f"{run.path} has no source 'verse'; did you mean 'verses'?"


def test_a_test_set_cannot_be_added_to_a_resumed_run(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one", *TSV, "data.tests.news=a.tsv")
    message = complaint(lambda: run.resume("data.tests.talks=b.tsv"))
    assert message.startswith(f"{run.path} has no test set 'talks': score other pairs with nmt.")


def test_keys_of_hydra_are_none_of_the_run(run: Run) -> None:
    config = compose_config([f"training.resume={run.path}", f"hydra.searchpath=[{run.path}]"])
    assert differences(run.config, config) == {"training.resume": str(run.path)}


def test_a_resumed_run_writes_rejected_lines_only_where_an_override_says(tmp_path: Path) -> None:
    """Its folder may be untrusted, and name any file."""
    run = Run(tmp_path / "runs" / "one", *TSV, "data.rejected_file=precious.txt")
    assert run.config.data.rejected_file == "precious.txt"
    assert run.resume().data.rejected_file is None
    assert run.resume("data.rejected_file=own.txt").data.rejected_file == "own.txt"


# Keys that a resumed run may change: limits, intervals, speed, paths, search.
MAY_CHANGE = {
    *("runs_dir", "cache_dir", "data.prepared", "data.rejected_file"),
    *(f"data.sources.pairs.{name}" for name in ("archive", "path", "run")),
    *(f"training.max_{name}" for name in ("steps", "epochs", "minutes", "skipped")),
    *(f"training.{name}_every" for name in ("log", "evaluate", "probe", "attention")),
    "training.evaluation_share",
    *(f"training.{name}" for name in ("early_stopping", "stop_behind", "spike_factor", "on_spike")),
    *(f"training.{name}" for name in ("resume", "keep_checkpoints", "samples", "probes")),
    *(f"training.{name}" for name in ("jit_compile", "deterministic", "devices")),
    *(f"training.{name}" for name in ("batch_tokens", "accumulate", "parallel_parts")),
    *(f"decoding.{name}" for name in ("unit", "beam_size", "batch_size", "quantization")),
    *(f"decoding.{name}" for name in ("length_penalty", "no_repeat_ngram")),
    *(f"decoding.max_length_{name}" for name in ("ratio", "margin")),
}


def test_a_resumed_run_keeps_every_other_key(run: Run) -> None:
    new = composed(f"training.resume={run.path}", "data=tatoeba")

    def combine(*keys: str) -> None:  # values come from the composed configuration
        combine_for_resume(new, [f"{key}=null" for key in keys], run.config, run.path)

    combine(*MAY_CHANGE)
    for key in {key for key, _ in flatten(run.config)} - MAY_CHANGE:
        assert f"keeps its {key}:" in complaint(partial(combine, key)), key


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("data.sources.pairs.weight=2", "data.sources.pairs.weight"),
        ("+data.sources.verses.kind=files", "data.sources.verses.kind"),
        ("~data.sources.pairs", "~data.sources.pairs"),
        ("seed=5", "seed"),  # the value that it has already
        ("model=base", "model"),
        ("tokenizer=bpe", "tokenizer"),
        ("data=tatoeba", "data"),
        ("data.columns=[1,0]", "data.columns"),
        ("++training.label_smoothing=0", "training.label_smoothing"),
    ],
)
def test_what_would_make_it_another_run_is_refused(run: Run, override: str, key: str) -> None:
    overrides = [f"training.resume={run.path}", "training.max_steps=900"]
    message = complaint(lambda: job_config(composed(*overrides), [*overrides, override]))
    assert f"keeps its {key}:" in message
    assert str(run.path) in message


def test_a_wrong_value_is_refused_on_resuming_too(run: Run) -> None:
    assert "training.max_steps" in complaint(lambda: run.resume("training.max_steps=0"))
    assert "decoding.beam_size must be at least 1, got 0" in complaint(
        lambda: run.resume("decoding.beam_size=0")
    )


def test_the_run_on_disk_is_not_touched(run: Run) -> None:
    before = (run.path / "config.yaml").read_bytes()
    run.resume("training.max_steps=900")
    assert (run.path / "config.yaml").read_bytes() == before


def test_latest_is_looked_for_among_the_runs(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one")
    (run.path.parent / "latest").symlink_to(run.path.name, target_is_directory=True)
    config = resume("latest", f"runs_dir={run.path.parent}")
    assert differences(run.config, config) == {"training.resume": str(run.path)}


def test_the_run_that_was_checked_is_the_run_that_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run folder was moved, so that its stored runs_dir is outdated."""
    monkeypatch.chdir(tmp_path)
    run = Run(tmp_path / "before" / "one")
    run.path.parent.rename(tmp_path / "runs")
    (tmp_path / "runs" / "latest").symlink_to("one", target_is_directory=True)
    config = resume("latest")
    assert config.training.resume == str(tmp_path / "runs" / "one")


def test_a_missing_run(run: Run) -> None:
    message = complaint(lambda: resume(run.path.with_name("onne")))
    assert f"run {run.path.with_name('onne')} does not exist" in message
    assert f"did you mean '{run.path}'?" in message


def test_no_run_at_all(tmp_path: Path) -> None:
    message = complaint(lambda: resume(tmp_path / "runs" / "one"))
    assert "does not exist" in message
    assert "python -m nmt.train" in message
    message = complaint(lambda: resume("latest", f"runs_dir={tmp_path}"))
    assert f"run {tmp_path / 'latest'} does not exist" in message


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    message = complaint(lambda: resume(tmp_path))
    assert f"{tmp_path} is not a run folder" in message


def test_a_run_without_a_checkpoint(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one", step=None)
    message = complaint(run.resume)
    assert f"{run.path} cannot be resumed" in message
    assert "no checkpoint" in message


def test_a_run_with_a_damaged_configuration(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one")
    path = run.path / "config.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("d_model:", "d_modle:"), "utf-8")
    message = complaint(run.resume)
    assert str(path) in message or "model.d_modle" in message


# --- Starting from another run ------------------------------------------------------------------


def test_a_run_that_keeps_a_tokenizer_without_the_mark_of_contexts_has_none(
    tmp_path: Path,
) -> None:
    ordered = (*TSV, "data.sources.pairs.ordered=true")
    plain, context = (
        Run(tmp_path / "runs" / str(count), *ordered, f"data.context={count}") for count in (0, 1)
    )
    again = (*ordered, "data.context=2", "training.new_vocabulary=false")
    message = complaint(lambda: job(f"training.start_from={plain.path}", *again))
    assert message.startswith("data.context=2 needs a tokenizer")
    assert "training.new_vocabulary=true" in message
    assert job(f"training.start_from={context.path}", *again).data.context == 2
    assert job(f"training.start_from={plain.path}", *again[:-1]).data.context == 2


@pytest.mark.parametrize(
    ("overrides", "is_new"),
    [
        ([], None),  # the corpus decides
        (["tokenizer.vocabulary_size=500"], True),
        (["tokenizer=unigram"], True),
        (["data.sources.pairs.ordered=true", "data.context=1"], True),  # the other has no mark
        (["model.lora_rank=4"], False),
        (["training.freeze=[embedding]"], False),
        (["training.freeze=[encoder_*]"], None),
    ],
)
def test_some_options_decide_whether_there_is_a_new_vocabulary(
    tmp_path: Path, overrides: list[str], is_new: bool | None
) -> None:
    run = Run(tmp_path / "runs" / "one", *TSV)
    config = job(f"training.start_from={run.path}", *TSV, *overrides)
    assert config.training.new_vocabulary is is_new
    assert job(f"training.start_from={run.path}", *TSV).tokenizer == configured(*TSV).tokenizer


def test_a_run_that_starts_from_another_has_its_languages_by_default(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one", "data=tatoeba")
    start = f"training.start_from={run.path}"
    corpus = ("data=files", "data.train=a.tsv")
    assert job(start, *corpus).data.languages == ("es", "en")
    assert job(start, *corpus, "data.reverse=true").data.languages == ("es", "en")
    named = job(start, *corpus, "data.source_language=ca", "data.target_language=en")
    assert named.data.languages == ("ca", "en")


def test_the_names_of_runs_and_files_need_no_quotes_in_python(tmp_path: Path) -> None:
    run = Run(tmp_path / "año (1)", "data=tatoeba")
    start = f"training.start_from={run.path}"
    config = compose_config([start, "data=files", "data.train=a (1).es,b.en"])
    assert config.training.start_from == str(run.path)
    assert config.data.sources["pairs"].path == ["a (1).es", "b.en"]
    assert compose_config([f"training.resume={run.path}"]).training.resume == str(run.path)


def test_learned_positions_keep_their_number(tmp_path: Path) -> None:
    rotary, learned = (
        Run(tmp_path / name, "data=tatoeba", f"model.positions={name}")
        for name in ("rotary", "learned")
    )
    longer = ("data=files", "data.train=a.tsv", "model.max_length=512")
    assert job(*longer, f"training.start_from={rotary.path}").model.max_length == 512
    message = complaint(lambda: job(*longer, f"training.start_from={learned.path}"))
    assert "keeps its model.max_length" in message


def test_an_experiment_gives_adapters_and_dropout_to_a_run_that_starts_from_another(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path / "one", "data=tatoeba")
    start = ("data=tatoeba", f"training.start_from={run.path}")
    assert job(*start, "experiment=tatoeba_60m").model.dropout == 0.1
    assert job(*start, "experiment=tatoeba_60m", "model.dropout=0.2").model.dropout == 0.2
    assert "keeps its size: " in complaint(lambda: job(*start, "size=s"))


def test_a_run_that_learns_corrections_trains_as_the_other_did(tmp_path: Path) -> None:
    shape = ("training.row_lengths=[32,64]", "training.batch_tokens=256", "training.accumulate=2")
    run = Run(tmp_path / "one", "data=tatoeba", "model.dropout=0.2", *shape)
    overrides = ("data=corrections", "data.train=a.tsv", f"training.start_from={run.path}")
    config = job(*overrides)
    assert config.data.sources["general"].run == str(run.path)
    assert config.data.languages == ("es", "en")
    assert (config.training.row_lengths, config.training.positions_per_update) == ([32, 64], 512)
    assert (config.model.dropout, config.training.new_vocabulary) == (0.2, False)
    assert (config.training.max_epochs, config.training.max_minutes) == (10, None)
    changed = job(*overrides, "training.batch_tokens=128", "model.dropout=0.3")
    assert (changed.training.row_lengths, changed.training.positions_per_update) == ([64], 128)
    assert changed.model.dropout == 0.3
    without_run = job(*overrides, "~data.sources.general")
    assert without_run.model.dropout is None
    assert list(without_run.data.sources) == ["corrections"]


# --- Dev and test of a new run ------------------------------------------------------------------

ALL_TRAIN = (*TSV, "data.sources.pairs.split=train")


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize("size", ["300", "0.2"])
def test_pairs_that_no_source_holds_back_are_refused(split: str, size: str) -> None:
    message = complaint(lambda: job(*ALL_TRAIN, f"data.{split}={size}"))
    assert message == (
        f"data.{split}={size} needs a source to take these pairs from: set "
        f"data.sources.pairs.split=shares, or data.{split}=FILE"
    )


def test_corrections_are_not_held_back_unless_their_source_is_shared(tmp_path: Path) -> None:
    start = f"training.start_from={Run(tmp_path / 'one', 'data=tatoeba').path}"
    corrections = (start, "data=corrections", "data.train=a.tsv")
    message = complaint(lambda: job(*corrections, "data.dev=0.2"))
    assert "data.sources.corrections.split=shares" in message
    shared = job(*corrections, "data.sources.corrections.split=shares", "data.dev=0.2")
    assert shared.data.dev == 0.2
    assert job(*corrections, "data.dev=b.tsv").data.sources["dev"].split == "dev"


def test_generated_pairs_are_not_held_back() -> None:
    message = complaint(lambda: job("data=phrasebook", "~data.sources.written", "data.dev=9"))
    assert "set data.sources.NAME.split=shares, or data.dev=FILE" in message


def test_pairs_are_not_held_back_for_a_split_that_has_a_source() -> None:
    message = complaint(lambda: job("data=wmt13", "data.dev=300"))
    assert message == (
        "data.dev=300 would take these pairs from other sources, but source 'newstest2012' is the "
        "dev split: leave data.dev out"
    )


@pytest.mark.parametrize(
    "overrides",
    [
        ALL_TRAIN,  # the defaults of data=files are shares
        (*ALL_TRAIN, "data.dev=0", "data.test=0"),
        (*ALL_TRAIN, "data.dev=b.tsv", "data.test=0"),
        ("data=phrasebook", "~data.sources.written"),
        ("data=wmt13", "data.dev=0"),
    ],
)
def test_all_pairs_may_be_trained_on(overrides: tuple[str, ...]) -> None:
    assert job(*overrides).data.sources


def test_a_run_of_an_older_version_that_ignored_its_dev_split_is_resumed(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one", *ALL_TRAIN, "data.dev=300")
    assert run.resume("training.max_steps=900").data.dev == 300


# --- Tags ---------------------------------------------------------------------------------------


def test_tags_of_the_run_that_another_starts_from_stay_known(tmp_path: Path) -> None:
    tagged = Run(tmp_path / "one", *TSV, "+data.sources.pairs.tag='<2en>'")
    corrections = ("data=corrections", "data.train=a.tsv")
    config = job(f"training.start_from={tagged.path}", *corrections)
    assert config.data.known_tags == list_tags(config.data) == list_reserved(config.data)
    assert config.data.known_tags == ["<2en>"]
    again = Run(tmp_path / "two", *TSV)
    files.save(config, again.path / "config.yaml")
    more = (*TSV, "+data.sources.pairs.tag='<2es>'")
    third = job(f"training.start_from={again.path}", *more)
    assert third.data.known_tags == ["<2en>"]
    assert list_tags(third.data) == ["<2en>", "<2es>"]
    assert resume(again.path).data.known_tags == ["<2en>"]
    path = tagged.path / "config.yaml"  # as an older version wrote it
    path.write_text(path.read_text("utf-8").replace("  known_tags: []\n", ""), "utf-8")
    assert list_tags(resume(tagged.path).data) == ["<2en>"]
    assert job(*more).data.known_tags == []
    message = complaint(lambda: job(*more, "data.known_tags=['a b']"))
    assert message.startswith("data.known_tags must be single words")
