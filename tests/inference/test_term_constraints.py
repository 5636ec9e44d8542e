"""Terms of a glossary come into translations at the place of the word that stood for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from conftest import corpus_lines
from translator_inputs import DECODING

from nmt import Translator
from nmt.config import TokenizerConfig
from nmt.data.tokenizer import EOS, Tokenizer
from nmt.data.tokenizer_training import train_tokenizer
from nmt.inference.contract import (
    BeamOptions,
    Hypothesis,
    SamplingOptions,
    SearchRequest,
    split_prefix,
)
from nmt.inference.engines import Engines
from nmt.inference.results import TermUse
from nmt.inference.term_constraints import _write_slots
from nmt.text.cleaning import clean_text
from nmt.text.source_words import SourceWords
from nmt.text.spans import SLOTS
from nmt.text.terms import Glossary, Term

WORDS = {
    "el": "the",
    "perro": "dog",
    "perros": "dogs",
    "come": "eats",
    "pan": "bread",
    "y": "and",
    "corre": "runs",
    "frobnica": "frobnicates",
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Return a tokenizer that lower-cases sources, and has three slots."""
    texts = [clean_text(side) for line in corpus_lines(200) for side in line.split("\t")[:2]]
    config = TokenizerConfig("unigram", 500, 0, 0.9998, True, 3)
    return train_tokenizer(config, [*texts, *WORDS, *WORDS.values()], lambda line: None)


