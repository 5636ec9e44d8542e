"""A bad command line ends in one line that names the culprit; a resumed run stays the same run."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf.errors import OmegaConfBaseException
from sample_configs import LANGUAGES, composed, configured
from sample_corpora import complaint

from nmt.config import Config, SourceConfig, files
from nmt.config.command_line import convert_hydra_errors, explain_hydra_error
from nmt.config.files import from_composed
from nmt.config.schema import flatten
from nmt.config.sources import SHORT_KEYS, resolve_same_sources
from nmt.runs.resuming import compose_config, job_config

pytestmark = pytest.mark.xdist_group("configurations")

# --- Errors of composition --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("data.nam=x", "unknown configuration key 'data.nam'; did you mean 'data.name'?"),
        (
            "training.max_minuts=3",
            "unknown configuration key 'training.max_minuts'; did you mean 'training.max_minutes'?",
        ),
        ("seeed=3", "unknown configuration key 'seeed'; did you mean 'seed'?"),
        ("modell=base", "unknown configuration key 'modell'; did you mean 'model'?"),
        ("tokeniser=bpe", "unknown configuration key 'tokeniser'; did you mean 'tokenizer'?"),
        ("model=bse", "unknown model 'bse'; did you mean 'base'?"),
        ("data=tatoebe", "unknown data 'tatoebe'; did you mean 'tatoeba'?"),
        ("decoding=xyz", "unknown decoding 'xyz'; choose from: beam, greedy"),
    ],
)
def test_a_misspelling_is_corrected(override: str, expected: str) -> None:
    assert complaint(convert_hydra_errors()(lambda: composed(override))) == expected


@pytest.mark.parametrize(
    ("override", "fragments"),
    [
        ("experiment=foo", ["unknown experiment 'foo'"]),
        ("model.d_model=abc", ["configuration key 'model.d_model'", "abc", "Integer"]),
        ("model.remat=maybe", ["configuration key 'model.remat'", "maybe"]),
        ("training.learning_rate=fast", ["configuration key 'training.learning_rate'", "fast"]),
        ("training.learning_rate=[1,2]", ["configuration key 'training.learning_rate'"]),
        ("model.d_model=null", ["configuration key 'model.d_model'"]),
        ("seed=1.5", ["configuration key 'seed'"]),
        ("training.row_lengths=64", ["configuration key 'training.row_lengths'"]),
        ("training.row_lengths=[64,abc]", ["configuration key 'training.row_lengths", "abc"]),
        ("data.columns=[a,b]", ["configuration key 'data.columns"]),
        ("model.d_model.x=1", ["model.d_model"]),
        ("dataa.name=tsv", ["unknown configuration key 'dataa", "did you mean 'data"]),
        ("~model.d_model", ["model.d_model"]),
        (
            "model.kind=rn",
            ["model.kind must be one of", "did you mean 'rnn'?"],
        ),
        ("model.cell=gru", ["configuration key 'model.cell' needs model.kind=rnn"]),
        ("model=null", ["model"]),
        ("data=3", ["data"]),
        ("training.probes=[null]", ["configuration key 'training.probes"]),
        ("model.d_model", ["model.d_model"]),
        ("data", ["data"]),
        ("=3", ["groups"]),
        ("model.d_model=[1", ["[1"]),
        ("name='a", ["'a"]),
        ("data.name=a b: {", ["a b: {"]),
    ],
)
def test_a_bad_override_is_named_in_one_line(override: str, fragments: list[str]) -> None:
    message = complaint(convert_hydra_errors()(lambda: from_composed(composed(override))))
    for fragment in fragments:
        assert fragment in message
    if fragments[0].startswith("configuration key"):
        assert "unknown" not in message
    for advice in ("HYDRA_FULL_ERROR", "To append to your", "object_type", "Traceback"):
        assert advice not in message


def test_the_cause_counts_not_its_wrapping() -> None:
    with pytest.raises(ConfigCompositionException) as caught:
        composed("data.nam=x")
    assert isinstance(caught.value.__cause__, OmegaConfBaseException)
    assert explain_hydra_error(caught.value) == explain_hydra_error(caught.value.__cause__)


def test_lines_of_other_errors_are_joined() -> None:
    assert explain_hydra_error(HydraException("one\n  two\n\tthree")) == "one two three"


def test_the_guard_lets_bugs_and_results_through() -> None:
    def bug() -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError, match="a bug"):
        convert_hydra_errors()(bug)()
    done: list[int] = []
    convert_hydra_errors()(lambda: done.append(1))()
    assert done == [1]


# --- Sources ----------------------------------------------------------------------------------


def sources(*overrides: str) -> dict[str, SourceConfig]:
    """Return the sources that a command line makes."""
    return configured(*overrides).data.sources


OPUS = "https://object.pouta.csc.fi"
TSV = ("data=tsv", *LANGUAGES, "data.sources.pairs.path=a.tsv")
VERSES = SourceConfig(kind="tsv", path="b.tsv", weight=2.0)


@pytest.mark.parametrize(
    "overrides",
    [
        [f"data.sources.verses.{key}" for key in ("kind=tsv", "path=b.tsv", "weight=2")],
        [f"+data.sources.verses.{key}" for key in ("kind=tsv", "path=b.tsv", "weight=2")],
        ["data.sources.verses={kind: tsv, path: b.tsv, weight: 2}"],
        ["+data.sources.verses={kind: tsv, path: b.tsv}", "data.sources.verses.weight=2"],
        ["+data.sources={verses: {kind: tsv, path: b.tsv, weight: 2}}"],
    ],
    ids=lambda overrides: overrides[0],
)
def test_a_source_is_added_by_its_name(overrides: list[str]) -> None:
    found = sources(*TSV, *overrides)
    assert list(found) == ["pairs", "verses"]
    assert found == {"pairs": SourceConfig(kind="tsv", path="a.tsv"), "verses": VERSES}


def test_keys_of_sources_are_set_by_name() -> None:
    found = sources("data.sources.written.weight=0.5", "data.sources.patterns.pairs=100")
    assert [(source.weight, source.pairs) for source in found.values()] == [(0.5, 0), (0.3, 100)]
    assert sources("data.sources.written.weight=null")["written"].weight is None
    columns = sources("data=tatoeba", "data.sources.pairs.columns=[1,2]")["pairs"].columns
    assert columns == [1, 2]
    assert list(sources("~data.sources.patterns")) == ["written"]
    assert sources("data.sources.written.tag='<2en>'")["written"].tag == "<2en>"


def test_the_command_at_the_head_of_a_file_is_true() -> None:
    head = (files.conf_dir() / "data" / "tsv.yaml").read_text(encoding="utf-8").splitlines()
    command = " ".join(line.strip("# \\") for line in head[3:7])
    data = compose_config(shlex.split(command)).data
    assert list(data.sources) == ["pairs", "verses"]
    assert data.sources["pairs"] == SourceConfig(kind="tsv", path="FILE", weight=1.0)
    assert data.sources["verses"] == SourceConfig(
        kind="tsv", path="FILE", weight=2.0, tag="<verse>"
    )


@pytest.mark.parametrize(
    ("overrides", "key", "value"),
    [
        (["data=tsv", *LANGUAGES, "data.path=a.tsv"], "path", "a.tsv"),
        (["data=tsv", *LANGUAGES, "data.path=a.tsv", "data.columns=[1,0]"], "columns", [1, 0]),
        (["data=tatoeba", "data.archive=a.zip"], "archive", "a.zip"),
        (["data=tatoeba", "data.url=http://a/b.zip"], "url", "http://a/b.zip"),
        (["data=tatoeba", f"data.sha256={'a' * 64}"], "sha256", "a" * 64),
        (
            ["data=parallel", *LANGUAGES, "data.source_path=a", "data.target_path=b"],
            "source_path",
            "a",
        ),
    ],
)
def test_a_short_key_belongs_to_the_one_source_that_has_it(
    overrides: list[str], key: str, value: Any
) -> None:
    data = configured(*overrides).data
    assert getattr(data.sources["pairs"], key) == value
    assert all(getattr(data, short) is None for short in SHORT_KEYS)


def test_a_short_key_belongs_to_the_one_source_of_its_kind_among_others() -> None:
    found = sources("data.path=a.tsv", "data.sources.verses.kind=tsv")
    assert [source.path for source in found.values()] == [None, None, "a.tsv"]


@pytest.mark.parametrize("experiment", ["bit", "both_directions"])
@pytest.mark.parametrize(
    "corpus", [["data.archive=a.zip"], ["data=tsv", *LANGUAGES, "data.path=a.tsv"]]
)
def test_a_corpus_is_named_once_for_both_directions(experiment: str, corpus: list[str]) -> None:
    data = configured(f"experiment={experiment}", *corpus).data
    pairs, turned = resolve_same_sources(data).sources.values()
    assert (pairs.reverse, turned.reverse, turned.split) == (False, True, "train")
    assert (turned.kind, turned.archive, turned.path, turned.columns) == (
        *(pairs.kind, pairs.archive, pairs.path, pairs.columns),
    )


def test_a_corpus_of_opus_is_named_by_corpus_version_and_pair() -> None:
    data = configured(
        *("data=opus", "data.source_language=fr", "data.target_language=de", "data.dev=5"),
        *(
            "data.sources.pairs.opus=TED2020/v1",
            "data.sources.news={kind: zip, opus: News-Commentary/v16}",
        ),
    ).data
    assert data.languages == ("fr", "de")
    assert {name: (one.url, one.opus, one.members) for name, one in data.sources.items()} == {
        "pairs": (f"{OPUS}/OPUS-TED2020/v1/moses/de-fr.txt.zip", None, [".fr", ".de"]),
        "news": (f"{OPUS}/OPUS-News-Commentary/v16/moses/de-fr.txt.zip", None, [".fr", ".de"]),
    }


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (
            ["data=opus", *LANGUAGES, "data.opus=TED2020"],
            "data.opus=TED2020 must name a corpus and its version, such as TED2020/v1",
        ),
        (
            ["data=opus", *LANGUAGES, "data.opus=TED2020/v1", "data.url=https://a.org/b.zip"],
            "data.opus=TED2020/v1 contradicts its url https://a.org/b.zip: leave one of them out",
        ),
        (
            ["data=tsv", *LANGUAGES, "data.path=a", "data.sources.verses={kind: tsv, path: b}"],
            "data.path=a: several sources have this key; write data.sources.pairs.path or "
            "data.sources.verses.path",
        ),
        (
            ["data.columns=[1,0]"],
            "data.columns=[1, 0]: several sources have this key; write "
            "data.sources.written.columns or data.sources.patterns.columns",
        ),
        (
            ["data.path=a"],
            "data.path=a: no source of data=phrasebook has this key; choose data=tsv, for example",
        ),
        (
            ["data=tsv", *LANGUAGES, "data.path=a", "data.archive=b"],
            "data.archive=b: no source of data=tsv has this key; choose data=tatoeba, for example",
        ),
        (["data=tsv", *LANGUAGES], "data=tsv needs data.path=FILE"),
        (
            ["data.sources.turned={kind: same, of: writen}"],
            "data.sources.turned.of=writen: no such source; did you mean 'written'?",
        ),
        (
            ["data.sources.turned={kind: same}"],
            "data.sources.turned.of=None: no such source; name another source",
        ),
        (
            ["data.sources.turned={kind: same, of: turned}"],
            "data.sources.turned.of=turned: that source has no files of its own",
        ),
        (
            ["data.sources.turned={kind: same, of: written, path: a.tsv}"],
            "data.sources.turned.path: leave it out, written determines it",
        ),
        (
            ["data.sources.turned={kind: tsv, of: written, path: a.tsv}"],
            "data.sources.turned.of needs kind=same, got kind=tsv",
        ),
        (
            ["data=tsv", *LANGUAGES, "data.sources.verses={kind: tsv, path: b}"],
            "source 'pairs' needs data.sources.pairs.path=FILE",
        ),
        (
            ["data.sources.written.wieght=1"],
            "unknown configuration key 'data.sources.written.wieght'; did you mean "
            "'data.sources.written.weight'?",
        ),
        (
            ["data.sources.verses={kind: tsv, pth: b}"],
            "unknown configuration key 'data.sources.verses.pth'; did you mean "
            "'data.sources.verses.path'?",
        ),
        (
            ["data.sources.writen.weight=1"],
            "data.sources.writen has no kind; did you mean 'written'?; a new source needs "
            "data.sources.writen.kind=KIND, one of phrasebook, patterns, zip, tsv, parallel, same",
        ),
        (
            ["data.sources.written=3"],
            "data.sources.written must be a source: set its keys, as in "
            "data.sources.written.weight=2, or remove it with ~data.sources.written",
        ),
        (
            ["data.sources.written.weight=high"],
            "configuration key 'data.sources.written.weight': Value 'high' of type 'str' could not "
            "be converted to Float",
        ),
        (
            ["data.sources.a-b={kind: tsv, path: b}"],
            "data.sources: invalid name 'a-b': use letters, digits and _",
        ),
        (
            ["data.kind=tsv"],
            "unknown configuration key 'data.kind'; write data.sources.NAME.kind (or choose a "
            "corpus: data=tsv)",
        ),
        (
            ["data.patterns=0"],
            "unknown configuration key 'data.patterns'; write data.sources.patterns.pairs",
        ),
        (
            ["+data.pattern_share=0.5"],
            "unknown configuration key 'data.pattern_share'; write data.sources.patterns.weight "
            "and data.sources.written.weight",
        ),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_what_is_wrong_with_sources_is_said_with_the_remedy(
    overrides: list[str], expected: str
) -> None:
    assert complaint(convert_hydra_errors()(lambda: job(*overrides))) == expected


def test_a_configuration_in_hand_is_that_of_the_command_line() -> None:
    overrides = ["model=tiny", "data.sources.written.weight=0.5"]
    assert compose_config(overrides) == job(*overrides) == configured(*overrides)
    assert "did you mean 'model.d_model'?" in complaint(lambda: compose_config(["model.d_modl=1"]))


# --- Languages --------------------------------------------------------------------------------

UNNAMED = "does not name its languages: set BCP 47 tags, as in"


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (
            ["data=tsv", "data.path=a.tsv"],
            f"data=tsv {UNNAMED} data.source_language=de data.target_language=en",
        ),
        (
            ["data=parallel", "data.source_path=a", "data.target_path=b", LANGUAGES[0]],
            f"data=parallel {UNNAMED} data.target_language=en",
        ),
        (
            ["data=opus", "data.opus=TED2020/v1", "data.source_language=", LANGUAGES[1]],
            f"data=opus {UNNAMED} data.source_language=de",
        ),
    ],
)
def test_a_corpus_of_ones_own_has_no_languages_by_default(
    overrides: list[str], expected: str
) -> None:
    assert complaint(convert_hydra_errors()(lambda: job(*overrides))) == expected


def test_the_corpora_that_come_with_the_program_name_theirs() -> None:
    for name in ("phrasebook", "tatoeba", "wmt13"):
        assert configured(f"data={name}").data.languages == ("es", "en")


def test_norwegian_is_a_language_in_yaml_too(tmp_path: Path) -> None:
    yaml = (
        "defaults: [tsv, _self_]\nsource_language: no\ntarget_language: {}\n"
        "sources: {{pairs: {{path: a}}}}\n"
    )
    (tmp_path / "data").mkdir()
    for name, target in (("mine", "en"), ("wrong", "yes")):
        (tmp_path / "data" / f"{name}.yaml").write_text(yaml.format(target), encoding="utf-8")
    search = f"hydra.searchpath=['{tmp_path}']"
    config = compose_config(["data=mine", search])
    assert config.data.languages == ("no", "en")
    files.save(config, tmp_path / "config.yaml")
    assert files.load(tmp_path / "config.yaml") == config
    given = compose_config(["data=tsv", "data.path=a", "data.source_language=no", LANGUAGES[1]])
    assert given.data.languages == ("no", "en")
    opus = ["data=opus", "data.opus=TED2020/v1", "data.source_language=no", LANGUAGES[1]]
    assert compose_config(opus).data.sources["pairs"].members == [".no", ".en"]
    message = complaint(lambda: compose_config(["data=wrong", search]))
    assert message == (
        'data.target_language must be a language tag, got True: put it in quotes, as in "en"'
    )


def test_a_run_that_starts_from_another_has_its_languages_by_default(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one", "data=tatoeba")
    start = f"training.start_from={run.path}"
    own = ("data=tsv", "data.path=a.tsv")
    assert job(start, *own).data.languages == ("es", "en")
    assert job(start, *own, "data.reverse=true").data.languages == ("es", "en")
    named = job(start, *own, "data.source_language=ca", "data.target_language=en")
    assert named.data.languages == ("ca", "en")


# --- Resuming ---------------------------------------------------------------------------------


class Run:
    """A run folder made by hand: a configuration and, by its name, a checkpoint."""

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
    """Return what `nmt.train training.resume=PATH` would go on with."""
    return job(f"training.resume={path}", *overrides)


def job(*overrides: str) -> Config:
    return job_config(composed(*overrides), list(overrides))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that nobody may change: the tests share it."""
    return Run(tmp_path_factory.mktemp("made") / "runs" / "one", "data=tatoeba")


