"""SavedModel: strings in, strings out, with cleaning, tokenizer and beam search inside the graph.

It needs TensorFlow and the operations of tensorflow-text, but not this package.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras.export import ExportArchive

from nmt.config import DecodingConfig
from nmt.data.paired import LANGUAGE_CODE, PairedTokenizer
from nmt.data.tokenizer import (
    EOS,
    PAD,
    SUFFIX,
    UNK,
    SentencePieceTokenizer,
    Tokenizer,
    WordPieceTokenizer,
)
from nmt.formats import text_in_graph as graph
from nmt.inference.contract import BeamOptions
from nmt.inference.programs import search_in_graph
from nmt.inference.results import Translation
from nmt.model.contract import Model
from nmt.startup.quiet import quiet_start
from nmt.text.cleaning import SPACE_SIGN
from nmt.text.spans import SLOTS

SIGNATURE = "serving_default"


def describe_signature(max_length: int, longest_row: int) -> dict[str, Any]:
    """Describe inputs and outputs for the manifest, since a SavedModel cannot hold descriptions.

    Args:
        max_length: positions of the model.
        longest_row: length of the longest training row, EOS included.
    """
    return {
        "name": SIGNATURE,
        "inputs": {
            "text": "string [B], UTF-8. It is cut into sentences and cleaned as training text was. "
            f"Training had no sentence of more than {longest_row - 1} tokens: longer ones lose "
            f"content, and of more than {max_length - 1} only the first {max_length - 1} are read."
        },
        "outputs": {
            "translation": "string [B], UTF-8, with the white space between sentences",
            "score": "float32 [B], log_prob divided by the length penalty, summed over sentences",
            "log_prob": "float32 [B], of all tokens, EOS included, in nats",
        },
    }


def write(
    model: Model,
    tokenizer: Tokenizer,
    decoding: DecodingConfig,
    folder: Path,
    tags: Sequence[str] = (),
) -> None:
    """Write a SavedModel with one signature, which translates a batch: see `describe_signature`.

    Model (in float32, on the TensorFlow backend), tokenizer and search become one graph.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        decoding: search and limits of outputs.
        folder: where to write.
        tags: words that may begin a text, repeated before each of its sentences.
    """
    import tensorflow as tf

    graph_tokenizer = tokenizer.in_graph()
    split, join = graph.make_splitter(decoding.unit), graph.make_joiner()
    split_tag = _make_tag_splitter(tokenizer, tags)
    search = _make_search(model, tokenizer, decoding)

    def translate(text: Any) -> dict[str, Any]:
        tag, text = split_tag(text)
        sentences = split(text)
        masked = graph.mask_spans(sentences.text, tokenizer.slots or len(SLOTS))
        is_copied = tf.logical_not(graph.has_letters(masked.text))
        is_upper = graph.is_upper(masked.text)
        source = masked.text
        if not tokenizer.lowercases:
            source = tf.where(is_upper, graph.lower_capitals(source), source)
        if not tokenizer.slots:
            source = graph.restore_spans(source, masked)
        source = tf.where(is_copied, "", tf.strings.join([tf.gather(tag, sentences.rows), source]))
        translations, scores, log_probs = search(source, is_copied)
        translations = tf.where(
            is_upper,
            graph.upper_outside_spans(translations),
            graph.copy_first_capital(masked.text, translations),
        )
        if tokenizer.slots:
            translations = graph.restore_spans(translations, masked)
        translations = tf.where(is_copied, sentences.text, translations)
        rows = tf.size(sentences.splits, tf.int64) - 1
        return {
            "translation": join(sentences, translations),
            "score": tf.math.unsorted_segment_sum(scores, sentences.rows, rows),
            "log_prob": tf.math.unsorted_segment_sum(log_probs, sentences.rows, rows),
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


def _make_search(
    model: Model, tokenizer: Tokenizer, decoding: DecodingConfig
) -> Callable[[Any, Any], tuple[Any, Any, Any]]:
    """Return the search for translations of sentences; of an empty one, log-probability 0."""
    import tensorflow as tf

    beam = BeamOptions(
        decoding.beam_size,
        decoding.length_penalty,
        no_repeat_ngram=decoding.no_repeat_ngram,
    )
    encode, decode = _make_coders(tokenizer)

    def search(text: Any, is_empty: Any) -> tuple[Any, Any, Any]:
        """Translate sentences string [N]: (texts, scores, log-probabilities)."""
        ids = encode(text)[:, : model.max_length - 1]  # ragged int32 [N, S]
        lengths = tf.cast(ids.row_lengths(), tf.int32)  # [N]
        ends = tf.fill([tf.shape(text)[0], 1], EOS)
        source = tf.concat([ids, ends], axis=1).to_tensor(PAD)  # [N, S]
        ratio = tf.cast(lengths, tf.float64) * decoding.max_length_ratio
        limits = tf.cast(ratio, tf.int32) + decoding.max_length_margin
        # A limit of 1 permits only EOS.
        limits = tf.where(is_empty, 1, tf.minimum(limits, model.max_length))
        longest = tf.reduce_max(tf.concat([limits, [1]], axis=0))  # 1 for an empty batch
        hypotheses = search_in_graph(model, source, limits, beam, longest)
        return (
            graph.clean_output(decode(hypotheses.tokens[:, 0])),
            tf.where(is_empty, 0.0, hypotheses.scores[:, 0]),
            tf.where(is_empty, 0.0, hypotheses.log_probs[:, 0]),
        )

    return search


def _make_tag_splitter(
    tokenizer: Tokenizer, tags: Sequence[str]
) -> Callable[[Any], tuple[Any, Any]]:
    """Return a function string [B] -> (tag of each text, with a space, or nothing; the rest)."""
    import tensorflow as tf

    space = graph.list_ranges(str.isspace)
    patterns = [rf"{re.escape(tag)}[{space}]" for tag in tags]
    if isinstance(tokenizer, PairedTokenizer):
        patterns.append(LANGUAGE_CODE.removeprefix("^"))
    if not patterns:
        return lambda text: (tf.fill(tf.shape(text), ""), text)
    pattern = rf"(?s)^([{space}]*)({'|'.join(patterns)})[{space}]*(.*)$"

    def split(text: Any) -> tuple[Any, Any]:
        has_tag = tf.strings.regex_full_match(text, pattern)
        tag = tf.strings.strip(tf.strings.regex_replace(text, pattern, r"\2"))
        rest = tf.strings.regex_replace(text, pattern, r"\1\3")
        return tf.where(has_tag, tf.strings.join([tag, " "]), ""), rest

    return split


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
    if not isinstance(tokenizer, WordPieceTokenizer):
        raise TypeError(f"no operations of a graph encode as a {type(tokenizer).__name__} does")

    # The pattern matches every character, and matches are the result: splitting loses nothing.
    letters = graph.list_ranges(_is_word_character)
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


def _is_word_character(sign: str) -> bool:
    """Return whether a character belongs to a word; every other one is a word by itself."""
    return sign.isalnum() or sign == "_"