class WordByWord:
    """An engine that translates word by word; a prefix stands for as many words as it has.

    It aligns words by number.
    """

    max_length = 64
    workers = 1
    keras_engine = None
    can_align = True

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.searches: list[list[str]] = []  # prefixes of each search
        self.sources: list[str] = []

    def translate(self, word: str) -> str:
        return WORDS.get(word.lower(), word)

    def continue_after(self, begin: str, words: Sequence[str]) -> list[str]:
        return list(words[len(begin.split()) :])

    def rate(self, text: str) -> float:
        return 0.0 if "hounds" in text else -1.0

    def supports(self, options: BeamOptions | SamplingOptions) -> bool:
        return True

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions | SamplingOptions,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        texts = self.tokenizer.decode(sources)
        prefixes = self.tokenizer.target.decode(split_prefix(prefix, len(sources)))
        self.sources += texts
        self.searches.append(prefixes)
        outputs = []
        for text, begin, limit in zip(texts, prefixes, limits, strict=True):
            words = list(filter(None, map(self.translate, text.split())))
            translated = " ".join([*begin.split(), *self.continue_after(begin, words)])
            translated = translated[:1].upper() + translated[1:]
            [ids] = self.tokenizer.target.encode([translated])
            assert len(ids) < limit
            score = self.rate(translated)
            outputs.append([Hypothesis((*map(int, ids), EOS), score, score)])
        return outputs

    def align(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        weights = []
        for sides in zip(sources, targets, strict=True):
            source, target = (
                np.cumsum([piece.startswith("▁") for piece in self.tokenizer.pieces([*ids, EOS])])
                for ids in sides
            )
            weights.append(np.asarray(target[:, None] == source, np.float32))
        return weights


def translate(
    tokenizer: Tokenizer,
    text: str,
    *terms: Term,
    kind: type[WordByWord] = WordByWord,
    **options: Any,
) -> tuple[str, tuple[TermUse, ...], WordByWord]:
    engine = kind(tokenizer)
    words = SourceWords(dict.fromkeys(WORDS, 50))
    translator = Translator(
        Engines(engine),
        tokenizer,
        DECODING,
        languages=("es", "en"),
        unit="sentence",
        words=words,
    )
    request = SearchRequest(glossary=Glossary(terms, ("es", "en")), **options)
    [[translation]] = translator.run([text], request)
    return translation.text, translation.terms, engine


def test_a_term_takes_the_place_of_the_word_that_is_aligned_to_it(tokenizer: Tokenizer) -> None:
    text, terms, engine = translate(tokenizer, "el perro come pan", Term("perro", "hound"))
    assert text == "The hound eats bread"
    assert terms == (TermUse("perro", "hound", True),)
    assert engine.searches == [[""], ["The hound", "The hound eats bread"]]


def test_a_term_that_the_model_uses_by_itself_costs_no_search(tokenizer: Tokenizer) -> None:
    text, terms, engine = translate(tokenizer, "el perros come", Term("perro", "dog"))
    assert text == "The dogs eats"
    assert [term.is_used for term in terms] == [True]
    assert len(engine.searches) == 1


def test_several_terms_come_in_the_order_of_the_translation(tokenizer: Tokenizer) -> None:
    terms = Term("pan", "loaf"), Term("perro", "hound"), Term("come", "eats")
    text, uses, engine = translate(tokenizer, "el perro come pan y corre", *terms)
    assert text == "The hound eats loaf and runs"
    assert [use.is_used for use in uses] == [True] * 3
    assert engine.searches == [
        [""],
        ["The hound", "The hound eats bread and runs"],
        ["The hound eats loaf", "The hound eats loaf and runs"],
    ]


def test_a_term_that_a_source_has_twice_is_forced_twice(tokenizer: Tokenizer) -> None:
    class Varying(WordByWord):
        """It translates the first "perro" as "hound"."""

        def continue_after(self, begin: str, words: Sequence[str]) -> list[str]:
            rest = super().continue_after(begin, words)
            if not begin:
                rest[rest.index("dog")] = "hound"
            return rest

    source, term = "el perro come y perro corre", Term("perro", "hound")
    for kind in (WordByWord, Varying):
        text, uses, _ = translate(tokenizer, source, term, kind=kind)
        assert text == "The hound eats and hound runs"
        assert [use.is_used for use in uses] == [True, True]


def test_a_term_at_the_beginning_gets_a_capital(tokenizer: Tokenizer) -> None:
    assert translate(tokenizer, "perro come", Term("perro", "hound"))[0] == "Hound eats"


def test_a_prefix_stays(tokenizer: Tokenizer) -> None:
    text, _, _ = translate(
        tokenizer, "el perro come pan", Term("pan", "loaf"), Term("el", "this"), prefix="A hound"
    )
    assert text.startswith("A hound")
    assert "loaf" in text


def test_terms_are_neither_corrected_nor_kept_as_names(tokenizer: Tokenizer) -> None:
    corrected = translate(tokenizer, "el perto come", Term("pan", "loaf"))
    assert corrected[2].sources == ["el perro come"]
    text, _, engine = translate(tokenizer, "el Perto come", Term("perto", "widget"))
    assert engine.sources[0] == "el perto come"
    assert text == "The widget eats"


def test_a_term_that_is_not_translated_is_a_kept_span_if_it_is_unknown(
    tokenizer: Tokenizer,
) -> None:
    text, terms, engine = translate(tokenizer, "el zorx come pan", Term("zorx", "zorx"))
    assert text == "The zorx eats bread"
    assert terms == (TermUse("zorx", "zorx", True),)
    assert "zorx" not in engine.sources[0]
    text, terms, _ = translate(tokenizer, "zorx", Term("zorx", "zorx"))
    assert (text, terms) == ("zorx", (TermUse("zorx", "zorx", True),))
    text, terms, engine = translate(tokenizer, "el perro come", Term("perro", "perro"))
    assert engine.sources[0] == "el perro come"
    assert text == "The perro eats"
    assert [term.is_used for term in terms] == [True]


def test_terms_may_have_numbers(tokenizer: Tokenizer) -> None:
    text, terms, engine = translate(
        tokenizer, "el pan 3 come 4 pan", Term("pan 3", "third loaf"), Term("come 4", "come 4")
    )
    assert text == "The third loaf come 4 bread"
    assert [term.is_used for term in terms] == [True, True]
    assert engine.sources[0].startswith("el pan 3 ")
    # One that the target has, too, stays a kept span: models read these better.
    text, terms, engine = translate(
        tokenizer, "El pan 3 come https://pan.es", Term("pan 3", "loaf 3")
    )
    assert text == "The loaf 3 eats https://pan.es"
    assert [term.is_used for term in terms] == [True]
    assert "3" not in engine.sources[0]
    text, terms, _ = translate(tokenizer, "El pan 3 come", Term("pan 3", "loaf 13"))
    assert (text, [term.is_used for term in terms]) == ("The loaf 13 eats", [True])
    first, second = SLOTS[:2]
    written = _write_slots("2011 loaf 1, 15", [first, second], ["1", "2011"])
    assert written == f"{second} loaf {first}, 15"
    # Nothing is a term inside of an address.
    assert translate(tokenizer, "el perro https://pan.es", Term("pan", "loaf"))[1] == ()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("EL ZORX COME PAN", "THE ZORX EATS PAN"),
        ("El Perro Come En ZorX Y Corre", "The dog Eats en ZorX and Runs"),
        ("El Perro Come En PaN Y Corre", "The dog Eats en PaN and Runs"),  # it is known
    ],
)
def test_a_kept_term_is_written_as_in_the_source(
    tokenizer: Tokenizer, source: str, expected: str
) -> None:
    terms = Term("zorx", "zorx"), Term("pan", "pan")
    assert translate(tokenizer, source, *terms)[0] == expected


def test_outputs_with_their_old_rest_have_alternatives(tokenizer: Tokenizer) -> None:
    class Various(WordByWord):
        """It finds two rests after a beginning."""

        def search(self, *arguments: Any) -> list[list[Hypothesis]]:
            outputs = super().search(*arguments)
            for hypotheses, limit in zip(outputs, arguments[1], strict=True):
                if len(hypotheses[0].tokens) < limit:  # more than EOS may follow
                    for text, score in (("The hound runs", -2.0), ("The hound corre", -0.5)):
                        [ids] = self.tokenizer.target.encode([text])
                        hypotheses.append(Hypothesis((*map(int, ids), EOS), score, score))
            return outputs

    translator = Translator(
        Engines(Various(tokenizer)), tokenizer, DECODING, languages=("es", "en"), unit="sentence"
    )
    request = SearchRequest(
        glossary=Glossary([Term("perro", "hound")], ("es", "en")), n_best=2, beam_size=2
    )
    [hypotheses] = translator.run(["el perro come pan"], request)
    assert [each.text for each in hypotheses] == ["The hound eats bread", "The hound runs"]


