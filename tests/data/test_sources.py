"""Several sources in one corpus: what each is for, how much of an epoch it is, and no leaks."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_corpora import complaint, configure, singles, table

from nmt.config import SourceConfig
from nmt.data.corpus import Corpus, EvaluationSet, load_corpus
from nmt.data.splitting import Pair, normalized
from nmt.text.cleaning import clean_text

Pairs = list[tuple[str, str]]


def source(folder: Path, name: str, pairs: Pairs, **settings: Any) -> SourceConfig:
    path = folder / f"{name}.tsv"
    path.write_text(table(pairs), encoding="utf-8")
    return SourceConfig(kind="files", path=str(path), **settings)


def load(sources: dict[str, SourceConfig], rejected: Path | None = None, **changes: Any) -> Corpus:
    config = configure(sources, **changes)
    return load_corpus(config, cache_dir=Path("nowhere"), rejected_file=rejected)


def as_pairs(pairs: Pairs) -> list[Pair]:
    return [Pair(*pair) for pair in pairs]


def numbered(name: str, count: int) -> Pairs:
    """Return pairs that share no sentence with each other, nor with those of another name."""
    return [(f"{name} fuente {number}", f"{name} target {number}") for number in range(count)]


# --- Order and duplicates ---------------------------------------------------------------------


def test_sources_stand_in_their_order(tmp_path: Path) -> None:
    talk, verses = numbered("talk", 3), numbered("verses", 2)
    first, second = source(tmp_path, "talk", talk), source(tmp_path, "verses", verses)
    corpus = load({"talk": first, "verses": second})
    assert corpus.train == as_pairs(talk + verses)
    assert [(source.name, source.repeats) for source in corpus.mixture] == [
        ("talk", 1),
        ("verses", 1),
    ]
    assert load({"verses": second, "talk": first}).train == as_pairs(verses + talk)


def test_the_first_source_that_has_a_pair_keeps_it(tmp_path: Path) -> None:
    rejected = tmp_path / "rejected.tsv"
    corpus = load(
        {
            "talk": source(tmp_path, "talk", [("sol", "sun"), ("mar", "sea")]),
            "verses": source(tmp_path, "verses", [("luna", "moon"), ("sol ", "sun")]),
        },
        rejected,
    )
    assert [len(source.pairs) for source in corpus.mixture] == [2, 1]
    assert corpus.rejected == {"duplicate": 1}
    assert corpus.lines == 4
    assert rejected.read_text() == f"duplicate\t{tmp_path / 'verses.tsv'}:2\tsol \tsun\n"


def test_with_another_tag_it_is_another_pair(tmp_path: Path) -> None:
    corpus = load(
        {
            "english": source(tmp_path, "english", [("no", "no")], tag="<2en>"),
            "italian": source(tmp_path, "italian", [("no", "no"), ("no", "no")], tag="<2it>"),
        }
    )
    assert corpus.train == as_pairs([("<2en> no", "no"), ("<2it> no", "no")])
    assert corpus.rejected == {"duplicate": 1}


# --- Dev and test -----------------------------------------------------------------------------


def test_dev_and_test_are_files(tmp_path: Path) -> None:
    """Nothing of them is left out but what cannot be read: scores compare with other people's."""
    hard = [("sí", "yes " * 200), ("sí", "yes"), ("sí", "yes"), ("", "empty"), ("x" * 900, "y")]
    talk, news = numbered("talk", 50), numbered("news", 7)
    corpus = load(
        {
            "talk": source(tmp_path, "talk", talk),
            "news": source(tmp_path, "news", news, split="test"),
            "hard": source(tmp_path, "hard", hard, split="dev"),
        },
        dev=10,
        test=0.1,
    )
    assert corpus.train == as_pairs(talk)  # no share of it is taken
    assert corpus.test == as_pairs(news)
    assert [len(pair.target) for pair in corpus.dev] == [799, 3, 3, 1]
    assert corpus.rejected == {"empty side": 1}
    assert corpus.lines == 62


@pytest.mark.parametrize(("split", "sizes"), [("dev", (45, 7, 5)), ("test", (40, 10, 7))])
def test_a_share_is_taken_for_the_split_that_has_no_file(
    tmp_path: Path, split: str, sizes: tuple[int, int, int]
) -> None:
    talk, news = numbered("talk", 50), numbered("news", 7)
    sources = {
        "talk": source(tmp_path, "talk", talk),
        "news": source(tmp_path, "news", news, split=split),
    }
    corpus = load(sources, dev=10, test=5)
    assert (len(corpus.train), len(corpus.dev), len(corpus.test)) == sizes
    assert getattr(corpus, split) == as_pairs(news)


