"""Results of translating, scoring and attention. Importing this loads no Keras."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from nmt.text.cleaning import LINE_ENDS

if TYPE_CHECKING:
    import numpy as np

    from nmt.model.contract import AttentionKind

SEPARATORS = LINE_ENDS + "\t"  # of lines, and of columns
_SHOWN_ROWS = 100  # of a list, in a notebook
CELL = "text-align: start; vertical-align: baseline"  # not as notebooks align numbers
_JOINED = dict.fromkeys(map(ord, SEPARATORS), " ")
_JOINED_LINES = dict.fromkeys(map(ord, LINE_ENDS), " ")


def to_one_line(text: str, *, keeps_tabs: bool = False) -> str:
    """Return a decoded text as one line, usually without tabs: outputs may contain any byte."""
    return text.translate(_JOINED_LINES if keeps_tabs else _JOINED)


def clean_output(text: str) -> str:
    """Return a decoded output as one line, without bytes that make no character."""
    return to_one_line(text.replace("\ufffd", ""))


@dataclass(frozen=True)
class Word:
    """A word of a translation."""

    begin: int  # characters [begin, end) of the translation
    end: int
    confidence: float | None  # probability that a reference has the word; None: not requested
    sources: tuple[tuple[int, int], ...]  # characters [begin, end) of the words it comes from


class TermUse(NamedTuple):
    """A term of a glossary in a source, and whether its translation uses the given target."""

    source: str
    target: str
    is_used: bool


@dataclass(frozen=True)
class Translation:
    """One translation of a text."""

    text: str  # of a single sentence one line; of more, with the line breaks of the source
    log_prob: float  # sum over all tokens, EOS included, in nats
    # Translations are ranked by it: log_prob / length penalty + coverage penalty of a search, added
    # up over segments; log_prob of a sample, or its mean chrF by `minimum_bayes_risk`.
    score: float
    # Target ids, EOS included; empty for copied text, such as "12" or an emoji.
    tokens: tuple[int, ...]
    lost_spans: tuple[str, ...] = ()  # kept spans that the model left out, and that were inserted
    confidence: float | None = None  # expected chrF2++ / 100; None: not requested, or unknown
    words: tuple[Word, ...] = ()  # if confidence or words are requested
    terms: tuple[TermUse, ...] = ()  # of the glossary that was given, in the order of the source

    def _repr_html_(self) -> str:
        """Return the display in a notebook."""
        return (
            f'<p dir="auto">{escape(self.text)} <small style="opacity: 0.7">score '
            f"{self.score:.3f}, log-probability {self.log_prob:.3f}</small></p>"
        )


def list_distinct(translations: Iterable[Translation]) -> list[Translation]:
    """Return the first translation of each text: several hypotheses may become the same text."""
    distinct: dict[str, Translation] = {}
    for translation in translations:
        distinct.setdefault(translation.text, translation)
    return list(distinct.values())


Result = TypeVar("Result", bound="str | list[Translation]")


class Results(list[Result]):
    """Results of a translator, one per text: a list that displays itself in a notebook.

    Args:
        results: a translation per text, or a list of translations.
        texts: the texts.
    """

    def __init__(self, results: Iterable[Result] = (), texts: Sequence[str] = ()) -> None:
        super().__init__(results)
        self.texts = tuple(texts)

    def _repr_html_(self) -> str:
        """Return the display in a notebook: a row for each text."""
        rows = []
        for number, result in enumerate(self[:_SHOWN_ROWS]):
            source = self.texts[number] if len(self.texts) == len(self) else ""
            if isinstance(result, str):
                shown = f'<p dir="auto">{escape(result)}</p>'
            else:
                shown = "".join(translation._repr_html_() for translation in result)
            rows.append(
                f'<tr><td dir="auto" style="{CELL}">{escape(source)}</td>'
                f'<td style="{CELL}">{shown}</td></tr>'
            )
        more = len(self) - _SHOWN_ROWS
        end = f"<p>and {more:,} more</p>" if more > 0 else ""
        return f"<table>{''.join(rows)}</table>{end}"


@dataclass(frozen=True)
class PairScore:
    """The log-probability of a given translation."""

    pieces: list[str]  # tokens of the target, EOS included
    log_probs: list[float]  # of each token, in nats

    @property
    def log_prob(self) -> float:
        """Log-probability of the target, in nats."""
        return sum(self.log_probs)

    def _repr_html_(self) -> str:
        """Return the display in a notebook: each token above its log-probability."""
        rows = (
            "".join(f"<td>{escape(piece)}</td>" for piece in self.pieces),
            "".join(f"<td>{value:.2f}</td>" for value in self.log_probs),
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table>{body}</table><p>{self.log_prob:.3f} nats in all</p>"


@dataclass(frozen=True)
class Attention:
    """The attention weights of one sentence pair, float32, with the tokens on both axes.

    The target is given as the decoder reads it (shifted, BOS first) and as the decoder
    writes it: row t of its weights is the position that reads ``target_in[t]`` and writes
    ``target_out[t]``.
    """

    source: list[str]  # S tokens
    target_in: list[str]  # T tokens
    target_out: list[str]  # T tokens
    weights: dict[str, np.ndarray]  # by name of the kind: [layers, H, rows, columns]
    kinds: tuple[AttentionKind, ...]  # in display order

    @property
    def encoder(self) -> np.ndarray:
        """Encoder self-attention [layers, H, S, S], if the model has it."""
        return self.weights["encoder"]

    @property
    def decoder(self) -> np.ndarray:
        """Decoder self-attention [layers, H, T, T], if the model has it."""
        return self.weights["decoder"]

    @property
    def cross(self) -> np.ndarray:
        """Cross-attention [layers, H, T, S]."""
        return self.weights["cross"]

    def tokens(self, axis: str) -> list[str]:
        """Return the tokens of an axis: "source", "target_in" or "target_out"."""
        return {
            "source": self.source,
            "target_in": self.target_in,
            "target_out": self.target_out,
        }[axis]

    def _repr_html_(self) -> str:
        """Return the display in a notebook: the interactive viewer."""
        if not self.kinds:
            return "<p>The model has no attention.</p>"
        from nmt.viewer.cells import notebook_cell

        return notebook_cell(self)
