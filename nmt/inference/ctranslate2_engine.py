"""CTranslate2 as an engine: the same model, searched in C++ on every core. Loads no Keras."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from nmt.data.tokenizer import EOS, Tokenizer
from nmt.errors import UserError
from nmt.inference.contract import NEVER, Beam, Hypothesis
from nmt.startup.devices import cores

# CTranslate2 stops a sentence after `patience` times k ended hypotheses; the own search when no
# live one can win. Of 2,000 sentences of Tatoeba (beam 4; a model of BLEU 49.5), a patience of 1
# translated 27 otherwise, 1.25 4, 1.5, 2 and 3 the same one; of the lists of 4 best, 1.5 gave 56
# otherwise, 2 26, 3 23. Each half costs about 15%.
_PATIENCE, _PATIENCE_OF_LISTS = 1.5, 2.0
# No length penalty of its own, which is another formula than Wu's. Exactly 0 would stop the search
# when the first hypothesis in rank has ended; scores are divided by length ** 1e-30 == 1.
_NO_PENALTY = 1e-30
_IMPOSSIBLE = -1e9  # what CTranslate2 scores hypotheses with that a prefix forbids, or less


class CTranslate2Engine:
    """Searches with CTranslate2, on every core: one worker thread each.

    Its beam search is not the own one to the last detail, see `search`; log-probabilities agree
    within 1e-4 in float32.

    Args:
        model: a folder from `nmt.formats.weights.ctranslate2`, or the files in it by name.
        tokenizer: whose ids the engine takes and gives.
        max_length: positions of the model.
        threads: cores to use; None: all that this process may run on.
        quantization: what is computed with: "float32", "int8"; None: what the model was written as.

    Raises:
        UserError: the model is none of CTranslate2's.
    """

    own = False

    def __init__(
        self,
        model: Path | Mapping[str, bytes],
        tokenizer: Tokenizer,
        max_length: int,
        *,
        threads: int | None = None,
        quantization: str | None = None,
    ) -> None:
        import ctranslate2

        self.parallel = threads or cores()
        self.quantization = quantization or "as it was written"
        self.max_length = max_length
        self._pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        name, files = (str(model), None) if isinstance(model, Path) else ("the model", model)
        level = ctranslate2.get_log_level()
        ctranslate2.set_log_level(logging.ERROR)  # it warns where float16 is computed in float32
        try:
            # In a batch, two workers of one thread are three times as fast as one of two threads;
            # over one sentence, two threads mostly wait for each other.
            self._translator = ctranslate2.Translator(
                name,
                files=files,
                inter_threads=self.parallel,
                intra_threads=1,
                compute_type=quantization or "default",
            )
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{name} is not a CTranslate2 model: {error}") from error
        finally:
            ctranslate2.set_log_level(level)

    def can(self, beam: Beam) -> bool:
        """Whether `search` gives what is asked: see `nmt.inference.contract.Engine`."""
        return not beam.coverage_penalty

    def search(
        self, sources: Sequence[np.ndarray], limits: np.ndarray, beam: Beam, prefix: np.ndarray
    ) -> list[list[Hypothesis]]:
        """Search for the best targets of several sources.

        It differs from the own search in two ways, both rarely seen in a result: a sentence is
        over after a number of ended hypotheses, not when no other can win; and of the candidates
        of a position, only the k best may end.

        Args:
            sources: ids without end mark, of similar length; not empty.
            limits: int32 [B], most target tokens per sentence, end mark included.
            beam: how to search.
            prefix: int32 [P], ids that every target begins with; may be empty.

        Returns:
            Hypotheses per sentence, best first.
        """
        hypotheses = self._limited(sources, limits, beam, prefix)
        self._add_prefix(hypotheses, sources, prefix)
        self._complete(hypotheses, sources, limits)
        alpha = beam.length_penalty if beam.size > 1 else 0.0
        found = [_ranked(candidates, alpha) for candidates in hypotheses]
        # CTranslate2 does not know ids that no output holds. Forbidding them costs the exact
        # log-probabilities, and models that have learnt their target hardly ever write them among
        # their best hypotheses.
        marked = [
            i
            for i, ranked in enumerate(found)
            if any(_is_marked(one, prefix) for one in ranked[: beam.n_best])
        ]
        if marked:
            rows = [sources[i] for i in marked]
            again = self._limited(rows, limits[marked], beam, prefix, never=NEVER)
            again = [dict.fromkeys(candidates, math.nan) for candidates in again]
            self._complete(again, rows, limits[marked])
            for i, candidates in zip(marked, again, strict=True):
                found[i] = _ranked(candidates, alpha)
        return [ranked[: beam.n_best] for ranked in found]

    def score(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return the log-probability of every target token: see `nmt.inference.contract.Engine`."""
        scored = self._translator.score_batch(
            self._tokens(sources), [self._text(target) for target in targets], max_input_length=0
        )
        return [np.array(result.log_probs, np.float32) for result in scored]

    def _limited(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        beam: Beam,
        prefix: np.ndarray,
        never: tuple[int, ...] = (),
    ) -> list[dict[tuple[int, ...], float]]:
        """Search with a limit per sentence, where CTranslate2 has one per batch."""
        # The largest limit serves all, as long as no hypothesis meets the limit of its sentence.
        hypotheses = self._search(sources, max(limits), beam, prefix, never)
        late = defaultdict(list)
        for i, (limit, candidates) in enumerate(zip(limits, hypotheses, strict=True)):
            if limit < max(limits) and max(map(len, candidates)) >= limit:
                late[limit].append(i)
        for limit, rows in late.items():
            again = self._search([sources[i] for i in rows], limit, beam, prefix, never)
            for i, candidates in zip(rows, again, strict=True):
                hypotheses[i] = candidates
        return hypotheses

    def _search(
        self,
        sources: Sequence[np.ndarray],
        limit: int,
        beam: Beam,
        prefix: np.ndarray,
        never: tuple[int, ...],
    ) -> list[dict[tuple[int, ...], float]]:
        """Return hypotheses with their log-probability, without that of the prefix.

        Hypotheses without end mark have met the limit.
        """
        wide = beam.size > 1
        patience = _PATIENCE if beam.n_best == 1 else _PATIENCE_OF_LISTS
        results = self._translator.translate_batch(
            self._tokens(sources),
            target_prefix=[self._text(prefix)] * len(sources) if len(prefix) else None,
            beam_size=beam.size,
            patience=patience if wide else 1,
            num_hypotheses=round(beam.size * patience) if wide else 1,
            length_penalty=_NO_PENALTY,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=max(int(limit) - 1, 1),  # the last position is the end mark's
            suppress_sequences=[self._text([i]) for i in never] or None,
            return_end_token=True,
            return_scores=True,
        )
        return [
            {
                tuple(self._ids[piece] for piece in tokens): score
                for tokens, score in zip(result.hypotheses, result.scores, strict=True)
                if score > _IMPOSSIBLE
            }
            for result in results
        ]

    def _add_prefix(
        self,
        hypotheses: list[dict[tuple[int, ...], float]],
        sources: Sequence[np.ndarray],
        prefix: np.ndarray,
    ) -> None:
        """Add the prefix's own log-probability, which CTranslate2 leaves out."""
        if not len(prefix):
            return
        scored = self.score(sources, [prefix] * len(sources))
        for candidates, log_probs in zip(hypotheses, scored, strict=True):
            for tokens in candidates:
                candidates[tokens] += float(log_probs[: len(prefix)].sum())

    def _complete(
        self,
        hypotheses: list[dict[tuple[int, ...], float]],
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
    ) -> None:
        """End hypotheses that met the limit, and score what has no exact log-probability."""
        incomplete = [
            (i, tokens)
            for i, candidates in enumerate(hypotheses)
            for tokens, log_prob in candidates.items()
            if tokens[-1] != EOS or math.isnan(log_prob)
        ]
        if not incomplete:
            return
        bodies = [
            tokens[:-1] if tokens[-1] == EOS else tokens[: limits[i] - 1]
            for i, tokens in incomplete
        ]
        scored = self.score(
            [sources[i] for i, _ in incomplete], [np.array(body) for body in bodies]
        )
        for (i, tokens), body, log_probs in zip(incomplete, bodies, scored, strict=True):
            del hypotheses[i][tokens]
            hypotheses[i][*body, EOS] = float(log_probs.sum())

    def _tokens(self, sources: Iterable[np.ndarray]) -> list[list[str]]:
        """Return sources as CTranslate2 takes them, with end mark."""
        return [[*self._text(ids), self._pieces[EOS]] for ids in sources]

    def _text(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[i] for i in ids]


def _is_marked(one: Hypothesis, prefix: np.ndarray) -> bool:
    """Whether a hypothesis holds an id that no output does, behind its prefix."""
    return any(token in NEVER for token in one.tokens[len(prefix) :])


def _ranked(candidates: dict[tuple[int, ...], float], alpha: float) -> list[Hypothesis]:
    """Return hypotheses by the score of Wu et al. 2016, equation 14, best first."""
    found = [
        Hypothesis(tokens, log_prob, log_prob / ((5 + len(tokens)) / 6) ** alpha)
        for tokens, log_prob in candidates.items()
    ]
    return sorted(found, key=lambda one: -one.score)
