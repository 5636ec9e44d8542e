"""All stages of preparing a corpus, one after the other; each goes on where it was stopped."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from rich.console import Console

from nmt.config.data import resolve_same_sources
from nmt.config.preparation import PreparationConfig
from nmt.data.caching import digest_texts, is_complete
from nmt.data.corpus import EvaluationSet
from nmt.data.filtering import choose_length_ratio
from nmt.data.prepared import (
    FORMAT,
    MANIFEST_FILE,
    SHARDS,
    TESTS,
    TOKENIZER,
    read_manifest,
)
from nmt.data.reading import read_rows
from nmt.data.rejections import check_accepted
from nmt.data.splitting import DEV, TEST, TRAIN
from nmt.data.tokenizer import load_tokenizer
from nmt.data.tokenizer_training import read_training_log
from nmt.errors import UserError, attach_filename
from nmt.files import digest_file
from nmt.preparing.begun import begin, list_files
from nmt.preparing.clean import (
    INFO_FILE,
    check_packages,
    chunk_rows,
    clean_shard,
    gather,
)
from nmt.preparing.duplicates import (
    DROPPED_FILE,
    Shards,
    write_candidates,
    write_near,
    write_probes,
    write_repeated,
)
from nmt.preparing.encode import encode_shard, weighed, write_tokenizer
from nmt.preparing.held_out import (
    IS_DUPLICATE,
    IS_NEAR,
    TO_TRAIN,
    Cleaned,
    hold_out,
    split_shard,
)
from nmt.preparing.minhash import BANDS
from nmt.preparing.work import (
    Task,
    Workshop,
    read_json,
    read_packed,
    save_status,
    write_json,
)
from nmt.startup.devices import cores

WORK = "work"  # what is no longer needed at the end
_CLEAN, _SPLIT = f"{WORK}/clean", f"{WORK}/split"


def prepare(
    config: PreparationConfig, tests: Mapping[str, EvaluationSet], console: Console
) -> dict[str, Any]:
    """Prepare a corpus, or go on with it; return the manifest.

    Args:
        config: checked.
        tests: what ``data.tests`` names.
        console: takes messages and progress.

    Raises:
        UserError: what is wrong with the sources; another configuration than that which began;
            no pair is left to train on.
    """
    folder = Path(config.output).expanduser()
    config = replace(config, data=resolve_same_sources(config.data))
    begin(folder, config, tests)
    if (folder / MANIFEST_FILE).is_file():
        shutil.rmtree(folder / WORK, ignore_errors=True)
        console.print(f"{folder} is prepared already")
        return read_manifest(folder)
    check_packages(config)
    processes = config.prepare.processes or cores()
    with Workshop(folder, processes, console) as workshop:
        preparation = _Preparation(config, tests, workshop)
        preparation.clean()
        fates = preparation.find_duplicates()
        preparation.split(fates)
        preparation.encode()
        manifest = preparation.finish()
    with attach_filename(folder):
        shutil.rmtree(folder / WORK)
    return manifest


@dataclass(frozen=True)
class _Shard:
    """A cleaned shard."""

    name: str
    folder: Path
    info: Mapping[str, Any]
    start: int  # number of its first pair


class _Preparation:
    """The stages; each needs those before it."""

    def __init__(
        self, config: PreparationConfig, tests: Mapping[str, EvaluationSet], workshop: Workshop
    ) -> None:
        self._config, self._tests, self._workshop = config, tests, workshop
        self._folder = workshop.folder
        self._shards: list[_Shard] = []
        self._archives: dict[str, str] = {}
        self._length_ratios: dict[str, float] = {}  # by source

    def _log(self, message: str) -> None:
        self._workshop.console.print(message)

    def clean(self) -> None:
        """Read all lines, and clean them.

        Raises:
            UserError: a source cannot be read, or has no usable pair.
        """
        done = self._folder / f"{_CLEAN}.json"
        begun = time.monotonic()
        if not done.is_file():
            files: list[IO[bytes]] = []
            sizes: list[int] = []

            def note(file: IO[bytes]) -> None:
                files.append(file)
                sizes.append(Path(file.name).stat().st_size)

            def position() -> int:
                return sum(
                    size if file.closed else file.tell()
                    for file, size in zip(files, sizes, strict=True)
                )

            names: list[str] = []
            total = sum(path.stat().st_size for path in list_files(self._config))
            tasks = self._chunks(note, names)
            self._workshop.run(_CLEAN, clean_shard, tasks, total, position)
            found = {"archives": self._archives, "length_ratios": self._length_ratios}
            write_json(done, {"shards": names} | found)
        told = read_json(done)
        self._archives = told["archives"]
        self._length_ratios = told.get("length_ratios", {})  # of before there were any
        start = 0
        for name in told["shards"]:
            folder = self._folder / _CLEAN / name
            info = read_json(folder / INFO_FILE)
            self._shards.append(_Shard(name, folder, info, start))
            start += info["pairs"]
        self._check_sources()
        lines, read = (sum(one.info[key] for one in self._shards) for key in ("lines", "bytes"))
        self._say_done("cleaned", lines, "lines", begun, f", {read / 1e6:,.0f} MB")

    def _chunks(self, opened: Any, names: list[str]) -> Iterator[Task]:
        """Yield the shards of all sources: their lines, where they are not cleaned yet."""
        config, sources = self._config, self._config.data.sources
        for source in sources:
            rows = read_rows(
                sources,
                source,
                Path(config.cache_dir),
                self._log,
                hashes=self._archives,
                opened=opened,
            )
            ratio = 1.0
            if sources[source].split in ("shares", "train"):
                ratio, rows = choose_length_ratio(config.data, source, rows, self._log)
                self._length_ratios[source] = ratio
            for chunk in chunk_rows(rows, config.prepare.shard_lines):
                name = f"{len(names):05}"
                names.append(name)
                if is_complete(self._folder / _CLEAN / name):
                    yield name, ()
                else:
                    yield name, (config, source, gather(chunk), ratio)

    def _check_sources(self) -> None:
        """Say what sources give few pairs, or none, and why.

        Raises:
            UserError: one gives none.
        """
        config = self._config.data
        for name in config.sources:
            infos = [one.info for one in self._shards if one.info["source"] == name]
            lines, pairs = (sum(info[key] for info in infos) for key in ("lines", "pairs"))
            rejected = sum((Counter(info["rejected"]) for info in infos), Counter[str]())
            check_accepted(config, name, pairs, lines, rejected)

    def find_duplicates(self) -> np.ndarray:
        """Find pairs that are there already; return what is known of each: uint8 [pairs]."""
        begun = time.monotonic()
        folders = [one.folder for one in self._shards]
        starts = [one.start for one in self._shards]
        pairs = starts[-1] + self._shards[-1].info["pairs"]
        shards = Shards(folders, np.array([*starts, pairs], np.int64))
        fates = np.full(pairs, TO_TRAIN, np.uint8)
        tasks = [(f"{i:05}", (shards, "pairs", i, None)) for i in range(shards.slices(1))]
        self._find("duplicates", write_repeated, tasks, fates, IS_DUPLICATE)
        self._say_done("compared", pairs, "pairs", begun)
        if self._config.prepare.near_duplicates is not None:
            self._find_near(shards, fates)
        return fates

    def _find_near(self, shards: Shards, fates: np.ndarray) -> None:
        """Mark what is nearly there already: alike but for numbers, or similar."""
        begun = time.monotonic()
        known = self._path_of("duplicates")
        masked = [(f"{i:05}", (shards, "masked", i, known)) for i in range(shards.slices(1))]
        self._find("masked", write_repeated, masked, fates, IS_NEAR)
        if not self._recall("near", fates):
            self._find_similar(shards, fates)
        for stage in ("candidates", "probes"):  # half of what all stages take on the disk
            shutil.rmtree(self._folder / WORK / stage, ignore_errors=True)
        self._say_done("looked at", len(fates), "pairs for similar ones", begun)

    def _find_similar(self, shards: Shards, fates: np.ndarray) -> None:
        known = self._path_of("masked")
        slices = range(shards.slices(BANDS))
        tasks: list[Task] = [(f"{i:05}", (shards, BANDS, i, known)) for i in slices]
        self._all(f"{WORK}/candidates", write_candidates, tasks)
        candidates = [self._folder / WORK / "candidates" / name for name, _ in tasks]
        tasks = [(one.name, (shards, candidates, i)) for i, one in enumerate(self._shards)]
        self._all(f"{WORK}/probes", write_probes, tasks)
        probes = [self._folder / WORK / "probes" / name for name, _ in tasks]
        similarity = self._config.prepare.near_duplicates
        tasks = [(one.name, (shards, probes, i, similarity)) for i, one in enumerate(self._shards)]
        self._find("near", write_near, tasks, fates, IS_NEAR)

    def _find(
        self, stage: str, write: Any, tasks: Sequence[Task], fates: np.ndarray, fate: int
    ) -> None:
        """Run a stage that finds pairs to be left out, and mark them; what is known is kept."""
        if self._recall(stage, fates):
            return
        self._all(f"{WORK}/{stage}", write, tasks)
        for name, _ in tasks:
            fates[np.load(self._folder / WORK / stage / name / DROPPED_FILE)] = fate
        save_status(self._path_of(stage), fates)

    def _recall(self, stage: str, fates: np.ndarray) -> bool:
        """Whether a stage has been run; then what it found is what is known."""
        path = self._path_of(stage)
        if path.is_file():
            fates[:] = np.load(path)
        return path.is_file()

    def _path_of(self, stage: str) -> Path:
        """Return the file of what is known of each pair after a stage."""
        return self._folder / WORK / f"{stage}.npy"

    def _all(self, stage: str, write: Any, tasks: Sequence[Task]) -> None:
        """Run a stage of known length."""
        taken = 0

        def count() -> Iterator[Task]:
            nonlocal taken
            for task in tasks:
                yield task
                taken += 1

        self._workshop.run(stage, write, count(), len(tasks), lambda: taken)

    def split(self, fates: np.ndarray) -> None:
        """Choose dev and test, and leave out of training what shares a side with them."""
        begun = time.monotonic()
        data = self._config.data
        cleaned = [
            Cleaned(
                one.folder,
                one.info["source"],
                fates[one.start : one.start + one.info["pairs"]],
                one.start,
            )
            for one in self._shards
        ]
        tested = [pair for one in self._tests.values() for pair in one.source_view]
        held_out = hold_out(data, cleaned, tested, self._log)
        alive = int((fates == TO_TRAIN).sum())
        sampled = self._config.prepare.tokenizer_lines / (2 * max(1, alive))
        tasks = [
            (one.name, (self._config, of, held_out, sampled))
            for one, of in zip(self._shards, cleaned, strict=True)
        ]
        self._all(_SPLIT, split_shard, tasks)
        self._say_done("split", len(fates), "pairs", begun)

    def encode(self) -> None:
        """Train the tokenizer, and write the shards as training reads them.

        Raises:
            UserError: nothing is left to train on.
        """
        config = self._config
        infos = [read_json(self._folder / _SPLIT / one.name / INFO_FILE) for one in self._shards]
        if not any(info[TRAIN] for info in infos):
            raise UserError(
                f"data={config.data.name}: nothing is left to train on, every pair is a duplicate "
                "or shares a side with one in dev or test"
            )
        begun = time.monotonic()
        splits = [self._folder / _SPLIT / one.name for one in self._shards]
        tokenizer = self._folder / TOKENIZER
        self._all(".", write_tokenizer, [(TOKENIZER, (config, splits))])
        for line in read_training_log(tokenizer):
            self._log(line)
        self._log(f"trained the tokenizer in {time.monotonic() - begun:,.1f} s")
        begun = time.monotonic()
        kept = [
            (one, split)
            for one, split, info in zip(self._shards, splits, infos, strict=True)
            if config.data.sources[one.info["source"]].split in ("shares", "train")
        ]
        tasks = [
            (one.name, (config, one.info["source"], one.folder, split, tokenizer))
            for one, split in kept
        ]
        self._all(SHARDS, encode_shard, tasks)
        pairs = sum(info[TRAIN] for info in infos)
        self._say_done("encoded", pairs, "pairs", begun)

    def finish(self) -> dict[str, Any]:
        """Write tables of what is scored on, and the manifest; return that."""
        config, folder = self._config, self._folder
        splits = [folder / _SPLIT / one.name for one in self._shards]
        infos = [read_json(split / INFO_FILE) for split in splits]
        for name in (DEV, TEST):
            lines = (line for split in splits for line in read_packed(split / f"{name}.tsv.gz"))
            self._write_table(folder / f"{name}.tsv", lines)
        (folder / TESTS).mkdir(exist_ok=True)
        for name, one in self._tests.items():
            lines = (f"{source}\t{target}" for source, target in one.pairs)
            self._write_table(folder / TESTS / f"{name}.tsv", lines)
        written = sorted(path for path in (folder / SHARDS).iterdir() if path.name[0] != ".")
        shards = [{"name": path.name} | read_json(path / INFO_FILE) for path in written]
        rejected = Counter[str]()
        for info in (*(one.info for one in self._shards), *infos):
            rejected.update(info["rejected"])
        tokenizer = load_tokenizer(folder / TOKENIZER)
        data = asdict(config.data)
        manifest = {
            "format": FORMAT,
            "configuration": asdict(config) | {"data": data, "output": None, "cache_dir": None},
            "lines": sum(one.info["lines"] for one in self._shards),
            "pairs": {name: sum(info[name] for info in infos) for name in (TRAIN, DEV, TEST)},
            "rejected": dict(rejected.most_common()),
            "archives": self._archives,
            "length_ratios": self._length_ratios,
            "tests": list(self._tests),
            "row_lengths": sorted(set(config.prepare.row_lengths)),
            "vocabulary_size": tokenizer.vocabulary_size,
            "tokenizer": tokenizer.fingerprint,
            "weighed": weighed(config.data),
            "shards": shards,
        }
        manifest["configuration"]["prepare"]["processes"] = None
        manifest["digest"] = digest_texts(
            [digest_file(folder / f"{name}.tsv") for name in (DEV, TEST)],
            tokenizer.fingerprint,
            *(one["sha256"] for one in shards),
        )
        write_json(folder / MANIFEST_FILE, manifest)
        return manifest

    def _write_table(self, path: Path, lines: Iterator[str]) -> None:
        with attach_filename(path), path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)

    def _say_done(self, what: str, count: int, unit: str, begun: float, more: str = "") -> None:
        seconds = time.monotonic() - begun
        rate = f"{count / max(seconds, 1e-3):,.0f}/s"
        self._log(f"{what} {count:,} {unit}{more} in {seconds:,.1f} s ({rate})")
