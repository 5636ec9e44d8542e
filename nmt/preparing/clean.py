"""The first stage: lines become cleaned pairs, with the hashes that later stages compare."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from nmt.config import DataConfig, SourceConfig
from nmt.config.preparation import PreparationConfig
from nmt.data.caching import is_complete, save_array
from nmt.data.filtering import (
    choose_length_ratio,
    clean_line,
    read_head,
)
from nmt.data.language_check import check_languages
from nmt.data.languages import find_code, make_identifier
from nmt.data.reading import Line, Row, parse_row, read_rows
from nmt.data.rejections import check_accepted, write_rejected
from nmt.data.splitting import Pair, normalized
from nmt.errors import UserError
from nmt.files import read_json, write_json
from nmt.preparing.files import write_gzip
from nmt.preparing.inputs import list_files
from nmt.preparing.minhash import band_keys, shorten, sign
from nmt.preparing.pool import Task
from nmt.preparing.stages import INFO_FILE, REJECTED_FILE, WORK, CleanShard, Preparation

STAGE = f"{WORK}/clean"
PAIRS_FILE = "pairs.tsv.gz"  # cleaned, in the columns and direction of the source, without tags
NUMBERS_FILE = "numbers.npy"  # int64 [pairs]: line number, and above `_FILE_BITS` file number
KEYS_FILE = "keys.npy"  # uint64 [pairs, 3]: hashes of the pair, the source and the target
WEIGHTS_FILE = "weights.npy"  # float32 [pairs], if the source has weights
SIGNATURES_FILE = "signatures.npy"  # uint8 [pairs, HASHES]

ENCODING_FAULT, OTHER_LANGUAGE = "encoding fault", "language"  # reasons for rejection
_FILE_BITS = 40  # room for line numbers
_DIGITS = re.compile(r"\d+")
_REPLACEMENT = "\ufffd"  # decoders put it in place of invalid bytes


class CleanCorpus(NamedTuple):
    """The result of the stage."""

    shards: list[CleanShard]
    archives: dict[str, str]  # source -> SHA-256
    length_ratios: dict[str, float]  # by source


def clean_corpus(preparation: Preparation) -> CleanCorpus:
    """Read all lines, and filter them shard by shard.

    Raises:
        UserError: a source cannot be read, or has no usable pair.
    """
    start = time.monotonic()
    summary_file = preparation.folder / f"{STAGE}.json"
    if not summary_file.is_file():
        reader = _ShardReader(preparation)
        size = sum(path.stat().st_size for path in list_files(preparation.config))
        preparation.pool.run(STAGE, clean_shard, reader.tasks(), size, reader.position)
        write_json(summary_file, reader.summary)
    summary = read_json(summary_file)
    corpus = CleanCorpus([], summary["archives"], summary["length_ratios"])
    data = preparation.config.data
    totals = {source: Counter[str]() for source in data.sources}  # lines, bytes and pairs
    rejected = {source: Counter[str]() for source in data.sources}
    number = 0
    for name in summary["shards"]:
        folder = preparation.folder / STAGE / name
        info = read_json(folder / INFO_FILE)
        corpus.shards.append(CleanShard(folder, info["source"], number, info["pairs"]))
        number += info["pairs"]
        totals[info["source"]].update({key: info[key] for key in ("lines", "bytes", "pairs")})
        rejected[info["source"]].update(info["rejected"])
    for source, total in totals.items():
        check_accepted(data, source, total["pairs"], total["lines"], rejected[source])
    total = sum(totals.values(), Counter[str]())
    message = f"cleaned {total['lines']:,} lines, {total['bytes'] / 1e6:,.0f} MB"
    preparation.log_rate(message, total["lines"], start)
    return corpus


class _ShardReader:
    """Reads all sources, and cuts their lines into the tasks of shards."""

    def __init__(self, preparation: Preparation) -> None:
        self._preparation = preparation
        self._files: list[tuple[IO[bytes], int]] = []  # opened so far, with their sizes
        # Names of shards; SHA-256 and length ratio by source.
        self.summary: dict[str, Any] = {"shards": [], "archives": {}, "length_ratios": {}}

    def position(self) -> int:
        """Return how many bytes of all files have been read."""
        return sum(size if file.closed else file.tell() for file, size in self._files)

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks of all shards, with their lines unless the shard is complete."""
        config = self._preparation.config
        sources = config.data.sources
        log = self._preparation.log
        for source in sources:
            rows = read_rows(
                sources,
                source,
                Path(config.cache_dir),
                log,
                hashes=self.summary["archives"],
                languages=(config.data.source_language, config.data.target_language),
                on_open=self._note_file,
            )
            ratio = 1.0
            head, rows = read_head(rows)
            if config.data.check_languages:
                check_languages(config.data, source, head)
            if sources[source].is_training:
                ratio = choose_length_ratio(config.data, source, head, log)
                self.summary["length_ratios"][source] = ratio
            for chunk in chunk_rows(rows, config.prepare.shard_lines):
                name = f"{len(self.summary['shards']):05}"
                self.summary["shards"].append(name)
                if is_complete(self._preparation.folder / STAGE / name):
                    yield Task(name, ())
                else:
                    yield Task(name, (config, source, list(chunk), ratio))

    def _note_file(self, file: IO[bytes]) -> None:
        if not file.seekable():
            raise UserError(
                f"{file.name} is a pipe, which cannot be read again if the preparation is "
                "resumed: write it to a file first"
            )
        self._files.append((file, Path(file.name).stat().st_size))


