"""Refuses sources whose sides are swapped, or in other languages than configured.

It would rather miss such a source than refuse a good one: similar languages, tagged sources, short
texts and languages that the identifier does not know are accepted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.config.sources import PATTERNS, RUN, SourceConfig, list_paths, source_key
from nmt.data.bilingual import is_bilingual
from nmt.data.languages import (
    CERTAIN,
    are_similar,
    describe_language,
    find_code,
    load_identifier,
)
from nmt.data.opening import find_suffix
from nmt.data.reading import Row, parse_row
from nmt.data.splitting import DEV, TEST, sample_evenly
from nmt.errors import UserError
from nmt.text.cleaning import clean_text

if TYPE_CHECKING:
    from nmt.config import DataConfig
    from nmt.data.corpus import EvaluationSet

SAMPLED = 200  # lines of a source, at even intervals
# Lines are identified in passages, as many are too short: neighbouring ones are joined.
_PASSAGE = 200  # characters, at least
_READ = 1000  # characters of a line, at most: the time for `_MARKUP` grows with their square
_MIN_PASSAGES = 5  # identified with certainty, of a side
_MIN_IDENTIFIED = 0.5  # share of the passages that must be identified with certainty
_MIN_SHARE = 0.9  # share of these that must be in one language
_SKIP = "(data.check_languages=false skips this check)"
_NO_LANGUAGE = "zxx"  # py3langid's code of numbers, addresses and so on
_MARKUP = re.compile(r"<[^<>]*>|\S+://\S+|@@(?:\s|$)|▁")  # tags, addresses, marks of pieces


def check_languages(config: DataConfig, name: str, rows: Sequence[Row]) -> None:
    """Check that a source is in the configured languages, as far as its first rows tell.

    Generated pairs, pairs of other runs and tagged sources are not checked.

    Raises:
        UserError: its sides are swapped, or one is in another language.
    """
    source = config.sources[name]
    if source.kind == RUN or source.tag is not None:
        return
    actual = find_languages(sample_sides(rows))
    tags = (config.source_language, config.target_language)
    expected = tuple(map(find_code, tags))
    which = f"data={config.name}" if len(config.sources) == 1 else f"source '{name}'"
    kinds = {each.kind for each in config.sources.values()}
    added = ""  # how to leave out the embedded corpus, which an experiment may have added
    if source.kind == "phrasebook" and kinds - {"phrasebook", PATTERNS}:
        added = f"leave it out with '~data.sources.{name}'"
    if actual == expected[::-1] and not are_similar(*expected):
        source_side, target_side = map(describe_language, expected[::-1])
        raise UserError(
            f"{which}: the source side is {source_side} and the target side {target_side}: "
            f"{added or _advise_on_order(source, name, actual)} {_SKIP}"
        )
    wrong = [
        (f"data.{side}_language", tag, language)
        for side, tag, code, language in zip(
            ("source", "target"), tags, expected, actual, strict=True
        )
        if language and code in load_identifier().labels and not are_similar(code, language)
    ]
    if wrong:
        faults = " and ".join(
            f"{key}={tag}, but that side is {describe_language(language)}"
            for key, tag, language in wrong
        )
        if added:
            remedy = added
        elif actual[0] == actual[1] or actual[0] == expected[1] or actual[1] == expected[0]:
            remedy = "set the files or columns of the two languages"
        else:
            remedy = "set " + " ".join(f"{key}={language}" for key, _, language in wrong)
        raise UserError(f"{which}: {faults}: {remedy} {_SKIP}")


def check_test_sets(config: DataConfig, tests: Mapping[str, EvaluationSet]) -> None:
    """Check that the sides of ``data.tests`` are not swapped, unless ``config`` skips that.

    Raises:
        UserError: those of one are.
    """
    expected = tuple(map(find_code, config.languages))
    if not config.check_languages or are_similar(*expected):
        return
    for name, test in tests.items():
        if find_languages(sample_evenly(test.pairs, SAMPLED)) == expected[::-1]:
            source, target = map(describe_language, expected[::-1])
            raise UserError(
                f"data.tests.{name}={config.tests[name]}: the source side is {source} and the "
                f"target side {target}: exchange its columns, or name them in a first line, as in "
                f"{config.target_language} TAB {config.source_language} {_SKIP}"
            )


def sample_sides(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return source and target of `SAMPLED` rows at even intervals, without invalid ones."""
    lines = (parse_row(row) for row in sample_evenly(rows, SAMPLED))
    return [line.sides for line in lines if line.sides is not None and line.fault is None]


def find_languages(pairs: Sequence[tuple[str, str]]) -> tuple[str | None, str | None]:
    """Return the languages of both sides of pairs, as codes of py3langid; None if uncertain.

    Args:
        pairs: source and target; those that are equal, such as names, are left out.
    """
    different = [pair for pair in pairs if pair[0] != pair[1]]
    source, target = (_find_language(pair[i] for pair in different) for i in (0, 1))
    return source, target


def _find_language(texts: Iterable[str]) -> str | None:
    """Return the language of nearly all of the passages of texts; None if uncertain."""
    passages = _join(texts)
    if len(passages) < _MIN_PASSAGES:  # too few, whatever they are: the model is not loaded
        return None
    identify = load_identifier().classify
    identified = [identify(passage) for passage in passages]
    codes = [code for code, probability in identified if probability >= CERTAIN]
    if len(codes) < max(_MIN_PASSAGES, _MIN_IDENTIFIED * len(identified)):
        return None
    [(code, count)] = Counter(codes).most_common(1)
    return code if count >= _MIN_SHARE * len(codes) and code != _NO_LANGUAGE else None


def _join(texts: Iterable[str]) -> list[str]:
    """Return passages of neighbouring texts; a shorter rest is left out."""
    passages, passage = [], ""
    for text in texts:
        passage = f"{passage} {clean_text(_MARKUP.sub('', text[:_READ]))}".strip()
        if len(passage) >= _PASSAGE:
            passages.append(passage)
            passage = ""
    return passages


def _advise_on_order(
    source: SourceConfig, name: str, languages: tuple[str | None, str | None]
) -> str:
    """Return how to name the sides of a source the other way round."""
    if source.kind == "phrasebook":
        return "leave the languages out, and set data.reverse=true to translate from English"
    paths = list_paths(source)
    order = f"data.source_language={languages[0]} data.target_language={languages[1]}"
    if source.members:
        key, value = f"data.sources.{name}.members", source.members[::-1]
    elif len(paths) == 2:
        key, value = source_key(name, "path"), paths[::-1]
    elif paths and is_bilingual(find_suffix(Path(paths[0]))):
        return f"set {order}"
    elif name in (DEV, TEST):
        return "exchange its columns"
    else:
        key = source_key(name, "columns")
        columns = list(source.columns or (0, 1))
        value = [*columns[1::-1], *columns[2:]]
    return f"set '{key}=[{','.join(map(str, value))}]', or {order}"
