"""A prepared corpus follows the rules, whatever its shards, processes and interruptions."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_corpora import compact_pairs, configure, load_pairs, singles, table
from sample_prepared import (
    batches_of,
    contents,
    ids_in,
    journal_of,
    plan,
    prepared,
    rejected_in,
    trained_on,
)

from nmt.config import SourceConfig
from nmt.config.data import StageConfig
from nmt.config.preparation import PreparationConfig
from nmt.data.corpus import load_corpus
from nmt.data.prepared import BEGUN_FILE, sample_ids
from nmt.data.splitting import Pair, normalized
from nmt.errors import UserError
from nmt.files import read_json, write_json
from nmt.preparing import pool
from nmt.preparing.inputs import list_files, record_inputs
from nmt.text.source_words import SourceWords


@pytest.fixture(scope="module", autouse=True)
def _hasty() -> Iterator[None]:
    """Wait for no disk: there are many small files, and no power is lost."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        yield


def mixed(count: int = 230, seed: int = 0) -> list[tuple[str, str]]:
    """Return pairs with duplicates, shared sides and invalid lines, in random order."""
    rng = random.Random(seed)
    words = [f"w{letter}{other}" for letter in "abcdefgh" for other in "ijklmno"]
    pairs = []
    for _ in range(count):
        kind = rng.random()
        if kind < 0.15 and pairs:
            pairs.append(rng.choice(pairs))
        elif kind < 0.3 and pairs:
            pairs.append((rng.choice(pairs)[0], " ".join(rng.sample(words, 5))))
        elif kind < 0.35:
            pairs.append(("", "nothing"))
        else:
            side = " ".join(rng.sample(words, rng.randint(3, 8)))
            pairs.append((side, side[::-1].capitalize()))
    return pairs


def test_the_rules_are_those_of_a_corpus_in_memory(tmp_path: Path) -> None:
    pairs = mixed()
    small = load_pairs(tmp_path, pairs)
    large = prepared(plan(tmp_path / "large", pairs))
    assert trained_on(large) == Counter(small.train)
    assert large.rejected == small.rejected
    assert large.lines == small.lines
    assert large.epoch_pairs == large.train_pairs == len(small.train)


def test_words_are_those_of_all_training_sources(tmp_path: Path) -> None:
    """Whatever the shards, and however small the sample that trains the tokenizer."""
    rng = random.Random(1)
    letters = [[rng.choice("abcdefgh") for _ in range(6)] for _ in range(300)]
    pairs = [
        (f"{''.join(word)} frase", f"sentence {number}") for number, word in enumerate(letters)
    ]
    small = load_pairs(tmp_path, pairs)
    large = prepared(plan(tmp_path / "large", pairs, shard_lines=70, tokenizer_lines=60))
    words = large.source_words()
    assert words is not None
    assert words.counts == SourceWords.count(pair.source for pair in small.train).counts
    assert words.counts["frase"] == len(small.train) > 250


