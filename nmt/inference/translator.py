"""A trained model ready to translate: one output per input, whatever the input."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config import Config, DecodingConfig
from nmt.config.data import list_reverse_tags, list_tags
from nmt.config.decoding import UNITS
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError
from nmt.inference.contract import SamplingRequest, SearchRequest
from nmt.inference.engines import Engines
from nmt.inference.forced_decoding import attend_pairs, attend_segment, score_pairs
from nmt.inference.joining import Joiner
from nmt.inference.pipeline import Pipeline, Request
from nmt.inference.quality import StoredQuality
from nmt.inference.results import Attention, PairScore, Results, Translation
from nmt.inference.two_way_segmenting import make_segmenter
from nmt.runs.custom_model import ModelClass
from nmt.runs.folder import RunFolder
from nmt.text.context import PreviousSentences
from nmt.text.scripts import UNKNOWN_LANGUAGE
from nmt.text.source_words import SourceWords
from nmt.text.terms import Glossary

if TYPE_CHECKING:  # loads Keras
    from nmt.inference.keras_engine import KerasEngine


class Translator:
    """An engine with its tokenizer, ready to translate.

    Args:
        engines: turn source ids into target ids.
        tokenizer: the tokenizer of their ids.
        decoding: defaults of the search.
        longest: most tokens of a segment, EOS included, as in training. None: as many as the
            preferred engine has positions.
        unit: one of `nmt.config.decoding.UNITS`; None: that of ``decoding``.
        tags: words that may begin a text, such as ``<2en>``: repeated before every segment.
        reverse_tags: those of them that begin texts in the target language.
        languages: BCP 47 tags of source and target; "und" if one is unknown. They decide where
            sentences end, and whether translations of segments are joined with spaces.
        context: previous sentences that stand before each sentence, as in training.
        words: of the training sources, for typing errors and unseen names; None: not known.
        quality: the confidence of a run, for requests with quality; None: no confidence.

    Attributes:
        engine: the preferred engine of `engines`.
        segmenter: cuts texts into segments.
        joiner: joins translations of segments.
        pipeline: translates texts, segment by segment.
    """

    def __init__(
        self,
        engines: Engines,
        tokenizer: Tokenizer,
        decoding: DecodingConfig,
        *,
        longest: int | None = None,
        unit: str | None = None,
        tags: Sequence[str] = (),
        reverse_tags: Sequence[str] = (),
        languages: tuple[str, str] = (UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE),
        context: int = 0,
        words: SourceWords | None = None,
        quality: StoredQuality | None = None,
    ) -> None:
        self.engine = engine = engines.preferred
        self.engines = engines
        self.tokenizer = tokenizer
        self.decoding = decoding
        max_tokens = min(longest or engine.max_length, engine.max_length) - 1  # EOS
        self.segmenter = make_segmenter(
            tokenizer,
            max_tokens,
            tags,
            reverse_tags,
            unit=unit or decoding.unit,
            language=languages[0],
            target_language=languages[1],
            context=context,
            words=words,
            carries_tags=True,
        )
        # Of a text that may be in either language, the marks around a joint decide.
        self.joiner = Joiner(UNKNOWN_LANGUAGE if reverse_tags else languages[1])
        self.quality = quality or StoredQuality()
        self.pipeline = Pipeline(
            engines, tokenizer, self.segmenter, self.joiner, decoding, self.quality
        )

    @classmethod
    def from_config(
        cls,
        engines: Engines,
        tokenizer: Tokenizer,
        config: Config,
        *,
        longest: int | None = None,
        unit: str | None = None,
        whole: bool = False,
        words: SourceWords | None = None,
        quality: StoredQuality | None = None,
    ) -> Translator:
        """Return a translator with the settings of a run.

        Args:
            engines: see `Translator`.
            tokenizer: the run's tokenizer.
            config: the run's configuration.
            longest: see `Translator`; None: the longest sequence that the run was trained on.
            unit: see `Translator`.
            whole: translate a text in one go, up to the positions of the engine, whatever the unit.
            words: see `Translator`.
            quality: see `Translator`.
        """
        return cls(
            engines,
            tokenizer,
            config.decoding,
            longest=None if whole else longest or max(config.training.row_lengths),
            unit="line" if whole else unit,
            tags=list_tags(config.data),
            reverse_tags=list_reverse_tags(config.data),
            languages=config.data.languages,
            context=config.data.context,
            words=words,
            quality=quality,
        )

    @classmethod
    def load(
        cls,
        run: str | Path | RunFolder | Sequence[str | Path | RunFolder] = "runs/latest",
        *,
        model: ModelClass | None = None,
        engine: str = "auto",
        quantization: str | None = None,
        unit: str | None = None,
        whole: bool = False,
        log: Callable[[str], object] = lambda line: None,
    ) -> Translator:
        """Load the best weights of a run folder, or of several as an ensemble.

        Args:
            run: a run folder; or several with the same tokenizer, whose log-probabilities are
                averaged: by the Keras engine only, and without attention.
            model: the class that `nmt.fit` was called with as ``model``; None: it was not, or the
                run is a `RunFolder`, which knows it.
            engine: one of `nmt.config.decoding.ENGINES`: "keras" runs the Keras model;
                "ctranslate2" runs the same weights in C++, but neither samples nor returns
                attention; "auto" uses CTranslate2 where it can hold the model, and Keras for all
                other requests.
            quantization: what CTranslate2 computes with, "float32" or "int8"; only valid where
                CTranslate2 searches. None: the run's ``decoding.quantization``.
            unit: "sentence" cuts texts into sentences, "line" only those that are too long; None:
                the run's ``decoding.unit``.
            whole: translate texts in one go, also if they are longer than the longest training
                row, up to ``model.max_length``. Not every model does well there: docs/training.md.
            log: called with the name of the engine that was loaded.

        Raises:
            UserError: the run or its weights are missing, the engine cannot hold them, the runs
                have different tokenizers, or were trained with another class than ``model``, or an
                option is invalid.
        """
        from nmt.inference.loading import check_choice, load_engines, open_runs

        check_choice("unit", unit, (None, *UNITS))
        folders = open_runs(run, model)
        tokenizer = folders[0].load_tokenizer()
        return cls.from_config(
            load_engines(folders, tokenizer, engine, quantization, log),
            tokenizer,
            folders[0].config,
            longest=min(max(folder.config.training.row_lengths) for folder in folders),
            unit=unit,
            whole=whole,
            words=folders[0].load_source_words(),
            quality=StoredQuality(folders[0].path),
        )

    def keras_engine(self, feature: str = "this") -> KerasEngine:
        """Return the engine that runs the Keras model; load it if it is not loaded yet.

        May be called from several threads at a time.

        Args:
            feature: what needs it, for the message.

        Raises:
            UserError: the Keras engine is missing or cannot be loaded.
        """
        return self.engines.keras(feature)

    def with_keras_engine(self, feature: str = "this") -> Translator:
        """Return a translator that does everything with the Keras engine.

        Raises:
            UserError: as `keras_engine`.
        """
        engine = self.keras_engine(feature)
        if engine is self.engine:
            return self
        translator = copy(self)
        translator.engine, translator.engines = engine, Engines(engine)
        parts = self.tokenizer, self.segmenter, self.joiner, self.decoding, self.quality
        translator.pipeline = Pipeline(translator.engines, *parts)
        return translator

    def begin_document(self) -> PreviousSentences:
        """Return what adds the previous sentences to each text of a document, as context.

        It adds none unless the run was trained with ``data.context``.
        """
        return PreviousSentences(self.segmenter.context, self.segmenter.language)

    def translate(
        self,
        texts: Iterable[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        coverage_penalty: float = 0.0,
        prefix: str = "",
        no_repeat_ngram: int | None = None,
    ) -> list[str]:
        """Return one translation per text, in order, with the white space around its sentences.

        An empty text has an empty translation.
        """
        request = SearchRequest(
            beam_size, length_penalty, coverage_penalty, 1, prefix, no_repeat_ngram
        )
        results = self.run(texts, request)
        return Results((best.text for best, *_ in results), results.texts)

    def hypotheses(
        self,
        texts: Iterable[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        coverage_penalty: float = 0.0,
        n_best: int = 1,
        prefix: str = "",
        no_repeat_ngram: int | None = None,
    ) -> list[list[Translation]]:
        """Return up to ``n_best`` translations per text, best first.

        A text is translated sentence by sentence. A sentence longer than the longest training row
        is cut after clauses, between words or, without spaces, between characters. The translations
        of these segments with the highest total score are joined.

        Args:
            texts: source sentences.
            beam_size: hypotheses kept at every position; 1 is greedy. None: the run's default, or
                ``n_best`` if that is larger.
            length_penalty: alpha of Wu et al. 2016, equation 14. None: the run's default.
            coverage_penalty: beta of the same equation.
            n_best: translations per text, at most ``beam_size``.
            prefix: text that every translation begins with.
            no_repeat_ngram: n: no sequence of n tokens occurs twice in a translation; 0: any may.
                None: the run's default; if that is 0, translations that loop are searched again.

        Raises:
            UserError: ``n_best`` is larger than the beam, the beam is larger than the vocabulary, a
                penalty or ``no_repeat_ngram`` is negative, or the prefix is too long.
        """
        request = SearchRequest(
            beam_size, length_penalty, coverage_penalty, n_best, prefix, no_repeat_ngram
        )
        return self.run(texts, request)

    def samples(
        self,
        texts: Iterable[str],
        samples: int,
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 1,
        prefix: str = "",
    ) -> list[list[Translation]]:
        """Return ``samples`` random translations per text, the most probable first.

        The same text and seed give the same samples, whatever the other texts are. Samples of a
        text that is cut are made of a random sample of each segment.

        Args:
            texts: source sentences.
            samples: per text; some may be equal.
            temperature: above 1 more varied, below 1 more probable samples.
            top_k: sample from the k most probable tokens only; 0: from all.
            top_p: sample from the fewest tokens that together have this probability.
            seed: seed of the samples.
            prefix: text that every sample begins with.

        Raises:
            UserError: the engine cannot sample, or the prefix is too long.
        """
        return self.run(texts, SamplingRequest(samples, temperature, top_k, top_p, seed, prefix))

    def minimum_bayes_risk(
        self, texts: Iterable[str], samples: int, **sampling: Any
    ) -> list[list[Translation]]:
        """Return samples, ranked by how much they agree with the others.

        A sample's score is its mean chrF against all samples of its text, which stand for the
        translations that the model considers probable (Eikema & Aziz 2020, equation 4).

        Args:
            texts: source sentences.
            samples: per text.
            sampling: options of `samples`.
        """
        return self.run(texts, SamplingRequest(samples, rank_by_agreement=True, **sampling))

    def run(self, texts: Iterable[str], request: Request) -> Results[list[Translation]]:
        """Return translations per text, best first.

        Raises:
            UserError: as `hypotheses`, `samples` and `minimum_bayes_risk`; ``texts`` is a string.
        """
        if isinstance(texts, str):
            raise UserError(f"texts={texts!r} is a string: pass a list of strings")
        texts = list(texts)
        for text in texts:
            if not isinstance(text, str):
                raise UserError(f"texts has {text!r}, which is not a string")
        chunks = list(self.stream([texts], request))
        return Results(chunks[0] if chunks else [], texts)

    def stream(
        self, chunks: Iterable[Sequence[str]], request: Request
    ) -> Generator[list[list[Translation]]]:
        """Yield what `run` returns for each chunk of texts, in order.

        While one chunk is finished, the next one is already read, encoded and searched, so that no
        core waits. An empty chunk yields nothing, but lets all started chunks finish first. Closing
        the iterator waits for the batches that are being searched and cancels the others.
        """
        return self.pipeline.stream(chunks, request)

    def score(self, pairs: Iterable[tuple[str, str]]) -> list[PairScore]:
        """Return the log-probability of each token of given translations (forced decoding).

        Args:
            pairs: source and target texts, read as in training: see `score_pairs`.

        Raises:
            UserError: a text has more tokens than the model positions.
        """
        return score_pairs(self.engine, self.tokenizer, pairs, batch_size=self.decoding.batch_size)

    def attentions(self, pairs: Iterable[tuple[str, str]]) -> list[Attention]:
        """Return the attention weights of given translations (forced decoding).

        Args:
            pairs: source and target texts.

        Raises:
            UserError: the Keras engine is missing, or a text has more tokens than the model
                positions.
        """
        engine = self.keras_engine("attention")
        return attend_pairs(engine, self.tokenizer, pairs, batch_size=self.decoding.batch_size)

    def attention(
        self, text: str, translation: Translation | None = None, glossary: Glossary | None = None
    ) -> Attention | None:
        """Return the attention weights of one translation.

        Args:
            text: a source sentence.
            translation: the translation of the text; None: the best one.
            glossary: of the search for the translation; None: it had none.

        Returns:
            None if the model has no attention, or the text is empty, copied or of several segments.

        Raises:
            UserError: the Keras engine is missing or holds an ensemble, or a type is wrong.
        """
        engine = self.keras_engine("attention")
        segments = self.segmenter.with_glossary(glossary).segment(text).segments
        if len(segments) != 1 or segments[0].is_copied:
            return None
        if translation is None:
            translation = self.run([text], SearchRequest(glossary=glossary))[0][0]
        attention = attend_segment(engine, self.tokenizer, segments[0], translation)
        return attention if attention.kinds else None
