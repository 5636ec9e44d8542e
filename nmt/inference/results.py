"""What translating gives. A leaf: importing it loads no Keras."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from nmt.model.contract import AttentionKind

LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # those of `str.splitlines`
_JOINED = dict.fromkeys(map(ord, LINE_ENDS), " ")


def join_lines(text: str) -> str:
    """Return a decoded text as one line: a sampled byte can be a line feed, or part of another."""
    return text.translate(_JOINED)


@dataclass(frozen=True)
class Translation:
    """One hypothesis for one input."""

    text: str  # one line
    log_prob: float  # of all its tokens, end mark included, in nats
    score: float  # what hypotheses are ranked by: log_prob / length penalty, + coverage penalty
    tokens: tuple[int, ...]  # target ids, end mark included

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return (
            f'<p dir="auto">{escape(self.text)} <small style="opacity: 0.7">score '
            f"{self.score:.3f}, log-probability {self.log_prob:.3f}</small></p>"
        )


@dataclass(frozen=True)
class PairScore:
    """How probable the model finds a given translation."""

    pieces: list[str]  # of the target, end mark included
    log_probs: list[float]  # of each piece, in nats

    @property
    def log_prob(self) -> float:
        """Of the whole target, in nats."""
        return sum(self.log_probs)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: each piece over its log-probability."""
        rows = (
            "".join(f"<td>{escape(piece)}</td>" for piece in self.pieces),
            "".join(f"<td>{value:.2f}</td>" for value in self.log_probs),
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table>{body}</table><p>{self.log_prob:.3f} nats in all</p>"


@dataclass(frozen=True)
class Attention:
    """The attention weights of one sentence pair, float32, with the tokens on both axes.

    The target is given twice, as the decoder reads it (shifted, begin mark first) and as it writes
    it: row t of the decoder's weights is the position that reads ``target_in[t]`` and writes
    ``target_out[t]``.
    """

    source: list[str]  # S tokens
    target_in: list[str]  # T tokens
    target_out: list[str]  # T tokens
    weights: dict[str, np.ndarray]  # by name of the kind: [layers, H, rows, columns]
    kinds: tuple[AttentionKind, ...]  # what the model has, in the order in which it is shown

    @property
    def encoder(self) -> np.ndarray:
        """Encoder self-attention [layers, H, S, S], of a model that has it."""
        return self.weights["encoder"]

    @property
    def decoder(self) -> np.ndarray:
        """Decoder self-attention [layers, H, T, T], of a model that has it."""
        return self.weights["decoder"]

    @property
    def cross(self) -> np.ndarray:
        """Cross-attention [layers, H, T, S]."""
        return self.weights["cross"]

    def tokens(self, axis: str) -> list[str]:
        """Return the tokens of an axis: "source", "target_in" or "target_out"."""
        found: list[str] = getattr(self, axis)
        return found

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the viewer, with all it needs inside."""
        from nmt.viewer.page import attention_cell

        return attention_cell(self)