def test_without_a_slot_a_kept_term_is_forced(tokenizer: Tokenizer) -> None:
    assert translate(tokenizer, "1 2 3 zorx come", Term("zorx", "zorx"))[0] == "1 2 3 zorx eats"


def test_of_both_numbers_the_more_probable_one_is_taken(tokenizer: Tokenizer) -> None:
    """The engine prefers outputs with "hounds"."""
    text, terms, engine = translate(tokenizer, "el perros come", Term("perro", "hound"))
    assert engine.searches[1] == ["The hounds", "The hounds eats", "The hound", "The hound eats"]
    assert text == "The hounds eats"
    assert [term.is_used for term in terms] == [True]


def test_the_old_rest_is_kept_where_the_model_loses_its_place(tokenizer: Tokenizer) -> None:
    class Lost(WordByWord):
        """It goes on for too long after a term, and finds that a little more probable."""

        def rate(self, text: str) -> float:
            return -1.0 if text.endswith("bread the") else -2.0

        def continue_after(self, begin: str, words: Sequence[str]) -> list[str]:
            return [*super().continue_after(begin, words), *["the"] * (begin == "The hound")]

    text, _, engine = translate(tokenizer, "el perro come pan", Term("perro", "hound"), kind=Lost)
    assert engine.searches[1] == ["The hound", "The hound eats bread"]
    assert text == "The hound eats bread"


def test_where_the_alignment_is_uncertain_several_places_are_tried(tokenizer: Tokenizer) -> None:
    class Dropping(WordByWord):
        """It leaves "come" out, aligns all words to all alike, and prefers terms at the end."""

        def translate(self, word: str) -> str:
            return "" if word == "come" else super().translate(word)

        def rate(self, text: str) -> float:
            return float(text.split().index("devours")) if "devours" in text else -1.0

        def align(self, sources: Any, targets: Any) -> list[np.ndarray]:
            return [
                np.full((len(target) + 1, len(source) + 1), 1 / (len(source) + 1), np.float32)
                for source, target in zip(sources, targets, strict=True)
            ]

    text, _, engine = translate(tokenizer, "el perro come", Term("come", "devours"), kind=Dropping)
    assert engine.searches[1] == ["Devours", "The devours"]
    assert text == "The devours"


def test_soft_terms_are_left_out_where_they_are_improbable(tokenizer: Tokenizer) -> None:
    class Reluctant(WordByWord):
        """It finds outputs with "loaf" improbable."""

        def rate(self, text: str) -> float:
            return -3.0 if "loaf" in text else -1.0

    terms = Term("perro", "hound"), Term("pan", "loaf")
    text, uses, _ = translate(
        tokenizer, "el perro come pan", *terms, kind=Reluctant, forces_terms=False
    )
    assert text == "The hound eats bread"
    assert [use.is_used for use in uses] == [True, False]
    text, uses, _ = translate(tokenizer, "el perro come pan", *terms, kind=Reluctant)
    assert text == "The hound eats loaf"
    assert [use.is_used for use in uses] == [True, True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("el <b>perro</b> come", "The <b>hound</b> eats"),
        ("<b>el</b> perro come", "<b>The</b> hound eats"),
        ("el <b>perro</b> come {x} y <i>perro</i>", "The <b>hound</b> eats {x} and <i>hound</i>"),
    ],
)
def test_tags_around_terms_follow_them_whatever_the_alignment(
    tokenizer: Tokenizer, text: str, expected: str
) -> None:
    class Misaligned(WordByWord):
        """It aligns the words of an output with a term to the first "perro"."""

        def align(self, sources: Any, targets: Any) -> list[np.ndarray]:
            outputs = super().align(sources, targets)
            for source, target, weights in zip(sources, targets, outputs, strict=True):
                if "hound" in self.tokenizer.target.decode([target])[0]:
                    pieces = self.tokenizer.pieces(source)
                    words = np.cumsum([piece.startswith("▁") for piece in pieces])
                    weights *= 0.6
                    weights[:, np.flatnonzero(words == 2)] = 1.0
            return outputs

    term = Term("perro", "hound")
    assert translate(tokenizer, text, term, kind=Misaligned)[0] == expected
    assert translate(tokenizer, text, term)[0] == expected


def test_a_term_that_does_not_fit_is_reported(tokenizer: Tokenizer) -> None:
    long_target = " ".join(["hound"] * 100)
    text, terms, _ = translate(tokenizer, "el perro", Term("perro", long_target))
    assert text == "The dog"
    assert [term.is_used for term in terms] == [False]
