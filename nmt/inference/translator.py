"""Translate text with a trained model: clean, encode, search, decode; one output per input."""

from __future__ import annotations

import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from nmt.config import DecodingConfig
from nmt.data.corpus import clean_text
from nmt.data.tokenizer import BOS, EOS, Tokenizer
from nmt.errors import UserError
from nmt.inference.engine import Beam, Engine, Found, KerasEngine, Sampling
from nmt.inference.metrics import expected_chrf

Result = TypeVar("Result")

# Where a text that is too long is cut, the first that helps: after sentences, after clauses.
_CUTS = (re.compile(r"(?<=[.!?…])\s+"), re.compile(r"(?<=[,;:)\]»—–])\s+"))


@dataclass(frozen=True)
class Translation:
    """One hypothesis for one input."""

    text: str
    log_prob: float  # of all its tokens, end mark included, in nats
    score: float  # what hypotheses are ranked by: log_prob / length penalty, + coverage penalty
    tokens: tuple[int, ...]  # target ids, end mark included


@dataclass(frozen=True)
class PairScore:
    """How probable the model finds a given translation."""

    pieces: list[str]  # of the target, end mark included
    log_probs: list[float]  # of each piece, in nats

    @property
    def log_prob(self) -> float:
        """Of the whole target, in nats."""
        return sum(self.log_probs)


