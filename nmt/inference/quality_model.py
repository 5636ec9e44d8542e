"""How good a translation probably is: confidence between 0 and 1, fitted on dev pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError
from nmt.files import read_json, write_json
from nmt.inference.contract import Engine, Hypothesis
from nmt.inference.features import (
    OF_BEAM,
    SENTENCE_FEATURES,
    WORD_FEATURES,
    Features,
    extract_features,
)
from nmt.inference.lexicon import Lexicon
from nmt.inference.quality import QUALITY_FILE
from nmt.inference.results import Translation, Word
from nmt.inference.segments import Segment

_VERSION = 1
_RIDGE = 30.0  # pseudo-observations that pull the weights to 0
_WIDEST = 4.0  # standard deviations: features beyond are cut
_NEWTON_STEPS = 25


@dataclass(frozen=True)
class Linear:
    """A linear function of features, each scaled by its mean and deviation on dev."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Return the prediction [N] for features [N, M]."""
        return self._scale(features) @ np.array(self.weights) + self.bias

    def _scale(self, features: np.ndarray) -> np.ndarray:
        scaled = (features - np.array(self.means)) / np.array(self.deviations)
        return np.clip(scaled, -_WIDEST, _WIDEST)

    @classmethod
    def fit(cls, features: np.ndarray, values: np.ndarray) -> Linear:
        """Fit by ridge regression.

        Args:
            features: [N, M].
            values: [N].
        """
        empty = cls.unfitted(features)
        scaled = empty._scale(features)
        offset = scaled.mean(0)
        scaled = scaled - offset
        penalty = _RIDGE * np.eye(scaled.shape[1])
        weights = np.linalg.solve(scaled.T @ scaled + penalty, scaled.T @ (values - values.mean()))
        bias = float(values.mean() - offset @ weights)
        return replace(empty, weights=tuple(weights.tolist()), bias=bias)

    @classmethod
    def fit_logistic(cls, features: np.ndarray, labels: np.ndarray) -> Linear:
        """Fit the log-odds of labels by penalized logistic regression, with Newton's method.

        Args:
            features: [N, M].
            labels: [N], 0 or 1.
        """
        empty = cls.unfitted(features)
        scaled = np.column_stack([empty._scale(features), np.ones(len(features))])
        weights = np.zeros(scaled.shape[1])
        for _ in range(_NEWTON_STEPS):
            probabilities = sigmoid(scaled @ weights)
            # The penalty is half the square of each weight.
            gradient = scaled.T @ (probabilities - labels) + weights
            curvature = scaled.T @ (scaled * (probabilities * (1 - probabilities))[:, None])
            weights -= np.linalg.solve(curvature + np.eye(len(weights)), gradient)
        return replace(empty, weights=tuple(weights[:-1].tolist()), bias=float(weights[-1]))

    @classmethod
    def unfitted(cls, features: np.ndarray) -> Linear:
        """Return the scaling of features [N, M], with weights of 0."""
        deviations = features.std(0) + 1e-6
        zeros = (0.0,) * features.shape[1]
        return cls(tuple(features.mean(0).tolist()), tuple(deviations.tolist()), zeros, 0.0)


@dataclass(frozen=True)
class QualityModel:
    """Turns the features of translations into confidence.

    The confidence of a sentence is its expected chrF2++ divided by 100; that of a word is the
    probability that a reference has the word.
    """

    sentence: Linear  # of `SENTENCE_FEATURES`
    curve: tuple[tuple[float, float], ...]  # rising: prediction -> expected chrF, 0 to 1
    word: Linear  # log-odds, of `WORD_FEATURES`
    lexicon: Lexicon | None = None

    @classmethod
    def load(cls, folder: Path) -> QualityModel | None:
        """Load the model of a run; None if the file is missing.

        Raises:
            UserError: the file is damaged or of another version.
        """
        path = folder / QUALITY_FILE
        if not path.is_file():
            return None
        try:
            content = read_json(path)
            if content["version"] != _VERSION:
                raise ValueError(f"version {content['version']} instead of {_VERSION}")
            sentence, word = (
                Linear(**{key: _freeze(value) for key, value in content[name].items()})
                for name in ("sentence", "word")
            )
            curve = tuple((float(x), float(y)) for x, y in content["curve"])
            if (len(sentence.weights), len(word.weights)) != (
                len(SENTENCE_FEATURES),
                len(WORD_FEATURES),
            ):
                raise ValueError("other features")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path} cannot be used ({error}): make it again by python -m nmt.inspect quality"
            ) from error
        return cls(sentence, curve, word, Lexicon.load(folder))

    def save(self, folder: Path) -> None:
        """Write the model into a run folder; the lexicon is a file of its own."""
        content = {
            "version": _VERSION,
            "sentence": asdict(self.sentence),
            "curve": [list(knot) for knot in self.curve],
            "word": asdict(self.word),
        }
        write_json(folder / QUALITY_FILE, content)

    def estimate(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        segments: Sequence[Segment],
        outputs: Sequence[Sequence[Hypothesis]],
        translations: Sequence[Sequence[Translation]],
    ) -> list[list[Translation]]:
        """Return translations of segments with confidence and words: see `extract_features`.

        The source words are characters of `Segment.full_text`.
        """
        extracted = extract_features(
            engine, tokenizer, self.lexicon, segments, outputs, translations
        )
        for hypotheses, features in zip(outputs, extracted, strict=True):
            if len(hypotheses) == 1:  # nothing to compare it with: neither good nor bad
                features[0].sentence[OF_BEAM] = self.sentence.means[OF_BEAM]
        return [
            [
                self._complete(translation, features)
                for translation, features in zip(alternatives, hypotheses, strict=True)
            ]
            for alternatives, hypotheses in zip(translations, extracted, strict=True)
        ]

    def _complete(self, translation: Translation, features: Features) -> Translation:
        confidence = float(self.score(features.sentence[None])[0])
        words: tuple[Word, ...] = ()
        if features.words:
            table = np.array([[*word.features, confidence] for word in features.words])
            words = tuple(
                Word(word.begin, word.end, float(probability), word.sources)
                for word, probability in zip(
                    features.words, sigmoid(self.word.predict(table)), strict=True
                )
            )
        return replace(translation, confidence=confidence, words=words)

    def score(self, features: np.ndarray) -> np.ndarray:
        """Return the confidence [N] of sentences with these features [N, M]."""
        knots, values = zip(*self.curve, strict=True)
        return np.interp(self.sentence.predict(features), knots, values)


def sigmoid(values: np.ndarray) -> np.ndarray:
    """Return probabilities for log-odds."""
    return 1 / (1 + np.exp(-np.clip(values, -30, 30)))


def _freeze(value: Any) -> Any:
    return tuple(float(each) for each in value) if isinstance(value, list) else float(value)
