"""Contexts of a corpus: which lines have them, in every split, and that pairs stay as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sample_corpora import complaint, configure, load_text

from nmt.config import SourceConfig, TokenizerConfig
from nmt.config.data import check_data, list_reserved
from nmt.data.contexts import ContextReader, add_contexts_to_pairs, remove_contexts
from nmt.data.corpus import Corpus, load_corpus
from nmt.data.encoded import fit_contexts
from nmt.data.mixture import to_source_view
from nmt.data.splitting import Pair
from nmt.data.tokenizer import Tokenizer
from nmt.data.tokenizer_training import list_texts, train_tokenizer
from nmt.text.context import CONTEXT_MARK, split_context
from nmt.text.shared_spans import keep_shared_spans, list_shared_spans
from nmt.text.spans import SLOTS

LINES = [
    ("Ana vino.", "Ana came.", "1"),
    ("Ella ríe.", "She laughs.", "1"),
    ("Luis duerme.", "Luis sleeps.", "2"),
    ("Tiene sueño.", "He is tired.", "2"),
]


def load(tmp_path: Path, lines: list[tuple[str, ...]], **changes: Any) -> Corpus:
    text = "".join("\t".join(line) + "\n" for line in lines)
    return load_text(tmp_path, text, **({"context": 1, "ordered": True} | changes))


def contexts_of(pairs: list[Pair]) -> dict[str, str]:
    """Return sentence -> its context, without marks."""
    split = (split_context(pair.source) for pair in pairs)
    return {sentence: context.replace(CONTEXT_MARK, "").strip() for context, sentence in split}


def test_a_line_has_the_line_before_it_in_its_document(tmp_path: Path) -> None:
    corpus = load(tmp_path, LINES, document_column=2)
    assert contexts_of(corpus.train) == {
        "Ana vino.": "",
        "Ella ríe.": "Ana vino.",
        "Luis duerme.": "",
        "Tiene sueño.": "Luis duerme.",
    }
    assert [pair.target for pair in corpus.train] == [line[1] for line in LINES]


def test_an_empty_line_begins_another_document(tmp_path: Path) -> None:
    lines: list[tuple[str, ...]] = [*LINES[:2], ("", ""), *LINES[2:]]
    assert contexts_of(load(tmp_path, lines).train)["Luis duerme."] == ""
    assert contexts_of(load(tmp_path, [*LINES]).train)["Luis duerme."] == "Ella ríe."


def test_a_pair_that_a_dev_file_repeats_has_the_context_of_each_line(tmp_path: Path) -> None:
    sources = {}
    dev = [*LINES[:2], ("Sí.", "Yes."), ("", ""), ("Sí.", "Yes.")]
    for split, lines in (("train", LINES[2:]), ("dev", dev)):
        path = tmp_path / f"{split}.tsv"
        path.write_text("".join("\t".join(line[:2]) + "\n" for line in lines), encoding="utf-8")
        sources[split] = SourceConfig(kind="files", path=str(path), split=split, ordered=True)
    corpus = load_corpus(configure(sources, context=1), cache_dir=tmp_path)
    assert [split_context(pair.source)[0].replace(CONTEXT_MARK, "").strip() for pair in corpus.dev][
        2:
    ] == ["Ella ríe.", ""]


def test_sources_without_an_order_have_no_contexts(tmp_path: Path) -> None:
    corpus = load(tmp_path, [*LINES], ordered=False)
    assert corpus.train == load(tmp_path, [*LINES], context=0).train


@pytest.mark.parametrize("changes", [{"context": 0}, {"ordered": False}])
def test_lines_without_contexts_are_cleaned_once(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(ContextReader, "read")
    assert len(load(tmp_path, LINES, **changes).train) == len(LINES)


def test_a_rejected_line_is_a_context(tmp_path: Path) -> None:
    lines = [LINES[0], ("Llueve.", "x" * 200), LINES[1], LINES[0], LINES[3]]
    corpus = load(tmp_path, [line[:2] for line in lines])
    assert corpus.rejected == {"length ratio": 1, "duplicate": 1}
    contexts = contexts_of(corpus.train)
    assert contexts["Ella ríe."] == "Llueve."
    assert contexts["Tiene sueño."] == "Ana vino."


def test_contexts_change_neither_the_split_nor_the_pairs(tmp_path: Path) -> None:
    lines: list[tuple[str, ...]] = [(f"frase {i}.", f"sentence {i}.") for i in range(60)]
    sizes = {"dev": 10, "test": 10}
    plain, extended = (load(tmp_path, lines, context=count, **sizes) for count in (0, 2))
    for before, after in (
        (plain.train, extended.train),
        (plain.dev, extended.dev),
        (plain.test, extended.test),
    ):
        assert remove_contexts(after) == before
        assert after != before
    targets = {pair.target for pair in extended.test}
    assert not any(target in pair.source for pair in extended.train for target in targets)
    for pair in extended.test:
        number = int(split_context(pair.source)[1].split()[1].strip("."))
        expected = "".join(
            f"frase {i}. {CONTEXT_MARK} " for i in (number - 2, number - 1) if i >= 0
        )
        assert split_context(pair.source)[0] == expected


def test_contexts_are_of_the_side_that_the_model_reads(tmp_path: Path) -> None:
    corpus = load(tmp_path, [*LINES], reverse=True)
    assert contexts_of(corpus.train)["He is tired."] == "Luis sleeps."


def test_a_tag_stands_before_a_context_and_both_come_off(tmp_path: Path) -> None:
    corpus = load(tmp_path, [*LINES[:2]], tag="<2en>")
    expected = Pair(f"<2en> Ana vino. {CONTEXT_MARK} Ella ríe.", "She laughs.")
    assert corpus.train[1] == expected
    config = configure(path="x", tag="<2en>", context=1, ordered=True)
    assert to_source_view(config, [expected]) == [Pair("Ella ríe.", "She laughs.")]


def test_a_context_needs_an_ordered_source() -> None:
    message = complaint(lambda: check_data(configure(path="x", context=1)))
    assert "data.context=1" in message
    assert "ordered=true" in message
    check_data(configure(path="x", context=1, ordered=True))


@pytest.mark.parametrize("changes", [{"ordered": False}, {"kind": "phrasebook", "path": None}])
def test_a_column_of_documents_needs_an_ordered_table(changes: dict[str, Any]) -> None:
    settings = {"kind": "files", "path": "x", "ordered": True, "document_column": 2} | changes
    sources = {"pairs": SourceConfig(**settings)}
    assert "document_column" in complaint(lambda: check_data(configure(sources)))


def test_pairs_of_files_get_contexts_like_lines() -> None:
    pairs = [Pair("Ana vino.", "a"), Pair("Ella ríe.", "b"), Pair("", ""), Pair("Luis.", "c")]
    extended = add_contexts_to_pairs(pairs, 1, "es")
    assert [CONTEXT_MARK in pair.source for pair in extended] == [False, True, False, False]
    assert remove_contexts(extended) == pairs
    assert add_contexts_to_pairs(pairs, 0, "es") == pairs


def test_slots_stand_for_spans_of_the_sentence_only() -> None:
    source = f"Vino el 12. {CONTEXT_MARK} Son 12 o 30."
    assert list_shared_spans(source, "It is 12 or 30.") == ["12", "30"]
    assert keep_shared_spans(source, "It is 12 or 30.", SLOTS) == (
        f"Vino el 12. {CONTEXT_MARK} Son {SLOTS[0]} o {SLOTS[1]}.",
        f"It is {SLOTS[0]} or {SLOTS[1]}.",
    )


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    config = TokenizerConfig("unigram", 400, 0, 1.0, lowercase_source=True, slots=4)
    pairs = [Pair(*line[:2]) for line in LINES] * 20
    reserved = list_reserved(configure(path="x", context=1, ordered=True))
    return train_tokenizer(config, list_texts(config, pairs), lambda line: None, reserved)


def test_the_mark_is_one_piece(tokenizer: Tokenizer) -> None:
    [ids] = tokenizer.encode([CONTEXT_MARK])
    [pair] = tokenizer.encode([f"Ana vino. {CONTEXT_MARK} Ella ríe."])
    assert len(ids) == 1
    assert list(pair).count(ids[0]) == 1
    assert tokenizer.decode([pair]) == [f"ana vino. {CONTEXT_MARK} ella ríe."]


def test_contexts_do_not_change_the_text_of_tokenizers() -> None:
    config = TokenizerConfig("unigram", 400, 0, 1.0, lowercase_source=True, slots=4)
    pairs = [Pair(*line[:2]) for line in LINES]
    assert list_texts(config, add_contexts_to_pairs(pairs, 2, "es")) == list_texts(config, pairs)


def test_a_context_is_left_out_where_a_source_would_not_fit(tokenizer: Tokenizer) -> None:
    pairs = [
        Pair(f"<2en> Ana vino. {CONTEXT_MARK} Ella ríe.", "a"),
        Pair("Ana vino. Luis duerme. Ella ríe. Tiene sueño.", "b"),
    ]
    length = len(tokenizer.encode([pairs[0].source])[0])
    assert fit_contexts(pairs, tokenizer, length, ["<2en>"]) == pairs
    assert fit_contexts(pairs, tokenizer, length - 1, ["<2en>"]) == [
        Pair("<2en> Ella ríe.", "a"),
        pairs[1],
    ]