@dataclass(frozen=True)
class Attention:
    """The attention weights of one sentence pair, float32, with the tokens on both axes.

    The target is given twice, as the decoder reads it (shifted, begin mark first) and as it writes
    it: row t of ``decoder`` and ``cross`` is the position that reads ``target_in[t]`` and writes
    ``target_out[t]``.
    """

    source: list[str]  # S tokens
    target_in: list[str]  # T tokens
    target_out: list[str]  # T tokens
    encoder: np.ndarray  # [layers, H, S, S]
    decoder: np.ndarray  # [layers, H, T, T]
    cross: np.ndarray  # [layers, H, T, S]


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
        self.room = min(longest or engine.max_length, engine.max_length) - 1  # end mark
        self._warned = False

    @classmethod
    def load(cls, run: str | Path = "runs/latest") -> Translator:
        """Load the best weights of a run folder.

        Raises:
            UserError: there is no run, or it has no weights yet.
        """
        from nmt.run import RunFolder

        folder = RunFolder.open(Path(run))
        config = folder.config
        return cls(
            KerasEngine(folder.load_model()),
            folder.load_tokenizer(),
            config.decoding,
            longest=max(config.training.row_lengths),
        )

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
        words, and the best translations of its parts are joined.

        Args:
            texts: source sentences.
            beam_size: hypotheses kept at every position; 1 is greedy. None: the run's default.
            length_penalty: alpha of Wu et al. 2016, equation 14. None: the run's default.
            coverage_penalty: beta of the same equation.
            n_best: translations wanted, at most ``beam_size``.
            prefix: what every translation begins with.

        Raises:
            UserError: ``n_best`` is larger than the beam, or the prefix is too long.
        """
        size = self.decoding.beam_size if beam_size is None else beam_size
        alpha = self.decoding.length_penalty if length_penalty is None else length_penalty
        if n_best > size:
            raise UserError(f"{n_best} translations need a beam of at least {n_best}, not {size}")
        beam = Beam(size, alpha, coverage_penalty, n_best)

        def search(
            sources: list[np.ndarray], limits: np.ndarray, prefix: np.ndarray
        ) -> list[list[Found]]:
            return self.engine.search(sources, limits, beam, prefix)

        return self._each(texts, prefix, search)

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

        return self._each(texts, prefix, draw)

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
        found, sides = self._force(self.own_engine("scores").score, pairs)
        return [
            PairScore(self.tokenizer.pieces([*target, EOS]), [float(value) for value in values])
            for target, values in zip(sides[1], found, strict=True)
        ]

    def attentions(self, pairs: Sequence[tuple[str, str]]) -> list[Attention]:
        """Return the weights with which given translations are written (forced decoding).

        Args:
            pairs: source and target texts.

        Raises:
            UserError: the engine does not show its attention, or a text has more tokens than the
                model positions.
        """
        found, sides = self._force(self.own_engine("attention").attention, pairs)
        return [
            self._labelled(source, target, EOS, weights)
            for source, target, weights in zip(*sides, found, strict=True)
        ]

    def lengths(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Return the tokens of the longer side of each pair, end mark included."""
        sides = zip(*self._both_encoded(pairs), strict=True)
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
        parts = self._encoded(text)
        if len(parts) != 1:
            return None
        if translation is None:
            translation = self.hypotheses([text])[0][0]
        target, last = np.asarray(translation.tokens[:-1], np.int32), translation.tokens[-1]
        return self._labelled(parts[0], target, last, *engine.attention(parts, [target]))

    def _labelled(
        self,
        source: np.ndarray,
        target: np.ndarray,
        last: int,
        weights: tuple[np.ndarray, np.ndarray, np.ndarray],
    ) -> Attention:
        """Name what the weights of a pair are of; ``last`` is written after ``target``."""
        return Attention(
            self.tokenizer.pieces([*source, EOS]),
            self.tokenizer.pieces([BOS, *target]),
            self.tokenizer.pieces([*target, last]),
            *weights,
        )

    def _force(
        self, work: Callable[..., list[Result]], pairs: Sequence[tuple[str, str]]
    ) -> tuple[list[Result], list[list[np.ndarray]]]:
        """Do ``work`` on the ids of pairs, in batches of similar length.

        Returns:
            (what it found, pair by pair; the ids of the sources and of the targets).
        """
        sides = self._both_encoded(pairs)
        lengths = [(len(source), len(target)) for source, target in zip(*sides, strict=True)]
        most = self.engine.max_length - 1
        for number, both in enumerate(lengths, start=1):
            if max(both) > most:
                raise UserError(
                    f"pair {number} is longer than the {most} tokens that the model has "
                    "positions for"
                )
        found: dict[int, Result] = {}
        for members in self._batches([sum(both) for both in lengths]):
            results = work(*([side[i] for i in members] for side in sides))
            found |= zip(members, results, strict=True)
        return [found[i] for i in range(len(pairs))], sides

    def _both_encoded(self, pairs: Sequence[tuple[str, str]]) -> list[list[np.ndarray]]:
        return [self.tokenizer.encode([_clean(pair[side]) for pair in pairs]) for side in (0, 1)]

    def own_engine(self, wanted: str) -> KerasEngine:
        """Return the engine, if it is the model itself.

        Raises:
            UserError: it is not, and so does not give what is ``wanted``.
        """
        if not isinstance(self.engine, KerasEngine):
            raise UserError(f"only the engine of this program gives {wanted}")
        return self.engine

    def _each(
        self, texts: Sequence[str], prefix: str, search: Callable[..., list[list[Found]]]
    ) -> list[list[Translation]]:
        """Cut and encode texts, search in batches of similar length, decode and join."""
        parts: list[np.ndarray] = []
        spans = []
        for text in texts:
            cut = self._encoded(text)
            spans.append((len(parts), len(parts) + len(cut)))
            parts.extend(cut)
        forced = self.prefix_ids(prefix)
        found: list[list[Translation]] = [[] for _ in parts]

        def work(members: list[int], prefix: np.ndarray) -> None:
            sources = [parts[i] for i in members]
            limits = np.array([self.limit(len(ids), len(prefix)) for ids in sources], np.int32)
            outputs = search(sources, limits, prefix)
            tokens = [one.tokens for candidates in outputs for one in candidates]
            decoded = iter(self.tokenizer.decode(tokens))
            for i, candidates in zip(members, outputs, strict=True):
                found[i] = [
                    Translation(next(decoded), one.log_prob, one.score, one.tokens)
                    for one in candidates
                ]

        # Only the first part of a text begins with its prefix.
        groups = [(list(range(len(parts))), forced)]
        if len(forced):
            begins = {begin for begin, _ in spans}
            groups = [
                ([i for i in range(len(parts)) if i in begins], forced),
                ([i for i in range(len(parts)) if i not in begins], forced[:0]),
            ]
        jobs = [
            ([members[i] for i in batch], prefixed)
            for members, prefixed in groups
            for batch in self._batches([len(parts[i]) for i in members])
        ]
        with ThreadPoolExecutor(self.engine.parallel) as pool:
            for done in [pool.submit(work, *job) for job in jobs]:
                done.result()
        return [_joined(found[begin:end]) for begin, end in spans]

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield the indices of sentences of similar length, the longest first."""
        size = min(self.decoding.batch_size, -(-len(lengths) // self.engine.parallel) or 1)
        order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        for start in range(0, len(order), size):
            yield order[start : start + size]

    def prefix_ids(self, prefix: str) -> np.ndarray:
        """Return the ids int32 [P] that an output with this prefix begins with.

        Raises:
            UserError: the prefix is too long.
        """
        cleaned = _clean(prefix)
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
        parts = self._encoded(text)
        if not parts:
            raise UserError("the sentence is empty: there is nothing to translate")
        if len(parts) > 1:
            raise UserError(
                f"the sentence is longer than the {self.room} tokens of the longest in training, "
                "and would be translated in parts: give the parts"
            )
        return parts[0]

    def _encoded(self, text: str) -> list[np.ndarray]:
        """Clean and encode a text; cut it where it is longer than any sentence of training."""
        text = _clean(text)
        if not text:
            return []
        ids = self.tokenizer.encode([text])[0]
        if len(ids) <= self.room:
            return [ids]
        if not self._warned:
            warnings.warn(
                f"a text of {len(ids)} tokens is longer than the {self.room} of the longest "
                "sentence in training: such texts are translated in parts",
                stacklevel=4,
            )
            self._warned = True
        return list(self._parts(text, ids))

    def _parts(
        self, text: str, ids: np.ndarray, cuts: Sequence[re.Pattern[str]] = _CUTS
    ) -> Iterator[np.ndarray]:
        """Yield parts of at most `room` tokens, as few as the best places to cut allow."""
        if len(ids) <= self.room:
            yield ids
            return
        if not cuts:
            while len(ids) > self.room:
                cut = self._last_word_begin(ids[: self.room + 1])
                yield ids[:cut]
                ids = ids[cut:]
            yield ids
            return
        pieces = cuts[0].split(text)
        encoded = self.tokenizer.encode(pieces)
        current: list[np.ndarray] = []
        for piece, piece_ids in zip(pieces, encoded, strict=True):
            if current and sum(map(len, current)) + len(piece_ids) > self.room:
                yield np.concatenate(current)
                current = []
            if len(piece_ids) > self.room:
                yield from self._parts(piece, piece_ids, cuts[1:])
            elif len(piece_ids):
                current.append(piece_ids)
        if current:
            yield np.concatenate(current)

    def _last_word_begin(self, ids: np.ndarray) -> int:
        for position in range(len(ids) - 1, 0, -1):
            if self.tokenizer.pieces(ids[position : position + 1])[0].startswith("▁"):
                return position
        return len(ids) - 1


def _clean(text: str) -> str:
    """Clean a text; what the shell could not decode comes as lone surrogates."""
    return clean_text(text.encode("utf-8", "replace").decode("utf-8"))


def _joined(parts: list[list[Translation]]) -> list[Translation]:
    """Join the best translations of the parts of one text; no parts make an empty translation."""
    if len(parts) == 1:
        return parts[0]
    best = [candidates[0] for candidates in parts]
    return [
        Translation(
            text=" ".join(part.text for part in best),
            log_prob=sum(part.log_prob for part in best),
            score=sum(part.score for part in best),
            tokens=tuple(token for part in best for token in part.tokens),
        )
    ]