def differences(one: Config, other: Config) -> dict[str, Any]:
    """Return the keys in which two configurations differ, with the second one's values."""
    before = dict(flatten(one))
    return {key: value for key, value in flatten(other) if value != before[key]}


def test_a_new_run_takes_every_override() -> None:
    overrides = ["model=tiny", "seed=9", "training.batch_tokens=512"]
    config = job(*overrides)
    assert config == configured(*overrides)
    assert (config.seed, config.model.name, config.training.resume) == (9, "tiny", None)


def test_a_new_run_is_checked() -> None:
    assert "model.num_heads=3" in complaint(lambda: job("model.num_heads=3"))


def test_a_resumed_run_keeps_its_configuration(run: Run) -> None:
    """Whatever the files in conf/ choose: the run was made with other values."""
    assert run.config.seed == 5
    assert differences(run.config, run.resume()) == {"training.resume": str(run.path)}


CHANGES: list[tuple[str, str, Any]] = [
    ("training.max_steps=1000", "training.max_steps", 1000),
    ("training.max_epochs=2.5", "training.max_epochs", 2.5),
    ("training.max_minutes=99", "training.max_minutes", 99.0),
    ("training.early_stopping=null", "training.early_stopping", None),
    ("training.log_every=7", "training.log_every", 7),
    ("training.evaluate_every=7", "training.evaluate_every", 7),
    ("training.evaluation_sentences=7", "training.evaluation_sentences", 7),
    ("training.keep_checkpoints=7", "training.keep_checkpoints", 7),
    ("training.samples=7", "training.samples", 7),
    ("training.probes=['Hola.','Adiós.']", "training.probes", ["Hola.", "Adiós."]),
    ("training.probe_every=7", "training.probe_every", 7),
    ("training.attention_every=7", "training.attention_every", 7),
    ("training.jit_compile=off", "training.jit_compile", "off"),
    ("training.deterministic=true", "training.deterministic", True),
    ("training.max_skipped=7", "training.max_skipped", 7),
    ("training.spike_factor=7", "training.spike_factor", 7.0),
    ("training.on_spike=go_back", "training.on_spike", "go_back"),
    ("++training.log_every=7", "training.log_every", 7),
    ("decoding.beam_size=7", "decoding.beam_size", 7),
    ("decoding.length_penalty=1", "decoding.length_penalty", 1.0),
    ("cache_dir=elsewhere", "cache_dir", "elsewhere"),
    ("data.archive=a.zip", "data.sources.pairs.archive", "a.zip"),
    ("data.rejected_file=r.txt", "data.rejected_file", "r.txt"),
]


