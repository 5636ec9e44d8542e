"""Evaluation during training: loss and scores on the dev split, and the attention of probes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nmt.data.batches import BatchPlan
from nmt.data.evaluation_sets import find_target_language
from nmt.data.splitting import Pair, sample_evenly
from nmt.errors import UserError
from nmt.inference.metrics import Score, corpus_scores
from nmt.inference.results import Attention
from nmt.inference.translator import Translator
from nmt.runs.checkpoint import STABILITY_ADVICE
from nmt.training.journal import DevEvaluation
from nmt.training.session import Session
from nmt.training.train_step import list_micro_batches


class Evaluator:
    """Evaluates the weights that the model has.

    Args:
        session: the run.
        batches: batches of the dev split; None without one.
        pairs: dev pairs that are translated.
        translator: translates with the model that is trained.
        references: of the probes, as far as they are known.
    """

    def __init__(
        self,
        session: Session,
        batches: BatchPlan | None,
        pairs: Sequence[Pair],
        translator: Translator,
        references: Mapping[str, str],
    ) -> None:
        self._session = session
        self._batches = batches
        self._pairs = pairs
        self._translator = translator
        self.references = references

    def evaluate(self) -> DevEvaluation:
        """Return loss, scores, samples and attention.

        Raises:
            UserError: the loss is NaN or infinite.
        """
        training = self._session.training
        loss = self._measure_loss()
        outputs = self._translate()
        translated = list(zip(self._pairs, outputs, strict=True))
        return DevEvaluation(
            nll=loss,
            scores=self._score(outputs),
            outputs=translated,
            samples=sample_evenly(translated, training.samples),
            probes=self.read_attention(),
            draw=self._session.state.evaluations % training.probe_every == 0,
            references=self.references,
        )

    def read_attention(self) -> list[tuple[str, Attention]]:
        """Return the probe sentences with the attention of their translations.

        Only the process that writes computes it; others return an empty list.
        """
        writes = self._session.process_group.is_main_process
        sentences = (self._session.training.probes or []) if writes else []
        hypotheses = self._translator.hypotheses(sentences, beam_size=1)
        probes = []
        for sentence, best in zip(sentences, hypotheses, strict=True):
            attention = self._translator.attention(sentence, best[0]) if best else None
            if attention is not None:
                probes.append((sentence, attention))
        return probes

    def _measure_loss(self) -> float | None:
        """Return nats per target token; None without a dev split."""
        session = self._session
        nll, tokens = 0.0, 0.0
        for batch in self._batches.in_order() if self._batches is not None else ():
            for micro_batch in list_micro_batches(batch, session.training.accumulate):
                batch_nll, batch_tokens = session.train_step.evaluate(micro_batch)
                nll, tokens = nll + batch_nll, tokens + batch_tokens
        if not math.isfinite(nll):
            raise UserError(
                f"the loss is not finite on the dev split after update {session.state.step}: "
                f"{STABILITY_ADVICE}; earlier checkpoints are intact"
            )
        return nll / tokens if tokens else None

    def _translate(self) -> list[str]:
        sources = [pair.source for pair in self._pairs]
        group = self._session.process_group
        outputs = self._translator.translate(group.shard(sources), beam_size=1)
        return group.gather_shards(outputs, len(sources))

    def _score(self, outputs: Sequence[str]) -> list[Score]:
        if not self._pairs:
            return []
        references = [pair.target for pair in self._pairs]
        sources = [pair.source for pair in self._pairs]
        language = find_target_language(self._session.config.data, sources)
        return corpus_scores(outputs, references, language=language, names=("BLEU", "chrF2++"))
