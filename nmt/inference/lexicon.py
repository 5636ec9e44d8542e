"""Which target token a source token usually becomes: probabilities learned from pairs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nmt.data.model1 import estimate_translations
from nmt.data.tokenizer import EOS
from nmt.errors import UserError
from nmt.files import replace_atomically

LEXICON_FILE = "lexicon.npz"  # in a run folder
MAX_PAIRS = 40_000  # sample size: all 111,000 pairs of Tatoeba give no better alignments
_MAX_CELLS = 10_000_000  # source tokens times target tokens of all pairs: 1 GB of memory
_MIN_PROBABILITY = 1e-3  # probabilities below it are dropped
_SHIFT = 32  # bits of a target id in a key


class Lexicon:
    """Probabilities of target tokens, given one source token: see `nmt.data.model1`.

    EOS is a token like others on both sides: target tokens without a counterpart are
    explained by that of the source.

    Args:
        keys: int64 [N], ascending: source id << 32 | target id.
        probabilities: float32 [N].
        layer: index of the decoder layer whose cross-attention agrees best with the probabilities;
            None: not measured.
    """

    def __init__(
        self, keys: NDArray[np.int64], probabilities: NDArray[np.float32], layer: int | None = None
    ) -> None:
        self._keys, self._probabilities, self.layer = keys, probabilities, layer

    @cached_property
    def _targets(self) -> NDArray[np.int64]:
        """The target tokens that the lexicon knows."""
        return np.unique(self._keys & ((1 << _SHIFT) - 1))

    @classmethod
    def train(
        cls, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], seed: int = 1
    ) -> Lexicon:
        """Learn from pairs of ids without EOS; from a random sample if there are many."""
        sizes = [[len(ids) + 1 for ids in side] for side in (sources, targets)]
        cells = np.prod(sizes, axis=0, dtype=np.int64)
        chosen = np.arange(len(sources))
        if len(chosen) > MAX_PAIRS or cells.sum() > _MAX_CELLS:
            chosen = np.random.default_rng(seed).permutation(len(chosen))[:MAX_PAIRS]
            fitting = int((cells[chosen].cumsum() <= _MAX_CELLS).sum())
            chosen = chosen[: max(1, fitting)]
        keys, rows = [], []
        row = 0
        for index in chosen.tolist():
            source, target = np.append(sources[index], EOS), np.append(targets[index], EOS)
            keys.append(_make_keys(source, target).ravel())
            rows.append(np.repeat(np.arange(row, row + len(target)), len(source)))
            row += len(target)
        unique, inverse = np.unique(np.concatenate(keys), return_inverse=True)
        probabilities = estimate_translations(inverse, np.concatenate(rows), unique >> _SHIFT)
        is_kept = probabilities >= _MIN_PROBABILITY
        return cls(unique[is_kept], probabilities[is_kept].astype(np.float32))

    @classmethod
    def load(cls, folder: Path) -> Lexicon | None:
        """Load the lexicon of a run; None if the file is missing.

        Raises:
            UserError: the file is damaged.
        """
        path = folder / LEXICON_FILE
        if not path.is_file():
            return None
        try:
            with np.load(path) as arrays:
                layer = int(arrays["layer"])
                return cls(arrays["keys"], arrays["probabilities"], None if layer < 0 else layer)
        except Exception as error:  # whatever a damaged archive raises
            raise UserError(f"{path} is damaged ({error}): delete it") from error

    def save(self, folder: Path) -> None:
        """Write the lexicon into a run folder."""
        with replace_atomically(folder / LEXICON_FILE) as file:
            np.savez(  # compressed, it would take three times as long to load
                file,
                keys=self._keys,
                probabilities=self._probabilities,
                layer=-1 if self.layer is None else self.layer,
            )

    def probabilities(self, source: np.ndarray, target: np.ndarray) -> NDArray[np.float64]:
        """Return the probability of each target token given each source token: [T, S].

        A target token that the lexicon does not know, such as the byte of a rare letter, is a copy
        of the same source token.

        Args:
            source: ids [S].
            target: ids [T].
        """
        keys = _make_keys(source, target)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        probabilities = np.where(self._keys[at] == keys, self._probabilities[at], 0.0)
        is_unknown = ~np.isin(target, self._targets)
        copied = source[None] == target[:, None]
        return np.where(is_unknown[:, None], copied, probabilities)


def _make_keys(source: np.ndarray, target: np.ndarray) -> NDArray[np.int64]:
    """Return the key of every pair of tokens: [T, S]."""
    return (source.astype(np.int64) << _SHIFT)[None] | target.astype(np.int64)[:, None]
