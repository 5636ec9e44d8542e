"""Sources and languages are set by name on the command line."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from sample_configs import LANGUAGES, configured, job
from sample_corpora import complaint

from nmt.config import SourceConfig, files
from nmt.config.command_line import convert_hydra_errors
from nmt.config.sources import SHORT_KEYS, resolve_same_sources
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
    head = (files.conf_dir() / "data" / "tsv.yaml").read_text(encoding="utf-8").splitlines()
    command = " ".join(line.strip("# \\") for line in head[3:7])
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
        (["data=tatoeba", "data.url=http://a/b.zip"], "url", "http://a/b.zip"),
        (["data=tatoeba", f"data.sha256={'a' * 64}"], "sha256", "a" * 64),
        (
            ["data=files", *LANGUAGES, "data.source_path=a", "data.target_path=b"],
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
    with_verses = sources("data.train=a.tsv", "data.sources.verses.kind=files")
    assert [source.path for source in with_verses.values()] == [None, None, "a.tsv"]


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
            ["data=files", *LANGUAGES, "data.train=a", "data.sources.verses={kind: files, path: b}"],
            "data.train=a: several sources have this key; write data.sources.pairs.path or "
            "data.sources.verses.path",
        ),
        (
            ["data.columns=[1,0]"],
            "data.columns=[1, 0]: several sources have this key; write "
            "data.sources.written.columns or data.sources.patterns.columns",
        ),
        (
            ["data.train=a"],
            "data.train=a: no source of data=phrasebook has this key; choose data=files, for example",
        ),
        (
            ["data=files", *LANGUAGES, "data.train=a", "data.archive=b"],
            "data.archive=b: no source of data=files has this key; choose data=tatoeba, for example",
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
            "source 'pairs' needs data.sources.pairs.path=FILE",
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
            "data.sources.writen.kind=KIND, one of phrasebook, patterns, zip, tsv, parallel, "
            "translations, run, same",
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
            ["data=files", "data.source_path=a", "data.target_path=b", LANGUAGES[0]],
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
    named = compose_config(["data=files", "data.train=a", "data.source_language=no", LANGUAGES[1]])
    assert named.data.languages == ("no", "en")
    opus = ["data=opus", "data.opus=TED2020/v1", "data.source_language=no", LANGUAGES[1]]
    assert compose_config(opus).data.sources["pairs"].members == [".no", ".en"]
    message = complaint(lambda: compose_config(["data=wrong", search]))
    assert message == (
        'data.target_language must be a language tag, got True: put it in quotes, as in "en"'
    )
