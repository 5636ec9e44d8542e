"""SavedModel: strings in, strings out, with cleaning, tokenizer and beam search inside the graph.

It needs TensorFlow and the operations of tensorflow-text, but not this package.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import category

from keras.export import ExportArchive

from nmt.config import DecodingConfig
from nmt.data.cleaning import INVISIBLE, JOINERS, SPACE_SIGN
from nmt.data.paired import PairedTokenizer
from nmt.data.tokenizer import EOS, PAD, SUFFIX, UNK, SentencePieceTokenizer, Tokenizer
from nmt.inference.contract import BeamOptions
from nmt.inference.programs import search_in_graph
from nmt.inference.results import LINE_ENDS, Translation
from nmt.model.contract import Model
from nmt.startup.quiet import quiet_start

SIGNATURE = "serving_default"


def describe_signature(max_length: int) -> dict[str, Any]:
    """Describe inputs and outputs for the manifest, since a SavedModel cannot hold descriptions."""
    return {
        "name": SIGNATURE,
        "inputs": {
            "text": "string [B], UTF-8. It is cleaned as training text was; of a text of more "
            f"than {max_length - 1} tokens only the first {max_length - 1} are read."
        },
        "outputs": {
            "translation": "string [B], UTF-8, one line; empty for an empty text",
            "score": "float32 [B], log_prob divided by the length penalty; 0 for an empty text",
            "log_prob": "float32 [B], of all tokens, end mark included, in nats",
        },
    }


def write(model: Model, tokenizer: Tokenizer, decoding: DecodingConfig, folder: Path) -> None:
    """Write a SavedModel with one signature, which translates a batch: see `describe_signature`.

    Model (in float32, on the TensorFlow backend), tokenizer and search become one graph.
    """
    import tensorflow as tf

    beam = BeamOptions(
        decoding.beam_size,
        decoding.length_penalty,
        no_repeat_ngram=decoding.no_repeat_ngram,
    )
    graph_tokenizer = tokenizer.in_graph()
    clean, join = _make_cleaner(), _make_joiner()
    encode, decode = _make_coders(tokenizer)

    def translate(text: Any) -> dict[str, Any]:
        text = clean(text)
        ids = encode(text)[:, : model.max_length - 1]  # ragged int32 [B, S]
        lengths = tf.cast(ids.row_lengths(), tf.int32)  # [B]
        ends = tf.fill([tf.shape(text)[0], 1], EOS)
        source = tf.concat([ids, ends], axis=1).to_tensor(PAD)  # [B, S]
        ratio = tf.cast(lengths, tf.float64) * decoding.max_length_ratio
        limits = tf.cast(ratio, tf.int32) + decoding.max_length_margin
        empty = tf.equal(lengths, 0)
        # A limit of 1 permits only the end mark.
        limits = tf.where(empty, 1, tf.minimum(limits, model.max_length))
        longest = tf.reduce_max(tf.concat([limits, [1]], axis=0))  # 1 for an empty batch
        hypotheses = search_in_graph(model, source, limits, beam, longest)
        return {
            "translation": join(decode(hypotheses.tokens[:, 0])),
            "score": tf.where(empty, 0.0, hypotheses.scores[:, 0]),
            "log_prob": tf.where(empty, 0.0, hypotheses.log_probs[:, 0]),
        }

    archive = ExportArchive()
    archive.track(graph_tokenizer)
    archive.add_endpoint(SIGNATURE, translate, [tf.TensorSpec([None], tf.string, name="text")])
    archive.write_out(str(folder), verbose=False)


def translate(folder: Path, texts: Sequence[str]) -> list[Translation]:
    """Translate with a SavedModel, loaded as its users load it; translations have no tokens."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (its operations)

    with quiet_start():
        run = tf.saved_model.load(str(folder)).signatures[SIGNATURE]
    outputs = run(text=tf.constant(list(texts), tf.string))
    columns = (outputs[name].numpy() for name in ("translation", "log_prob", "score"))
    return [
        Translation(text.decode(), float(log_prob), float(score), ())
        for text, log_prob, score in zip(*columns, strict=True)
    ]


