"""Bodies of requests and responses; `/openapi.json` describes them by these docstrings."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from nmt.serving.limits import (
    MAX_ALTERNATIVES,
    MAX_ATTENTION_TEXTS,
    MAX_ATTENTION_TOKENS,
    MAX_BEAM,
    MAX_REQUESTED_PENALTY,
)
from nmt.text.cleaning import clean_text


class _Request(BaseModel):
    """A body without unknown fields, whose texts can be encoded."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="after")
    def _is_encodable(self) -> Self:
        for name, value in self:
            for text in _list_texts(value):
                try:
                    text.encode()
                except UnicodeEncodeError:
                    raise ValueError(f"{name} holds half of a surrogate pair") from None
        return self


class TranslationRequest(_Request):
    """Body of `POST /translate`."""

    text: str | list[str] = Field(
        description="one text, or a list of texts that are translated one by one"
    )
    beam: int | None = Field(
        None, ge=1, le=MAX_BEAM, description="beam size; 1 is greedy; default: the run's"
    )
    nbest: int = Field(1, ge=1, le=MAX_BEAM, description="translations per text; at most the beam")
    length_penalty: float | None = Field(
        None,
        ge=0,
        le=MAX_REQUESTED_PENALTY,
        description="0 favours short translations; default: the run's",
    )
    scores: bool = Field(False, description="give the score and log_prob of every translation")
    attention: bool = Field(
        False,
        description="give the cross-attention of the best translation of each text, for at most "
        f"{MAX_ATTENTION_TEXTS} texts of {MAX_ATTENTION_TOKENS} tokens in all",
    )
    quality: bool = Field(
        False, description="give the confidence of the best translation of each text and its words"
    )
    glossary: str | None = Field(
        None, description="name of the glossary whose terms are used: see /info"
    )
    sentences: bool = Field(
        False, description="give the sentences of the best translation of each text"
    )
    prefixes: dict[str, str] = Field(
        {},
        description="what the translations of sentences begin with, by `source` of `sentences`; "
        "white space at the end says that the last word is complete. Sentences that no text has "
        "are ignored",
    )

    @field_validator("text", mode="before")
    @classmethod
    def _is_text(cls, value: Any) -> Any:
        texts = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("text must be a string or a list of strings")
        return value

    @model_validator(mode="after")
    def _beam_holds_nbest(self) -> TranslationRequest:
        if self.beam is not None and self.nbest > self.beam:
            raise ValueError(f"nbest {self.nbest} needs a beam of at least {self.nbest}")
        return self


class SentenceRequest(_Request):
    """What requests about one sentence of a translated text have in common."""

    text: str = Field(description="the text that was translated")
    sentence: str = Field(description="one of its sentences: a `source` of `sentences`")
    glossary: str | None = Field(None, description="name of the glossary of the translation")


class AlternativesRequest(SentenceRequest):
    """Body of `POST /alternatives`."""

    prefix: str = Field(
        "", description="the translation of the sentence up to the word that is looked for"
    )
    count: int = Field(8, ge=1, le=MAX_ALTERNATIVES, description="most words of the answer")


class AlternativeWord(BaseModel):
    """A word that may follow a prefix."""

    text: str
    probability: float = Field(
        description="that the model writes the word after the prefix, 0 to 1, with four decimals"
    )
    prefix: str = Field(
        description="the prefix with the word: with a space at its end, one of `prefixes`"
    )


class AlternativesResponse(BaseModel):
    """Response to `POST /alternatives`."""

    alternatives: list[AlternativeWord] = Field(
        description="distinct words, the most probable first; none for text that is copied"
    )


class ExplanationRequest(SentenceRequest):
    """Body of `POST /explain`."""

    prefix: str = Field(
        "", description="the translation of the sentence up to the word, white space included"
    )
    word: str = Field(min_length=1, description="the word that is explained")
    other: str | None = Field(
        None,
        min_length=1,
        description="a word that could stand in its place; default: the most probable other one",
    )


class ExplainingWord(BaseModel):
    """A word, and what it has to do with the explained one."""

    text: str
    begin: int | None = Field(
        None,
        description="its characters of the given text are [begin, end); only its words have them",
    )
    end: int | None = None
    contribution: float | None = Field(
        None,
        description="its share in what the model read to write the word, 0 to 1, by ALTI+; those "
        "of source and prefix sum to 1; absent if not available",
    )
    contrast: float | None = Field(
        None,
        description="nats: how far it speaks for the word and against the other one, by hiding it; "
        "absent for the word's own pieces, which are never hidden",
    )