LEAKS: Pairs = [
    ("El sol brilla.", "The sun is out."),  # the source of the first
    ("Hoy hay sol.", "THE SUN SHINES"),  # the target of the first
    ("¡Adios!", "So long!"),  # the source of the second, without its accent
]
FIT: Pairs = [
    ("The sun shines", "el sol brilla"),  # the other way round
    ("El sol brilla hoy", "The sun shines today"),
]


@pytest.mark.parametrize("split", ["shares", "train"])
@pytest.mark.parametrize("split_name", ["dev", "test"])
def test_what_shares_a_side_with_a_file_of_dev_or_test_is_left_out(
    tmp_path: Path, split: str, split_name: str
) -> None:
    rejected = tmp_path / "rejected.tsv"
    talk = [FIT[0], *LEAKS, FIT[1]]
    news = [("¡El sol brilla!", "The sun shines."), ("Adiós", "Bye")]
    corpus = load(
        {
            "talk": source(tmp_path, "talk", talk, split=split),
            "news": source(tmp_path, "news", news, split=split_name),
        },
        rejected,
    )
    assert corpus.train == as_pairs(FIT)
    assert getattr(corpus, split_name) == as_pairs(news)
    assert corpus.rejected == {"in dev or test": 3}
    assert corpus.lines == 7
    assert rejected.read_text("utf-8").splitlines() == [
        f"in dev or test\t{tmp_path / 'talk.tsv'}:{number}\t{pair[0]}\t{pair[1]}"
        for number, pair in enumerate(LEAKS, 2)
    ]


@pytest.mark.parametrize(("file_split", "drawn_split"), [("dev", "test"), ("test", "dev")])
def test_a_share_is_drawn_from_what_the_file_of_the_other_split_does_not_hold(
    tmp_path: Path, file_split: str, drawn_split: str
) -> None:
    rejected = tmp_path / "rejected.tsv"
    talk = numbered("talk", 50)
    corpus = load(
        {
            "talk": source(tmp_path, "talk", talk),
            "news": source(
                tmp_path,
                "news",
                [(f"¡{text}!", translation) for text, translation in talk[:30]],
                split=file_split,
            ),
        },
        rejected,
        **{drawn_split: 10},
    )
    assert len(getattr(corpus, file_split)) == 30
    assert len(getattr(corpus, drawn_split)) == 10
    assert sorted(getattr(corpus, drawn_split) + corpus.train) == sorted(as_pairs(talk[30:]))
    assert corpus.rejected == {"in dev or test": 30}
    assert len(rejected.read_text("utf-8").splitlines()) == 30


def test_sources_to_train_on_give_no_dev_and_no_test(tmp_path: Path) -> None:
    """And what of theirs shares a side with those of other sources is not trained on."""
    talk = numbered("talk", 40)
    crawl = [(f"{pair[0]}!", "¿?") for pair in talk] + numbered("crawl", 30)
    corpus = load(
        {
            "crawl": source(tmp_path, "crawl", crawl, split="train"),
            "talk": source(tmp_path, "talk", talk),
        },
        dev=5,
        test=5,
    )
    held_out = corpus.dev + corpus.test
    assert len(held_out) == 10
    assert set(held_out) < set(as_pairs(talk))
    assert corpus.rejected == {"in dev or test": 10}
    crawl_pairs, talk_pairs = (source.pairs for source in corpus.mixture)
    assert len(crawl_pairs) == 60
    assert len(talk_pairs) == 30
    assert not {f"{pair.source}!" for pair in held_out} & {pair.source for pair in crawl_pairs}


def test_a_test_set_that_is_the_training_file_is_named(tmp_path: Path) -> None:
    sources = {"talk": source(tmp_path, "talk", numbered("talk", 9))}
    path = str(sources["talk"].path)
    config = configure(sources, dev=0, test=0, tests={"mine": path})
    pairs = load_corpus(configure(sources, dev=0, test=0), cache_dir=tmp_path).train
    held_out = {"mine": EvaluationSet(pairs, pairs)}
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path, tests=held_out))
    assert message == (
        f"data=files: nothing is left to train on, data.tests.mine={path} is the training data "
        "itself: give another file"
    )


def test_nothing_is_left_to_train_on(tmp_path: Path) -> None:
    sources = {
        "talk": source(tmp_path, "talk", [("sol", "sun")]),
        "news": source(tmp_path, "news", [("¡Sol!", "Sun?")], split="test"),
    }
    message = complaint(lambda: load(sources))
    assert message.startswith("data=files: nothing is left to train on, every pair shares a side")


