"""Lines are kept or counted, sources are weighed and tagged, dev and test are kept apart."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from sample_corpora import (
    compact_pairs,
    complaint,
    configure,
    load_bytes,
    load_pairs,
    load_text,
    singles,
    table,
)

import nmt
from nmt.config import Config, DataConfig, SourceConfig
from nmt.data import filtering
from nmt.data.corpus import Corpus, load_corpus
from nmt.data.embedded import phrasebook_dir
from nmt.data.evaluation_sets import (
    find_target_language,
    gather_references,
    group_by_target_language,
    join_pairs,
)
from nmt.data.mixture import SourcePairs
from nmt.data.rejections import rejection_table
from nmt.data.splitting import Pair, normalized
from nmt.text.cleaning import clean_text
from nmt.text.context import CONTEXT_MARK

# --- Lines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "changes", "reason"),
    [
        (b"sol\xff\tsun", {}, "malformed UTF-8"),
        (b"sol\tsun\tattribution \xe9", {}, "malformed UTF-8"),
        (b"\xc3\tsun", {}, "malformed UTF-8"),  # a character cut in half
        (b"sol sun", {}, "missing column"),
        (b"", {}, "missing column"),
        (b"sol\tsun", {"columns": [0, 2]}, "missing column"),
        (b"\tsun", {}, "empty side"),
        (b"sol\t \xc2\xa0 ", {}, "empty side"),
        (b"sol\t\x00", {}, "empty side"),
        (b"sol\t\xe2\x80\x8d", {}, "empty side"),  # a joiner that joins nothing
        (b"el sol\tsun", {"min_words": 2}, "too short"),
        (b"sol\tthe sun", {"min_words": 2}, "too short"),
        (b"sol\tthe sun shines", {"max_words": 2}, "too long"),
        (b"sol sol sol\tsun", {"max_words": 2}, "too long"),
        (b"soles\tsun", {"max_characters": 4}, "too long"),
        (b"sol\tsunny", {"max_characters": 4}, "too long"),
        (b"sol\t0123456789", {"length_ratio_margin": 0}, "length ratio"),  # 10 > 3 x 3
        (b"0123456789\tsol", {"length_ratio_margin": 6}, "length ratio"),  # by 7 characters
        (b"gato\tcat", {}, "duplicate"),
        (b" gato \tcat\r", {}, "duplicate"),
    ],
)
def test_a_line_is_rejected_under_one_reason(
    tmp_path: Path, line: bytes, changes: dict[str, Any], reason: str
) -> None:
    good = b"gato\tcat\tcat\n" if changes != {"min_words": 2} else b"un gato\ta cat\n"
    corpus = load_bytes(tmp_path, good + line + b"\n", **changes)
    assert corpus.rejected == {reason: 1}
    assert len(corpus.train) == 1
    assert corpus.lines == 2


ODD = [("字" * 40, "y" * 44), ("字" * 4, "y" * 80)]  # target far too short, far too long


def test_lengths_are_compared_as_the_corpus_has_them(tmp_path: Path) -> None:
    pairs = compact_pairs(300)
    corpus = load_pairs(tmp_path, [*ODD, *pairs])
    assert corpus.train == [Pair(*pair) for pair in pairs]
    assert corpus.rejected == {"length ratio": 2}
    assert corpus.length_ratios == {"pairs": pytest.approx(3.6, abs=0.4)}
    turned = load_pairs(tmp_path, [pair[::-1] for pair in [*ODD, *pairs]])
    assert turned.train == [Pair(*pair[::-1]) for pair in pairs]
    assert turned.length_ratios["pairs"] == pytest.approx(1 / corpus.length_ratios["pairs"])


def test_the_usual_length_ratio_can_be_given(tmp_path: Path) -> None:
    pairs = compact_pairs(300)
    with pytest.warns(UserWarning, match="only 1 of the 302 lines read is usable"):
        alike = load_pairs(tmp_path, [*ODD, *pairs], typical_length_ratio=1.0)
    assert alike.train == [Pair(*ODD[0])]
    assert alike.rejected == {"length ratio": 301}
    configured = load_pairs(tmp_path, pairs[:50], typical_length_ratio=3.6)
    assert len(configured.train) == 50


@pytest.mark.parametrize(("count", "rejected"), [(2, 1), (99, 1), (100, 0)])
def test_few_lines_do_not_tell_a_length_ratio(tmp_path: Path, count: int, rejected: int) -> None:
    pairs = [("字" * 20, "x" * 81), *((f"{n:03}", f"{n:012}") for n in range(count - 1))]
    corpus = load_pairs(tmp_path, [*pairs, ("", "empty"), ("empty", "")], length_ratio_margin=60)
    assert corpus.rejected.get("length ratio", 0) == rejected
    assert len(corpus.train) == count - rejected


def test_a_bounded_number_of_lines_tells_the_length_ratio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [*compact_pairs(200), *singles(1000)]
    assert load_pairs(tmp_path, pairs).length_ratios == {"pairs": 1.0}
    monkeypatch.setattr(filtering, "SAMPLED_LINES", 300)
    assert load_pairs(tmp_path, pairs).length_ratios["pairs"] > 3
    monkeypatch.setattr(filtering, "SAMPLED_LINES", 20_000)
    monkeypatch.setattr(filtering, "SAMPLED_BYTES", len(table(pairs[:300]).encode()))
    assert load_pairs(tmp_path, pairs).length_ratios["pairs"] > 3


def test_the_embedded_corpus_is_judged_as_ever() -> None:
    assert load_corpus(embedded(0, 0.3), cache_dir=Path()).length_ratios == {"written": 1.0}


@pytest.mark.parametrize(
    ("line", "changes", "pair"),
    [
        (b"sol\tsun", {"min_words": 1, "max_words": 1, "max_characters": 3}, ("sol", "sun")),
        (b"sol\t012345678", {"length_ratio_margin": 0}, ("sol", "012345678")),  # 9 = 3 x 3
        (b"sol\t0123456789", {"length_ratio_margin": 7}, ("sol", "0123456789")),  # by 7
        (b"sol\tsun\tCC-BY 2.0 #123", {}, ("sol", "sun")),
        (b"sol\tsun", {"columns": [1, 0]}, ("sun", "sol")),
        (b"\xef\xbf\xbd\tsun", {}, ("\ufffd", "sun")),  # a genuine replacement character
        ("año\u2028nuevo\tnew\x0byear\x0cday".encode(), {}, ("año nuevo", "new year day")),
        (b"\xf0\x9f\x98\x80\t:)", {}, ("😀", ":)")),
    ],
)
def test_a_line_is_kept(
    tmp_path: Path, line: bytes, changes: dict[str, Any], pair: tuple[str, str]
) -> None:
    corpus = load_bytes(tmp_path, line + b"\n", **changes)
    assert corpus.train == [Pair(*pair)]
    assert corpus.rejected == {}


def test_every_line_is_counted_exactly_once(tmp_path: Path) -> None:
    lines = [
        b"\xef\xbb\xbfsol\tsun",  # kept, after a byte order mark
        b"luna\tmoon\tsomebody",  # kept
        b"luna\tmoon",  # duplicate
        b"luna \tmoon\0",  # duplicate
        b"\xff",  # malformed rather than missing a column
        b"luna",  # missing column
        b"\t" + b"x" * 900,  # empty rather than too long
        b"Luna\tmoon",  # kept: another case is another pair
    ]
    rejected = tmp_path / "made" / "on the way" / "rejected.tsv"
    corpus = load_bytes(tmp_path, b"\r\n".join(lines), rejected_file=rejected)
    assert corpus.train == [Pair("sol", "sun"), Pair("luna", "moon"), Pair("Luna", "moon")]
    assert corpus.rejected == {
        "duplicate": 2,
        "malformed UTF-8": 1,
        "missing column": 1,
        "empty side": 1,
    }
    assert corpus.lines == 8
    file = tmp_path / "corpus.tsv"
    assert rejected.read_bytes().decode().split("\n") == [
        f"duplicate\t{file}:3\tluna\tmoon",
        f"duplicate\t{file}:4\tluna \tmoon\0",
        f"malformed UTF-8\t{file}:5\t\ufffd",
        f"missing column\t{file}:6\tluna",
        f"empty side\t{file}:7\t\t" + "x" * 900,
        "",
    ]


LINES = st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"\t"))


@given(st.lists(LINES, min_size=1, max_size=20))
def test_no_bytes_get_lost_or_raise(lines: list[bytes]) -> None:
    valid = 200 * b"ancla\tanchor\n"  # a file is refused if more than a tenth is not UTF-8
    with tempfile.TemporaryDirectory() as folder:
        corpus = load_bytes(Path(folder), valid + b"\n".join(lines) + b"\n")
    assert corpus.lines == len(lines) + 200
    assert len(corpus.train) + sum(corpus.rejected.values()) == corpus.lines


def test_rejected_file_is_written_even_when_no_line_is_usable(tmp_path: Path) -> None:
    rejected = tmp_path / "rejected.tsv"
    complaint(lambda: load_text(tmp_path, "sol\n", rejected_file=rejected))
    assert rejected.read_text() == f"missing column\t{tmp_path / 'corpus.tsv'}:1\tsol\n"


def test_rejected_file_never_overwrites_the_corpus(tmp_path: Path) -> None:
    table_path = tmp_path / "." / "corpus.tsv"
    message = complaint(lambda: load_text(tmp_path, "sol\tsun\n", rejected_file=table_path))
    assert "data.rejected_file" in message
    assert "would overwrite the corpus" in message
    assert (tmp_path / "corpus.tsv").read_text() == "sol\tsun\n"


@pytest.mark.parametrize("link", [Path.hardlink_to, Path.symlink_to])
def test_rejected_file_never_overwrites_the_corpus_under_another_name(
    tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("sol\tsun\n")
    link(tmp_path / "other", corpus)
    config = configure(path=str(corpus))
    message = complaint(
        lambda: load_corpus(config, cache_dir=tmp_path, rejected_file=tmp_path / "other")
    )
    assert "would overwrite the corpus" in message
    assert corpus.read_text() == "sol\tsun\n"


def test_rejected_file_never_overwrites_a_test_set(tmp_path: Path) -> None:
    tests = tmp_path / "held_out.tsv"
    tests.write_text("sol\tsun\n")
    config = configure(path=str(tmp_path / "corpus.tsv"), tests={"held_out": str(tests)})
    message = complaint(lambda: load_corpus(config, cache_dir=tmp_path, rejected_file=tests))
    assert "would overwrite the corpus" in message
    assert tests.read_text() == "sol\tsun\n"


def test_rejected_file_that_cannot_be_written(tmp_path: Path) -> None:
    message = complaint(lambda: load_text(tmp_path, "sol\tsun\n", rejected_file=tmp_path))
    assert message.startswith(f"data.rejected_file={tmp_path} cannot be written")


def test_rejection_table() -> None:
    corpus = Corpus(
        mixture=(
            SourcePairs("talk", [Pair("a", "b")] * 900, repeats=3, is_read=True),
            SourcePairs("news", [Pair("f", "g")] * 100, repeats=1, is_read=True),
            SourcePairs("patterns", [Pair("h", "i")] * 70, repeats=1, is_read=False),
        ),
        dev=[Pair("c", "d")] * 20,
        test=[Pair("e", "f")] * 10,
        rejected={"duplicate": 900, "too long": 70},
        lines=2000,
    )
    console = Console(file=io.StringIO(), width=100)
    console.print(rejection_table(corpus))
    assert isinstance(console.file, io.StringIO)
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in console.file.getvalue().splitlines()
        if line.startswith("│")
    ]
    assert rows == [
        ["rejected: duplicate", "900", "45.0%"],
        ["rejected: too long", "70", "3.5%"],
        ["kept", "1,030", "51.5%"],
        ["train", "1,000", "50.0%"],
        ["dev", "20", "1.0%"],
        ["test", "10", "0.5%"],
    ]


def test_an_empty_corpus(tmp_path: Path) -> None:
    assert "empty, 0 lines were read" in complaint(lambda: load_bytes(tmp_path, b""))


def test_no_usable_line_names_the_most_frequent_reason(tmp_path: Path) -> None:
    message = complaint(lambda: load_text(tmp_path, "sol\nsol\nsol\t\n"))
    assert "none of the 3 lines read is usable" in message
    assert "'missing column' (2): check data.columns and the length limits" in message


def test_hardly_any_usable_line_is_worth_a_word(tmp_path: Path) -> None:
    lines = "".join(f"palabra {number}\tword {number}\n" for number in range(10))
    wrong = "".join(f"sol {number}\n" for number in range(90))
    with pytest.warns(UserWarning, match=r"only 10 of the 100 lines .* 'missing column' \(90\)"):
        load_text(tmp_path, lines + wrong)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_text(tmp_path, lines * 20)


# --- The embedded corpus ----------------------------------------------------------------------


def phrasebook_topics() -> dict[Pair, str]:
    return {
        Pair(*map(clean_text, line.split("\t"))): path.stem
        for path in phrasebook_dir().glob("*.tsv")
        for line in path.read_text(encoding="utf-8").splitlines()
    }


def generated(pairs: int, **changes: Any) -> SourceConfig:
    return SourceConfig(kind="patterns", pairs=pairs, split="train", **changes)


def embedded(patterns: int, share: float) -> DataConfig:
    """Return the embedded corpus with so many patterns, to be such a share of an epoch."""
    written = SourceConfig(kind="phrasebook", weight=1 - share)
    patterns_source = generated(patterns, weight=share)
    return configure({"written": written, "patterns": patterns_source}, dev=400, test=500)


def test_phrasebook_of_a_checkout_mixes_lines_and_patterns_without_leaks(
    compose: Callable[..., Config],
) -> None:
    assert phrasebook_dir() == Path(nmt.__file__).parents[1] / "data" / "phrasebook"
    topics = phrasebook_topics()
    config = compose("data.sources.patterns.pairs=4000").data
    corpus = load_corpus(config, cache_dir=Path())
    for split in (corpus.dev, corpus.test):  # hand-written lines only, from most topics
        assert len(split) >= 300
        assert len({topics[pair] for pair in split}) >= 0.7 * len(set(topics.values()))
    written, patterns = corpus.mixture
    assert (written.name, written.is_read, patterns.name) == ("written", True, "patterns")
    assert not patterns.is_read
    assert 3500 < len(patterns.pairs) <= 4000
    assert len(set(corpus.train[-len(patterns.pairs) :])) == len(patterns.pairs)
    for side in range(2):
        trained = {normalized(pair[side]) for pair in corpus.train}
        dev, test = (
            {normalized(pair[side]) for pair in part} for part in (corpus.dev, corpus.test)
        )
        assert not trained & dev
        assert not trained & test
        assert not dev & test


@pytest.mark.parametrize(("ratio", "repeats"), [(2.0, 2), (0.1, 1), (0.001, 1)])
def test_hand_written_lines_are_repeated_to_keep_the_share_of_patterns(
    ratio: float, repeats: int
) -> None:
    """1,000 patterns have a share that would take ``ratio`` times the lines there are."""
    files = phrasebook_dir().glob("*.tsv")
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in files)
    corpus = load_corpus(embedded(1000, 1000 / (1000 + ratio * lines)), cache_dir=Path())
    written, patterns = corpus.mixture
    assert (written.repeats, patterns.repeats) == (repeats, 1)
    assert corpus.train == written.pairs * repeats + patterns.pairs
    assert Counter(corpus.train[: -len(patterns.pairs)]).most_common()[-1][1] == repeats
    assert corpus.lines == len(written.pairs) + len(corpus.dev) + len(corpus.test)


def test_without_patterns_every_line_stands_once() -> None:
    corpus = load_corpus(embedded(0, 0.3), cache_dir=Path())
    assert [source.name for source in corpus.mixture] == ["written"]
    assert len(set(corpus.train)) == len(corpus.train)


def test_patterns_may_be_turned_around(tmp_path: Path) -> None:
    forward, backward = (
        load_corpus(configure({"patterns": source}), cache_dir=tmp_path)
        for source in (generated(200), generated(200, columns=[1, 0]))
    )
    assert len(forward.train) == 200
    assert backward.train == [Pair(pair.target, pair.source) for pair in forward.train]
    assert (forward.dev, forward.test, forward.lines, forward.rejected) == ([], [], 0, {})


def test_pairs_are_joined_without_a_rest() -> None:
    pairs = [Pair(str(number), chr(97 + number)) for number in range(5)]
    assert join_pairs(pairs, 2) == [Pair("0 1", "a b"), Pair("2 3", "c d")]
    assert join_pairs([Pair("你好。", "Hi."), Pair("我走了。", "Bye.")], 2) == [
        Pair("你好。我走了。", "Hi. Bye.")
    ]
    assert join_pairs(pairs, 5) == [Pair("0 1 2 3 4", "a b c d e")]
    assert complaint(lambda: join_pairs(pairs, 6)) == ("cannot join 6 pairs: there are only 5")
    tagged = [Pair(f"<{'ab'[i % 2]}> {pair.source}", pair.target) for i, pair in enumerate(pairs)]
    assert join_pairs(tagged, 2, ["<a>", "<b>"]) == [Pair("<a> 0 2", "a c"), Pair("<b> 1 3", "b d")]
    message = complaint(lambda: join_pairs(tagged[:3], 3, ["<a>", "<b>"]))
    assert message == "cannot join 3 pairs: there are fewer of each tag"


def test_tags_tell_the_target_language() -> None:
    pairs = SourceConfig(kind="files", path="a.tsv", tag="<2en>")
    back = SourceConfig(kind="same", of="pairs", tag="<2zh>", reverse=True, split="train")
    both = configure({"pairs": pairs, "back": back}, source_language="zh", context=1)
    sources = ["<2zh> Hello.", "<2en> 你好。", "你好。", f"<2zh> One. {CONTEXT_MARK} Two."]
    sources.append(f"<2zh> One. {CONTEXT_MARK} <2zh> Two.")
    sources += [" <2zh>\tHello.", "<2zh>Hello.", ""]  # as files may have them
    assert group_by_target_language(both, sources) == {"en": [1, 2, 6, 7], "zh": [0, 3, 4, 5]}
    assert find_target_language(both, sources) == "en"
    assert find_target_language(both, sources[:1]) == "zh"
    assert find_target_language(replace(both, reverse=True), sources[:1]) == "en"
    assert group_by_target_language(both, []) == {"en": []}
    # Without tags, or with one for both directions, there is but one language to tell.
    untagged = configure({"pairs": pairs, "back": replace(back, tag="<2en>")}, source_language="zh")
    assert group_by_target_language(untagged, sources[:2]) == {"en": [0, 1]}


def test_references_of_one_source_are_gathered() -> None:
    pairs = [Pair("a", "1"), Pair("b", "2"), Pair("a", "3"), Pair("c", "4"), Pair("a", "5")]
    assert gather_references([*pairs, Pair("c", "6")]) == (
        [0, 1, 3],
        [("3", None, "6"), ("5", None, None)],
    )
    assert gather_references(pairs[1:2]) == ([0], [])
