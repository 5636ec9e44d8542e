"""Sources and languages are set by name on the command line."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from sample_configs import LANGUAGES, configured, job
from sample_corpora import complaint

from nmt.config import SourceConfig, files
from nmt.config.command_line import convert_hydra_errors, quote, read_names
from nmt.config.data import guess_languages, list_reverse_tags
from nmt.config.sources import resolve_same_sources
from nmt.runs.resuming import compose_config

pytestmark = pytest.mark.xdist_group("configurations")


def sources(*overrides: str) -> dict[str, SourceConfig]:
    """Return the sources that a command line makes."""
    return configured(*overrides).data.sources


OPUS = "https://object.pouta.csc.fi"
TSV = ("data=files", *LANGUAGES, "data.sources.pairs.path=a.tsv")
VERSES = SourceConfig(kind="files", path="b.tsv", weight=2.0)


@pytest.mark.parametrize(
    "overrides",
    [
        [f"data.sources.verses.{key}" for key in ("kind=files", "path=b.tsv", "weight=2")],
        [f"+data.sources.verses.{key}" for key in ("kind=files", "path=b.tsv", "weight=2")],
        ["data.sources.verses={kind: files, path: b.tsv, weight: 2}"],
        ["+data.sources.verses={kind: files, path: b.tsv}", "data.sources.verses.weight=2"],
        ["+data.sources={verses: {kind: files, path: b.tsv, weight: 2}}"],
    ],
    ids=lambda overrides: overrides[0],
)
def test_a_source_is_added_by_its_name(overrides: list[str]) -> None:
    verses_added = sources(*TSV, *overrides)
    assert list(verses_added) == ["pairs", "verses"]
    assert verses_added == {"pairs": SourceConfig(kind="files", path="a.tsv"), "verses": VERSES}


def test_keys_of_sources_are_set_by_name() -> None:
    changed = sources("data.sources.written.weight=0.5", "data.sources.patterns.pairs=100")
    assert [(source.weight, source.pairs) for source in changed.values()] == [(0.5, 0), (0.3, 100)]
    assert sources("data.sources.written.weight=null")["written"].weight is None
    columns = sources("data=tatoeba", "data.sources.pairs.columns=[1,2]")["pairs"].columns
    assert columns == [1, 2]
    assert list(sources("~data.sources.patterns")) == ["written"]
    assert sources("data.sources.written.tag='<2en>'")["written"].tag == "<2en>"


def test_the_command_at_the_head_of_a_file_is_true() -> None:
    head = (files.conf_dir() / "data" / "files.yaml").read_text(encoding="utf-8").splitlines()
    command = " ".join(line.strip("# \\") for line in head[6:10])
    data = compose_config(shlex.split(command)).data
    assert list(data.sources) == ["pairs", "verses"]
    assert data.sources["pairs"] == SourceConfig(kind="files", path="FILE", weight=1.0)
    assert data.sources["verses"] == SourceConfig(
        kind="files", path="FILE", weight=2.0, tag="<verse>"
    )


@pytest.mark.parametrize(
    ("overrides", "key", "value"),
    [
        (["data=files", *LANGUAGES, "data.train=a.tsv"], "path", "a.tsv"),
        (["data=files", *LANGUAGES, "data.train=a.tsv", "data.columns=[1,0]"], "columns", [1, 0]),
        (["data=tatoeba", "data.archive=a.zip"], "archive", "a.zip"),
        (["data=opus", *LANGUAGES, "data.url=http://a/b.zip"], "url", "http://a/b.zip"),
        (["data=tatoeba", f"data.sha256={'a' * 64}"], "sha256", "a" * 64),
        (["data=opus", *LANGUAGES, "data.opus=A/v1"], "members", [".es", ".en"]),
        (["data=files", *LANGUAGES, "data.train=[a,b]"], "path", ["a", "b"]),
        (["data=files", *LANGUAGES, "data.train=a b.es,b.en"], "path", ["a b.es", "b.en"]),
        (["data=files", "data.train=a.tsv", "data.columns=es,en"], "columns", ["es", "en"]),
    ],
)
def test_files_of_a_group_pass_short_keys_on_to_their_source(
    overrides: list[str], key: str, value: Any
) -> None:
    assert getattr(compose_config(overrides).data.sources["pairs"], key) == value


def test_dev_and_test_may_be_files() -> None:
    data = configured(
        *("data=files", "data.train=[a.es,a.en]", "data.dev=[b.es,b.en]", "data.test=c.tsv"),
    ).data
    assert [(name, each.split, each.path) for name, each in data.sources.items()] == [
        ("pairs", "shares", ["a.es", "a.en"]),
        ("dev", "dev", ["b.es", "b.en"]),
        ("test", "test", "c.tsv"),
    ]
    assert (data.dev, data.test) == (0, 0)
    assert [each.split for each in sources("data=tatoeba", "data.test=c.tsv").values()] == [
        "shares",
        "test",
    ]


@pytest.mark.parametrize(
    ("train", "columns", "expected"),
    [
        (["a.de", "b.fr"], None, ["de", "fr"]),
        (["a.pt-BR.gz", "x/b.zh_Hant.zst"], None, ["pt-BR", "zh_Hant"]),
        (["a.src", "b.en"], None, [None, "en"]),
        (["de", "fr"], None, ["de", "fr"]),
        ("a.jsonl", ["translation.de", "translation.en"], ["de", "en"]),
        ("a.tsv", [1, 0], [None, None]),
        ("a.de", None, [None, None]),
        (["a.txt", "b.tgt"], None, [None, None]),
    ],
)
def test_names_of_files_and_columns_tell_languages(
    train: Any, columns: Any, expected: list[str | None]
) -> None:
    assert guess_languages({"train": train, "columns": columns}) == expected


def test_a_comma_joins_files_but_in_a_sweep() -> None:
    overrides = ["data.train=a.es,a.en", "data.columns=es,en", "seed=1,2", "data.dev=[a,b]"]
    of_sources = ["data.sources.a.path=a.es,a.en", "+data.sources.b_2.columns=0,1"]
    overrides += [*of_sources, "data.sources.c.members=.es,.en", "data.sources.a.weight=1,2"]
    assert read_names(overrides) == [
        "data.train=[a.es,a.en]",
        "data.columns=[es,en]",
        "seed=1,2",
        "data.dev=[a,b]",
        "data.sources.a.path=[a.es,a.en]",
        "+data.sources.b_2.columns=[0,1]",
        "data.sources.c.members=[.es,.en]",
        "data.sources.a.weight=1,2",
    ]
    for sweep in ("-m", "--multirun", "hydra.mode=MULTIRUN"):
        assert read_names([*overrides, sweep]) == [*overrides, sweep]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("data.train=año.tsv", "data.train='año.tsv'"),
        ("data.train=pares (1).tsv", "data.train='pares (1).tsv'"),
        ("data.train=it's.tsv", "data.train=it's.tsv"),  # has a quotation mark: stays
        ("data.train=a=b#c&d.tsv", "data.train='a=b#c&d.tsv'"),
        ("data.train=~/a.es,~/b.en", "data.train=[/home/ana/a.es,/home/ana/b.en]"),
        ("training.resume=~/runs/one", "training.resume=/home/ana/runs/one"),
        ("data.columns=Español,Inglés", "data.columns=['Español','Inglés']"),
        ("data.columns=Español, Inglés", "data.columns=['Español','Inglés']"),
        ("data.train='año.tsv'", "data.train='año.tsv'"),
        ("+data.sources.more.path=año.tsv", "+data.sources.more.path='año.tsv'"),
        ("training.max_steps=100", "training.max_steps=100"),
        ("training.probes=[Sí,No]", "training.probes=[Sí,No]"),
        ("~data.sources.pairs", "~data.sources.pairs"),
        ("--config-dir=año", "--config-dir=año"),
    ],
)
def test_names_need_no_quotes(
    override: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ana")
    assert read_names([override]) == [expected]


def test_choices_of_a_sweep_need_no_quotes_either() -> None:
    assert read_names(["-m", "data.train=año.tsv,b.tsv"]) == ["-m", "data.train='año.tsv',b.tsv"]


@pytest.mark.parametrize("name", ["año (1).tsv", "it's", "a\\'b", "a.tsv", "C:\\mis años\\"])
def test_a_quoted_value_is_read_as_it_was(name: str) -> None:
    config = OverridesParser.create().parse_override(f"name={quote(name)}")
    assert config.value() == name


@pytest.mark.parametrize("experiment", ["bit", "both_directions"])
@pytest.mark.parametrize(
    "corpus", [["data.archive=a.zip"], ["data=files", *LANGUAGES, "data.train=a.tsv"]]
)
def test_a_corpus_is_named_once_for_both_directions(experiment: str, corpus: list[str]) -> None:
    data = configured(f"experiment={experiment}", *corpus).data
    pairs, turned = resolve_same_sources(data).sources.values()
    assert (pairs.reverse, turned.reverse, turned.split) == (False, True, "train")
    assert (turned.kind, turned.archive, turned.path, turned.columns) == (
        *(pairs.kind, pairs.archive, pairs.path, pairs.columns),
    )


def test_tags_of_reversed_sources_choose_the_other_direction() -> None:
    corpus = ["data.archive=a.zip", "experiment=both_directions"]
    assert list_reverse_tags(configured(*corpus).data) == ["<2es>"]
    for others in (
        "data.sources.pairs.tag=null",  # as in data with a tag for what a model translated
        "data.sources.pairs.tag='<2es>'",  # no direction of its own
    ):
        assert list_reverse_tags(configured(*corpus, others).data) == []


def test_a_corpus_of_opus_is_named_by_corpus_version_and_pair() -> None:
    data = configured(
        *("data=opus", "data.source_language=fr", "data.target_language=de", "data.dev=5"),
        *(
            "data.sources.pairs.opus=TED2020/v1",
            "data.sources.news={kind: zip, opus: News-Commentary/v16}",
        ),
    ).data
    assert data.languages == ("fr", "de")
    assert {
        name: (source.url, source.opus, source.members) for name, source in data.sources.items()
    } == {
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
            ["data.columns=[1,0]"],
            "data.columns=[1, 0]: no source of data=phrasebook reads it; choose data=files, for "
            "example",
        ),
        (
            ["data.opus=a/v1"],
            "data.opus=a/v1: no source of data=phrasebook reads it; choose data=opus, for example",
        ),
        (
            ["data=opus", *LANGUAGES],
            "data=opus needs data.archive=FILE or data.opus=CORPUS/VERSION",
        ),
        (
            ["data=files", *LANGUAGES, "data.train=[a.es,a.en]", "data.columns=[1,0]"],
            "data.sources.pairs.columns=[1, 0]: only tables have columns, leave it out",
        ),
        (
            ["data.train=a"],
            "data.train=a: no source of data=phrasebook reads it; choose data=files, for example",
        ),
        (
            ["data=files", *LANGUAGES, "data.train=a", "data.archive=b"],
            "data.archive=b: no source of data=files reads it; choose data=tatoeba, for example",
        ),
        (
            ["data.dev=a", "data.sources.dev={kind: files, path: b}"],
            "data.dev=a: there is a source 'dev' already",
        ),
        (
            ["data=files", "data.train=[a.es,a.es]", *LANGUAGES],
            "data.train=a.es,a.es: source and target are the same file",
        ),
        (["data=files", *LANGUAGES], "data=files needs data.train=FILE"),
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
            ["data.sources.turned={kind: files, of: written, path: a.tsv}"],
            "data.sources.turned.of needs kind=same, got kind=files",
        ),
        (
            ["data=files", *LANGUAGES, "data.sources.verses={kind: files, path: b}"],
            "source 'pairs' needs data.train=FILE",
        ),
        (
            ["data.sources.written.wieght=1"],
            "unknown configuration key 'data.sources.written.wieght'; did you mean "
            "'data.sources.written.weight'?",
        ),
        (
            ["data.sources.verses={kind: files, pth: b}"],
            "unknown configuration key 'data.sources.verses.pth'; did you mean "
            "'data.sources.verses.path'?",
        ),
        (
            ["data.sources.writen.weight=1"],
            "data.sources.writen has no kind; did you mean 'written'?; a new source needs "
            "data.sources.writen.kind=KIND, one of phrasebook, patterns, zip, files, "
            "translations, run, same",
        ),
        (
            ["data.sources.written=3"],
            "data.sources.written must be a source: set its keys, as in "
            "data.sources.written.weight=2, or remove it with ~data.sources.written",
        ),
        (
            ["data.sources.written.weight=high"],
            "data.sources.written.weight must be a number, or null, got high",
        ),
        (
            ["data.sources.a-b={kind: files, path: b}"],
            "data.sources: invalid name 'a-b': use letters, digits and _",
        ),
        (
            ["data.kind=files"],
            "unknown configuration key 'data.kind'; write data.sources.NAME.kind (or choose a "
            "corpus: data=files)",
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
def test_an_error_in_a_source_names_the_remedy(overrides: list[str], expected: str) -> None:
    assert complaint(convert_hydra_errors()(lambda: job(*overrides))) == expected


# --- Languages --------------------------------------------------------------------------------

UNNAMED = "does not name its languages: set BCP 47 tags, as in"


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (
            ["data=files", "data.train=a.tsv"],
            f"data=files {UNNAMED} data.source_language=de data.target_language=en",
        ),
        (
            ["data=files", "data.train=a,b", LANGUAGES[0]],
            f"data=files {UNNAMED} data.target_language=en",
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
        "defaults: [files, _self_]\nsource_language: no\ntarget_language: {}\n"
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
    named = compose_config(["data=files", "data.train=a", "data.source_language=no", LANGUAGES[1]])
    assert named.data.languages == ("no", "en")
    opus = ["data=opus", "data.opus=TED2020/v1", "data.source_language=no", LANGUAGES[1]]
    assert compose_config(opus).data.sources["pairs"].members == [".no", ".en"]
    message = complaint(lambda: compose_config(["data=wrong", search]))
    assert message == (
        'data.target_language must be a language tag, got True: put it in quotes, as in "en"'
    )
