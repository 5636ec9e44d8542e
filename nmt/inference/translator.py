"""Translate text with a trained model: clean, encode, search, decode; one output per input."""

from __future__ import annotations

import heapq
import math
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from nmt.config import DecodingConfig
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError
from nmt.inference.cutting import Cutter, clean_input
from nmt.inference.engine import Beam, Engine, Found, KerasEngine, Sampling
from nmt.inference.forcing import (
    attend_pairs,
    encode_both,
    label_attention,
    plan_batches,
    score_pairs,
)
from nmt.inference.metrics import expected_chrf
from nmt.inference.results import Attention, PairScore, Translation, join_lines


class Translator:
    """An engine with its tokenizer, ready to translate.

    Args:
        engine: turns source ids into target ids.
        tokenizer: the tokenizer of its ids.
        decoding: defaults of the search.
        longest: tokens, end mark included, of the longest sequence in training: longer texts are
            translated in parts. None: as many as the engine has positions.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        decoding: DecodingConfig,
        *,
        longest: int | None = None,
    ) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.decoding = decoding
        room = min(longest or engine.max_length, engine.max_length) - 1  # end mark
        self._cutter = Cutter(tokenizer, room)

    @classmethod
    def load(cls, run: str | Path = "runs/latest") -> Translator:
        """Load the best weights of a run folder.

        Raises:
            UserError: there is no run, or it has no weights yet.
        """
        from nmt.runs.folder import RunFolder

        folder = RunFolder.open(Path(run))
        config = folder.config
        return cls(
            KerasEngine(folder.load_model()),
            folder.load_tokenizer(),
            config.decoding,
            longest=max(config.training.row_lengths),
        )

    @property
    def room(self) -> int:
        """Most tokens, without end mark, of a text that is translated in one go."""
        return self._cutter.room

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        coverage_penalty: float = 0.0,
        prefix: str = "",
    ) -> list[str]:
        """Return one translation per text, in order; an empty text gives an empty one."""
        best = self.hypotheses(
            texts,
            beam_size=beam_size,
            length_penalty=length_penalty,
            coverage_penalty=coverage_penalty,
            prefix=prefix,
        )
        return [hypotheses[0].text for hypotheses in best]

    def hypotheses(
        self,
        texts: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        coverage_penalty: float = 0.0,
        n_best: int = 1,
        prefix: str = "",
    ) -> list[list[Translation]]:
        """Return up to ``n_best`` translations per text, best first.

        A text longer than training's longest is cut after sentences, after clauses, or between
        words, and translations of its parts are joined: those whose scores sum up to the most.

        Args:
            texts: source sentences.
            beam_size: hypotheses kept at every position; 1 is greedy. None: the run's default.
            length_penalty: alpha of Wu et al. 2016, equation 14. None: the run's default.
            coverage_penalty: beta of the same equation.
            n_best: translations wanted, at most ``beam_size``.
            prefix: what every translation begins with.

        Raises:
            UserError: ``n_best`` is larger than the beam, a penalty is below 0, or the prefix is
                too long.
        """
        search = self._searching(beam_size, length_penalty, coverage_penalty, n_best)
        return self._each(texts, prefix, search, lambda parts: join_best(parts, n_best))

    def hypotheses_of_parts(
        self,
        parts: Sequence[np.ndarray],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        n_best: int = 1,
    ) -> list[list[Translation]]:
        """Return up to ``n_best`` translations of each part of a text, best first.

        With `Cutter` before and `join_best` behind, these are the `hypotheses` of the text.

        Args:
            parts: ids int32 [S - 1] without end mark.
            beam_size: see `hypotheses`, as for the others.
            length_penalty: of the search.
            n_best: translations wanted.

        Raises:
            UserError: as `hypotheses`.
        """
        search = self._searching(beam_size, length_penalty, 0.0, n_best)
        return self._search_parts(parts, range(0), np.zeros(0, np.int32), search)

    def _searching(
        self,
        beam_size: int | None,
        length_penalty: float | None,
        coverage_penalty: float,
        n_best: int,
    ) -> Callable[..., list[list[Found]]]:
        """Return what searches a batch, after a check of its numbers."""
        size = self.decoding.beam_size if beam_size is None else beam_size
        alpha = self.decoding.length_penalty if length_penalty is None else length_penalty
        if n_best > size:
            raise UserError(f"{n_best} translations need a beam of at least {n_best}, not {size}")
        for name, value in (("length_penalty", alpha), ("coverage_penalty", coverage_penalty)):
            if not 0 <= value < math.inf:
                raise UserError(f"{name}={value} is not at least 0")
        beam = Beam(size, alpha, coverage_penalty, n_best)

        def search(
            sources: list[np.ndarray], limits: np.ndarray, prefix: np.ndarray
        ) -> list[list[Found]]:
            return self.engine.search(sources, limits, beam, prefix)

        return search

    def samples(
        self,
        texts: Sequence[str],
        count: int,
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 1,
        prefix: str = "",
    ) -> list[list[Translation]]:
        """Return ``count`` random translations per text, the most probable first.

        The same text and seed give the same translations, whatever else is translated beside it.
        Those of a text that is cut are made of a random translation of each part.

        Args:
            texts: source sentences.
            count: translations per text, which may repeat each other.
            temperature: above 1 more varied, below 1 more probable translations.
            top_k: draw from the k most probable pieces only; 0: from all.
            top_p: draw from the fewest pieces that together have this probability.
            seed: of the draws.
            prefix: what every translation begins with.

        Raises:
            UserError: the engine cannot sample, or the prefix is too long.
        """
        engine = self.own_engine("samples")
        sampling = Sampling(count, temperature, top_k, top_p)

        def draw(
            sources: list[np.ndarray], limits: np.ndarray, prefix: np.ndarray
        ) -> list[list[Found]]:
            keys = [zlib.crc32(ids.astype("<i4").tobytes(), seed) for ids in sources]
            drawn = np.array(keys, np.uint32).view(np.int32)
            return engine.sample(sources, limits, sampling, prefix, drawn)

        return self._each(texts, prefix, draw, lambda parts: _join_drawn(parts, seed))

    def minimum_bayes_risk(
        self, texts: Sequence[str], count: int, **sampling: float | int | str
    ) -> list[list[Translation]]:
        """Return, best first, the sampled translations by how much they agree with the others.

        A translation's score is its mean chrF against all samples of its text, which stand for the
        translations that the model finds probable (Eikema & Aziz 2020, equation 4).

        Args:
            texts: source sentences.
            count: samples per text.
            sampling: as for `samples`.
        """
        ranked = []
        for drawn in self.samples(texts, count, **sampling):  # type: ignore[arg-type]
            distinct = list({one.text: one for one in drawn}.values())
            scores = expected_chrf([one.text for one in distinct], [one.text for one in drawn])
            chosen = [
                Translation(one.text, one.log_prob, score, one.tokens)
                for one, score in zip(distinct, scores, strict=True)
            ]
            ranked.append(sorted(chosen, key=lambda one: -one.score))
        return ranked

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """Return the log-probability of each piece of given translations (forced decoding).

        Args:
            pairs: source and target texts.

        Raises:
            UserError: the engine cannot score, or a text has more tokens than the model positions.
        """
        engine = self.own_engine("scores")
        return score_pairs(engine, self.tokenizer, pairs, batch_size=self.decoding.batch_size)

    def attentions(self, pairs: Sequence[tuple[str, str]]) -> list[Attention]:
        """Return the weights with which given translations are written (forced decoding).

        Args:
            pairs: source and target texts.

        Raises:
            UserError: the engine does not show its attention, or a text has more tokens than the
                model positions.
        """
        engine = self.own_engine("attention")
        return attend_pairs(engine, self.tokenizer, pairs, batch_size=self.decoding.batch_size)

    def lengths(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Return the tokens of the longer side of each pair, end mark included."""
        sides = zip(*encode_both(self.tokenizer, pairs), strict=True)
        return [max(len(source), len(target)) + 1 for source, target in sides]

    def attention(self, text: str, translation: Translation | None = None) -> Attention | None:
        """Return the weights with which ``text`` was read while ``translation`` was written.

        Args:
            text: a source sentence.
            translation: None: the best one.

        Returns:
            None if there is nothing to attend to (an empty text), or the text was cut in parts.

        Raises:
            UserError: the engine does not show its attention.
        """
        engine = self.own_engine("attention")
        parts = self._cutter.cut(text)
        if len(parts) != 1:
            return None
        if translation is None:
            translation = self.hypotheses([text])[0][0]
        target, last = np.asarray(translation.tokens[:-1], np.int32), translation.tokens[-1]
        [weights] = engine.attention(parts, [target])
        return label_attention(engine, self.tokenizer, parts[0], target, last, weights)

    def own_engine(self, wanted: str) -> KerasEngine:
        """Return the engine, if it is the model itself.

        Raises:
            UserError: it is not, and so does not give what is ``wanted``.
        """
        if not isinstance(self.engine, KerasEngine):
            raise UserError(f"only the engine of this program gives {wanted}")
        return self.engine

    def _each(
        self,
        texts: Sequence[str],
        prefix: str,
        search: Callable[..., list[list[Found]]],
        join: Callable[[list[list[Translation]]], list[Translation]],
    ) -> list[list[Translation]]:
        """Cut and encode texts, search their parts, and join what is found."""
        parts: list[np.ndarray] = []
        spans = []
        for text in texts:
            cut = self._cutter.cut(text)
            spans.append((len(parts), len(parts) + len(cut)))
            parts.extend(cut)
        # Only the first part of a text begins with its prefix.
        begins = [begin for begin, _ in spans]
        found = self._search_parts(parts, begins, self.prefix_ids(prefix), search)
        of_texts = [found[begin:end] for begin, end in spans]
        return [parts[0] if len(parts) == 1 else join(parts) for parts in of_texts]

    def _search_parts(
        self,
        parts: Sequence[np.ndarray],
        forced_parts: Sequence[int],
        forced: np.ndarray,
        search: Callable[..., list[list[Found]]],
    ) -> list[list[Translation]]:
        """Search in batches of similar length, and decode.

        Args:
            parts: ids int32 [S - 1] of each, without end mark.
            forced_parts: indices of those whose translations begin with ``forced``.
            forced: ids int32 [P].
            search: of one batch.
        """
        found: list[list[Translation]] = [[] for _ in parts]

        def work(members: list[int], prefix: np.ndarray) -> None:
            sources = [parts[i] for i in members]
            limits = np.array([self.limit(len(ids), len(prefix)) for ids in sources], np.int32)
            outputs = search(sources, limits, prefix)
            tokens = [one.tokens for candidates in outputs for one in candidates]
            decoded = iter(self.tokenizer.decode(tokens))
            for i, candidates in zip(members, outputs, strict=True):
                found[i] = [
                    Translation(join_lines(next(decoded)), one.log_prob, one.score, one.tokens)
                    for one in candidates
                ]

        groups = [(list(range(len(parts))), forced)]
        if len(forced):
            begins = set(forced_parts)
            groups = [
                ([i for i in range(len(parts)) if i in begins], forced),
                ([i for i in range(len(parts)) if i not in begins], forced[:0]),
            ]
        jobs = [
            ([members[i] for i in batch], prefixed)
            for members, prefixed in groups
            for batch in plan_batches(
                [len(parts[i]) for i in members], self.decoding.batch_size, self.engine.parallel
            )
        ]
        pool = ThreadPoolExecutor(self.engine.parallel)
        try:
            for done in [pool.submit(work, *job) for job in jobs]:
                done.result()
        finally:  # an interruption waits for the batches that have begun, and for no other
            pool.shutdown(cancel_futures=True)
        return found

    def prefix_ids(self, prefix: str) -> np.ndarray:
        """Return the ids int32 [P] that an output with this prefix begins with.

        Raises:
            UserError: the prefix is too long.
        """
        cleaned = clean_input(prefix)
        ids = self.tokenizer.encode([cleaned])[0] if cleaned else np.zeros(0, np.int32)
        if len(ids) >= self.engine.max_length:
            raise UserError(f"the prefix has {len(ids)} tokens, more than the model can write")
        return ids

    def limit(self, source_tokens: int, prefix_tokens: int) -> int:
        """Return how many tokens an output may have, end mark included."""
        ratio, margin = self.decoding.max_length_ratio, self.decoding.max_length_margin
        wanted = max(int(source_tokens * ratio) + margin, prefix_tokens + margin)
        return min(wanted, self.engine.max_length)

    def whole(self, text: str) -> np.ndarray:
        """Return the ids int32 [S - 1] of a text that is translated in one go, without end mark.

        Raises:
            UserError: the text is empty, or would be cut in parts.
        """
        return self._cutter.whole(text)