@pytest.mark.parametrize(
    ("lines", "split", "expected"),
    [
        ("", "shares", "verses.tsv is empty, 0 lines were read: add sentence pairs"),
        ("", "dev", "verses.tsv is empty, 0 lines were read: add sentence pairs"),
        ("sol\nmar\n", "train", "source 'verses': none of the 2 lines read is usable"),
        ("sol\t\n", "test", "often because of 'empty side' (1): check data.sources.verses.columns"),
        ("frase 0\tsentence 0\n", "shares", "often because of 'duplicate' (1): check"),
    ],
)
def test_a_source_without_a_usable_line_is_named(
    tmp_path: Path, lines: str, split: str, expected: str
) -> None:
    (tmp_path / "verses.tsv").write_text(lines)
    sources = {
        "talk": source(tmp_path, "talk", [*singles(3), ("malo", "")]),
        "verses": SourceConfig(kind="files", path=str(tmp_path / "verses.tsv"), split=split),
    }
    assert expected in complaint(lambda: load(sources))


def test_a_missing_file_is_named_by_its_long_key_where_the_short_one_will_not_do(
    tmp_path: Path,
) -> None:
    talk = source(tmp_path, "talk", singles(3))
    gone = str(tmp_path / "gone")
    for sources, key in [
        ({"talk": talk, "gone": SourceConfig(kind="files", path=gone)}, "data.sources.gone.path"),
        ({"pairs": SourceConfig(kind="files", path=gone)}, "data.train"),
        ({"talk": talk, "pairs": SourceConfig(kind="zip", archive=gone)}, "data.archive"),
    ]:
        message = complaint(lambda sources=sources: load(sources))  # type: ignore[misc]
        assert message.startswith(f"{key}={gone} does not exist")


# --- Weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "weights", "repeats"),
    [
        ([10, 10], [None, None], [1, 1]),
        ([10, 10], [5, None], [1, 1]),  # relative to no other
        ([10, 10], [1, 1], [1, 1]),
        ([10, 40], [1, 1], [4, 1]),
        ([10, 40], [2, 1], [8, 1]),
        ([10, 40], [1, 2], [2, 1]),
        ([10, 40], [0.2, 0.8], [1, 1]),
        ([10, 40], [0.1, 0.9], [1, 2]),  # 40 x 2 to 10 is as near 9 to 1 as it gets
        ([10, 44], [1, 1], [4, 1]),
        ([10, 46], [1, 1], [5, 1]),
        ([10, 40, 7], [1, 1, None], [4, 1, 1]),
        ([10, 40, 80], [1, 1, 1], [8, 2, 1]),
        ([40, 3], [1000, 1], [75, 1]),
        ([40, 3], [1, 1000], [1, 13333]),
    ],
)
def test_sources_are_repeated_to_come_near_their_weights(
    tmp_path: Path, sizes: list[int], weights: list[float | None], repeats: list[int]
) -> None:
    names = ["talk", "verses", "news"][: len(sizes)]
    corpus = load(
        {
            name: source(tmp_path, name, numbered(name, size), weight=weight)
            for name, size, weight in zip(names, sizes, weights, strict=True)
        }
    )
    assert [(source.name, len(source.pairs), source.repeats) for source in corpus.mixture] == list(
        zip(names, sizes, repeats, strict=True)
    )
    assert corpus.train == [
        pair
        for name, size, times in zip(names, sizes, repeats, strict=True)
        for pair in as_pairs(numbered(name, size)) * times
    ]


def test_weights_count_what_is_left_to_train_on(tmp_path: Path) -> None:
    """30 of the 40 lines of one are held out or rejected: 10 against 20."""
    talk = [*numbered("talk", 20), *[("sol", f"sun {n}") for n in range(10)], *[("a", "")] * 10]
    sources = {
        "talk": source(tmp_path, "talk", talk, weight=1),
        "verses": source(tmp_path, "verses", numbered("verses", 20), weight=1),
        "news": source(tmp_path, "news", [("Sol.", "Sun."), *talk[:10]], split="dev", weight=9),
    }
    corpus = load(sources)
    assert [(len(source.pairs), source.repeats) for source in corpus.mixture] == [(10, 2), (20, 1)]
    assert corpus.rejected == {"in dev or test": 20, "empty side": 10}


@pytest.mark.parametrize(("size", "repeats"), [(10, 3), (30, 1), (300, 1)])
def test_generated_pairs_are_not_repeated(tmp_path: Path, size: int, repeats: int) -> None:
    patterns = SourceConfig(kind="patterns", pairs=30, split="train", weight=1)
    verses = source(tmp_path, "verses", numbered("verses", size), weight=1)
    corpus = load({"verses": verses, "patterns": patterns})
    assert [source.repeats for source in corpus.mixture] == [repeats, 1]


