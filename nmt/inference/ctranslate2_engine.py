"""The CTranslate2 engine: the same weights, searched in C++ on every core. Loads no Keras."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from nmt.data.tokenizer import EOS, Tokenizer
from nmt.errors import UserError
from nmt.inference.alignment import Aligner
from nmt.inference.contract import (
    SUPPRESSED,
    BeamOptions,
    Hypothesis,
    SamplingOptions,
    split_prefix,
)
from nmt.startup.devices import cores

# CTranslate2 finishes a sentence after `patience` times k ended hypotheses; the Keras engine
# finishes it when no live one can win. With less patience, a model that is very sure of its output
# may lose it to worse ones that end before.
_PATIENCE = 2
# No length penalty inside CTranslate2, whose formula is not Wu's. Exactly 0 would stop the search
# as soon as the best hypothesis has ended; scores are divided by length ** 1e-30 == 1.
_NO_PENALTY = 1e-30
_IMPOSSIBLE = -1e9  # hypotheses that a prefix forbids have at most this score

_Candidates = dict[tuple[int, ...], float]  # log-probabilities of the hypotheses of a sentence


class CTranslate2Engine:
    """Searches with CTranslate2, one worker thread per core; neither samples nor returns the
    attention of single heads.

    Its beam search differs from that of the Keras engine in details, see `search`;
    log-probabilities agree within 1e-4 in float32.

    Args:
        model: a folder from `nmt.formats.weights.ctranslate2`, or its files by name.
        tokenizer: tokenizer of the ids.
        max_length: positions of the model.
        threads: cores to use; None: all that this process may run on.
        quantization: precision of the computation, "float32" or "int8"; None: that of the files.
        aligner: makes alignments of the attention that the model returns; None: without a lexicon.

    Raises:
        UserError: the model is not a CTranslate2 model.
    """

    keras_engine = None
    can_align = True

    def __init__(
        self,
        model: Path | Mapping[str, bytes],
        tokenizer: Tokenizer,
        max_length: int,
        *,
        threads: int | None = None,
        quantization: str | None = None,
        aligner: Aligner | None = None,
    ) -> None:
        import ctranslate2

        self.workers = threads or cores()
        self.quantization = quantization or "as it was written"
        self.max_length = max_length
        self._aligner = aligner or Aligner()
        self._pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        name, files = (str(model), None) if isinstance(model, Path) else ("the model", model)
        level = ctranslate2.get_log_level()
        ctranslate2.set_log_level(logging.ERROR)  # it warns when it computes float16 in float32
        try:
            # In a batch, two workers of one thread are three times as fast as one of two threads;
            # over one sentence, two threads mostly wait for each other.
            self._translator = ctranslate2.Translator(
                name,
                files=files,
                inter_threads=self.workers,
                intra_threads=1,
                compute_type=quantization or "default",
            )
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{name} is not a CTranslate2 model: {error}") from error
        finally:
            ctranslate2.set_log_level(level)

    def supports(self, options: BeamOptions | SamplingOptions) -> bool:
        """Return whether the options are a search without coverage penalty."""
        return isinstance(options, BeamOptions) and not options.coverage_penalty

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions | SamplingOptions,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        """Search for the best outputs of a batch: see `Engine.search`.

        The search differs from that of the Keras engine in two ways, which rarely change a result:
        a sentence is finished after a number of ended hypotheses, not when no other can win; and of
        the candidates of a position, only the k best may end. With `BeamOptions.no_repeat_ngram`,
        hypotheses compete with their probabilities among the allowed tokens, so that more outputs
        of a beam search differ; the log-probabilities returned are those of the model.
        """
        assert isinstance(options, BeamOptions)
        prefixes = split_prefix(prefix, len(sources))
        ranked = self._search_ranked(sources, limits, options, prefixes)
        # CTranslate2 may write ids that no output may contain. Forbidding them costs the exact
        # log-probabilities, and trained models hardly ever write them in their best hypotheses: so
        # only these sentences are searched again.
        invalid = [
            i
            for i, hypotheses in enumerate(ranked)
            if any(_is_invalid(hypothesis, prefixes[i]) for hypothesis in hypotheses)
        ]
        if invalid:
            repeated = self._search_ranked(
                [sources[i] for i in invalid],
                limits[invalid],
                options,
                [prefixes[i] for i in invalid],
                suppressed=SUPPRESSED,
            )
            for i, hypotheses in zip(invalid, repeated, strict=True):
                ranked[i] = hypotheses
        return ranked

    def score(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return the log-probability of every target token: see `Engine.score`."""
        results = self._translator.score_batch(
            self._tokens(sources), [self._spell(target) for target in targets], max_input_length=0
        )
        return [np.array(result.log_probs, np.float32) for result in results]

    def align(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return how much target tokens are aligned to source tokens: see `Engine.align`.

        CTranslate2 returns the attention of the layer that `write_model` was given.
        """
        results = self._translator.translate_batch(
            self._tokens(sources),
            target_prefix=[self._spell(target) for target in targets],
            beam_size=1,
            max_input_length=0,
            min_decoding_length=0,
            # One token more than the longest prefix: its row is that of EOS.
            max_decoding_length=max(map(len, targets)) + 1,
            return_end_token=True,
            return_attention=True,
        )
        return [
            self._aligner.align(np.array(result.attention[0])[: len(target) + 1], source, target)
            for result, source, target in zip(results, sources, targets, strict=True)
        ]

    def _search_ranked(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions,
        prefixes: Sequence[np.ndarray],
        suppressed: tuple[int, ...] = (),
    ) -> list[list[Hypothesis]]:
        """Return hypotheses with the log-probabilities of the model, best first."""
        candidates = self._search_limited(sources, limits, options, prefixes, suppressed)
        if suppressed or options.no_repeat_ngram:
            _forget_scores(candidates)
        else:
            self._add_prefix(candidates, sources, prefixes)
        self._complete(candidates, sources, limits)
        alpha = options.length_penalty if options.beam_size > 1 else 0.0
        return [_rank(sentence, alpha)[: options.n_best] for sentence in candidates]

    def _search_limited(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions,
        prefixes: Sequence[np.ndarray],
        suppressed: tuple[int, ...],
    ) -> list[_Candidates]:
        """Search with a limit per sentence, although CTranslate2 has one per batch."""
        # The largest limit serves all, as long as no hypothesis reaches the limit of its sentence.
        largest = max(limits)
        candidates = self._search(sources, largest, options, prefixes, suppressed)
        too_long = defaultdict(list)
        for i, (limit, sentence) in enumerate(zip(limits, candidates, strict=True)):
            if limit < largest and max(map(len, sentence)) >= limit:
                too_long[limit].append(i)
        for limit, rows in too_long.items():
            part = [sources[i] for i in rows], limit, options, [prefixes[i] for i in rows]
            for i, sentence in zip(rows, self._search(*part, suppressed), strict=True):
                candidates[i] = sentence
        return candidates

    def _search(
        self,
        sources: Sequence[np.ndarray],
        limit: int,
        options: BeamOptions,
        prefixes: Sequence[np.ndarray],
        suppressed: tuple[int, ...],
    ) -> list[_Candidates]:
        """Return hypotheses with their log-probability, without that of the prefix.

        Hypotheses without EOS have reached the limit.
        """
        is_beam = options.beam_size > 1
        results = self._translator.translate_batch(
            self._tokens(sources),
            target_prefix=list(map(self._spell, prefixes)) if any(map(len, prefixes)) else None,
            beam_size=options.beam_size,
            patience=_PATIENCE if is_beam else 1,
            num_hypotheses=_PATIENCE * options.beam_size if is_beam else 1,
            length_penalty=_NO_PENALTY,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=max(int(limit) - 1, 1),  # the last position is for EOS
            suppress_sequences=[self._spell([i]) for i in suppressed] or None,
            no_repeat_ngram_size=options.no_repeat_ngram,
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
        candidates: list[_Candidates],
        sources: Sequence[np.ndarray],
        prefixes: Sequence[np.ndarray],
    ) -> None:
        """Add the log-probabilities of the prefixes, which CTranslate2 leaves out."""
        if not any(map(len, prefixes)):
            return
        scores = self.score(sources, prefixes)
        for sentence, log_probs, prefix in zip(candidates, scores, prefixes, strict=True):
            for tokens in sentence:
                sentence[tokens] += float(log_probs[: len(prefix)].sum())

    def _complete(
        self,
        candidates: list[_Candidates],
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
    ) -> None:
        """End hypotheses that reached the limit, and score those without a log-probability."""
        incomplete = [
            (i, tokens)
            for i, sentence in enumerate(candidates)
            for tokens, log_prob in sentence.items()
            if tokens[-1] != EOS or math.isnan(log_prob)
        ]
        if not incomplete:
            return
        bodies = [
            tokens[:-1] if tokens[-1] == EOS else tokens[: limits[i] - 1]
            for i, tokens in incomplete
        ]
        scores = self.score(
            [sources[i] for i, _ in incomplete], [np.array(body) for body in bodies]
        )
        for (i, tokens), body, log_probs in zip(incomplete, bodies, scores, strict=True):
            del candidates[i][tokens]
            candidates[i][*body, EOS] = float(log_probs.sum())

    def _tokens(self, sources: Iterable[np.ndarray]) -> list[list[str]]:
        """Return the tokens of sources, EOS included."""
        return [[*self._spell(ids), self._pieces[EOS]] for ids in sources]

    def _spell(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[i] for i in ids]


def _is_invalid(hypothesis: Hypothesis, prefix: np.ndarray) -> bool:
    """Return whether a hypothesis contains an id of `SUPPRESSED` after its prefix."""
    return any(token in SUPPRESSED for token in hypothesis.tokens[len(prefix) :])


def _forget_scores(candidates: list[_Candidates]) -> None:
    """Set log-probabilities to NaN: where CTranslate2 forbids tokens, it distorts them."""
    for sentence in candidates:
        sentence.update(dict.fromkeys(sentence, math.nan))


def _rank(candidates: _Candidates, alpha: float) -> list[Hypothesis]:
    """Return hypotheses by the score of Wu et al. 2016, equation 14, best first."""
    hypotheses = [
        Hypothesis(tokens, log_prob, log_prob / ((5 + len(tokens)) / 6) ** alpha)
        for tokens, log_prob in candidates.items()
    ]
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