def _join(chosen: Sequence[Translation]) -> Translation:
    """Join translations of the parts of one text; no parts make an empty translation."""
    return Translation(
        text=" ".join(part.text for part in chosen),
        log_prob=sum(part.log_prob for part in chosen),
        score=sum(part.score for part in chosen),
        tokens=tuple(token for part in chosen for token in part.tokens),
    )


def join_best(parts: list[list[Translation]], count: int) -> list[Translation]:
    """Return the ``count`` best of all ways to choose one translation per part, best first.

    A text without parts has one translation, which is empty.
    """
    best: list[tuple[Translation, ...]] = [()]
    for candidates in parts:
        longer = [(*chosen, one) for chosen in best for one in candidates]
        best = heapq.nlargest(count, longer, key=lambda chosen: sum(one.score for one in chosen))
    return [_join(chosen) for chosen in best]


def _join_drawn(parts: list[list[Translation]], seed: int) -> list[Translation]:
    """Join translations drawn of each part by chance; the most probable first.

    An engine sorts what it draws: joined in that order, the most probable of each part would meet.
    """
    drawn = [
        [candidates[i] for i in np.random.default_rng([seed, number]).permutation(len(candidates))]
        for number, candidates in enumerate(parts)
    ]
    joined = map(_join, zip(*drawn, strict=True)) if parts else [_join([])]
    return sorted(joined, key=lambda one: -one.log_prob)
