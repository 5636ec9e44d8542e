"""Confidence fitted on dev pairs and measured on test pairs; and the lexicon of alignments."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nmt.data.contexts import remove_contexts
from nmt.data.corpus import Corpus
from nmt.data.prepared import PreparedCorpus, sample_ids
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.inference.alignment import measure_layers
from nmt.inference.batching import plan_batches
from nmt.inference.contract import SearchRequest
from nmt.inference.features import WORD_FEATURES, Features, extract_features
from nmt.inference.lexicon import MAX_PAIRS, Lexicon
from nmt.inference.metrics import sentence_scores
from nmt.inference.quality_model import Linear, QualityModel
from nmt.inference.repeating import search_without_loops
from nmt.inference.segment_writing import SegmentWriter
from nmt.inference.segments import Segment
from nmt.inference.word_links import make_word_test
from nmt.text.case import apply_case
from nmt.text.context import split_tag
from nmt.text.noise import change_case, change_punctuation, make_typo, remove_accents
from nmt.text.scripts import join_sentences

if TYPE_CHECKING:
    from nmt.inference.translator import Translator
    from nmt.runs.folder import RunFolder


MIN_PAIRS = 50  # dev pairs that a fit needs
_PAIRS = 750  # dev pairs that are used, each as it is and with a change
_KNOTS = 40  # of the curve from the linear prediction to chrF, at most
_MIN_PER_KNOT = 25  # translations
_WORST = 0.1  # share of translations that should be found
_LAYER_PAIRS = 128  # by which a layer is chosen
_SEED = 1  # of samples and changes


class ScoredTranslation(NamedTuple):
    """A translation that has a reference."""

    features: Features
    score: float  # chrF2++, 0 to 1
    word_labels: list[bool]  # whether the reference has the word
    log_prob: float  # mean of all tokens, EOS included
    tokens: int  # of the translation


class Correlation(NamedTuple):
    """How well a value tells good translations from bad ones, by their sentence chrF2++."""

    pearson: float
    kendall: float  # tau-b (Kendall 1945)
    worst_tenth: float  # share of the tenth with the lowest chrF that is in the lowest tenth


def fit_run(
    folder: RunFolder, corpus: Corpus, log: Callable[[str], object], engine: str = "auto"
) -> QualityModel | None:
    """Fit the lexicon and the confidence of a complete run, and write both into its folder.

    Args:
        folder: the run.
        corpus: of the run.
        log: called with the reason if a part cannot be fitted.
        engine: see `Translator.load`.

    Returns:
        The confidence; None if the run cannot have one.
    """
    from nmt.inference.translator import Translator

    lexicon = train_lexicon(folder, corpus)
    lexicon.save(folder.path)
    if len(corpus.dev) < MIN_PAIRS:
        log(f"no confidence: it needs {MIN_PAIRS} dev pairs or more, got {len(corpus.dev)}")
        return None
    try:
        if folder.config.model.decoder_layers > 1:
            lexicon.layer = _find_aligning_layer(folder, corpus.dev[:_LAYER_PAIRS], lexicon)
            lexicon.save(folder.path)
        translator = Translator.load(folder, engine=engine, unit="line")
        model = fit_quality(translator, corpus.dev, lexicon)
    except UserError as error:  # such as a model without attention
        log(f"no confidence: {error}")
        return None
    model.save(folder.path)
    return model


def train_lexicon(folder: RunFolder, corpus: Corpus) -> Lexicon:
    """Learn the lexicon of a run from a sample of its training pairs."""
    if isinstance(corpus, PreparedCorpus):
        return Lexicon.train(*sample_ids(corpus, MAX_PAIRS, _SEED))
    tokenizer, pairs = folder.load_tokenizer(), remove_contexts(corpus.train)
    if len(pairs) > MAX_PAIRS:
        pairs = random.Random(_SEED).sample(pairs, MAX_PAIRS)
    sources = tokenizer.encode([pair.source for pair in pairs])
    return Lexicon.train(sources, tokenizer.target.encode([pair.target for pair in pairs]))


def _find_aligning_layer(folder: RunFolder, pairs: Sequence[Pair], lexicon: Lexicon) -> int | None:
    """Return the layer whose cross-attention agrees best with the lexicon.

    None: the model has no cross-attention, or no pair fits its positions.
    """
    from nmt.inference.translator import Translator

    translator = Translator.load(folder, engine="keras")
    engine, tokenizer = translator.keras_engine("attention"), translator.tokenizer
    cross = next((kind.name for kind in engine.model.attention_kinds if kind.is_cross), None)
    if cross is None:
        return None
    max_tokens = engine.max_length - 1
    sources = tokenizer.encode([pair.source for pair in pairs])
    targets = tokenizer.target.encode([pair.target for pair in pairs])
    fitting = [i for i, ids in enumerate(sources) if max(len(ids), len(targets[i])) <= max_tokens]
    sources, targets = [sources[i] for i in fitting], [targets[i] for i in fitting]
    size = translator.decoding.batch_size
    attentions = [
        weights[cross]
        for start in range(0, len(sources), size)
        for weights in engine.attention(
            sources[start : start + size], targets[start : start + size]
        )
    ]
    return measure_layers(attentions, sources, targets, lexicon) if attentions else None


def fit_quality(
    translator: Translator, pairs: Sequence[Pair], lexicon: Lexicon | None
) -> QualityModel:
    """Fit confidence on dev pairs, as they are and with changes.

    Args:
        translator: of the run.
        pairs: a sample is used if there are many.
        lexicon: of the run.

    Raises:
        UserError: there are too few pairs, or the model has no attention.
    """
    rng = random.Random(_SEED)
    tags = translator.segmenter.tags
    pairs = remove_contexts(pairs, tags)
    pairs = rng.sample(pairs, min(len(pairs), _PAIRS))
    samples = translate_and_score(translator, [*pairs, *change_pairs(pairs, rng, tags)], lexicon)
    if len(pairs) < MIN_PAIRS or len(samples) < MIN_PAIRS:
        fitting = min(len(pairs), len(samples))
        raise UserError(f"confidence needs {MIN_PAIRS} dev pairs that fit into rows, got {fitting}")
    features = np.array([sample.features.sentence for sample in samples])
    scores = np.array([sample.score for sample in samples])
    sentence = Linear.fit(features, scores)
    curve = fit_curve(sentence.predict(features), scores)
    no_words = Linear.unfitted(np.zeros((1, len(WORD_FEATURES))))
    model = QualityModel(sentence, curve, no_words, lexicon)
    table, labels = tabulate_words(samples, model.score(features))
    return replace(model, word=Linear.fit_logistic(table, labels)) if len(table) else model


def tabulate_words(
    samples: Sequence[ScoredTranslation], confidence: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the `WORD_FEATURES` [N, M] of all words, and whether the reference has each [N].

    Args:
        samples: translations.
        confidence: of each.
    """
    rows = [
        [*word.features, value]
        for sample, value in zip(samples, confidence.tolist(), strict=True)
        for word in sample.features.words
    ]
    labels = [label for sample in samples for label in sample.word_labels]
    return np.array(rows), np.array(labels, np.float64)


