"""Converted weights are stored where possible, and never outdated or damaged ones are used."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError
from nmt.formats.weights import converted
from nmt.formats.weights.converted import CONVERTED_FILE, check_converted_file, load_or_convert
from nmt.formats.weights.ctranslate2 import NotConvertibleError
from nmt.runs.checkpoint import read_arrays, write_arrays
from nmt.runs.folder import RunFolder

pytestmark = pytest.mark.xdist_group("exports")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user's cache is."""
    folder = tmp_path / "cache"
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: folder / name)
    return folder


@pytest.fixture
def run(parrot_run: Path, tmp_path: Path) -> RunFolder:
    folder = shutil.copytree(parrot_run, tmp_path / "run")
    (folder / "checkpoints" / CONVERTED_FILE).unlink(missing_ok=True)
    return RunFolder(folder)


def files_of(run: RunFolder) -> dict[str, bytes]:
    return load_or_convert(run, run.load_tokenizer())


def change_weights(run: RunFolder) -> None:
    arrays, metadata = read_arrays(run.checkpoints.best)
    write_arrays(run.checkpoints.best, {name: -array for name, array in arrays.items()}, metadata)


def test_it_is_made_once_beside_the_checkpoint(run: RunFolder, cache: Path) -> None:
    files = files_of(run)
    assert files.keys() == {"config.json", "model.bin", "shared_vocabulary.json"}
    path = run.checkpoints.folder / CONVERTED_FILE
    before = path.stat()
    check_converted_file(path)
    assert files_of(run) == files
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino
    assert not cache.exists()


def test_it_is_made_anew_when_the_checkpoint_changes(run: RunFolder) -> None:
    files = files_of(run)
    change_weights(run)
    changed = files_of(run)
    assert changed["model.bin"] != files["model.bin"]
    assert files_of(run) == changed


def test_it_is_made_anew_for_the_attention_of_another_layer(run: RunFolder) -> None:
    tokenizer = run.load_tokenizer()
    first, second = (load_or_convert(run, tokenizer, layer) for layer in (0, 1))
    assert first["model.bin"] != second["model.bin"]
    assert load_or_convert(run, tokenizer, 1) == second


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def compress(path: Path) -> None:
    """What a hostile run would do: members that expand to more than the file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content + b" " * 10_000_000)


def break_compressed(path: Path) -> None:
    """Members that say they are compressed, and are not."""
    content = path.read_bytes()
    for signature, offset in ((b"PK\x01\x02", 10), (b"PK\x03\x04", 8)):
        at = content.find(signature)
        while at >= 0:
            content = content[: at + offset] + b"\x08\x00" + content[at + offset + 2 :]
            at = content.find(signature, at + 4)
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, flip, empty, compress, break_compressed])
def test_a_damaged_one_is_made_anew(run: RunFolder, damage: Callable[[Path], None]) -> None:
    files = files_of(run)
    path = run.checkpoints.folder / CONVERTED_FILE
    damage(path)
    assert files_of(run) == files
    check_converted_file(path)


def test_damage_is_found(run: RunFolder) -> None:
    files_of(run)
    path = run.checkpoints.folder / CONVERTED_FILE
    for damage in (flip, cut):
        damage(path)
        with pytest.raises(UserError, match=r"is damaged: .*it will be made anew"):
            check_converted_file(path)


def test_where_the_run_cannot_be_written_to_it_is_in_the_users_cache(
    run: RunFolder, cache: Path
) -> None:
    (run.checkpoints.folder / CONVERTED_FILE).mkdir()  # which no file can take the place of
    files = files_of(run)
    [cached] = (cache / "nmt" / "ctranslate2").iterdir()
    before = cached.stat().st_ino
    assert files_of(run) == files
    assert cached.stat().st_ino == before  # it is not written again
    change_weights(run)
    assert files_of(run) != files
    assert len(list(cached.parent.iterdir())) == 2
    flip(cached)
    check_converted_file(next(path for path in cached.parent.iterdir() if path != cached))


def test_the_users_cache_is_bounded_and_keeps_what_is_used(
    run: RunFolder, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least recently used go, and what a killed process left; the current one stays."""
    (run.checkpoints.folder / CONVERTED_FILE).mkdir()
    folder = cache / "nmt" / "ctranslate2"

    def use(step: int) -> Path:
        """Read the converted form of some weights, and let time pass."""
        arrays, metadata = read_arrays(original)
        write_arrays(best, {name: step * array for name, array in arrays.items()}, metadata)
        before = set(folder.glob("*.ctranslate2"))
        files_of(run)
        for path in folder.iterdir():
            status = path.stat()
            os.utime(path, ns=(status.st_atime_ns - 10**9, status.st_mtime_ns - 10**9))
        [path] = set(folder.glob("*.ctranslate2")) - before or [None]
        return path

    best = run.checkpoints.best
    original = shutil.copy(best, best.with_name("original"))
    first, _ = use(1), use(2)
    size = first.stat().st_size
    monkeypatch.setattr(converted, "_MAX_CACHE_BYTES", 2 * size + 100)
    stale, being_written = folder / ".partial-a", folder / ".partial-b"
    for path, age in ((stale, 2 * 24 * 3600), (being_written, 60)):
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age, time.time() - age))
    use(1)
    third = use(3)
    assert set(folder.iterdir()) == {first, third, being_written}
    monkeypatch.setattr(converted, "_MAX_CACHE_BYTES", 0)
    fourth = use(4)
    assert set(folder.iterdir()) == {fourth, being_written}


