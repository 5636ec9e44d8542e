"""No sentence is in two splits, whatever the sizes that are asked for."""

from __future__ import annotations

import random
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sample_corpora import complaint, configure, load_pairs, load_text, singles, table

from nmt.config import SourceConfig
from nmt.config.checks import check_values
from nmt.config.data import check_data
from nmt.data.corpus import load_corpus
from nmt.data.splitting import Pair, normalized
from nmt.errors import UserError
from nmt.text.cleaning import clean_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("¿Dónde está?", "donde esta"),
        ("DONDE   ESTA", "donde esta"),
        ("I'm well-known.", "i m well known"),
        ("I’m well known", "i m well known"),
        ("snake_case $5 = 5€", "snake case 5 5"),
        ("Straße", "strasse"),
        ("I ❤️ you", "i you"),
        ("می\u200cخواهم", "میخواهم"),
        ("की किताब।", "की किताब"),
        ("...", "..."),
        ("😀", "😀"),
        ("½ café", "½ cafe"),
        ("你好，我是汤姆。", "你好我是汤姆"),
        ("我爱 NBA，真的！", "我爱 nba 真的"),
    ],
)
def test_normalized(text: str, expected: str) -> None:
    assert normalized(text) == expected


def test_pairs_linked_by_a_chain_of_sentences_stay_together(tmp_path: Path) -> None:
    # Hola = HOLA (source), Hi! = hi (target), Buenas = buenas (source): one group of four.
    chain = [("Hola.", "Hello."), ("¡HOLA!", "Hi!"), ("Buenas", "hi"), ("buenas…", "Good day")]
    lonely = [("...", "Well."), ("!!!", "Hey.")]  # no letters: not taken for the same sentence
    pairs = [chain[0], lonely[0], chain[1], chain[2], lonely[1], chain[3]]
    for seed in range(5):
        corpus = load_pairs(tmp_path, pairs, dev=1, test=1, split_seed=seed)
        assert corpus.train == [Pair(*pair) for pair in chain]  # larger than a split: to train
        assert {*corpus.dev, *corpus.test} == {Pair(*pair) for pair in lonely}


def test_source_and_target_of_different_pairs_do_not_link(tmp_path: Path) -> None:
    corpus = load_pairs(tmp_path, [("Tom", "Thomas"), ("Tomás", "Tom")], test=1)
    assert len(corpus.test) == 1


@pytest.mark.parametrize(
    ("count", "dev", "test", "sizes"),
    [
        (100, 0, 0, (100, 0, 0)),
        (1, 0, 0, (1, 0, 0)),
        (2, 0, 1, (1, 0, 1)),
        (2, 1, 0, (1, 1, 0)),
        (4, 0.02, 0.02, (2, 1, 1)),  # a share above 0 is at least one pair
        (100, 7, 5, (88, 7, 5)),
        (100, 0.1, 5.0, (85, 10, 5)),
        (200, 0.02, 0.03, (190, 4, 6)),
        (99, 0, 0.019, (97, 0, 2)),
        (100, 25, 25, (50, 25, 25)),
    ],
)
def test_split_sizes(
    tmp_path: Path, count: int, dev: float, test: float, sizes: tuple[int, int, int]
) -> None:
    corpus = load_pairs(tmp_path, singles(count), dev=dev, test=test)
    assert (len(corpus.train), len(corpus.dev), len(corpus.test)) == sizes


@pytest.mark.parametrize(
    ("count", "dev", "test", "sizes"),
    [
        (1, 0.02, 0.02, "1 + 1 of 1"),
        (1, 1, 0, "1 + 0 of 1"),
        (3, 1, 1, "1 + 1 of 3"),
        (100, 26, 25, "26 + 25 of 100"),
        (100, 0, 0.6, "0 + 60 of 100"),
        (100, 2000, 2000, "2,000 + 2,000 of 100"),
    ],
)
def test_splits_larger_than_the_corpus_allows(
    tmp_path: Path, count: int, dev: float, test: float, sizes: str
) -> None:
    message = complaint(lambda: load_pairs(tmp_path, singles(count), dev=dev, test=test))
    assert f"data.dev={dev:g} and data.test={test:g} take {sizes} usable pairs" in message
    assert "lower data.dev and data.test, or set both to 0, or add data" in message