class ExplanationResponse(BaseModel):
    """Response to `POST /explain`; numbers have four decimals."""

    word: str
    other: str = Field(description="the word that it is compared with")
    log_prob: float = Field(description="of the word after the prefix, in nats")
    other_log_prob: float
    source: list[ExplainingWord] = Field(
        description="the words of the sentence, its context or tag if it has one, and EOS"
    )
    prefix: list[ExplainingWord] = Field(
        description="BOS, the words before it, and its own pieces, if it has several"
    )
    source_contrast: float = Field(
        description="nats: the contrast of all words of the sentence at once, to which those of "
        "single words need not sum"
    )
    prefix_contrast: float = Field(description="nats: the same of the words before it")
    support: float = Field(
        description="nats: how far the sentence raises the log-probability of the word"
    )
    contributions_missing: str | None = Field(
        None, description="why contributions are missing: the model is not a transformer"
    )


class DocumentRequest(BaseModel):
    """Query of `POST /documents`."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field("", description="file name; its ending tells the format")
    format: str = Field("", description="the format, if the name does not tell it: see /info")
    columns: str = Field(
        "", description="columns of a table, between commas: names in its header, or numbers from 1"
    )
    encoding: str = Field(
        "", description="the encoding, if it is not UTF-8 and the document does not name it"
    )
    glossary: str = Field("", description="name of the glossary whose terms are used: see /info")


class Correction(_Request):
    """Body of `POST /corrections`."""

    source: str = Field(description="the text that was translated")
    translation: str = Field(description="what the model made of it")
    correction: str = Field(description="what it should have made of it")

    @model_validator(mode="after")
    def _has_text(self) -> Correction:
        for name in ("source", "correction"):
            if not clean_text(getattr(self, name)):
                raise ValueError(f"{name} must not be empty")
        return self


class CorrectionResponse(BaseModel):
    """Response to `POST /corrections`."""

    lines: int = Field(description="number of lines written, one for each sentence")


class AttentionWeights(BaseModel):
    """Cross-attention from each target token to the source tokens."""

    source: list[str] = Field(description="S tokens, EOS last; ▁ begins a word")
    target: list[str] = Field(description="T tokens")
    weights: list[list[list[list[float]]]] = Field(
        description="[layers][heads][T][S], 0 to 1, with three decimals"
    )


class TermUse(BaseModel):
    """A term of the glossary in a text."""

    source: str
    target: str = Field(description="its translation in the glossary")
    is_used: bool = Field(description="whether the translation has it")


class TranslatedWord(BaseModel):
    """A word of a translation. Characters are counted as Unicode code points, not as UTF-16."""

    begin: int = Field(description="its characters of the translation are [begin, end)")
    end: int
    confidence: float | None = Field(
        None,
        description="probability that a reference translation has the word; absent if confidence "
        "is not available",
    )
    sources: list[tuple[int, int]] = Field(
        description="characters [begin, end) of the given text: the words that it is aligned to"
    )


class TranslatedSentence(BaseModel):
    """A sentence of a translation, in code points; a long one may be several."""

    begin: int = Field(description="its characters of the translation are [begin, end)")
    end: int
    source: str = Field(description="the sentence of the text, as the model was given it")


class Hypothesis(BaseModel):
    """One translation; scores, attention and quality are present only if requested."""

    text: str = Field(description="with the white space around the sentences of the given text")
    lost_spans: list[str] | None = Field(
        None,
        description="URLs, numbers and other spans that the model left out and that were inserted; "
        "absent without any",
    )
    terms: list[TermUse] | None = Field(
        None, description="terms of the chosen glossary in the text; absent without any"
    )
    score: float | None = Field(None, description="log_prob, normalised for length: ranked by it")
    log_prob: float | None = Field(None, description="of the whole translation, in nats")
    attention: AttentionWeights | None = Field(
        None, description="of the best translation only; null if it is not available"
    )
    attention_missing: str | None = Field(None, description="why attention is null")
    confidence: float | None = Field(
        None,
        description="expected chrF2++ / 100, 0 to 1, with three decimals; of the best translation "
        "only; absent if it is not available",
    )
    words: list[TranslatedWord] | None = Field(
        None, description="of the best translation only, in order; absent if not available"
    )
    quality_missing: str | None = Field(None, description="why confidence is missing")
    sentences: list[TranslatedSentence] | None = Field(
        None, description="of the best translation only, in order; absent if not requested"
    )


class TranslationResponse(BaseModel):
    """Response to `POST /translate`."""

    translations: list[list[Hypothesis]] = Field(
        description="for each text, also if there is only one, its translations, best first"
    )


class Problem(BaseModel):
    """Response to any request that was refused or failed."""

    error: str


def _list_texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return value
    return [*value, *value.values()] if isinstance(value, dict) else []