@pytest.mark.parametrize(("override", "key", "value"), CHANGES)
def test_what_a_resumed_run_may_change(run: Run, override: str, key: str, value: Any) -> None:
    at = f"training.resume={run.path}"
    # Every key stands in what was composed; what was not asked for must not be taken over.
    everything = {key: override for override, key, _ in CHANGES if not override.startswith("+")}
    config = job_config(composed(at, *(everything | {key: override}).values()), [at, override])
    assert differences(run.config, config) == {"training.resume": str(run.path), key: value}


def test_one_of_two_limits_can_be_lifted(tmp_path: Path) -> None:
    """The run has its own max_steps; that conf/ has none does not matter."""
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
    run = Run(tmp_path / "runs" / "one", "data=tsv", *LANGUAGES, "data.path=old.tsv")
    changes = differences(run.config, run.resume("data.path=new.tsv"))
    assert changes == {"training.resume": str(run.path), "data.sources.pairs.path": "new.tsv"}
    run = Run(
        tmp_path / "runs" / "two",
        "data=parallel",
        *LANGUAGES,
        "data.source_path=a",
        "data.target_path=b",
    )
    changes = differences(run.config, run.resume("data.source_path=c", "data.target_path=d"))
    assert changes == {
        "training.resume": str(run.path),
        "data.sources.pairs.source_path": "c",
        "data.sources.pairs.target_path": "d",
    }