def chunk_rows(rows: Iterator[Row], size: int) -> Iterator[Iterator[Row]]:
    """Cut rows into chunks. The next chunk skips the unread rest of the last one."""
    while (first := next(rows, None)) is not None:
        rest = islice(rows, size - 1)
        yield chain([first], rest)
        for _ in rest:
            pass


def clean_shard(
    config: PreparationConfig, name: str, rows: list[Row], length_ratio: float, folder: Path
) -> None:
    """Write the pairs of a shard of a source, their hashes, and its rejected lines."""
    source = config.data.sources[name]
    cleaner = _Cleaner(config, source, length_ratio)
    file_numbers: dict[str, int] = {}
    pairs: list[Pair] = []
    numbers: list[int] = []
    weights: list[float] = []
    rejected: Counter[str] = Counter()
    with write_gzip(folder / REJECTED_FILE) as rejected_file:
        for row in rows:
            line = parse_row(row)
            pair = cleaner.filter(line)
            if isinstance(pair, Pair):
                pairs.append(pair)
                file_number = file_numbers.setdefault(row.file, len(file_numbers))
                numbers.append((file_number << _FILE_BITS) + row.number)
                if source.has_weights:
                    weights.append(float(line.weight))
            else:
                rejected[pair] += 1
                write_rejected(rejected_file, pair, line)
    with write_gzip(folder / PAIRS_FILE) as text:
        text.writelines(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    save_array(folder / NUMBERS_FILE, np.array(numbers, np.int64))
    if source.has_weights:
        save_array(folder / WEIGHTS_FILE, np.array(weights, np.float32))
    cleaner.write_keys(pairs, _direction(config.data, name), folder)
    info = {
        "source": name,
        "files": list(file_numbers),
        "lines": len(rows),
        "bytes": sum(len(line) for row in rows for line in row.lines),
        "pairs": len(pairs),
        "rejected": dict(sorted(rejected.items())),
    }
    write_json(folder / INFO_FILE, info)


def format_location(files: list[str], number: int) -> str:
    """Return the file:number of a line, from its number in `NUMBERS_FILE`."""
    return f"{files[number >> _FILE_BITS]}:{number & ((1 << _FILE_BITS) - 1)}"


def _direction(data: DataConfig, name: str) -> bytes:
    """Return the tag and direction of a source; pairs are duplicates only if these are equal."""
    source = data.sources[name]
    return f"{source.tag}\t{source.reverse}\t".encode()


@dataclass(frozen=True)
class _Cleaner:
    """Filters the lines of a shard, and hashes its pairs."""

    config: PreparationConfig
    source: SourceConfig
    length_ratio: float

    def filter(self, line: Line) -> Pair | str:
        """Return the cleaned pair, or the reason for rejecting the line."""
        prepare, data = self.config.prepare, self.config.data
        pair = clean_line(line, data, self.source, self.length_ratio)
        if isinstance(pair, str) or not self.source.is_training:
            return pair
        if prepare.encoding_faults and any(map(_is_faulty, pair)):
            return ENCODING_FAULT
        if prepare.language_certainty is not None:
            languages = data.source_language, data.target_language
            identify = _identifier(languages, prepare.language_certainty)
            for text, expected in zip(pair, map(find_code, languages), strict=True):
                if identify(text) not in (None, expected):
                    return OTHER_LANGUAGE
        return pair

    def write_keys(self, pairs: list[Pair], direction: bytes, folder: Path) -> None:
        """Write the hashes of pairs, in the order of pairs and sorted.

        A hash is the first 64 bits of BLAKE2b. Among n different texts, n^2 / 2^65 pairs are
        expected to collide, 0.0003 for a hundred million; a collision drops a training pair.
        """
        sides = [[normalized(pair[side]) for pair in pairs] for side in (0, 1)]
        pair_keys = hash_texts(f"{source}\t{target}" for source, target in pairs)
        salt = np.frombuffer(blake2b(direction, digest_size=8).digest(), np.uint64)[0]
        keys = np.stack([pair_keys ^ salt, *map(hash_texts, sides)], axis=1)
        save_array(folder / KEYS_FILE, keys)
        if not self.source.is_training:
            return
        write_sorted(folder, "pairs", keys[None, :, 0])
        if self.config.prepare.near_duplicates is not None:
            texts = [f"{source}\t{target}" for source, target in zip(*sides, strict=True)]
            masked = hash_texts(_DIGITS.sub("0", text) for text in texts) ^ salt
            write_sorted(folder, "masked", masked[None])
            signatures = sign(texts)
            # Salted, so that pairs of another direction share no band.
            write_sorted(folder, "bands", band_keys(signatures) ^ salt.astype(np.uint32))
            save_array(folder / SIGNATURES_FILE, shorten(signatures))


def write_sorted(folder: Path, name: str, keys: np.ndarray) -> None:
    """Write keys [rows, pairs], each row sorted, and the index of each key's pair."""
    order = np.argsort(keys, axis=1, kind="stable")
    save_array(folder / f"{name}.order.npy", order.astype(np.uint32))
    save_array(folder / f"{name}.keys.npy", np.take_along_axis(keys, order, axis=1))


def hash_texts(texts: Iterable[str]) -> np.ndarray:
    """Return a 64-bit hash of each text: uint64 [texts]."""
    digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def check_packages(config: PreparationConfig) -> None:
    """Check that the packages that workers will need are installed.

    Raises:
        UserError: one is missing, or does not support the languages.
    """
    if config.prepare.encoding_faults:
        _is_faulty("ã")
    if config.prepare.language_certainty is not None:
        languages = config.data.source_language, config.data.target_language
        _identifier(languages, config.prepare.language_certainty)


def _is_faulty(text: str) -> bool:
    """Whether a text was decoded with the wrong encoding, now or at an earlier time."""
    if text.isascii():
        return False
    try:
        from ftfy.badness import is_bad
    except ImportError as error:
        raise UserError(
            "prepare.encoding_faults needs the package ftfy: pip install 'nmt[prepare]'"
        ) from error
    return _REPLACEMENT in text or is_bad(text)


@lru_cache
def _identifier(languages: tuple[str, str], certainty: float) -> Callable[[str], str | None]:
    key = "prepare.language_certainty"
    return make_identifier(languages, key, certainty=certainty, among_all=True)
