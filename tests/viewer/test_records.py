"""What a record holds is what the model computed, and damage does not pass."""

from __future__ import annotations

import dataclasses
import itertools
import struct
import zlib
from pathlib import Path

import fake_attention
import keras
import numpy as np
import pytest
from fake_attention import attention
from tensorboard.backend.event_processing.plugin_event_accumulator import TENSORS, EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from nmt.model.contract import CROSS, DECODER, ENCODER
from nmt.runs.building import build_model, set_weights
from nmt.runs.checkpoint import read_arrays
from nmt.runs.folder import RunFolder
from nmt.viewer import records

KINDS = ("encoder", "decoder", "cross")
AXES = ("source", "target_in", "target_out")


def test_a_record_gives_back_sentence_tokens_and_weights() -> None:
    tokens = ["▁Hola", "</script>", "\u2028", "\ud800", "שלום", ""]
    expected = attention(tokens, ["▁a", "</s>"], layers=3, heads=1)
    record = records.decode(records.encode('a "sentence"\n', expected))
    assert record.sentence == 'a "sentence"\n'
    assert record.tokens == {name: expected.tokens(name) for name in AXES}
    assert tuple(record.weights) == KINDS
    for name, weights in record.weights.items():
        assert weights.dtype == np.float32
        np.testing.assert_allclose(weights, expected.weights[name], atol=2.5e-4)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-3)


def test_a_record_gives_back_the_reference_if_there_is_one() -> None:
    record = records.encode("La casa", attention(), "The «house»")
    assert records.decode(record).reference == "The «house»"
    assert records.decode(records.encode("La casa", attention())).reference == ""


def test_a_record_is_small() -> None:
    expected = attention(layers=4, heads=8)
    numbers = sum(expected.weights[name].size for name in KINDS)
    assert len(records.encode("x", expected)) < 2 * numbers + 800


def test_damage_is_found_wherever_it_is() -> None:
    record = records.encode("La casa roja", attention())
    for place in range(0, len(record), 7):
        damaged = bytearray(record)
        damaged[place] ^= 0x10
        with pytest.raises(ValueError, match="attention record"):
            records.decode(bytes(damaged))
    for length in (0, 3, 15, 16, 40, len(record) - 1):
        with pytest.raises(ValueError, match="attention record"):
            records.decode(record[:length])
    with pytest.raises(ValueError, match="attention record"):
        records.decode(record + b"\0")


@pytest.mark.parametrize(
    "header",
    [
        "[]",
        "{}",
        '{"sentence": "a", "tokens": null, "kinds": [{"name": "a", "shape": 1}]}',
        '{"sentence": "a", "tokens": {}, "kinds": [{"name": {}, "shape": [1, 1, 0, 0]}]}',
        pytest.param("[" * 10_000, id="nested"),
    ],
)
def test_a_header_of_another_form_is_damage(header: str) -> None:
    content = header.encode()
    preamble = struct.pack("<4sIII", b"ATTN", 1, zlib.crc32(content), len(content))
    with pytest.raises(ValueError, match="attention record"):
        records.decode(preamble + content)


def test_a_later_layout_is_named() -> None:
    record = bytearray(records.encode("x", attention()))
    record[4] = 2
    with pytest.raises(ValueError, match="version 2 is unsupported: expected 1"):
        records.decode(bytes(record))


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan])
def test_what_are_no_weights_is_refused(value: float) -> None:
    hostile = attention()
    hostile.cross[0, 0, 0, 0] = value
    with pytest.raises(ValueError, match="cross: attention weights"):
        records.encode("x", hostile)


def test_weights_must_fit_their_tokens() -> None:
    valid = attention()
    for wrong in (valid.encoder[:, :, :-1], valid.encoder[0]):
        with pytest.raises(ValueError, match=r"encoder: weights .* do not fit 4 rows"):
            records.encode(
                "x", dataclasses.replace(valid, weights=valid.weights | {"encoder": wrong})
            )


@pytest.mark.parametrize("sentence", ["¿Dónde?", "a/b/probe_2/c", "", "7/8"])
def test_a_tag_gives_back_number_and_sentence(sentence: str) -> None:
    assert records.parse_tag(records.tag(12, sentence)) == (12, sentence)


@pytest.mark.parametrize("tag", ["loss", "attention/probe_", "attention/probe_x/y", "1/x"])
def test_other_tags_are_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="not the tag"):
        records.parse_tag(tag)


@pytest.mark.xdist_group("tiny run")
def test_what_training_logged_is_what_a_forward_pass_gives(tiny_run: Path) -> None:
    folder = RunFolder.open(tiny_run)
    tag = records.tag(1, folder.config.training.probes[0])
    events = EventAccumulator(str(folder.logs), size_guidance={TENSORS: 0}).Reload().Tensors(tag)
    assert [event.step for event in events] == [4, 5, 8, 10, 12]
    [record] = make_ndarray(events[-1].tensor_proto)
    logged = records.decode(record)
    assert logged.sentence == "¿Dónde está la estación?"
    read, read_in, written = (logged.tokens[name] for name in AXES)

    tokenizer = folder.load_tokenizer()
    path = folder.checkpoints.path(12)
    model = build_model(folder.config, tokenizer.vocabulary_size, precision="float32")
    set_weights(model, read_arrays(path)[0], path)
    ids = {piece: i for i, piece in enumerate(tokenizer.pieces(range(tokenizer.vocabulary_size)))}
    source = [ids[piece] for piece in read]
    assert source == [*tokenizer.encode([logged.sentence])[0], ids[read[-1]]]
    target = [ids[piece] for piece in read_in]
    assert written[:-1] == read_in[1:]

    # In a batch with a longer pair the sentence is padded on both sides.
    inputs = {
        "source": np.array([source + [0] * 3, [*source, *source[:3]]]),
        "target": np.array([target + [0] * 5, [*target, *target[:1] * 5]]),
    }
    computed = model(inputs, return_attention=True)[1]
    lengths = {"encoder": (len(source),) * 2, "decoder": (len(target),) * 2}
    lengths["cross"] = (len(target), len(source))
    assert tuple(computed) == KINDS
    for name, layers in computed.items():
        weights = np.stack([keras.ops.convert_to_numpy(layer)[0] for layer in layers])
        rows, columns = lengths[name]
        assert (weights[:, :, :rows, columns:] == 0).all()
        shown = logged.weights[name]
        assert shown.shape == (*weights.shape[:2], rows, columns)
        np.testing.assert_allclose(shown, weights[:, :, :rows, :columns], atol=1e-3)
        np.testing.assert_allclose(shown.sum(-1), 1, atol=1e-3)
    future = np.triu(np.ones((len(target), len(target)), bool), k=1)
    assert (logged.weights["decoder"][:, :, future] == 0).all()


def test_kinds_of_attention_are_all_kept() -> None:
    assert (ENCODER, DECODER, CROSS) == fake_attention.KINDS
    assert tuple(kind.name for kind in fake_attention.KINDS) == KINDS
    assert AXES == records._TOKENS
    assert len(set(itertools.chain(KINDS, AXES))) == 6