def test_files_of_several_sources_may_have_moved(tmp_path: Path) -> None:
    verses = "data.sources.verses={kind: tsv, path: b.tsv, weight: 2}"
    run = Run(tmp_path / "runs" / "one", *TSV, verses)
    changes = differences(run.config, run.resume("data.sources.verses.path=c.tsv"))
    assert changes == {"training.resume": str(run.path), "data.sources.verses.path": "c.tsv"}
    message = complaint(lambda: run.resume("data.path=c.tsv"))
    assert "write data.sources.pairs.path or data.sources.verses.path" in message
    message = complaint(lambda: run.resume("data.sources.verse.path=c.tsv"))
    assert message == f"{run.path} has no source 'verse'; did you mean 'verses'?"


def test_a_run_that_goes_on_writes_rejected_lines_only_where_it_is_told_to(tmp_path: Path) -> None:
    """Its folder may come from elsewhere, and name any file."""
    run = Run(tmp_path / "runs" / "one", *TSV, "data.rejected_file=precious.txt")
    assert run.config.data.rejected_file == "precious.txt"
    assert run.resume().data.rejected_file is None
    assert run.resume("data.rejected_file=own.txt").data.rejected_file == "own.txt"


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("data.sources.pairs.weight=2", "data.sources.pairs.weight"),
        ("+data.sources.verses.kind=tsv", "data.sources.verses.kind"),
        ("data.sources.pairs.tag=a", "data.sources.pairs.tag"),
        ("~data.sources.pairs", "~data.sources.pairs"),
        ("seed=6", "seed"),
        ("seed=5", "seed"),  # what it has already, but it cannot be a wish
        ("name=other", "name"),
        ("model=base", "model"),
        ("model.d_model=128", "model.d_model"),
        ("tokenizer=bpe", "tokenizer"),
        ("tokenizer.vocabulary_size=100", "tokenizer.vocabulary_size"),
        ("data=tatoeba", "data"),
        ("data.dev=5", "data.dev"),
        ("data.split_seed=2", "data.split_seed"),
        ("data.columns=[1,0]", "data.columns"),
        ("training.update_tokens=512", "training.update_tokens"),
        ("training.row_lengths=[32]", "training.row_lengths"),
        ("training.learning_rate=1e-4", "training.learning_rate"),
        ("training.schedule=constant", "training.schedule"),
        ("training.precision=float32", "training.precision"),
        ("training.ema_decay=0.9", "training.ema_decay"),
        ("++training.label_smoothing=0", "training.label_smoothing"),
    ],
)
def test_what_would_make_it_another_run_is_refused(run: Run, override: str, key: str) -> None:
    given = [f"training.resume={run.path}", "training.max_steps=900"]
    message = complaint(lambda: job_config(composed(*given), [*given, override]))
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


def test_the_run_that_was_checked_is_the_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run folder was moved: its stored runs_dir is no longer where it lies."""
    monkeypatch.chdir(tmp_path)
    made = Run(tmp_path / "before" / "one")
    made.path.parent.rename(tmp_path / "runs")
    (tmp_path / "runs" / "latest").symlink_to("one", target_is_directory=True)
    config = resume("latest")
    assert config.training.resume == str(tmp_path / "runs" / "one")


def test_a_missing_run(run: Run) -> None:
    message = complaint(lambda: resume(run.path.with_name("onne")))
    assert f"run {run.path.with_name('onne')} does not exist" in message
    assert "did you mean 'one'?" in message


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
