"""Pairs to score on besides the splits of a corpus: tables, aligned files, joined sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.config.data import list_reverse_tags, list_tags
from nmt.data.contexts import remove_contexts
from nmt.data.encodings import UTF_8
from nmt.data.filtering import clean_pair
from nmt.data.reading import TOO_LONG, read_aligned, read_file
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.text.context import remove_context, split_tag
from nmt.text.scripts import join_sentences

if TYPE_CHECKING:
    from nmt.config import DataConfig


def read_parallel(source: Path, reference: Path, encoding: str | None = None) -> list[Pair]:
    """Read two aligned files, by default in UTF-8, without cleaning; every line is a pair.

    Raises:
        UserError: a file is missing, damaged or in another encoding, a line is over 1 MiB, or the
            numbers of lines differ.
    """
    pairs = []
    for line in read_aligned(source, reference, ("--source", "--reference"), encoding or UTF_8):
        if line.fault == TOO_LONG:
            raise UserError(
                f"line {line.number} of {source} or of {reference} is over 1 MiB: break it up"
            )
        if line.sides is not None:
            pairs.append(Pair(*line.sides))
    return pairs


def read_groups(path: Path, source: Path, encoding: str | None) -> list[str]:
    """Return the lines of a file of documents or speakers, one for each line of ``source``.

    Raises:
        UserError: a file is missing, damaged or in another encoding, or the numbers of lines
            differ.
    """
    lines = read_aligned(source, path, ("--source", "--by-group"), encoding or UTF_8)
    return [line.sides[1].strip() if line.sides else "" for line in lines]


def read_test_pairs(path: Path, key: str, languages: tuple[str, str]) -> list[Pair]:
    """Read and clean a file of pairs, which ``key`` of the configuration names.

    Invalid lines are left out.

    Raises:
        UserError: the file is missing or damaged, or has no pair.
    """
    lines = map(clean_pair, read_file(path, key, languages))
    pairs = [pair for pair in lines if isinstance(pair, Pair)]
    if not pairs:
        raise UserError(f"{key}={path} has no line of source TAB target")
    return pairs


def group_by_target_language(config: DataConfig, sources: Sequence[str]) -> dict[str, list[int]]:
    """Return the indices of sources by the BCP 47 tag of the language they are translated into.

    The first language is that of the first direction, if any source has it.

    Args:
        config: the ``data`` group of the run.
        sources: with tags and contexts; those of `list_reverse_tags` tell the other direction.
    """
    source_language, target_language = config.languages
    tags, reverse_tags = list_tags(config), {*list_reverse_tags(config)}
    groups: dict[str, list[int]] = {target_language: []}
    for index, source in enumerate(sources):
        first_word = remove_context(source, tags).split(maxsplit=1)[:1]
        language = source_language if {*first_word} & reverse_tags else target_language
        groups.setdefault(language, []).append(index)
    return {language: indices for language, indices in groups.items() if indices} or groups


def find_target_language(config: DataConfig, sources: Sequence[str]) -> str:
    """Return the language by whose rules a set is scored: see `group_by_target_language`.

    It is that of the first direction, unless all sources are of the other one.
    """
    return next(iter(group_by_target_language(config, sources)))


def gather_references(
    pairs: Sequence[Pair],
) -> tuple[list[int], list[tuple[str | None, ...]]]:
    """Return the index of the first pair of each source, and the other references of the source.

    Returns:
        (indices, sets of references): a set has one reference of each source, or None.
    """
    first: dict[str, int] = {}
    targets: dict[str, list[str]] = {}
    for index, (source, target) in enumerate(pairs):
        first.setdefault(source, index)
        targets.setdefault(source, []).append(target)
    return list(first.values()), list(zip_longest(*(each[1:] for each in targets.values())))


def join_pairs(pairs: Sequence[Pair], size: int, tags: Sequence[str] = ()) -> list[Pair]:
    """Return every ``size`` consecutive pairs of one tag as one text; shorter rests are left out.

    Args:
        pairs: as the model sees them; contexts are left out.
        size: pairs of a text.
        tags: words that may begin a source; the joined text begins with one, too.

    Raises:
        UserError: there are fewer pairs than that, or of each tag.
    """
    if size > len(pairs):
        raise UserError(f"cannot join {size} pairs: there are only {len(pairs)}")
    by_tag: dict[str, list[Pair]] = defaultdict(list)
    for pair in remove_contexts(pairs, tags):
        tag, source = split_tag(pair.source, tags)
        by_tag[tag].append(Pair(source, pair.target))
    joined = []
    for tag, group in by_tag.items():
        for i in range(0, len(group) - size + 1, size):
            source, target = map(join_sentences, zip(*group[i : i + size], strict=True))
            joined.append(Pair(tag + source, target))
    if not joined:
        raise UserError(f"cannot join {size} pairs: there are fewer of each tag")
    return joined
