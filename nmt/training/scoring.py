"""Scores of a complete run on the test split and ``data.tests``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from nmt.data.corpus import Corpus
from nmt.data.evaluation_sets import group_by_target_language
from nmt.data.splitting import TEST, Pair
from nmt.errors import UserError
from nmt.inference.evaluation import Evaluation, score_outputs, translate_with_progress
from nmt.inference.lexicon import Lexicon
from nmt.inference.quality_model import QualityModel
from nmt.inference.translator import Translator
from nmt.runs.folder import name_test_scores
from nmt.startup.devices import gpus
from nmt.training.session import Session


@dataclass(frozen=True)
class SplitScores:
    """The scores of a run on a set of pairs, and those of the run that it started from."""

    evaluation: Evaluation
    before: Evaluation | None  # None: it started from no run, or from one that is gone


def score_run(session: Session, corpus: Corpus) -> dict[str, SplitScores]:
    """Score a complete run and write the scores into its folder.

    With ``data.tests``, the run that it started from is scored, too: the differences show learning
    and forgetting.

    Returns:
        Scores by name: ``test``, and the names of ``data.tests``.
    """
    splits = ({TEST: corpus.test} if corpus.test else {}) | corpus.tests
    if not splits:
        return {}
    folder, config, process_group = session.folder, session.config, session.process_group
    engine = "keras" if gpus() else "auto"  # a GPU that trains translates faster than the CPU
    translator = Translator.load(folder, engine=engine, unit="line")
    start = config.training.start_from if corpus.tests else None
    start_translator = _load_start(session, Path(start), engine) if start else None

    def evaluate(translator: Translator, pairs: Sequence[Pair]) -> Evaluation:
        sources = [pair.source for pair in process_group.shard(pairs)]
        outputs = translate_with_progress(translator, sources, session.console)
        outputs = process_group.gather_shards(outputs, len(pairs))
        by_language = group_by_target_language(config.data, [pair.source for pair in pairs])
        evaluation = score_outputs(pairs, outputs, next(iter(by_language)))
        return replace(evaluation, indices_by_language=by_language)

    scores = {}
    for name, pairs in splits.items():
        evaluation = evaluate(translator, pairs)
        before = evaluate(start_translator, pairs) if start_translator else None
        scores[name] = SplitScores(evaluation, before)
        if process_group.is_main_process:
            content = evaluation.as_json()
            if before is not None:
                content["before"] = {score.name: asdict(score) for score in before.scores}
            file = name_test_scores(name)
            folder.write_json(file, content)
    return scores


def _load_start(session: Session, start: Path, engine: str) -> Translator | None:
    """Load the run that it started from; None: it is gone, or its weights are."""
    if not start.is_dir():
        return None
    try:
        run = session.components.open_start(start)
        return Translator.load(run, engine=engine, unit="line")
    except UserError as error:
        session.console.print(f"not compared with {start}: {error}")
        return None


def fit_confidence(session: Session, corpus: Corpus) -> None:
    """Fit the confidence and the lexicon of a complete run: see `fit_run`.

    With too few dev pairs, they are those of the run that it started from, if both have the same
    vocabulary.
    """
    from nmt.inference.quality_fitting import MIN_PAIRS, fit_run

    training = session.config.training
    has_start = training.start_from is not None and not training.new_vocabulary
    if has_start and len(corpus.dev) < MIN_PAIRS and _copy_confidence(session):
        return
    began = time.monotonic()
    engine = "keras" if gpus() else "auto"
    if fit_run(session.folder, corpus, session.console.print, engine) is not None:
        seconds = time.monotonic() - began
        session.console.print(f"confidence fitted on the dev split in {seconds:.0f} s")


def _copy_confidence(session: Session) -> bool:
    """Copy confidence and lexicon of the run that it started from; False: it has no confidence."""
    start = Path(str(session.config.training.start_from))
    try:
        lexicon, quality = Lexicon.load(start), QualityModel.load(start)
    except UserError as error:
        session.console.print(f"no confidence: {error}")
        return False
    if quality is None:
        return False
    quality.save(session.folder.path)
    if lexicon is not None:
        lexicon.save(session.folder.path)
    session.console.print(f"the confidence is that of {start}")
    return True
