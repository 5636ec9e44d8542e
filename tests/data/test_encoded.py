"""A corpus is encoded once per (pairs, tokenizer), and a crash leaves nothing half-written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from nmt.data import encoded as encoded_module
from nmt.data.encoded import EncodedCorpus, encode_pairs, load_encoded
from nmt.data.ragged import RaggedIds
from nmt.data.splitting import Pair
from nmt.errors import UserError

PAIRS = [
    Pair("Hola.", "Hi."),
    Pair("Adiós, Ana.", "Bye, Ana."),
    Pair("Sí.", "Yes."),
    Pair("¿Qué?", "What?"),
    Pair("No.", "No."),
]


class Letters:
    """A tokenizer stub that gives every character its code point, and notes what it is asked."""

    vocabulary_size = 0x110000
    slots = 0
    lowercases = False

    def __init__(self, fingerprint: str = "letters", fail_after: int | None = None) -> None:
        self._fingerprint = fingerprint
        self._fail_after = fail_after
        self.asked: list[list[str]] = []

    @property
    def target(self) -> Letters:
        return self

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        self.asked.append(list(texts))
        if self._fail_after is not None and len(self.asked) > self._fail_after:
            raise self.failure
        return [np.array([ord(sign) for sign in text], np.int32) for text in texts]

    failure: BaseException = RuntimeError("out of order")

    def decode(self, sequences: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        return ["".join(chr(i) for i in ids) for ids in sequences]

    def pieces(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        return [chr(i) for i in ids]

    def save(self, folder: Path) -> None:
        raise AssertionError("nobody asked for it to be saved")

    @property
    def fingerprint(self) -> str:
        return self._fingerprint


def assert_holds(corpus: EncodedCorpus, pairs: Sequence[Pair]) -> None:
    """Check that the corpus gives every pair back, letter by letter."""
    assert len(corpus) == len(pairs)
    for i, pair in enumerate(pairs):
        assert "".join(map(chr, corpus.source[i])) == pair.source
        assert "".join(map(chr, corpus.target[i])) == pair.target


def test_an_empty_corpus() -> None:
    assert len(EncodedCorpus(RaggedIds.of([]), RaggedIds.of([]))) == 0


def test_sides_must_be_aligned() -> None:
    single, double = (RaggedIds.of([np.array([4])] * count) for count in (1, 2))
    with pytest.raises(ValueError, match="1 source sequences, 2 target sequences"):
        EncodedCorpus(single, double)


def test_encode_pairs_keeps_sides_and_order() -> None:
    assert_holds(encode_pairs(PAIRS, Letters()), PAIRS)
    assert_holds(encode_pairs([], Letters()), [])


def test_encoded_once_and_then_reused(tmp_path: Path) -> None:
    tokenizer = Letters()
    assert_holds(load_encoded(PAIRS, tokenizer, tmp_path), PAIRS)
    assert [text for texts in tokenizer.asked for text in texts] == [
        *(pair.source for pair in PAIRS),
        *(pair.target for pair in PAIRS),
    ]

    # Neither the same tokenizer nor its copy in another process has anything to do now.
    requests = len(tokenizer.asked)
    assert_holds(load_encoded(list(PAIRS), tokenizer, tmp_path), PAIRS)
    assert len(tokenizer.asked) == requests
    copy = Letters(fail_after=0)
    assert_holds(load_encoded(PAIRS, copy, tmp_path), PAIRS)
    assert copy.asked == []


@pytest.mark.parametrize(
    ("pairs", "fingerprint"),
    [
        (PAIRS, "other"),
        (PAIRS[:-1], "letters"),
        (PAIRS[::-1], "letters"),
        ([Pair(target, source) for source, target in PAIRS], "letters"),
        ([Pair("Hola", ".Hi."), *PAIRS[1:]], "letters"),  # a letter moved to the other side
        ([Pair("Hola!", "Hi."), *PAIRS[1:]], "letters"),
    ],
    ids=["tokenizer", "fewer", "order", "direction", "boundary", "one letter"],
)
def test_other_input_is_encoded_anew(tmp_path: Path, pairs: list[Pair], fingerprint: str) -> None:
    load_encoded(PAIRS, Letters(), tmp_path)
    tokenizer = Letters(fingerprint)
    assert_holds(load_encoded(pairs, tokenizer, tmp_path), pairs)
    assert tokenizer.asked
    assert_holds(load_encoded(PAIRS, Letters(fail_after=0), tmp_path), PAIRS)  # both are kept


def test_encoded_corpus_is_mapped_not_read(tmp_path: Path) -> None:
    corpus = load_encoded(PAIRS, Letters(), tmp_path)
    for side in (corpus.source, corpus.target):
        assert isinstance(side.ids, np.memmap)
        assert isinstance(side.offsets, np.memmap)
        assert side.ids.dtype == np.int32
        assert side.offsets.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            side.ids[0] = 1


def test_an_empty_corpus_is_cached_too(tmp_path: Path) -> None:
    for _ in range(2):
        assert_holds(load_encoded([], Letters(), tmp_path), [])
    assert_holds(load_encoded([Pair("", "")], Letters(), tmp_path), [Pair("", "")])


def test_encoding_in_parts_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_module, "_CHUNK", 2)
    tokenizer = Letters()
    assert_holds(load_encoded(PAIRS, tokenizer, tmp_path), PAIRS)
    assert max(map(len, tokenizer.asked)) == 2


@pytest.mark.parametrize("failure", [RuntimeError("bug"), KeyboardInterrupt(), UserError("fault")])
def test_a_crash_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    monkeypatch.setattr(encoded_module, "_CHUNK", 2)
    broken = Letters(fail_after=3)  # in the middle of the second part
    broken.failure = failure
    with pytest.raises(type(failure)):
        load_encoded(PAIRS, broken, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.name != "encoded"] == []
    assert_holds(load_encoded(PAIRS, Letters(), tmp_path), PAIRS)


def test_nothing_but_the_finished_folder_remains(tmp_path: Path) -> None:
    load_encoded(PAIRS, Letters(), tmp_path)
    folders = list((tmp_path / "encoded").iterdir())
    assert len(folders) == 1
    assert not folders[0].name.startswith(".")


@pytest.mark.parametrize("damage", ["source.ids.npy", "target.offsets.npy", ".sizes.json"])
@pytest.mark.parametrize("cut", [None, 0, 1])
def test_what_lost_its_power_is_made_anew(tmp_path: Path, damage: str, cut: int | None) -> None:
    """A file that a disk never got, or half of: after power was lost, or with a full disk."""
    load_encoded(PAIRS, Letters(), tmp_path)
    [folder] = (tmp_path / "encoded").iterdir()
    if cut is None:
        (folder / damage).unlink()
    else:
        content = (folder / damage).read_bytes()
        (folder / damage).write_bytes(content[: cut * len(content) // 2])
    assert_holds(load_encoded(PAIRS, Letters(), tmp_path), PAIRS)
    assert [path.name for path in (tmp_path / "encoded").iterdir()] == [folder.name]


def test_others_may_read_a_cache(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        load_encoded(PAIRS, Letters(), tmp_path)
    finally:
        os.umask(before)
    [folder] = (tmp_path / "encoded").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o755
