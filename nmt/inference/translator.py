"""Translate text with a trained model: clean, encode, search, decode; one output per input."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import DecodingConfig
from nmt.data.corpus import clean_text
from nmt.data.tokenizer import BOS, EOS, Tokenizer
from nmt.inference.compiled import compiled
from nmt.inference.engine import Beam, Engine, KerasEngine


@dataclass(frozen=True)
class Translation:
    """One hypothesis for one input."""

    text: str
    log_prob: float  # of all its tokens, end mark included, in nats
    score: float  # log_prob / length penalty: what hypotheses are ranked by
    tokens: tuple[int, ...]  # target ids, end mark included


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
    """A model with its tokenizer, ready to translate.

    Args:
        engine: what searches.
        tokenizer: its tokenizer.
        decoding: defaults of the search.
    """

    def __init__(self, engine: Engine, tokenizer: Tokenizer, decoding: DecodingConfig) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.decoding = decoding
        if isinstance(engine, KerasEngine):
            self.model = engine.model
            self._attention = compiled(engine.model, self._weights, (2, 2))
        self._warned = False

    @classmethod
    def load(cls, run: str | Path = "runs/latest") -> Translator:
        """Load the best weights of a run folder.

        Raises:
            UserError: there is no run, or it has no weights yet.
        """
        from nmt.run import RunFolder

        folder = RunFolder.open(Path(run))
        return cls(
            KerasEngine(folder.load_model()), folder.load_tokenizer(), folder.config.decoding
        )

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
    ) -> list[str]:
        """Return one translation per text, in order; an empty text gives an empty one."""
        best = self.hypotheses(texts, beam_size=beam_size, length_penalty=length_penalty)
        return [hypotheses[0].text for hypotheses in best]

    def hypotheses(
        self,
        texts: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
    ) -> list[list[Translation]]:
        """Return up to ``beam_size`` translations per text, best first.

        A text longer than the model's positions is cut at sentence ends, or between words, and
        the best translations of its parts are joined.
        """
        beam_size = self.decoding.beam_size if beam_size is None else beam_size
        alpha = self.decoding.length_penalty if length_penalty is None else length_penalty
        parts: list[np.ndarray] = []
        spans = []
        for text in texts:
            cut = self._encoded(text)
            spans.append((len(parts), len(parts) + len(cut)))
            parts.extend(cut)
        found: list[list[Translation]] = [[] for _ in parts]
        size = self.decoding.batch_size
        order = sorted(range(len(parts)), key=lambda i: len(parts[i]))
        for start in range(0, len(order), size):
            members = order[start : start + size]
            outputs = self._search([parts[i] for i in members], beam_size, alpha)
            for i, output in zip(members, outputs, strict=True):
                found[i] = output
        return [_joined(found[begin:end]) for begin, end in spans]

    def attention(self, text: str, translation: Translation | None = None) -> Attention | None:
        """Return the weights with which ``text`` was read while ``translation`` was written.

        Args:
            text: a source sentence.
            translation: None: the best one.

        Returns:
            None if there is nothing to attend to (an empty text), or the text was cut in parts.
        """
        parts = self._encoded(text)
        if len(parts) != 1:
            return None
        if translation is None:
            translation = self.hypotheses([text])[0][0]
        source = np.append(parts[0], EOS)
        target_out = np.asarray(translation.tokens)
        target_in = np.append(BOS, target_out[:-1])
        encoder, decoder, cross = self._attention(source[None], target_in[None])
        return Attention(
            source=self.tokenizer.pieces(source),
            target_in=self.tokenizer.pieces(target_in),
            target_out=self.tokenizer.pieces(target_out),
            encoder=np.stack([layer[0] for layer in encoder]),
            decoder=np.stack([layer[0] for layer in decoder]),
            cross=np.stack([layer[0] for layer in cross]),
        )

    def _weights(self, source: Any, target: Any) -> Any:
        return tuple(self.model({"source": source, "target": target}, return_attention=True)[1])

    def _encoded(self, text: str) -> list[np.ndarray]:
        """Clean and encode a text, in as many parts as the model's positions ask for."""
        # What the shell could not decode comes as lone surrogates, which no tokenizer takes.
        text = clean_text(text.encode("utf-8", "replace").decode("utf-8"))
        if not text:
            return []
        ids = self.tokenizer.encode([text])[0]
        room = self.engine.max_length - 1  # end mark
        if len(ids) <= room:
            return [ids]
        if not self._warned:
            warnings.warn(
                f"a text of {len(ids)} tokens is longer than the {room} that the model reads: "
                "such texts are translated in parts",
                stacklevel=4,
            )
            self._warned = True
        return list(self._parts(text, room))

    def _parts(self, text: str, room: int) -> Iterator[np.ndarray]:
        """Join sentences into parts of at most ``room`` tokens; longer ones are cut at words."""
        pieces = re.split(r"(?<=[.!?…;:])\s+", text)
        encoded = self.tokenizer.encode(pieces)
        current: list[np.ndarray] = []
        for ids in encoded:
            if sum(map(len, current)) + len(ids) > room:
                if current:
                    yield np.concatenate(current)
                    current = []
                while len(ids) > room:
                    cut = self._last_word_begin(ids[: room + 1])
                    yield ids[:cut]
                    ids = ids[cut:]
            if len(ids):
                current.append(ids)
        if current:
            yield np.concatenate(current)

    def _last_word_begin(self, ids: np.ndarray) -> int:
        for position in range(len(ids) - 1, 0, -1):
            if self.tokenizer.pieces(ids[position : position + 1])[0].startswith("▁"):
                return position
        return len(ids) - 1

    def _search(
        self, sequences: list[np.ndarray], beam_size: int, alpha: float
    ) -> list[list[Translation]]:
        limits = np.array([self._limit(len(ids)) for ids in sequences], np.int32)
        beam = Beam(beam_size, alpha, n_best=beam_size)
        found = self.engine.search(sequences, limits, beam, np.empty(0, np.int32))
        texts = iter(self.tokenizer.decode([one.tokens for outputs in found for one in outputs]))
        return [
            [Translation(next(texts), one.log_prob, one.score, one.tokens) for one in outputs]
            for outputs in found
        ]

    def _limit(self, source_tokens: int) -> int:
        ratio, margin = self.decoding.max_length_ratio, self.decoding.max_length_margin
        return min(int(source_tokens * ratio) + margin, self.engine.max_length)


def _joined(parts: list[list[Translation]]) -> list[Translation]:
    """Join the best translations of the parts of one text."""
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
