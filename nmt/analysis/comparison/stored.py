"""Stored translations of runs, and the sentences that one run translates better than another."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.analysis.comparison.words import rank_changes
from nmt.data.contexts import remove_contexts
from nmt.data.splitting import DEV, TEST, Pair
from nmt.errors import UserError
from nmt.inference.evaluation import name_search
from nmt.inference.significance import count_statistics
from nmt.runs.folder import DEV_OUTPUTS_FILE, RunFolder
from nmt.runs.metrics import MALFORMED

METRIC = "chrF2++"  # of sentences
UNIT = "line"  # a source is one segment, as evaluations translate it

_EVALUATION = re.compile(r"evaluation_(.+)\.json")
# Of other units than lines, of several runs, or by a quantized engine: printed after the search.
_NOT_COMPARABLE = re.compile(
    r"_(?:greedy|beam_\d+_penalty_[^_]+)(?:_.*)?(?:_joined_|_by_sentence|_whole|_with_\d+_more|_int8)"
)


class StoredOutputs(NamedTuple):
    """Translations of sentences."""

    pairs: Sequence[Pair]  # without contexts; a tag stays where none stood
    outputs: Sequence[str]


class Change(NamedTuple):
    """A sentence that two runs have translated."""

    pair: Pair
    outputs: tuple[str, str]
    scores: tuple[float, float]  # METRIC


def list_stored(run: RunFolder) -> dict[str, Path]:
    """Return the files of translations of a run by the name of the sentences.

    Names are ``test``, ``split_NAME``, ``test_NAME`` of ``data.tests`` or ``file_NAME``, and the
    search unless it is the run's default one. ``dev`` are the dev sentences that were translated in
    training. Evaluations older than the weights are left out.
    """
    default = name_search(run.config.decoding, beam_size=None, length_penalty=None)
    files: dict[str, Path] = {}
    for path in sorted(run.path.glob("evaluation_*.json")):
        match = _EVALUATION.fullmatch(path.name)
        if match and not _NOT_COMPARABLE.search(path.name) and is_current(run, path):
            name = match[1].removesuffix(f"_{default}")
            files["test" if name == f"split_{TEST}" else name] = path
    dev = run.path / DEV_OUTPUTS_FILE
    return files | ({DEV: dev} if dev.is_file() else {})


def is_current(run: RunFolder, path: Path) -> bool:
    """Return whether a file of an evaluation is not older than the best weights."""
    best = run.checkpoints.best
    if not path.is_file() or not best.is_file():
        return False
    return path.stat().st_mtime >= best.stat().st_mtime


def read_evaluation(path: Path) -> StoredOutputs | None:
    """Return the translations of an evaluation; None: it is damaged, or translated by sentence."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows = content["outputs"]
        pairs = [Pair(str(row["source"]), str(row["reference"])) for row in rows]
        outputs = [str(row["output"]) for row in rows]
        is_same_unit = content.get("unit", UNIT) == UNIT
    except (OSError, *MALFORMED):
        return None
    return StoredOutputs(pairs, outputs) if is_same_unit else None


def read_dev_outputs(run: RunFolder) -> dict[int, StoredOutputs]:
    """Return the translations of the dev sentences in training, by update.

    Raises:
        UserError: the file is damaged.
    """
    evaluations = {}
    pairs: list[Pair] = []
    try:
        for record in run.dev_outputs.read():
            if "pairs" in record:
                pairs = [Pair(str(source), str(target)) for source, target in record["pairs"]]
            outputs = [str(output) for output in record["outputs"]]
            if len(outputs) != len(pairs):
                raise ValueError(f"{len(outputs)} outputs of {len(pairs)} pairs")
            evaluations[int(record["step"])] = StoredOutputs(pairs, outputs)
    except MALFORMED as error:
        raise UserError(f"{run.path / DEV_OUTPUTS_FILE} is damaged: {error}") from error
    return evaluations


def rank_stored(first: StoredOutputs, second: StoredOutputs, language: str) -> list[Change]:
    """Return the sentences that both have translated, those where the first one is better first.

    Args:
        first: of a run.
        second: of another run.
        language: BCP 47 tag of the translations.
    """
    tables = [
        dict(zip(remove_contexts(each.pairs), each.outputs, strict=True))
        for each in (first, second)
    ]
    pairs = [pair for pair in tables[0] if pair in tables[1]]
    if not pairs:
        return []
    references = [pair.target for pair in pairs]
    outputs = [[table[pair] for pair in pairs] for table in tables]
    scores = [
        count_statistics(each, references, language=language, names=(METRIC,))[METRIC]
        .score_each()
        .tolist()
        for each in outputs
    ]
    rows = list(zip(zip(*outputs, strict=True), zip(*scores, strict=True), strict=True))
    order = rank_changes(both for _, both in rows)
    return [Change(pairs[i], *rows[i]) for i in order]