def test_shards_of_an_earlier_version_have_the_words_of_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no words of their own."""
    monkeypatch.setattr("nmt.preparing.split.SourceWords.save", lambda words, folder: None)
    corpus = plan(tmp_path, singles(40))
    with monkeypatch.context() as stopped:
        stopped.setattr("nmt.preparing.prepare.encode_corpus", None)
        with pytest.raises(TypeError):
            prepared(corpus)
    monkeypatch.undo()
    words = prepared(corpus).source_words()
    assert words is not None
    assert words.counts["frase"] > 20


def test_a_sample_has_the_ids_of_training_pairs(tmp_path: Path) -> None:
    corpus = prepared(plan(tmp_path, mixed()))

    def draw(count: int, seed: int = 1) -> list[tuple[tuple[int, ...], ...]]:
        return [(tuple(a), tuple(b)) for a, b in zip(*sample_ids(corpus, count, seed), strict=True)]

    every = ids_in(batches_of(corpus).in_order())
    assert Counter(draw(10**6)) == every
    assert len(draw(20)) == 20
    assert Counter(draw(20)) <= every
    assert draw(20) != draw(20, seed=2)


def test_lengths_are_compared_as_in_memory(tmp_path: Path) -> None:
    """Whatever the shards: the first lines of a source tell its ratio."""
    pairs = compact_pairs(150)
    pairs[7], pairs[149] = ("字" * 40, "y" * 44), ("字" * 4, "y" * 80)
    small = load_pairs(tmp_path, pairs)
    large = prepared(plan(tmp_path / "large", pairs, shard_lines=7))
    assert large.rejected == small.rejected == {"length ratio": 2}
    assert trained_on(large) == Counter(small.train)
    assert large.length_ratios == small.length_ratios
    assert large.length_ratios["pairs"] > 3


def test_lines_end_as_they_do_in_memory(tmp_path: Path) -> None:
    rows = [f"{source}\t{target}" for source, target in singles(60)]
    (tmp_path / "mac.tsv").write_text("\r".join(rows))
    (tmp_path / "unix.tsv").write_text("luna\tmoon\r\nsol\tsun\rmar\tsea\nluz\tlight\n")
    paths = {name: str(tmp_path / f"{name}.tsv") for name in ("mac", "unix")}
    data = configure({name: SourceConfig("files", path=path) for name, path in paths.items()})
    small = load_corpus(data, cache_dir=tmp_path)
    large = prepared(plan(tmp_path, data=data))
    assert len(small.train) == 62
    assert trained_on(large) == Counter(small.train)
    assert large.rejected == small.rejected == {"carriage return inside the line": 1}


def leaks(corpus_train: Counter[Pair], held_out: list[Pair]) -> list[Pair]:
    sides = [{normalized(pair[side]) for pair in held_out} for side in (0, 1)]
    return [
        pair
        for pair in corpus_train
        if normalized(pair.source) in sides[0] or normalized(pair.target) in sides[1]
    ]


def test_nothing_leaks_and_nothing_is_lost(tmp_path: Path) -> None:
    tested = [Pair("Una, DOS tres.", "One two three"), Pair("No está", "Is not here")]
    pairs = [*mixed(), ("una dos tres", "uno"), ("cuatro", "Óne two THREE!"), ("a b", "is not")]
    config = plan(tmp_path, pairs, dev=12, test=0.05, tests={"more": "any"})
    corpus = prepared(config, {"more": tested})

    train = trained_on(corpus)
    assert len(corpus.dev) == 12
    assert len(corpus.test) == pytest.approx(0.05 * 200, abs=3)
    assert leaks(train, [*corpus.dev, *corpus.test, *tested]) == []
    assert leaks(Counter(corpus.dev), corpus.test) == []
    assert corpus.tests == {"more": tested}

    accepted = train.total() + len(corpus.dev) + len(corpus.test)
    assert accepted + sum(corpus.rejected.values()) == corpus.lines == len(pairs)
    rejected = rejected_in(corpus)
    assert Counter(reason for reason, *_ in rejected) == corpus.rejected
    # A held-out pair shares a side, and its location names its line.
    for reason, place, *sides in rejected:
        number = int(place.rpartition(":")[2])
        assert list(pairs[number - 1]) == sides
        if reason == "in dev or test":
            pair = Pair(*sides)
            assert leaks(Counter([pair]), [*corpus.dev, *corpus.test, *tested]) == [pair]
    assert {sides[0] for reason, _, *sides in rejected if reason == "in dev or test"} >= {
        "una dos tres",
        "cuatro",
    }


ANYHOW: dict[str, Any] = {"dev": 10, "test": 10, "near_duplicates": 0.7}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return prepared(plan(tmp_path_factory.mktemp("reference"), mixed(), **ANYHOW))


def test_the_order_depends_on_seed_epoch_and_shuffle(reference: Any) -> None:
    steps = batches_of(reference).steps_per_epoch
    assert steps > 10

    def order(*, seed: int = 1, epoch: int = 0, shuffle: int = 0) -> tuple[int, ...]:
        batches = batches_of(reference, seed=seed)
        located = (batches.locate(epoch * steps + step, shuffle) for step in range(steps))
        return tuple(row for _, rows in located for row in rows.tolist())

    orders = {order(), order(epoch=1), order(shuffle=1), order(seed=2)}
    assert len(orders) == 4
    for rows in orders:  # all of them, once
        assert sorted(rows) == list(range(len(rows)))


def test_batches_do_not_depend_on_those_before_them(reference: Any) -> None:
    batches = batches_of(reference)
    steps = range(batches.steps_per_epoch + 2)
    in_order = [batches.batch(step) for step in steps]
    again = batches_of(reference)
    for step in reversed(steps):
        for name, array in again.batch(step).items():
            np.testing.assert_array_equal(array, in_order[step][name], err_msg=name)


@pytest.mark.parametrize(("file_split", "drawn_split"), [("dev", "test"), ("test", "dev")])
def test_a_share_is_drawn_from_what_the_file_of_the_other_split_does_not_hold(
    tmp_path: Path, file_split: str, drawn_split: str
) -> None:
    talk = singles(90)
    for name, pairs in (("talk", talk), ("news", talk[:50])):
        (tmp_path / f"{name}.tsv").write_text(table(pairs))
    paths = {name: str(tmp_path / f"{name}.tsv") for name in ("talk", "news")}
    sources = {
        "talk": SourceConfig("files", path=paths["talk"]),
        "news": SourceConfig("files", path=paths["news"], split=file_split),
    }
    corpus = prepared(plan(tmp_path, data=configure(sources, **{drawn_split: 20})))
    assert getattr(corpus, file_split) == [Pair(*pair) for pair in talk[:50]]
    assert len(getattr(corpus, drawn_split)) == 20
    assert set(getattr(corpus, drawn_split)) <= {Pair(*pair) for pair in talk[50:]}
    assert corpus.rejected == {"in dev or test": 50}


@pytest.mark.long
@pytest.mark.parametrize("shard_lines", [7, 1000])
def test_shards_do_not_matter(tmp_path: Path, reference: Any, shard_lines: int) -> None:
    other = prepared(plan(tmp_path, mixed(), shard_lines=shard_lines, **ANYHOW))
    assert (other.dev, other.test) == (reference.dev, reference.test)
    assert trained_on(other) == trained_on(reference)
    assert sorted(rejected_in(other)) == sorted(
        [cells[0], cells[1].replace(str(reference.folder.parent), str(tmp_path)), *cells[2:]]
        for cells in rejected_in(reference)
    )
    assert other.manifest["tokenizer"] == reference.manifest["tokenizer"]


@pytest.mark.long
def test_processes_do_not_matter(tmp_path: Path, reference: Any) -> None:
    other = prepared(plan(tmp_path, mixed(), processes=2, **ANYHOW))
    files, others = contents(reference.folder), contents(other.folder)
    assert files.keys() == others.keys()
    changed = {name for name, content in files.items() if others[name] != content}
    # These tell where the lines stood, and how long it is to tell.
    differing = {"prepared.json", "rejected.tsv.gz", ".sizes.json"}
    assert {name.rpartition("/")[2] for name in changed} <= differing
    assert reference.manifest["digest"] == other.manifest["digest"]


class StoppedError(Exception):
    """Instead of a signal."""


@pytest.mark.parametrize("after", [2, 8, 22])
def test_what_was_stopped_goes_on(
    tmp_path: Path, reference: Any, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    write_shard = pool._write_shard
    calls = 0

    def make(*arguments: Any) -> float:
        nonlocal calls
        calls += 1
        if calls > after:
            raise StoppedError
        return write_shard(*arguments)

    config = plan(tmp_path, mixed(), **ANYHOW)
    monkeypatch.setattr(pool, "_write_shard", make)
    with pytest.raises(StoppedError):
        prepared(config)
    monkeypatch.setattr(pool, "_write_shard", write_shard)
    first = journal_of(Path(config.output))
    assert len(first) == after
    corpus = prepared(config)
    assert corpus.manifest["digest"] == reference.manifest["digest"]
    journal = journal_of(corpus.folder)
    assert len(set(journal)) == len(journal)
    assert sorted(journal) == sorted(journal_of(reference.folder))

    before = contents(corpus.folder)
    prepared(config)  # it is there already
    assert contents(corpus.folder) == before
    assert journal_of(corpus.folder) == journal


@pytest.fixture
def started(tmp_path: Path) -> PreparationConfig:
    """A preparation that has begun, of a file of half a megabyte."""
    pairs = [(f"frase {number} {'x' * 500}", f"sentence {number}") for number in range(1000)]
    config = plan(tmp_path, pairs)
    os.utime(tmp_path / "pairs.tsv", ns=(1, 1))
    (tmp_path / "prepared").mkdir()
    record_inputs(tmp_path / "prepared", config, {})
    return config


@pytest.mark.parametrize("restored", [False, True])
def test_a_file_whose_middle_has_changed_is_noticed(
    started: PreparationConfig, restored: bool
) -> None:
    """Its size, its beginning and its end are as they were; and even its time may be."""
    (path,) = list_files(started)
    content, status = path.read_bytes(), path.stat()
    middle = len(content) // 2
    with path.open("r+b") as file:
        file.seek(middle)
        file.write(b"y" if content[middle : middle + 1] != b"y" else b"z")
    if restored:
        os.utime(path, ns=(1, 1))
        while path.stat().st_ctime_ns == status.st_ctime_ns:  # of a clock that ticks slowly
            os.utime(path, ns=(1, 1))
    with pytest.raises(UserError, match=rf"was begun before {path} changed: name another folder"):
        record_inputs(Path(started.output), started, {})


def test_a_file_that_was_copied_is_the_same(
    started: PreparationConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = list_files(started)
    with monkeypatch.context() as patched:
        patched.setattr("nmt.preparing.inputs.digest_file", lambda path: pytest.fail("read"))
        record_inputs(Path(started.output), started, {})  # times and size are enough
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    os.utime(path, ns=(2, 2))
    record_inputs(Path(started.output), started, {})
    path.write_bytes(content + b"one\tmore\n")
    with pytest.raises(UserError, match="was begun before"):
        record_inputs(Path(started.output), started, {})


def test_a_folder_that_an_older_version_began_lacks_later_keys(
    started: PreparationConfig,
) -> None:
    path = Path(started.output) / BEGUN_FILE
    recorded = read_json(path)
    for key in ("data.known_tags", "data.noise.quotes", "tokenizer.slots"):
        del recorded[key]
    write_json(path, recorded)
    record_inputs(Path(started.output), started, {})
    (Path(started.output) / "shards").mkdir()  # from now on, the tokenizer is kept, too
    changed = replace(started, tokenizer=replace(started.tokenizer, slots=2))
    with pytest.raises(UserError, match=r"begun with tokenizer\.slots=0, and not with 2"):
        record_inputs(Path(started.output), changed, {})


def test_duplicates_keep_the_first_across_sources(tmp_path: Path) -> None:
    pairs = singles(6)
    for name, of in (("one", pairs[:4]), ("two", pairs[2:])):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in of))
    sources = {
        "one": SourceConfig(kind="files", path=str(tmp_path / "one.tsv")),
        "two": SourceConfig(kind="files", path=str(tmp_path / "two.tsv"), weight=2.0),
        "back": SourceConfig(kind="same", of="one", reverse=True, tag="<back>"),
    }
    corpus = prepared(plan(tmp_path, data=configure(sources), shard_lines=3))
    sizes = {shard["source"]: 0 for shard in corpus.manifest["shards"]}
    for shard in corpus.manifest["shards"]:
        sizes[shard["source"]] += shard["pairs"]
    assert sizes == {"one": 4, "two": 2, "back": 4}  # another direction is another pair
    assert corpus.rejected == {"duplicate": 2}
    assert Pair("<back> sentence 0", "frase 0") in trained_on(corpus)


def test_weights_of_sources_are_for_training_to_choose(tmp_path: Path) -> None:
    for name, of in (("one", singles(9)[:6]), ("two", singles(9)[6:])):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in of))
    sources = {
        name: SourceConfig(kind="files", path=str(tmp_path / f"{name}.tsv"))
        for name in ("one", "two")
    }
    config = plan(tmp_path, data=configure(sources))
    plain = prepared(config)
    assert set(trained_on(plain).values()) == {1}
    weights = {"one": 1.0, "two": 2.0}
    sources = {name: replace(sources[name], weight=weights[name]) for name in sources}
    stages = [StageConfig(weights={"one": 0.0}, steps=1), StageConfig()]
    corpus = prepared(config, sources=sources, stages=stages)
    train = trained_on(corpus)
    assert {count: sum(n == count for n in train.values()) for count in (1, 4)} == {1: 6, 4: 3}
    assert corpus.epoch_pairs == 18
    assert [dict(mixture) for mixture in corpus.stage_repeats] == [{"two": 1}, {"one": 1, "two": 4}]


def test_files_of_dev_and_test_are_not_chosen_from(tmp_path: Path) -> None:
    pairs = singles(30)
    (tmp_path / "all.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    (tmp_path / "dev.tsv").write_text("Frase 3!\tother\nx\t" + "y " * 300 + "\n")
    sources = {
        "all": SourceConfig(kind="files", path=str(tmp_path / "all.tsv")),
        "dev": SourceConfig(kind="files", path=str(tmp_path / "dev.tsv"), split="dev"),
    }
    corpus = prepared(plan(tmp_path, data=configure(sources, dev=5, test=4)))
    assert corpus.dev[0] == Pair("Frase 3!", "other")
    assert len(corpus.dev) == 2
    assert len(corpus.test) == 4
    assert corpus.rejected == {"in dev or test": 1}
    assert len(trained_on(corpus)) == 25


def test_rejected_lines_of_a_dev_file_are_kept(tmp_path: Path) -> None:
    (tmp_path / "all.tsv").write_text(table([*singles(30), ("", "nothing")]))
    (tmp_path / "dev.tsv").write_text("hola\thello\nsolo\n")
    sources = {
        name: SourceConfig("files", path=str(tmp_path / f"{name}.tsv"), split=split)
        for name, split in (("all", "train"), ("dev", "dev"))
    }
    corpus = prepared(plan(tmp_path, data=configure(sources)))
    assert corpus.rejected == {"missing column": 1, "empty side": 1}
    assert sorted(cells[:2] for cells in rejected_in(corpus)) == [
        ["empty side", f"{tmp_path / 'all.tsv'}:31"],
        ["missing column", f"{tmp_path / 'dev.tsv'}:2"],
    ]


def test_weights_of_pairs_reach_the_batch(tmp_path: Path) -> None:
    pairs = [(f"frase {i}", f"sentence {i}\t{i / 4}") for i in range(5)]
    corpus = prepared(plan(tmp_path, [*pairs, ("no", "number\tx")], columns=[0, 1, 2]))
    [batch] = batches_of(corpus).in_order()
    assert corpus.rejected == {"weight that is no number": 1}
    weights = {}
    for row, segments in enumerate(batch["target_segments"]):
        for segment in range(1, segments.max() + 1):
            ids = batch["labels"][row][segments == segment][:-1]
            [weight] = set(batch["weights"][row][segments == segment].tolist())
            weights[corpus.load_tokenizer().decode([ids])[0]] = weight
    assert weights == {f"sentence {i}": i / 4 for i in range(5)}
    assert not batch["weights"][batch["target_segments"] == 0].any()
    older = dict(corpus.manifest)
    older["weighed"] = older.pop("has_weights")
    [of_older] = batches_of(replace(corpus, manifest=older)).in_order()
    np.testing.assert_array_equal(of_older["weights"], batch["weights"])


def test_text_that_is_wrong_is_left_out(tmp_path: Path) -> None:
    pytest.importorskip("ftfy")
    pairs = [
        ("El niño está aquí.", "The boy is here."),
        ("El niÃ±o estÃ¡ aquÃ­.", "The boy is there."),
        ("Donâ€™t go.", "No vayas."),
        ("Un signo \ufffd raro.", "An odd sign."),
    ]
    corpus = prepared(plan(tmp_path, pairs, encoding_faults=True))
    assert corpus.rejected == {"encoding fault": 3}


def test_other_languages_are_left_out(tmp_path: Path) -> None:
    pairs = [
        ("¿Dónde está la estación de trenes?", "Where is the railway station?"),
        ("Je ne sais pas quoi faire aujourd'hui.", "I do not know what to do today."),
        ("No sé qué hacer hoy por la tarde.", "Das ist ein sehr schönes Haus."),
    ]
    corpus = prepared(plan(tmp_path, pairs, language_certainty=0.9))
    assert corpus.rejected == {"language": 2}


def complaint(config: PreparationConfig) -> str:
    with pytest.raises(UserError) as caught:
        prepared(config)
    return str(caught.value)


def test_errors_name_what_is_wrong(tmp_path: Path) -> None:
    pairs = singles(30)
    config = plan(tmp_path, pairs, dev=5)
    prepared(config)
    changed = plan(tmp_path, pairs, dev=6)
    assert "begun with data.dev=5, and not with 6" in complaint(changed)
    assert "begun with prepare.shard_lines=40, and not with 9" in complaint(
        plan(tmp_path, pairs, dev=5, shard_lines=9)
    )
    prepared(plan(tmp_path, pairs, dev=5, processes=2))  # as many as one likes
    grown = plan(tmp_path, [*pairs, ("más", "more")], dev=5)
    assert "pairs.tsv changed" in complaint(grown)

    (tmp_path / "other" / "prepared").mkdir(parents=True)
    (tmp_path / "other" / "prepared" / "letter.txt").touch()
    assert "holds letter.txt" in complaint(plan(tmp_path / "other", pairs))
    assert "at least half must stay" in complaint(plan(tmp_path / "greedy", pairs, dev=20))
    assert "none of the 2 lines" in complaint(plan(tmp_path / "poor", [("", "x"), ("x", "")]))


def test_patterns_name_several_files(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"part{i}.tsv").write_text(f"frase {i}\tsentence {i}\n")
    data = configure(path=str(tmp_path / "part*.tsv"))
    corpus = prepared(plan(tmp_path, data=data))
    assert len(trained_on(corpus)) == 3
    assert [len(shard["rows"]) for shard in corpus.manifest["shards"]] == [1]
    missing = configure(path=str(tmp_path / "no*.tsv"))
    assert "no file has such a name" in complaint(plan(tmp_path / "x", data=missing))


def test_a_shard_may_be_left_with_nothing(tmp_path: Path) -> None:
    pairs = [*singles(3), *[("", "x")] * 3, *singles(3), ("more", "más")]
    corpus = prepared(plan(tmp_path, pairs, shard_lines=3, near_duplicates=0.9))
    assert [shard["pairs"] for shard in corpus.manifest["shards"]] == [1, 0, 0, 1]
    assert corpus.rejected == {"empty side": 3, "duplicate": 3, "near duplicate": 2}
    assert sum(trained_on(corpus).values()) == 2


def test_an_epoch_has_every_pair_once(reference: Any) -> None:
    expected = ids_in(batches_of(reference).in_order())
    for seed in (1, 2):
        batches = batches_of(reference, seed=seed)
        for epoch in (0, 3):
            steps = range(epoch * batches.steps_per_epoch, (epoch + 1) * batches.steps_per_epoch)
            epoch_batches = [batches.batch(step) for step in steps]
            assert ids_in(iter(epoch_batches)) == expected
            used = sum(
                np.count_nonzero(batch[f"{side}_segments"])
                for batch in epoch_batches
                for side in ("source", "target")
            )
            assert used == batches.tokens_per_epoch


def test_some_rows_are_those_of_the_whole_batch(reference: Any) -> None:
    batches = batches_of(reference)
    for step in range(batches.steps_per_epoch):
        complete = batches.batch(step)
        rows = len(complete["labels"])
        for chosen in ([0], [rows - 1, rows, rows + 1], [rows]):
            selected = batches.batch(step, 0, lambda count, chosen=chosen: np.array(chosen))
            for name, array in selected.items():
                filled = np.concatenate(
                    [complete[name], np.zeros((2, array.shape[1]), array.dtype)]
                )
                np.testing.assert_array_equal(array, filled[chosen])


def test_a_refused_preparation_leaves_no_trace(tmp_path: Path) -> None:
    config = plan(tmp_path, singles(30))
    [path] = list_files(config)
    path.rename(tmp_path / "away.tsv")
    assert "does not exist" in complaint(config)
    (tmp_path / "away.tsv").rename(path)
    assert prepared(plan(tmp_path, singles(40))).rejected == {}


def test_the_tokenizer_may_change_until_it_is_trained(tmp_path: Path) -> None:
    pairs = singles(30)
    message = complaint(plan(tmp_path, pairs, vocabulary_size=20))
    assert message.startswith("tokenizer.vocabulary_size=20 is too small")
    corpus = prepared(plan(tmp_path, pairs, vocabulary_size=300))
    assert corpus.load_tokenizer().vocabulary_size == 300
    assert "begun with tokenizer.vocabulary_size=300, and not with 400" in complaint(
        plan(tmp_path, pairs, vocabulary_size=400)
    )


def test_a_sample_without_lines_is_refused(tmp_path: Path) -> None:
    message = complaint(plan(tmp_path, singles(3000), tokenizer_lines=2, shard_lines=3000))
    assert message.startswith("prepare.tokenizer_lines=2 drew no line: raise it")


def test_groups_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"pairs\.group_column is for corpora that fit into memory"):
        plan(tmp_path, singles(30), group_column=1)