def _make_cleaner() -> Callable[[Any], Any]:
    """Return `nmt.data.cleaning.clean_text` in graph operations: string [B] -> string [B]."""
    import tensorflow as tf
    import tensorflow_text

    spaces, invisible = _list_ranges(str.isspace), _list_ranges(_is_removed)

    def clean(text: Any) -> Any:
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
        text = tf.strings.regex_replace(text, f"[{spaces}]", " ")
        text = tf.strings.regex_replace(text, f"[{invisible}]", "")
        text = tensorflow_text.normalize_utf8(text, "NFC")
        text = tf.strings.regex_replace(text, SPACE_SIGN, "_")
        return tf.strings.strip(tf.strings.regex_replace(text, " +", " "))

    return clean


def _make_joiner() -> Callable[[Any], Any]:
    """Return `nmt.inference.results.join_lines` in graph operations: string [B] -> string [B]."""
    import tensorflow as tf

    ends = "".join(rf"\x{{{ord(sign):x}}}" for sign in LINE_ENDS)
    return lambda text: tf.strings.regex_replace(text, f"[{ends}]", " ")


def _make_coders(tokenizer: Tokenizer) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the functions of a tokenizer in graph operations.

    Returns:
        (encode: clean string [B] -> ragged int32 [B, S], decode: int32 [B, T] -> string [B]).
    """
    import tensorflow as tf
    import tensorflow_text

    graph_tokenizer = tokenizer.in_graph()
    if isinstance(tokenizer, SentencePieceTokenizer | PairedTokenizer):

        def decode(ids: Any) -> Any:
            return graph_tokenizer.detokenize(tf.ragged.boolean_mask(ids, ids > UNK))

        return graph_tokenizer.tokenize, decode

    # The pattern matches every character, and matches are the result: splitting loses nothing.
    letters = _list_ranges(_is_word_character)
    word = f" ?(?:[{letters}]+|[^{letters} ])| "

    def encode(text: Any) -> Any:
        text = tf.where(tf.equal(text, ""), "", " " + text)
        words = tensorflow_text.regex_split(text, word, keep_delim_regex_pattern=word)
        words = tf.ragged.map_flat_values(tf.strings.regex_replace, words, " ", SPACE_SIGN)
        return graph_tokenizer.tokenize(words).merge_dims(1, 2)

    texts = tf.constant(
        [
            "" if i <= UNK else piece.removeprefix(SUFFIX)
            for i, piece in enumerate(tokenizer.pieces(range(tokenizer.vocabulary_size)))
        ]
    )

    def decode_pieces(ids: Any) -> Any:
        joined = tf.strings.reduce_join(tf.gather(texts, ids), axis=1)
        return tf.strings.strip(tf.strings.regex_replace(joined, SPACE_SIGN, " "))

    return encode, decode_pieces


def _is_removed(sign: str) -> bool:
    """Return whether cleaning removes a character."""
    return category(sign) in INVISIBLE and sign not in JOINERS and not sign.isspace()


def _is_word_character(sign: str) -> bool:
    """Return whether a character belongs to a word; every other one is a word by itself."""
    return sign.isalnum() or sign == "_"


@cache
def _list_ranges(belongs: Callable[[str], bool]) -> str:
    """Return characters as ranges of code points, for a regular expression's character class."""
    ranges: list[tuple[int, int]] = []
    for point in range(sys.maxunicode + 1):
        if not 0xD800 <= point <= 0xDFFF and belongs(chr(point)):  # UTF-8 has no surrogates
            if ranges and ranges[-1][1] == point - 1:
                ranges[-1] = (ranges[-1][0], point)
            else:
                ranges.append((point, point))
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges)
