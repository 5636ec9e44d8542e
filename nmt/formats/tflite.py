"""LiteRT, formerly TensorFlow Lite: ids in, ids out, for phones and small boards.

The model contains the beam search and uses only LiteRT's built-in operations. These include no
tokenizer, so the tokenizer is a separate file.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import DecodingConfig
from nmt.data.tokenizer import EOS, PAD, Tokenizer, load_tokenizer
from nmt.inference.contract import BeamOptions, Hypothesis
from nmt.inference.programs import search_in_graph
from nmt.inference.results import Translation
from nmt.inference.segment_writing import SegmentWriter
from nmt.inference.segmenting import Segmenter
from nmt.inference.segments import Segment, copy_segment
from nmt.model.contract import Model
from nmt.startup.quiet import quiet_start
from nmt.text.scripts import UNKNOWN_LANGUAGE

MODEL_FILE = "model.tflite"
SIGNATURE = "serving_default"


def describe_signature(positions: int) -> dict[str, Any]:
    """Describe inputs and outputs, for the manifest."""
    return {
        "name": SIGNATURE,
        "inputs": {
            "source": f"int32 [1, {positions}]: the ids of one text, EOS ({EOS}), and "
            f"{PAD} up to the end"
        },
        "outputs": {
            "tokens": f"int32 [T]: ids up to EOS ({EOS}), and {PAD} up to the end",
            "score": "float32 scalar, log_prob divided by the length penalty",
            "log_prob": "float32 scalar, of all tokens, EOS included, in nats",
        },
    }


def write(
    model: Model,
    tokenizer: Tokenizer,
    decoding: DecodingConfig,
    folder: Path,
    *,
    positions: int,
    quantization: str,
) -> None:
    """Write a model with one signature, which translates one text: see `describe_signature`.

    The search becomes part of the model, which must be in float32 on the TensorFlow backend. Its
    sources have ``positions`` ids, EOS included. ``quantization`` of the weights is "float32",
    "float16" or "int8", which also multiplies in int8 and quantizes activations dynamically.
    """
    import tensorflow as tf
    from keras.export import ExportArchive

    lengths = np.arange(positions) * decoding.max_length_ratio
    limits = np.minimum(lengths.astype(np.int32) + decoding.max_length_margin, model.max_length)
    limits[0] = 1  # permits only EOS for an empty text
    beam = BeamOptions(
        decoding.beam_size,
        decoding.length_penalty,
        no_repeat_ngram=decoding.no_repeat_ngram,
    )

    def translate(source: Any) -> dict[str, Any]:
        length = tf.math.count_nonzero(source, axis=1, dtype=tf.int32) - 1  # [1]
        limit = tf.gather(tf.constant(limits), length)
        hypotheses = search_in_graph(model, source, limit, beam, int(limits.max()))
        return {
            "tokens": hypotheses.tokens[0, 0],
            "score": hypotheses.scores[0, 0],
            "log_prob": hypotheses.log_probs[0, 0],
        }

    archive = ExportArchive()
    archive.track(model)
    archive.add_endpoint(
        SIGNATURE, translate, [tf.TensorSpec([1, positions], tf.int32, name="source")]
    )
    with tempfile.TemporaryDirectory() as saved:
        archive.write_out(saved, verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(saved, signature_keys=[SIGNATURE])
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        if quantization != "float32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantization == "float16":
            converter.target_spec.supported_types = [tf.float16]
        (folder / MODEL_FILE).write_bytes(converter.convert())
    tokenizer.save(folder)


def translate(
    folder: Path,
    texts: Sequence[str],
    *,
    tags: Sequence[str] = (),
    languages: tuple[str, str] = (UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE),
    context: int = 0,
) -> list[Translation]:
    """Translate with a model, loaded as its users load it.

    Each text is one segment; of a text that is longer than the model holds, the end is left out.

    Args:
        folder: of the export.
        texts: sources.
        tags: words that may begin a text, such as ``<2en>``.
        languages: BCP 47 tags of source and target.
        context: previous sentences that may stand before each.
    """
    import tensorflow as tf

    tokenizer = load_tokenizer(folder)
    with quiet_start(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecation; the new package has the same API
        interpreter = tf.lite.Interpreter(str(folder / MODEL_FILE))
    run = interpreter.get_signature_runner(SIGNATURE)
    positions = run.get_input_details()["source"]["shape"][1]
    segmenter = Segmenter(
        tokenizer,
        sys.maxsize,
        tags,
        unit="line",
        language=languages[0],
        target_language=languages[1],
        context=context,
    )
    writer = SegmentWriter(tokenizer)
    translated = []
    for text in segmenter.segment_all(texts):
        [segment] = text.segments or [Segment(np.zeros(0, np.int32), "")]
        if segment.is_copied:
            translated.append(copy_segment(segment))
            continue
        source = np.full((1, positions), PAD, np.int32)
        cut = segment.ids[: positions - 1]
        source[0, : len(cut) + 1] = [*cut, EOS]
        outputs = run(source=source)
        tokens = outputs["tokens"]
        tokens = tokens[: int(np.argmax(tokens == EOS)) + 1]
        hypothesis = Hypothesis(
            tuple(map(int, tokens)), float(outputs["log_prob"]), float(outputs["score"])
        )
        translated += writer.write(None, [segment], [[hypothesis]])[0]
    return translated