def fit_curve(predictions: np.ndarray, scores: np.ndarray) -> tuple[tuple[float, float], ...]:
    """Return a rising curve from predictions to mean scores: isotonic regression of means.

    Args:
        predictions: [N].
        scores: [N].
    """
    order = np.argsort(predictions, kind="stable")
    count = max(1, min(_KNOTS, len(order) // _MIN_PER_KNOT))
    knots: list[tuple[float, float, int]] = []
    for chunk in np.array_split(order, count):
        knot = float(predictions[chunk].mean()), float(scores[chunk].mean()), len(chunk)
        # Neighbours that do not rise are pooled.
        while knots and (knots[-1][1] >= knot[1] or knots[-1][0] >= knot[0]):
            x, y, size = knots.pop()
            total = size + knot[2]
            knot = (
                (x * size + knot[0] * knot[2]) / total,
                (y * size + knot[1] * knot[2]) / total,
                total,
            )
        knots.append(knot)
    return tuple((x, min(max(y, 0.0), 1.0)) for x, y, _ in knots)


def change_pairs(pairs: Sequence[Pair], rng: random.Random, tags: Sequence[str] = ()) -> list[Pair]:
    """Return pairs with changed sources: careless writing, and text that means nothing.

    A change is drawn for each pair: of letter case, accents or punctuation, typing errors, other
    sentences appended (and their translations), shuffled words, shuffled letters.

    Args:
        pairs: without contexts.
        rng: draws the changes.
        tags: words that may begin a source; they are not changed.
    """
    changes: list[Callable[[str, random.Random], str]] = [
        change_case,
        remove_accents,
        change_punctuation,
        make_typo,
        lambda text, rng: make_typo(make_typo(make_typo(text, rng), rng), rng),
        _shuffle_words,
        _shuffle_letters,
    ]
    tagged = [(*split_tag(pair.source, tags), pair.target) for pair in pairs]
    by_tag: dict[str, list[Pair]] = {}  # without the tag
    for tag, source, target in tagged:
        by_tag.setdefault(tag, []).append(Pair(source, target))
    changed = []
    for tag, source, target in tagged:
        number = rng.randrange(len(changes) + 1)
        if number < len(changes):
            changed.append(Pair(tag + changes[number](source, rng), target))
            continue
        others = rng.choices(by_tag[tag], k=rng.choice((1, 2)))
        sources = [source, *(each.source for each in others)]
        targets = [target, *(each.target for each in others)]
        changed.append(Pair(tag + join_sentences(sources), join_sentences(targets)))
    return changed


def _shuffle_words(text: str, rng: random.Random) -> str:
    words = text.split()
    return " ".join(rng.sample(words, len(words)))


def _shuffle_letters(text: str, rng: random.Random) -> str:
    return " ".join("".join(rng.sample(word, len(word))) for word in text.split())


def translate_and_score(
    translator: Translator, pairs: Sequence[Pair], lexicon: Lexicon | None
) -> list[ScoredTranslation]:
    """Return the best translations of the pairs whose source is one segment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of texts that are too long, which are left out
        segmented = translator.segmenter.segment_all([pair.source for pair in pairs])
    kept = [
        (text.segments[0], pair.target)
        for text, pair in zip(segmented, pairs, strict=True)
        if len(text.segments) == 1 and not (text.segments[0].is_copied or text.segments[0].remarks)
    ]
    lengths = [len(segment.ids) for segment, _ in kept]
    engine = translator.engine
    samples: dict[int, ScoredTranslation] = {}

    def work(indices: list[int]) -> None:
        batch = [kept[i] for i in indices]
        samples.update(zip(indices, _observe_batch(translator, batch, lexicon), strict=True))

    with ThreadPoolExecutor(engine.workers) as pool:
        list(pool.map(work, plan_batches(lengths, translator.decoding.batch_size, engine.workers)))
    return [samples[i] for i in range(len(kept))]


def _observe_batch(
    translator: Translator, batch: Sequence[tuple[Segment, str]], lexicon: Lexicon | None
) -> list[ScoredTranslation]:
    tokenizer, engine = translator.tokenizer, translator.engine
    segments = [segment for segment, _ in batch]
    # A translation has the letter case of its source.
    references = [apply_case(reference, segment.case) for segment, reference in batch]
    request = SearchRequest(n_best=translator.decoding.beam_size)
    options = request.resolve(translator.decoding, tokenizer.vocabulary_size)
    sources = [segment.ids for segment in segments]
    limits = [
        translator.pipeline.output_limit(len(segment.sentence_ids), 0) for segment in segments
    ]
    nothing = np.zeros(0, np.int32)
    outputs = search_without_loops(engine, sources, np.array(limits, np.int32), options, nothing)
    translations = SegmentWriter(tokenizer).write(engine, segments, [each[:1] for each in outputs])
    extracted = extract_features(engine, tokenizer, lexicon, segments, outputs, translations)
    scores = sentence_scores([best.text for [best] in translations], references)
    samples = []
    for [best], [features], reference, score in zip(
        translations, extracted, references, scores, strict=True
    ):
        is_right = make_word_test(reference)
        labels = [is_right(best.text[word.begin : word.end]) for word in features.words]
        mean = best.log_prob / len(best.tokens)
        samples.append(ScoredTranslation(features, score / 100, labels, mean, len(best.tokens)))
    return samples


def compare_with_log_probs(
    model: QualityModel, samples: Sequence[ScoredTranslation]
) -> dict[str, Correlation]:
    """Return how well confidence and log-probabilities tell the chrF of translations.

    There must be at least one.
    """
    scores = np.array([sample.score for sample in samples])
    features = np.array([sample.features.sentence for sample in samples])
    means = np.array([sample.log_prob for sample in samples])
    totals = np.array([sample.log_prob * sample.tokens for sample in samples])
    return {
        "confidence": correlate(model.score(features), scores),
        "mean log-probability": correlate(means, scores),
        "total log-probability": correlate(totals, scores),
    }


def correlate(values: np.ndarray, scores: np.ndarray) -> Correlation:
    """Return how well values tell scores, both [N]."""
    from scipy.stats import kendalltau  # slow to import

    pearson = kendall = 0.0
    if np.ptp(values) and np.ptp(scores):  # undefined otherwise
        pearson = float(np.corrcoef(values, scores)[0, 1])
        kendall = float(kendalltau(values, scores).statistic)
    count = max(1, round(len(scores) * _WORST))
    worst, lowest = (set(np.argsort(each, kind="stable")[:count]) for each in (scores, values))
    return Correlation(pearson, kendall, len(worst & lowest) / count)


def rank_words(model: QualityModel, samples: Sequence[ScoredTranslation]) -> dict[str, float]:
    """Return how often a word that the reference has is ranked above one that it lacks.

    The area under the curve of true and false positives: by confidence, and by log-probability.
    Empty without a word.
    """
    if not any(sample.word_labels for sample in samples):
        return {}
    features = np.array([sample.features.sentence for sample in samples])
    table, labels = tabulate_words(samples, model.score(features))
    ranked = {"confidence": model.word.predict(table), "log-probability": table[:, 0]}
    return {name: _area_under_curve(values, labels) for name, values in ranked.items()}


def _area_under_curve(values: np.ndarray, labels: np.ndarray) -> float:
    """Return the area for values and labels [N], 0 or 1; ties count half."""
    from scipy.stats import mannwhitneyu  # slow to import

    positives, negatives = values[labels > 0], values[labels == 0]
    if not len(positives) or not len(negatives):
        return 0.5
    return float(mannwhitneyu(positives, negatives).statistic / (len(positives) * len(negatives)))