def test_what_is_said(tmp_path: Path) -> None:
    messages: list[str] = []
    sources = {
        "talk": source(tmp_path, "talk", numbered("talk", 20), weight=1),
        "verses": source(tmp_path, "verses", numbered("verses", 4), weight=1),
        "patterns": SourceConfig(kind="patterns", pairs=5, split="train"),
        "news": source(tmp_path, "news", numbered("news", 3), split="test"),
    }
    load_corpus(configure(sources), cache_dir=tmp_path, log=messages.append)
    assert messages == [
        "corpus: 27 lines, 27 pairs kept: 24 train, 0 dev, 3 test",
        "source 'talk': 20 pairs to train on",
        "source 'verses': 4 pairs to train on, 5 times an epoch",
        "source 'patterns': 5 pairs to train on",
    ]


# --- Tags -------------------------------------------------------------------------------------


def test_a_tag_stands_before_every_source_sentence(tmp_path: Path) -> None:
    verses = numbered("verses", 30)
    news = numbered("news", 4)
    corpus = load(
        {
            "verses": source(tmp_path, "verses", verses, tag="<vers\u00ade>", weight=1),
            "talk": source(tmp_path, "talk", numbered("talk", 30), weight=2),
            "news": source(tmp_path, "news", news, split="test", tag="<news>"),
        },
        dev=20,
    )
    assert corpus.test == [Pair(f"<news> {pair[0]}", pair[1]) for pair in news]
    assert len(corpus.dev) == 20
    everything = {source.name: source.pairs for source in corpus.mixture}
    verses_pairs = [
        *everything["verses"],
        *(pair for pair in corpus.dev if "verses" in pair.target),
    ]
    # Without the soft hyphen, which the translator takes out of what it is given.
    assert sorted(verses_pairs) == sorted(Pair(f"<verse> {pair[0]}", pair[1]) for pair in verses)
    talk_pairs = everything["talk"] + [pair for pair in corpus.dev if "talk" in pair.target]
    assert sorted(talk_pairs) == sorted(as_pairs(numbered("talk", 30)))
    assert all(clean_text(pair.source) == pair.source for pair in corpus.train)


def test_tags_are_not_compared(tmp_path: Path) -> None:
    """A training pair is compared with dev and test as it was read."""
    corpus = load(
        {
            "talk": source(tmp_path, "talk", [("sol", "sun"), ("mar", "sea")], tag="<talk>"),
            "news": source(tmp_path, "news", [("Sol", "Sunlight")], split="dev", tag="<news>"),
        }
    )
    assert corpus.train == [Pair("<talk> mar", "sea")]


# --- No leaks ---------------------------------------------------------------------------------

# Few words in many spellings, so that sentences are shared, repeated and linked in chains.
words = st.sampled_from(["sol", "Sol", "SOL!", "sól", "mar", "¿mar?", "río", "..."])
sentences = st.lists(words, min_size=1, max_size=2).map(" ".join)


@settings(deadline=None, max_examples=60)
@given(
    lines=st.lists(st.tuples(sentences, sentences), max_size=30),
    splits=st.lists(st.sampled_from(["shares", "train", "dev", "test"]), min_size=1, max_size=3),
    order=st.randoms(use_true_random=False),
)
def test_no_sentence_of_dev_or_test_is_trained_on_whatever_the_sources(
    lines: Pairs, splits: list[str], order: random.Random
) -> None:
    dealt: list[Pairs] = [numbered(str(number), 6) for number in range(len(splits) + 1)]
    for line in lines:
        order.choice(dealt).append(line)
    with tempfile.TemporaryDirectory() as folder:
        corpus = load(
            {
                f"source_{number}": source(Path(folder), str(number), pairs, split=split)
                for number, (pairs, split) in enumerate(
                    zip(dealt, [*splits, "shares"], strict=True)
                )
            },
            dev=1,
            test=2,
        )
    held_out = corpus.dev + corpus.test
    for side in (0, 1):
        trained = {normalized(pair[side]) for pair in corpus.train}
        assert not trained & {normalized(pair[side]) for pair in held_out}
        # Files are taken as they are; what is drawn shares nothing with them.
        dev_sides, test_sides = (
            {normalized(pair[side]) for pair in pairs} for pairs in (corpus.dev, corpus.test)
        )
        assert {"dev", "test"} <= set(splits) or not dev_sides & test_sides
    read = Counter(Pair(*pair) for pairs in dealt for pair in pairs)
    accepted = corpus.train + held_out
    assert Counter(accepted) <= read
    assert len(accepted) + sum(corpus.rejected.values()) == corpus.lines == sum(map(len, dealt))
