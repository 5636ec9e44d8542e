"""The first stage: lines become cleaned pairs, and what is known of each by its hashes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt.config import DataConfig
from nmt.config.preparation import PreparationConfig
from nmt.data.caching import save_array
from nmt.data.filtering import INVALID_WEIGHT, clean_pair, filter_line, parse_weight
from nmt.data.languages import make_identifier
from nmt.data.reading import Line, Row, parse_row
from nmt.data.splitting import Pair, normalized
from nmt.errors import UserError
from nmt.preparing.minhash import band_keys, shorten, sign
from nmt.preparing.work import packed_text, write_json

PAIRS_FILE = "pairs.tsv.gz"  # cleaned, as they stand in the source: neither turned nor tagged
NUMBERS_FILE = "numbers.npy"  # int64 [pairs]: of the line; above `_FILE_BITS`, of the file
KEYS_FILE = "keys.npy"  # uint64 [pairs, 3]: hashes of the pair, the source and the target
WEIGHTS_FILE = "weights.npy"  # float32 [pairs], of sources that have weights
SIGNATURES_FILE = "signatures.npy"  # uint8 [pairs, HASHES]
REJECTED_FILE = "rejected.tsv.gz"  # reason, file:number, and what it is about
INFO_FILE = "info.json"

ENCODING_FAULT, OTHER_LANGUAGE = "encoding fault", "language"
_FILE_BITS = 40  # of a line's number; more lines than any file has
_DIGITS = re.compile(r"\d+")
_REPLACEMENT = "\ufffd"  # what decoding puts in the place of what it cannot read


class Piece(NamedTuple):
    """Lines of one file that follow each other."""

    file: str
    number: int  # of the first, from 1
    lines: list[tuple[bytes, ...]]


def chunk_rows(rows: Iterator[Row], size: int) -> Iterator[Iterator[Row]]:
    """Cut rows into chunks; each must be used up before the next."""
    while (first := next(rows, None)) is not None:
        chunk = islice(rows, size - 1)
        yield _joined(first, chunk)
        for _ in chunk:  # what was not asked for
            pass


def _joined(first: Row, rest: Iterator[Row]) -> Iterator[Row]:
    yield first
    yield from rest


def gather(rows: Iterable[Row]) -> list[Piece]:
    """Gather rows, to be handed to another process at little cost."""
    pieces: list[Piece] = []
    for file, number, lines in rows:
        if not pieces or pieces[-1].file != file or number == 1:
            pieces.append(Piece(file, number, []))
        pieces[-1].lines.append(lines)
    return pieces


def clean_shard(
    config: PreparationConfig, name: str, pieces: list[Piece], length_ratio: float, folder: Path
) -> None:
    """Write the pairs of a shard, their hashes, and its rejected lines.

    Args:
        config: of the preparation.
        name: of the source.
        pieces: its lines.
        length_ratio: of the source, see `choose_length_ratio`.
        folder: where to.
    """
    source = config.data.sources[name]
    cleaner = _Cleaner(config, source.split in ("shares", "train"), length_ratio)
    weighed = len(source.columns) > 2
    files = list(dict.fromkeys(piece.file for piece in pieces))
    pairs: list[Pair] = []
    numbers: list[int] = []
    weights: list[float] = []
    rejected: Counter[str] = Counter()
    with packed_text(folder / REJECTED_FILE) as sink:
        for piece in pieces:
            above = files.index(piece.file) << _FILE_BITS
            for number, lines in enumerate(piece.lines, piece.number):
                line = parse_row(Row(piece.file, number, lines), source.columns)
                verdict = cleaner.judge(line)
                weight = parse_weight(line.weight) if weighed else 1.0
                if weight is None and isinstance(verdict, Pair):
                    verdict = INVALID_WEIGHT
                if isinstance(verdict, Pair):
                    pairs.append(verdict)
                    numbers.append(above + number)
                    weights.append(weight or 0.0)
                else:
                    rejected[verdict] += 1
                    sink.write(f"{verdict}\t{piece.file}:{number}\t{line.raw}\n")
    with packed_text(folder / PAIRS_FILE) as text:
        text.writelines(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    save_array(folder / NUMBERS_FILE, np.array(numbers, np.int64))
    if weighed:
        save_array(folder / WEIGHTS_FILE, np.array(weights, np.float32))
    cleaner.write_keys(pairs, _direction(config.data, name), folder)
    info = {"source": name, "files": files, "lines": sum(len(piece.lines) for piece in pieces)}
    bytes_read = sum(len(line) for piece in pieces for lines in piece.lines for line in lines)
    kept = {"bytes": bytes_read, "pairs": len(pairs), "rejected": dict(sorted(rejected.items()))}
    write_json(folder / INFO_FILE, info | kept)


def place_of(files: list[str], number: int) -> str:
    """Return where a line stands, for people, by its number in `NUMBERS_FILE`."""
    return f"{files[number >> _FILE_BITS]}:{number & ((1 << _FILE_BITS) - 1)}"


def _direction(data: DataConfig, name: str) -> bytes:
    """Return what two pairs have to agree in to be the same to a model."""
    source = data.sources[name]
    return f"{source.tag}\t{source.reverse}\t".encode()


@dataclass(frozen=True)
class _Cleaner:
    """Judges lines, and hashes pairs."""

    config: PreparationConfig
    training: bool  # dev and test files are not chosen from: their scores are to be compared
    length_ratio: float

    def judge(self, line: Line) -> Pair | str:
        """Return the cleaned pair, or the reason why there is none."""
        if not self.training:
            return clean_pair(line)
        pair = filter_line(line, self.config.data, self.length_ratio)
        if isinstance(pair, str):
            return pair
        prepare, data = self.config.prepare, self.config.data
        if prepare.encoding_faults and any(map(_is_faulty, pair)):
            return ENCODING_FAULT
        if prepare.language_certainty is not None:
            languages = data.source_language, data.target_language
            identify = _identifier(languages, prepare.language_certainty)
            for text, expected in zip(pair, languages, strict=True):
                if identify(text) not in (None, expected):
                    return OTHER_LANGUAGE
        return pair

    def write_keys(self, pairs: list[Pair], direction: bytes, folder: Path) -> None:
        """Write the hashes of pairs: in their order, and sorted, to be found by their values.

        Those of 64 bits are the first of BLAKE2b: among n different texts n^2 / 2^65 pairs are
        expected to have the same by chance, 0.0003 of a hundred million. What happens then is that
        a pair to train on is left out.
        """
        sides = [[normalized(pair[side]) for pair in pairs] for side in (0, 1)]
        whole = hash_texts(f"{source}\t{target}" for source, target in pairs)
        own = np.frombuffer(blake2b(direction, digest_size=8).digest(), np.uint64)[0]
        keys = np.stack([whole ^ own, *map(hash_texts, sides)], axis=1)
        save_array(folder / KEYS_FILE, keys)
        if not self.training:
            return
        write_sorted(folder, "pairs", keys[None, :, 0])
        if self.config.prepare.near_duplicates is not None:
            texts = [f"{one}\t{other}" for one, other in zip(*sides, strict=True)]
            masked = hash_texts(_DIGITS.sub("0", text) for text in texts) ^ own
            write_sorted(folder, "masked", masked[None])
            signatures = sign(texts)
            # Pairs of another direction are in other bands.
            write_sorted(folder, "bands", band_keys(signatures) ^ own.astype(np.uint32))
            save_array(folder / SIGNATURES_FILE, shorten(signatures))


def write_sorted(folder: Path, name: str, keys: np.ndarray) -> None:
    """Write keys [kinds, pairs], each kind sorted, and which pair each is of: see `read_slice`."""
    order = np.argsort(keys, axis=1, kind="stable")
    save_array(folder / f"{name}.order.npy", order.astype(np.uint32))
    save_array(folder / f"{name}.keys.npy", np.take_along_axis(keys, order, axis=1))


def hash_texts(texts: Iterable[str]) -> np.ndarray:
    """Return 64 bits of a hash of each text: uint64 [texts]."""
    digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def check_packages(config: PreparationConfig) -> None:
    """Find out now whether what processes will need is installed.

    Raises:
        UserError: it is not.
    """
    if config.prepare.encoding_faults:
        _is_faulty("ã")
    if config.prepare.language_certainty is not None:
        languages = config.data.source_language, config.data.target_language
        _identifier(languages, config.prepare.language_certainty)


def _is_faulty(text: str) -> bool:
    """Whether a text was decoded wrongly, once or on its way here."""
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
