"""Two SentencePiece models over one table of ids."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from conftest import corpus_lines

from nmt.data.paired import PAIR_FILE, PairedTokenizer
from nmt.data.tokenizer import UNK, find_tokenizer_file, load_tokenizer
from nmt.errors import UserError
from nmt.inference.segmenting import Segmenter

SPECIAL = ["<blank>", "<pad>", "</s>", "<unk>"]
TEXTS = ["¿Dónde está la estación?", "Hoy hace frío.", "Sí.", "Tengo 3 gatos"]


def model_of(texts: list[str]) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=180, minloglevel=3
    )
    return model.getvalue()


@pytest.fixture(scope="module")
def models() -> tuple[bytes, bytes]:
    source, target = zip(*(line.split("\t")[:2] for line in corpus_lines(300)), strict=True)
    return model_of(list(source)), model_of(list(target))


@pytest.fixture(scope="module")
def paired(models: tuple[bytes, bytes]) -> PairedTokenizer:
    """A table of the pieces of both, but for one that the source model has."""
    pieces: dict[str, None] = {}
    for model in models:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces |= dict.fromkeys(
            processor.id_to_piece(i) for i in range(3, processor.get_piece_size())
        )
    del pieces["í"]
    return PairedTokenizer(models, [*SPECIAL, *pieces])


def test_each_side_is_cut_by_its_own_model(
    paired: PairedTokenizer, models: tuple[bytes, bytes]
) -> None:
    for tokenizer, model in zip((paired, paired.target), models, strict=True):
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        for text, ids in zip(TEXTS, tokenizer.encode(TEXTS), strict=True):
            assert ids.dtype == np.int32
            cut = processor.encode(text, out_type=str)
            known = [piece if piece in paired._pieces else "<unk>" for piece in cut]
            assert tokenizer.pieces(ids) == known
    assert [ids.tolist() for ids in paired.encode(TEXTS)] != [
        ids.tolist() for ids in paired.target.encode(TEXTS)
    ]
    assert paired.encode([]) == []


def test_unknown_pieces_are_unknown_and_special_ones_are_never_met(paired: PairedTokenizer) -> None:
    [ids] = paired.encode(["í"])
    assert UNK in ids
    [marked] = paired.encode(["</s> <pad>"])
    assert not {0, 1, 2} & set(marked.tolist())


def test_targets_are_decoded_by_their_model(paired: PairedTokenizer) -> None:
    english = ["Where is the station?", "It is cold today."]
    ids = paired.target.encode(english)
    assert paired.decode([[1, *row, 2] for row in ids]) == english
    assert paired.target.decode(ids) == english


def test_spans_are_those_of_its_side(paired: PairedTokenizer) -> None:
    for text in TEXTS:
        spans = paired.spans(text)
        assert len(spans) == len(paired.encode([text])[0])
        assert spans[-1][1] == len(text)
        assert "".join(text[begin:end] for begin, end in spans) == text


def test_spans_are_those_of_the_given_text_where_a_model_normalizes_it(
    paired: PairedTokenizer,
) -> None:
    text = "½ hora，nº 2²."
    spans = paired.spans(text)
    [pieces] = paired._split_pieces([text])
    assert len(spans) == len(pieces)
    assert "".join(pieces) == "▁1⁄2▁hora,no▁22."
    assert spans[-1] == (len(text) - 1, len(text))
    covered = {at for begin, end in spans for at in range(begin, end)}
    assert covered == set(range(len(text)))
    assert [begin for begin, _ in spans] == sorted(begin for begin, _ in spans)


def test_it_is_saved_and_read_back(paired: PairedTokenizer, tmp_path: Path) -> None:
    paired.save(tmp_path)
    assert find_tokenizer_file(tmp_path) == tmp_path / PAIR_FILE
    again = load_tokenizer(tmp_path)
    assert isinstance(again, PairedTokenizer)
    assert again.fingerprint == paired.fingerprint == paired.target.fingerprint
    assert again.vocabulary_size == paired.vocabulary_size
    for ids, expected in zip(again.encode(TEXTS), paired.encode(TEXTS), strict=True):
        np.testing.assert_array_equal(ids, expected)


def test_processes_that_add_noise_get_it(paired: PairedTokenizer) -> None:
    paired.in_graph()  # cannot be pickled
    copied = pickle.loads(pickle.dumps(paired.target))
    assert copied.fingerprint == paired.fingerprint
    for ids, expected in zip(copied.encode(TEXTS), paired.target.encode(TEXTS), strict=True):
        np.testing.assert_array_equal(ids, expected)


def test_another_order_of_pieces_is_another_tokenizer(
    paired: PairedTokenizer, models: tuple[bytes, bytes]
) -> None:
    turned = PairedTokenizer(models, [*SPECIAL, *paired._pieces[:UNK:-1]])
    assert turned.fingerprint != paired.fingerprint


@pytest.mark.parametrize("key", ["source", "target", "pieces"])
@pytest.mark.parametrize("value", [None, "", "?", 3, [1], "bm8gbW9kZWw="])
def test_a_damaged_one_is_refused(
    paired: PairedTokenizer, tmp_path: Path, key: str, value: object
) -> None:
    paired.save(tmp_path)
    path = tmp_path / PAIR_FILE
    stored = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(stored | {key: value}), encoding="utf-8")
    with pytest.raises(UserError, match="is damaged"):
        load_tokenizer(tmp_path)


def test_graphs_do_the_same(paired: PairedTokenizer) -> None:
    import tensorflow as tf

    in_graph = paired.in_graph()
    ids = in_graph.tokenize(tf.constant([*TEXTS, ""])).to_list()
    assert ids == [*(row.tolist() for row in paired.encode(TEXTS)), []]
    ids = paired.target.encode(["Where is the station?", "Yes."])
    ragged = tf.ragged.constant([row.tolist() for row in ids], dtype=tf.int32)
    decoded = in_graph.detokenize(ragged).numpy().tolist()
    assert [text.decode() for text in decoded] == paired.decode(ids)


CODED = ["a >>fra<< b", ">>fra<< Sí.", ">>fra<<Sí.", ">>deu<< Hoy hace frío.", ">> Sí. <<", "Sí."]


def test_a_source_begins_with_the_code_of_a_language(models: tuple[bytes, bytes]) -> None:
    source_model = sentencepiece.SentencePieceProcessor(model_proto=models[0])
    pieces = [source_model.id_to_piece(i) for i in range(3, source_model.get_piece_size())]
    paired = PairedTokenizer(models, [*SPECIAL, *pieces, ">>fra<<"])
    code, plain = paired.vocabulary_size - 1, paired.encode(["Sí."])[0].tolist()
    coded_ids = [ids.tolist() for ids in paired.encode(CODED)]
    assert coded_ids[1] == coded_ids[2] == [code, *plain]
    assert coded_ids[3] == [UNK, *paired.encode(["Hoy hace frío."])[0]]
    assert coded_ids[5] == plain
    assert code not in coded_ids[0] + coded_ids[4]
    assert code not in paired.target.encode(CODED)[1]  # of a target it is plain text
    assert paired.in_graph().tokenize(CODED).to_list() == coded_ids
    for text, ids in zip(CODED, coded_ids, strict=True):
        spans = paired.spans(text)
        assert len(spans) == len(ids)
        assert spans[-1][1] == len(text)
    assert paired.spans(CODED[1])[:1] == [(0, 7)]
    assert [a for a, _ in paired.spans(CODED[1])] == sorted(a for a, _ in paired.spans(CODED[1]))


def test_pieces_of_the_source_alone_are_spelled_as_they_are(paired: PairedTokenizer) -> None:
    target = sentencepiece.SentencePieceProcessor(model_proto=paired.models[1])
    foreign = [
        i
        for i, piece in enumerate(paired.pieces(range(paired.vocabulary_size)))
        if i > UNK and piece.startswith("▁") and len(piece) > 2
        if target.piece_to_id(piece) == target.unk_id()
    ]
    assert foreign
    expected = " ".join(paired.pieces([i])[0][1:] for i in foreign)
    assert paired.decode([foreign]) == [expected]
    import tensorflow as tf

    ragged = tf.ragged.constant([foreign], dtype=tf.int32)
    assert paired.in_graph().detokenize(ragged)[0].numpy().decode() == expected


@pytest.mark.filterwarnings("ignore:a text of")
def test_the_code_of_a_language_reaches_every_part_of_a_long_text(
    models: tuple[bytes, bytes],
) -> None:
    source_model = sentencepiece.SentencePieceProcessor(model_proto=models[0])
    pieces = [source_model.id_to_piece(i) for i in range(3, source_model.get_piece_size())]
    tokenizer = PairedTokenizer(models, [*SPECIAL, ">>fra<<", *pieces])
    cutter = Segmenter(tokenizer, 20)
    for begin in (">>fra<< ", ">>fra<<"):
        text = begin + "Hoy hace frío. Tengo 3 gatos. " * 6
        parts = [segment.ids for segment in cutter.segment(text).segments]
        assert len(parts) > 1
        for part in parts:
            assert tokenizer.pieces(part).count(">>fra<<") == 1
            assert tokenizer.pieces(part[:1]) == [">>fra<<"]
            assert len(part) <= 20