def grouped(*sizes: int) -> list[tuple[str, str]]:
    """Return groups of pairs that share their source."""
    return [
        (f"frase {group}", f"sentence {group} {number}")
        for group, size in enumerate(sizes)
        for number in range(size)
    ]


def test_the_smallest_group_is_taken_when_none_fits(tmp_path: Path) -> None:
    for seed in range(4):
        corpus = load_pairs(tmp_path, grouped(5, 2, 5), test=1, split_seed=seed)
        assert corpus.test == [Pair("frase 1", "sentence 1 0"), Pair("frase 1", "sentence 1 1")]
        assert len(corpus.train) == 10


def test_groups_that_fit_are_taken_beside_larger_ones(tmp_path: Path) -> None:
    for seed in range(4):
        corpus = load_pairs(tmp_path, grouped(9, 1, 1, 9, 1, 9), test=3, split_seed=seed)
        assert len(corpus.test) == 3


@pytest.mark.parametrize("sizes", [(4,), (2, 2), (3, 1), (2, 2, 3)])
def test_groups_too_large_for_any_split(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    message = complaint(lambda: load_pairs(tmp_path, grouped(*sizes), dev=1, test=1))
    assert message.startswith(f"the {sum(sizes)} usable pairs share so many sentences")
    assert "lower data.dev and data.test" in message


@pytest.mark.parametrize("name", ["dev", "test"])
def test_a_split_that_stays_short_is_reported(tmp_path: Path, name: str) -> None:
    path = tmp_path / "corpus.tsv"
    path.write_text(table(grouped(3, 1, 3)))
    messages: list[str] = []
    config = configure(path=str(path), **{name: 2})
    corpus = load_corpus(config, cache_dir=tmp_path, log=messages.append)
    assert getattr(corpus, name) == [Pair("frase 1", "sentence 1 0")]
    assert messages == [
        f"{name}: 1 of 2 pairs; every other cluster of pairs is too large",
        f"corpus: 7 lines, 7 pairs kept: 6 train, {int(name == 'dev')} dev, "
        f"{int(name == 'test')} test",
    ]


def test_a_split_that_no_source_gives_pairs_for_is_reported(tmp_path: Path) -> None:
    """As where an experiment sets data.dev, and the corpus has training pairs only."""
    paths = [tmp_path / "corpus.tsv", tmp_path / "test.tsv"]
    for path, pairs in zip(paths, (singles(9)[:7], singles(9)[7:]), strict=True):
        path.write_text(table(pairs))
    sources = {
        path.stem: SourceConfig("files", path=str(path), split=split)
        for path, split in zip(paths, ("train", "test"), strict=True)
    }
    messages: list[str] = []
    config = configure(sources, dev=3, test=0.1)
    load_corpus(config, cache_dir=tmp_path, log=messages.append)
    assert messages == [
        "data.dev=3 is ignored: no source has split=shares",
        "corpus: 9 lines, 9 pairs kept: 7 train, 0 dev, 2 test",
    ]


def test_the_split_depends_on_its_seed_and_little_on_other_lines(tmp_path: Path) -> None:
    pairs = singles(200)
    first = load_pairs(tmp_path, pairs, dev=20, test=20)
    other_seed = load_pairs(tmp_path, pairs, dev=20, test=20, split_seed=2)
    longer = load_pairs(tmp_path, [("nueva", "new"), *pairs], dev=20, test=20)
    assert set(first.test) != set(other_seed.test)
    assert len(set(first.test) - set(longer.test)) <= 1  # one may have to make room
    assert len(set(first.dev) - set(longer.dev)) <= 1


def test_later_versions_split_a_corpus_in_the_same_way(tmp_path: Path) -> None:
    """Otherwise, a new version would test older runs on their training sentences."""
    words = "frase", "oración"
    pairs = [(f"{word} {n}", f"sentence {n}") for n in range(9) for word in words]
    corpus = load_pairs(tmp_path, pairs, dev=4, test=4)
    assert {pair.target for pair in corpus.test} == {"sentence 3", "sentence 6"}
    assert {pair.target for pair in corpus.dev} == {"sentence 0", "sentence 1"}


def test_each_split_keeps_the_order_of_the_lines(tmp_path: Path) -> None:
    pairs = [Pair(*pair) for pair in singles(60)]
    corpus = load_pairs(tmp_path, list(pairs), dev=15, test=15)
    for split in (corpus.train, corpus.dev, corpus.test):
        assert split == sorted(split, key=pairs.index)


# Few words in many spellings, so that sentences are shared, repeated and linked in chains.
word = st.sampled_from(["sol", "Sol", "SOL!", "sól", "mar", "¿mar?", "río", "...", "😀", "ß", "ss"])
sentence = st.lists(word, min_size=1, max_size=3).map(" ".join)


@settings(deadline=None)
@given(
    pairs=st.lists(st.tuples(sentence, sentence), max_size=40),
    dev=st.sampled_from([0, 1, 3, 0.1]),
    test=st.sampled_from([0, 1, 4, 0.2]),
    seed=st.integers(0, 3),
    order=st.randoms(use_true_random=False),
)
def test_no_sentence_is_in_two_splits_whatever_the_order(
    pairs: list[tuple[str, str]], dev: float, test: float, seed: int, order: random.Random
) -> None:
    # 20 pairs apart from the others and from each other make sure that the sizes are possible.
    pairs = pairs + singles(20)
    shuffled = pairs.copy()
    order.shuffle(shuffled)
    with tempfile.TemporaryDirectory() as folder:
        corpus, again = (
            load_pairs(Path(folder), lines, dev=dev, test=test, split_seed=seed)
            for lines in (pairs, shuffled)
        )
    splits = [corpus.train, corpus.dev, corpus.test]
    for side in (0, 1):
        sides = [{normalized(pair[side]) for pair in split} for split in splits]
        assert len(set[str]().union(*sides)) == sum(map(len, sides))
    accepted = [pair for split in splits for pair in split]
    assert sorted(accepted) == sorted({Pair(*map(clean_text, pair)) for pair in pairs})
    assert len(accepted) + sum(corpus.rejected.values()) == corpus.lines == len(pairs)
    assert corpus.rejected == again.rejected
    for pairs_before, pairs_after in zip(splits, (again.train, again.dev, again.test), strict=True):
        assert sorted(pairs_before) == sorted(pairs_after)


def grouped_table(rows: list[tuple[str, str, str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


@settings(deadline=None)
@given(
    rows=st.lists(
        st.tuples(sentence, sentence, st.sampled_from("abcdef") | st.just("")), max_size=40
    ),
    dev=st.sampled_from([0, 1, 5, 0.1]),
    test=st.sampled_from([0, 1, 6, 0.2]),
    seed=st.integers(0, 3),
)
def test_no_group_and_no_sentence_is_in_two_splits(
    rows: list[tuple[str, str, str]], dev: float, test: float, seed: int
) -> None:
    # 20 groups of two pairs whose sentences no other pair has.
    rows = rows + [(*pair, f"g{i // 2}") for i, pair in enumerate(singles(40))]
    with tempfile.TemporaryDirectory() as folder:
        try:
            corpus = load_text(
                Path(folder),
                grouped_table(rows),
                group_column=2,
                dev=dev,
                test=test,
                split_seed=seed,
            )
        except UserError:  # large groups
            assume(False)
    splits = [corpus.train, corpus.dev, corpus.test]
    for side in (0, 1):
        sides = [{normalized(pair[side]) for pair in split} for split in splits]
        assert len(set[str]().union(*sides)) == sum(map(len, sides))
    group_of = {}  # of the first line with a pair, as later ones are duplicates
    for source, target, group in rows:
        group_of.setdefault(Pair(clean_text(source), clean_text(target)), group)
    groups = [{group_of[pair] for pair in split} - {""} for split in splits]
    assert len(set[str]().union(*groups)) == sum(map(len, groups))
    assert sum(map(len, splits)) + sum(corpus.rejected.values()) == corpus.lines == len(rows)
    assert corpus.groups == {
        "dev": [group_of[pair] for pair in corpus.dev],
        "test": [group_of[pair] for pair in corpus.test],
    }


def test_a_sentence_of_two_groups_stays_in_the_test_split_alone(tmp_path: Path) -> None:
    rows = [(f"frase {i}", f"sentence {i}", f"talk {i // 10}") for i in range(100)]
    rows += [("Gracias.", f"Thank you, {i}.", f"talk {i}") for i in range(10)]
    corpus = load_text(tmp_path, grouped_table(rows), group_column=2, dev=11, test=11)
    assert (len(corpus.dev), len(corpus.test), len(corpus.train)) == (10, 11, 80)
    assert corpus.rejected == {"in dev or test": 9}
    assert len(set(corpus.groups["test"])) == len(set(corpus.groups["dev"])) == 1
    assert corpus.groups["test"] != corpus.groups["dev"]
    same = load_text(tmp_path, grouped_table(rows), group_column=2, dev=11, test=11)
    assert same.test == corpus.test


def test_groups_too_few_for_a_split(tmp_path: Path) -> None:
    rows = [(*pair, "one") for pair in singles(10)]
    message = complaint(lambda: load_text(tmp_path, grouped_table(rows), group_column=2, test=1))
    assert message.startswith("the 10 usable pairs share so many sentences or have so few groups")


def test_a_pair_of_two_groups_in_a_test_file(tmp_path: Path) -> None:
    rows = [("Sí.", "Yes.", "a"), ("No.", "No.", "a"), ("Sí.", "Yes.", "b")]
    (tmp_path / "test.tsv").write_text(grouped_table(rows), encoding="utf-8")
    (tmp_path / "train.tsv").write_text(table(singles(5)), encoding="utf-8")
    sources = {
        "pairs": SourceConfig(kind="files", path=str(tmp_path / "train.tsv")),
        "test": SourceConfig(
            kind="files", path=str(tmp_path / "test.tsv"), group_column=2, split="test"
        ),
    }
    corpus = load_corpus(configure(sources), cache_dir=tmp_path)
    assert corpus.groups == {"dev": [], "test": ["a", "a", "b"]}


def test_a_group_of_a_test_file_is_in_no_other_split(tmp_path: Path) -> None:
    files = {
        "test": [("Sí.", "Yes.", "a")],
        "shares": [(*pair, f"talk {i}") for i, pair in enumerate(singles(20))],
        "train": [("Ven.", "Come.", "a"), ("Voy.", "I am coming.", "b"), ("Ya.", "Now.", "")],
    }
    files["shares"][0] = (*files["shares"][0][:2], "a")
    sources = {}
    for name, rows in files.items():
        path = tmp_path / f"{name}.tsv"
        path.write_text(grouped_table(rows), encoding="utf-8")
        sources[name] = SourceConfig(kind="files", path=str(path), group_column=2, split=name)
    corpus = load_corpus(configure(sources, dev=5), cache_dir=tmp_path)
    assert corpus.rejected == {"in dev or test": 2}
    held_out = {group for groups in corpus.groups.values() for group in groups}
    of_pair = {Pair(*row[:2]): row[2] for rows in files.values() for row in rows}
    assert held_out.isdisjoint(of_pair[pair] for pair in corpus.train)
    assert len(corpus.dev) == 5


@pytest.mark.parametrize(
    "changes",
    [{"group_column": -1}, {"group_column": 2, "path": ["a.es", "a.en"]}, {"group_column": True}],
)
def test_a_group_needs_a_column_of_a_table(changes: dict[str, Any]) -> None:
    config = configure(**({"path": "a.tsv"} | changes))

    def check() -> None:
        check_values(config, "data.")
        check_data(config)

    hint = "must be the name of a column, or its number from 0|only tables have columns"
    assert re.search(f"group_column.*({hint})", complaint(check))
