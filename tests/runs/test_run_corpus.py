"""Reading the corpus of a run never writes outside of it, whatever its folder says."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sample_configs import configured
from sample_corpora import GO, SPA_ENG, Site, configure, serve, singles, table, zipped

from nmt.config import DataConfig, SourceConfig
from nmt.data.corpus import Corpus, load_corpus
from nmt.data.downloading import archive_name
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.runs.corpus import (
    has_corpus_changed,
    make_corpus_record,
    read_corpus,
    read_run_pairs,
    read_tests,
)
from nmt.runs.folder import RunFolder
from nmt.text.context import CONTEXT_MARK


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    with serve(zipped(SPA_ENG)) as site:
        yield site


def make_run(folder: Path, data: DataConfig, cache_dir: Path = Path("nowhere")) -> RunFolder:
    config = configured("model=tiny")
    return RunFolder.create(
        replace(config, data=data, runs_dir=str(folder / "runs"), cache_dir=str(cache_dir))
    )


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return everything in a folder: files with their content."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def test_a_run_from_elsewhere_cannot_have_files_written(tmp_path: Path, site: Site) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    (tmp_path / "other.tsv").write_text("solo\nfrase 1\tsentence 1\n")
    sources = {
        "fetched": SourceConfig(kind="zip", url=site.url, columns=[1, 0]),
        "other": SourceConfig(kind="files", path=str(tmp_path / "other.tsv")),
    }
    data = configure(sources, rejected_file=str(tmp_path / "precious.txt"))
    run = make_run(tmp_path, data, cache_dir=tmp_path / "cache")
    assert run.config.data.rejected_file == str(tmp_path / "precious.txt")
    before = tree(tmp_path)
    messages: list[str] = []
    corpus = read_corpus(run, messages.append)
    assert corpus.train == [*GO, Pair("frase 1", "sentence 1")]
    assert corpus.rejected == {"missing column": 1}
    assert site.requests == 1
    assert tree(tmp_path) == before
    assert messages[0] == f"downloading {site.url}"


def test_an_archive_that_is_there_is_not_fetched(tmp_path: Path, site: Site) -> None:
    (tmp_path / archive_name(site.url)).write_bytes(zipped({"spa.txt": "One.\tUno.\n"}))
    data = configure(kind="zip", url=site.url, columns=[1, 0])
    run = make_run(tmp_path, data, cache_dir=tmp_path)
    before = tree(tmp_path)
    assert read_corpus(run, lambda message: None).train == [Pair("Uno.", "One.")]
    assert site.requests == 0
    assert tree(tmp_path) == before


def test_a_damaged_archive_of_somebody_elses_is_not_replaced(tmp_path: Path, site: Site) -> None:
    (tmp_path / archive_name(site.url)).write_bytes(b"mine")
    data = configure(kind="zip", url=site.url, columns=[1, 0])
    run = make_run(tmp_path, data, cache_dir=tmp_path)
    before = tree(tmp_path)
    assert read_corpus(run, lambda message: None).train == GO
    assert tree(tmp_path) == before


def test_nothing_is_trained_on_that_a_run_with_tags_is_tested_on(tmp_path: Path) -> None:
    """Neither under another tag, nor turned around, nor where the languages change sides."""
    path = tmp_path / "pairs.tsv"
    path.write_text(table(singles(40)))
    both = {
        "there": SourceConfig(kind="files", path=str(path), tag="<2en>", split="test"),
        "back": SourceConfig(
            kind="files", path=str(path), tag="<2es>", reverse=True, split="train"
        ),
    }
    tested = dict(both)
    (tmp_path / "some.tsv").write_text(table(singles(10)))
    tested["there"] = replace(both["there"], path=str(tmp_path / "some.tsv"))
    (tmp_path / "more.tsv").write_text(table(singles(20)[10:]))
    tested["more"] = replace(both["back"], path=str(tmp_path / "more.tsv"), split="test")
    run = make_run(tmp_path, configure(tested))
    assert read_corpus(run, lambda message: None).test == [
        *(Pair(f"<2en> {source}", target) for source, target in singles(10)),
        *(Pair(f"<2es> {target}", source) for source, target in singles(20)[10:]),
    ]
    plain = SourceConfig(kind="files", path=str(path))
    turned = {"source_language": "en", "target_language": "es"}
    for changes in (
        {},
        {"reverse": True},
        {"sources": {"pairs": replace(plain, tag="<any>", reverse=True)}},
        {"sources": {"pairs": replace(plain, columns=[1, 0])}, **turned},
        {"sources": {"pairs": replace(plain, columns=[1, 0])}, "reverse": True, **turned},
    ):
        settings = {"sources": {"pairs": plain}, "tests": {"run": str(run.path)}, **changes}
        data = configure(**settings)
        corpus = load_corpus(data, cache_dir=tmp_path, tests=read_tests(data))
        numbers = {number for pair in corpus.train for number in re.findall(r"\d+", pair.source)}
        assert numbers == {str(number) for number in range(20, 40)}, changes
        assert corpus.rejected == {"in dev or test": 20}
        sides = {side for pair in corpus.held_out_tests for side in pair}
        assert sides == {side for pair in singles(20) for side in pair}, changes
        if data.languages == ("en", "es"):  # no reference begins with a tag
            turned_pairs = [(target, source) for source, target in singles(20)]
            assert corpus.tests["run"] == turned_pairs, changes


def test_the_test_split_of_a_run_is_turned_or_refused_by_its_languages(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text(table(singles(40)))
    pairs = SourceConfig("files", path=str(tmp_path / "pairs.tsv"))
    run = make_run(tmp_path, configure({"pairs": pairs}, test=10, reverse=True))
    split = read_corpus(run, lambda line: None).test  # from English

    def read(**languages: Any) -> list[Pair]:
        config = configure({"pairs": pairs}, tests={"general": str(run.path)}, **languages)
        return list(read_tests(config)["general"].pairs)

    turned = [Pair(pair.target, pair.source) for pair in split]
    assert read() == read(source_language="es-MX") == turned
    assert read(reverse=True) == read(target_language="en-GB", reverse=True) == split
    with pytest.raises(UserError, match=r"data\.tests\.general: .* translates en to es, and this"):
        read(source_language="fr")


def test_a_run_without_its_corpus_is_named_as_test_set(tmp_path: Path) -> None:
    run = make_run(tmp_path, configure(path=str(tmp_path / "moved.tsv"), test=10))
    config = configure(tests={"general": str(run.path)})
    with pytest.raises(UserError) as caught:
        read_tests(config)
    message = str(caught.value)
    assert message.startswith(f"data.tests.general={run.path}: its corpus cannot be read (data.")
    assert message.endswith("; restore it, or give a table of pairs")


def test_a_run_is_no_test_set_of_its_own(tmp_path: Path) -> None:
    """As the link to the latest run once made it."""
    (tmp_path / "pairs.tsv").write_text(table(singles(40)))
    pairs = SourceConfig("files", path=str(tmp_path / "pairs.tsv"))
    (tmp_path / "latest").symlink_to("runs")
    data = configure({"pairs": pairs}, tests={"general": str(tmp_path / "latest")})
    run = make_run(tmp_path, data)
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").symlink_to(run.path)
    with pytest.raises(UserError, match="cannot have its own test split as another test set"):
        read_corpus(run, lambda line: None)


def test_a_table_with_tags_is_left_out_of_training_too(tmp_path: Path) -> None:
    (tmp_path / "tests.tsv").write_text("<2en> frase 1\tsentence 1\n<2es> sentence 2\tfrase 2\n")
    (tmp_path / "pairs.tsv").write_text(table(singles(10)))
    path = str(tmp_path / "pairs.tsv")
    sources = {
        "there": SourceConfig(kind="files", path=path, tag="<2en>"),
        "back": SourceConfig(kind="files", path=path, tag="<2es>", reverse=True),
    }
    data = configure(sources, tests={"mine": str(tmp_path / "tests.tsv")})
    corpus = load_corpus(data, cache_dir=tmp_path, tests=read_tests(data))
    assert corpus.tests["mine"][0] == Pair("<2en> frase 1", "sentence 1")
    assert len(corpus.train) == 16
    assert corpus.rejected == {"in dev or test": 4}


def corpus_of(run: RunFolder) -> Corpus:
    return load_corpus(run.config.data, cache_dir=Path("nowhere"))


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("frase 7\t", "frase 7\t", False),
        ("frase 7\t", "frase siete\t", True),
        ("sentence 0", "no sentence", True),
    ],
)
def test_a_corpus_that_has_changed_is_said(
    tmp_path: Path, old: str, new: str, changed: bool
) -> None:
    path = tmp_path / "corpus.tsv"
    path.write_text(table(singles(40)))
    run = make_run(tmp_path, configure(path=str(path), dev=5, test=5))
    assert has_corpus_changed(run, corpus_of(run))  # nothing is known of it
    run.write_corpus_record(make_corpus_record(corpus_of(run)))
    assert not has_corpus_changed(run, corpus_of(run))
    path.write_text(path.read_text().replace(old, new, 1))
    messages: list[str] = []
    assert make_corpus_record(read_corpus(run, messages.append))["pairs"] == {
        "train": 30,
        "dev": 5,
        "test": 5,
    }
    warning = f"warning: the corpus has changed since {run.path} was trained on it"
    assert (warning in messages) == changed


def test_changed_weights_of_pairs_are_a_change_of_the_corpus(tmp_path: Path) -> None:
    path = tmp_path / "corpus.tsv"
    path.write_text("sol\tsun\t1\nluna\tmoon\t0.5\n")
    run = make_run(tmp_path, configure(path=str(path), columns=[0, 1, 2]))
    run.write_corpus_record(make_corpus_record(corpus_of(run)))
    path.write_text("sol\tsun\t1.0\nluna\tmoon\t0.50\n")
    assert not has_corpus_changed(run, corpus_of(run))
    path.write_text("sol\tsun\t1\nluna\tmoon\t0.25\n")
    assert has_corpus_changed(run, corpus_of(run))


def test_a_run_keeps_the_hash_of_its_archive_and_goes_on_without_one(tmp_path: Path) -> None:
    path = tmp_path / "pairs.zip"
    path.write_bytes(zipped(SPA_ENG))
    run = make_run(tmp_path, configure(kind="zip", archive=str(path), columns=[1, 0]))
    record = make_corpus_record(corpus_of(run))
    assert record["archives"] == {"pairs": sha256(path.read_bytes()).hexdigest()}
    run.write_corpus_record(record)
    assert run.read_corpus_record() == record
    # Packed again, it holds the same pairs; an older run kept no hash.
    path.write_bytes(zipped(SPA_ENG, zipfile.ZIP_STORED))
    assert not has_corpus_changed(run, corpus_of(run))
    del record["archives"]
    run.write_corpus_record(record)
    assert not has_corpus_changed(run, corpus_of(run))


def test_weights_and_tags_are_part_of_the_corpus(tmp_path: Path) -> None:
    """What a run kept is what it was trained on: repeated, and with its tags."""
    paths = [tmp_path / name for name in ("one.tsv", "two.tsv")]
    paths[0].write_text(table(singles(4)))
    paths[1].write_text("sol\tsun\n")

    def train_digest(**changes: Any) -> str:
        one, two = (SourceConfig(kind="files", path=str(path), weight=1) for path in paths)
        data = configure({"one": one, "two": replace(two, **changes)})
        return make_corpus_record(load_corpus(data, cache_dir=tmp_path))["digests"]["train"]  # type: ignore

    digests = [train_digest(**each) for each in ({}, {"weight": 2}, {"tag": "<a>"}, {"tag": "<b>"})]
    assert len(set(digests)) == 4
    assert train_digest() == digests[0]


def test_pairs_of_a_run_with_contexts_are_read_as_the_new_run_reads_them(tmp_path: Path) -> None:
    (tmp_path / "lines.tsv").write_text(table(singles(40)), encoding="utf-8")
    sources = {"lines": SourceConfig("files", path=str(tmp_path / "lines.tsv"), ordered=True)}
    run = make_run(tmp_path, configure(sources, context=1, test=10))
    bare = set(singles(40))
    assert CONTEXT_MARK in read_corpus(run, lambda line: None).test[-1].source

    def check(reverse: bool, context: int, has_contexts: bool) -> None:
        config = configure(path="x", reverse=reverse, context=context, tests={"run": str(run.path)})
        test = read_tests(config)["run"]
        assert bare.issuperset(test.source_view)
        assert any(CONTEXT_MARK in pair.source for pair in test.pairs) is has_contexts
        assert not any(CONTEXT_MARK in pair.target for pair in test.pairs)

    check(reverse=False, context=1, has_contexts=True)
    check(reverse=False, context=0, has_contexts=False)
    check(reverse=True, context=1, has_contexts=False)
    source = SourceConfig("run", run=str(run.path), split="train")
    [pairs] = read_run_pairs(configure({"run": source}, context=1)).values()
    assert bare.issuperset(pairs)


def test_pairs_of_a_run_without_weight_in_the_loss_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "lines.tsv"
    path.write_text("uno\tone\t0\ndos\ttwo\t0.5\n", encoding="utf-8")
    lines = SourceConfig("files", path=str(path), columns=[0, 1, 2])
    plain = SourceConfig("files", path=str(tmp_path / "plain.tsv"))
    (tmp_path / "plain.tsv").write_text("tres\tthree\n", encoding="utf-8")
    run = make_run(tmp_path, configure({"lines": lines, "plain": plain}))
    source = SourceConfig("run", run=str(run.path), split="train")
    [pairs] = read_run_pairs(configure({"run": source})).values()
    assert pairs == [Pair("dos", "two"), Pair("tres", "three")]


def test_tags_of_a_run_get_into_no_targets(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text(table(singles(10)))
    pairs = SourceConfig("files", path=str(tmp_path / "pairs.tsv"), tag="<2en>")
    run = make_run(tmp_path, configure({"pairs": pairs}))
    source = SourceConfig("run", run=str(run.path), split="train")
    [same] = read_run_pairs(configure({"run": source})).values()
    assert all(pair.source.startswith("<2en> ") for pair in same)
    opposite = configure({"run": source}, source_language="en", target_language="es")
    with pytest.raises(UserError, match="begin with tags"):
        read_run_pairs(opposite)


def test_a_changed_corpus_of_another_run_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(table(singles(10)))
    run = make_run(tmp_path, configure({"pairs": SourceConfig("files", path=str(path))}, test=2))
    run.write_corpus_record(make_corpus_record(corpus_of(run)))
    source = SourceConfig("run", run=str(run.path), split="train")
    data = configure({"run": source}, tests={"run": str(run.path)})
    messages: list[str] = []
    for changed in (False, True):
        read_tests(data, messages.append)
        read_run_pairs(data, messages.append)
        warning = f"warning: the corpus has changed since {run.path} was trained on it"
        assert messages == [warning, warning] * changed
        path.write_text(table(singles(11)))