def test_where_nothing_can_be_written_it_is_made_every_time(run: RunFolder, cache: Path) -> None:
    (run.checkpoints.folder / CONVERTED_FILE).mkdir()
    cache.write_text("in the way", encoding="utf-8")
    assert files_of(run) == files_of(run)


def test_without_a_folder_for_temporary_files_only_stored_weights_are_loaded(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose root is read-only."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(UserError, match=r"^no folder for temporary files, .*: set TMPDIR"):
        files_of(run)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        files = files_of(run)
    assert files_of(run) == files


def test_a_link_is_replaced_and_not_followed(run: RunFolder, tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_text("mine", encoding="utf-8")
    path = run.checkpoints.folder / CONVERTED_FILE
    path.symlink_to(outside)
    files_of(run)
    assert outside.read_text(encoding="utf-8") == "mine"
    assert not path.is_symlink()


def test_damaged_weights_are_said_and_nothing_is_kept(run: RunFolder) -> None:
    flip(run.checkpoints.best)
    with pytest.raises(UserError, match=r"best\.npz is damaged"):
        files_of(run)
    assert not (run.checkpoints.folder / CONVERTED_FILE).exists()


def test_weights_that_do_not_fit_are_said(run: RunFolder) -> None:
    arrays, metadata = read_arrays(run.checkpoints.best)
    name = "model/decoder_0/cross_attention/key/kernel"
    for wrong, what in ((np.zeros((3, 3), np.float32), r"of shape \(3, 3\)"), (None, "missing")):
        changed = {**arrays, name: wrong} if wrong is not None else arrays.copy()
        if wrong is None:
            del changed[name]
        write_arrays(run.checkpoints.best, changed, metadata)
        with pytest.raises(UserError, match=f"configuration: .*/key/kernel is {what}"):
            files_of(run)


def test_averaged_weights_come_first(run: RunFolder) -> None:
    files = files_of(run)
    arrays, metadata = read_arrays(run.checkpoints.best)
    averaged = {name.replace("model/", "average/"): array for name, array in arrays.items()}
    negated = {name: -array for name, array in arrays.items()}
    write_arrays(run.checkpoints.best, negated | averaged, metadata)
    assert files_of(run) == files


def test_a_run_without_best_weights_has_none(run: RunFolder) -> None:
    run.checkpoints.best.unlink()
    with pytest.raises(NotConvertibleError, match="has no best weights yet"):
        files_of(run)


def test_a_vocabulary_with_twins_cannot_be_held(run: RunFolder) -> None:
    tokenizer = run.load_tokenizer()
    twins: Any = SimpleNamespace(
        vocabulary_size=tokenizer.vocabulary_size,
        pieces=lambda ids: ["a" for _ in ids],
        fingerprint="x",
    )
    with pytest.raises(NotConvertibleError, match="two tokens of this"):
        load_or_convert(run, twins)


def test_another_tokenizer_makes_another(run: RunFolder) -> None:
    files = files_of(run)
    tokenizer: Tokenizer = run.load_tokenizer()
    other: Any = SimpleNamespace(
        vocabulary_size=tokenizer.vocabulary_size,
        pieces=lambda ids: [f"{piece}'" for piece in tokenizer.pieces(ids)],
        fingerprint="other",
    )
    assert load_or_convert(run, other)["shared_vocabulary.json"] != files["shared_vocabulary.json"]
