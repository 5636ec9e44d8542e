"""CTranslate2: writing its model from Keras weights, and an engine that searches with it.

CTranslate2 declares the variables of a Transformer (`ctranslate2.specs`) and computes it in C++, a
multiple faster than TensorFlow on CPUs. The package is an extra.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from keras import ops

from nmt.config import Config, files
from nmt.data.cleaning import clean_text
from nmt.data.tokenizer import BOS, EOS, UNK, Tokenizer, load_tokenizer
from nmt.errors import UserError
from nmt.exporting.folder import CONFIG_FILE, check_files
from nmt.inference.engine import NEVER, Beam, Found
from nmt.inference.results import Translation
from nmt.inference.translator import Translator
from nmt.model.blocks import NORM_EPSILON
from nmt.model.contract import Model
from nmt.model.transformer import Transformer
from nmt.startup.devices import cores

QUANTIZATIONS = ("float32", "int8", "float16")

# CTranslate2 stops a sentence after `patience` times k ended hypotheses; the own search when no
# live one can win. Of 2,000 sentences of Tatoeba (beam 4), a patience of 1 translated 24 otherwise,
# and 1.5, 2 or 3 the same two. 2 gives more of the n-best lists than 1.5, and takes 7% longer.
_PATIENCE = 2.0
# No length penalty of its own, which is another formula than Wu's. Exactly 0 would stop the search
# when the first hypothesis in rank has ended; scores are divided by length ** 1e-30 == 1.
_NO_PENALTY = 1e-30
_IMPOSSIBLE = -1e9  # what CTranslate2 scores hypotheses with that a prefix forbids, or less


def write(
    model: Model, tokenizer: Tokenizer, config: Config, folder: Path, quantization: str
) -> None:
    """Write a folder that `load` reads, and CTranslate2's own translator too.

    Args:
        model: in float32.
        tokenizer: its tokenizer.
        config: its ``decoding`` is what `load` searches with.
        folder: exists.
        quantization: one of `QUANTIZATIONS`, of the weights.

    Raises:
        UserError: two pieces of the vocabulary are the same string, or the model is no transformer.
    """
    if not isinstance(model, Transformer):
        raise UserError("CTranslate2 computes transformers only: use --format savedmodel")
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    if len(set(pieces)) < len(pieces):
        raise UserError(
            "CTranslate2 knows tokens by their text, and this tokenizer has two of the same: "
            "use --format savedmodel"
        )
    spec = make_specification(model)
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.unk_token = pieces[UNK]
    spec.config.bos_token = spec.config.decoder_start_token = pieces[BOS]
    spec.config.eos_token = pieces[EOS]
    spec.config.layer_norm_epsilon = NORM_EPSILON
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(folder))
    tokenizer.save(folder)
    files.save(config, folder / CONFIG_FILE)


def make_specification(model: Transformer) -> Any:
    """Return a `ctranslate2.specs.TransformerSpec` with copies of a model's weights."""
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    sizes = model.sizes
    # relu(x) ** 2 is relu(x) * x: a gated block whose gate has the weights of its inner layer.
    activation, gated = {
        "relu": (Activation.RELU, False),
        "relu2": (Activation.RELU, True),
        "gelu": (Activation.GELUTanh, False),  # Keras's default is the approximation by tanh
        "swiglu": (Activation.SWISH, True),
    }[sizes.activation]
    spec = TransformerSpec.from_config(
        (sizes.encoder_layers, sizes.decoder_layers),
        sizes.num_heads,
        pre_norm=sizes.norm == "pre",
        activation=activation,
        ffn_glu=gated,
    )
    table = _copy(model.embedding.table)
    positions = _copy(model.positions.table)
    # Embeddings are multiplied by sqrt(D) on both sides, as CTranslate2 does unless told not to.
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = table
    spec.decoder.projection.weight = table
    spec.encoder.position_encodings.encodings = positions
    spec.decoder.position_encodings.encodings = positions
    for layer, block in zip(spec.encoder.layer, model.encoder_blocks, strict=True):
        _fill_self_attention(layer.self_attention, block.attention, block.attention_norm)
        _fill_feed_forward(layer.ffn, block)
    for layer, block in zip(spec.decoder.layer, model.decoder_blocks, strict=True):
        _fill_self_attention(layer.self_attention, block.self_attention, block.self_attention_norm)
        cross = block.cross_attention
        _fill_norm(layer.attention.layer_norm, block.cross_attention_norm)
        _fill_linear(layer.attention.linear[0], cross.query)
        _fill_linear(layer.attention.linear[1], cross.key, cross.value)
        _fill_linear(layer.attention.linear[2], cross.output_projection)
        _fill_feed_forward(layer.ffn, block)
    if sizes.norm == "pre":
        _fill_norm(spec.encoder.layer_norm, model.encoder_norm)
        _fill_norm(spec.decoder.layer_norm, model.decoder_norm)
    return spec


def _copy(weight: Any) -> np.ndarray:
    """Return an array of its own: quantization changes arrays in place."""
    return np.array(ops.convert_to_numpy(weight), np.float32)


def _fill_linear(spec: Any, *layers: Any) -> None:
    """Join dense layers [D, F] side by side into one matrix [sum of F, D]."""
    spec.weight = np.concatenate([_copy(layer.kernel).T for layer in layers])
    spec.bias = np.concatenate([_copy(layer.bias) for layer in layers])


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _copy(norm.gamma), _copy(norm.beta)


def _fill_self_attention(spec: Any, attention: Any, norm: Any) -> None:
    _fill_norm(spec.layer_norm, norm)
    _fill_linear(spec.linear[0], attention.query, attention.key, attention.value)
    _fill_linear(spec.linear[1], attention.output_projection)


def _fill_feed_forward(spec: Any, block: Any) -> None:
    feed_forward = block.feed_forward
    _fill_norm(spec.layer_norm, block.feed_forward_norm)
    _fill_linear(spec.linear_1, feed_forward.outer)
    if feed_forward.sizes.activation == "swiglu":
        _fill_linear(spec.linear_0, feed_forward.gate)
        _fill_linear(spec.linear_0_noact, feed_forward.inner)
        return
    _fill_linear(spec.linear_0, feed_forward.inner)
    if feed_forward.sizes.activation == "relu2":
        _fill_linear(spec.linear_0_noact, feed_forward.inner)


def load(folder: str | Path) -> Translator:
    """Return a translator over an exported folder, which is all that it needs.

    Raises:
        UserError: the folder is no such export, or a damaged one, or CTranslate2 is not installed.
    """
    folder = Path(folder)
    check_files(folder)
    tokenizer = load_tokenizer(folder)
    config = files.load(folder / CONFIG_FILE)
    longest = max(config.training.row_lengths)
    engine = CTranslate2Engine(folder, tokenizer)
    return Translator(engine, tokenizer, config.decoding, longest=longest)


def make_rescore(translator: Translator) -> Callable[[str, Translation], float]:
    """Return a function: the log-probability that an export gives to any translation, in nats."""

    def rescore(source: str, translation: Translation) -> float:
        ids = translator.tokenizer.encode([clean_text(source)])
        engine = cast(CTranslate2Engine, translator.engine)
        return float(engine.log_probs(ids, [translation.tokens[:-1]])[0].sum())

    return rescore


class CTranslate2Engine:
    """Searches with CTranslate2, on every core: one worker thread each.

    Its beam search is not the own one to the last detail, see `search`; log-probabilities agree
    within 1e-4 in float32.

    Args:
        folder: from `write`.
        tokenizer: whose ids the engine takes and gives.
        threads: cores to use; None: all that this process may run on.

    Raises:
        UserError: CTranslate2 is not installed, or the folder is none of its models.
    """

    parallel = 1  # it shares a batch out among its own workers

    def __init__(self, folder: Path, tokenizer: Tokenizer, *, threads: int | None = None) -> None:
        try:
            import ctranslate2
        except ImportError as error:
            raise UserError(
                "CTranslate2 is not installed: pip install ctranslate2, or nmt[ctranslate2]"
            ) from error
        self._threads = threads or cores()
        self._pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        self.max_length: int = files.load(folder / CONFIG_FILE).model.max_length
        level = ctranslate2.get_log_level()
        ctranslate2.set_log_level(logging.ERROR)  # it warns where float16 is computed in float32
        try:
            # In a batch, two workers of one thread are three times as fast as one of two threads;
            # over one sentence, two threads mostly wait for each other.
            self._translator = ctranslate2.Translator(
                str(folder), inter_threads=self._threads, intra_threads=1
            )
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{folder} is not a CTranslate2 model: {error}") from error
        finally:
            ctranslate2.set_log_level(level)

    def search(
        self, sources: Sequence[np.ndarray], limits: np.ndarray, beam: Beam, prefix: np.ndarray
    ) -> list[list[Found]]:
        """Search for the best targets of several sources.

        It differs from the own search in two ways, both rarely seen in a result: a sentence is
        over after a number of ended hypotheses, not when no other can win; and of the candidates
        of a position, only the k best may end.

        Args:
            sources: ids without end mark, of similar length; not empty.
            limits: int32 [B], most target tokens per sentence, end mark included.
            beam: how to search.
            prefix: int32 [P], ids that every target begins with; may be empty.

        Returns:
            Hypotheses per sentence, best first.

        Raises:
            UserError: a coverage penalty is asked for.
        """
        if beam.coverage_penalty:
            raise UserError(
                "CTranslate2 cannot search with this project's coverage penalty: leave "
                "--coverage-penalty out"
            )
        hypotheses = self._limited(sources, limits, beam, prefix)
        # CTranslate2 does not know ids that no output holds. Forbidding them costs the exact
        # log-probabilities, and models that have learnt their target hardly ever write them.
        marked = [
            i
            for i, candidates in enumerate(hypotheses)
            if any(set(NEVER) & set(tokens[len(prefix) :]) for tokens in candidates)
        ]
        if marked:
            again = self._limited(
                [sources[i] for i in marked], limits[marked], beam, prefix, never=NEVER
            )
            for i, candidates in zip(marked, again, strict=True):
                hypotheses[i] = dict.fromkeys(candidates, math.nan)
        self._add_prefix(hypotheses, sources, prefix)
        self._complete(hypotheses, sources, limits)
        alpha = beam.length_penalty if beam.size > 1 else 0.0
        return [_ranked(candidates, alpha)[: beam.n_best] for candidates in hypotheses]

    def log_probs(
        self, sources: Sequence[np.ndarray], targets: Sequence[Sequence[int]]
    ) -> list[np.ndarray]:
        """Return the log-probability of every target token, in nats.

        Args:
            sources: ids without end mark.
            targets: ids without end mark.

        Returns:
            float32 [T + 1] per pair, the end mark's last.
        """
        scored = self._translator.score_batch(
            self._tokens(sources), [self._text(target) for target in targets], max_input_length=0
        )
        return [np.array(result.log_probs, np.float32) for result in scored]

    def _limited(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        beam: Beam,
        prefix: np.ndarray,
        never: tuple[int, ...] = (),
    ) -> list[dict[tuple[int, ...], float]]:
        """Search with a limit per sentence, where CTranslate2 has one per batch."""
        # The largest limit serves all, as long as no hypothesis meets the limit of its sentence.
        hypotheses = self._search(sources, max(limits), beam, prefix, never)
        late = defaultdict(list)
        for i, (limit, candidates) in enumerate(zip(limits, hypotheses, strict=True)):
            if limit < max(limits) and max(map(len, candidates)) >= limit:
                late[limit].append(i)
        for limit, rows in late.items():
            again = self._search([sources[i] for i in rows], limit, beam, prefix, never)
            for i, candidates in zip(rows, again, strict=True):
                hypotheses[i] = candidates
        return hypotheses

    def _search(
        self,
        sources: Sequence[np.ndarray],
        limit: int,
        beam: Beam,
        prefix: np.ndarray,
        never: tuple[int, ...],
    ) -> list[dict[tuple[int, ...], float]]:
        """Return hypotheses with their log-probability, without that of the prefix.

        Hypotheses without end mark have met the limit.
        """
        wide = beam.size > 1
        results = self._translator.translate_batch(
            self._tokens(sources),
            target_prefix=[self._text(prefix)] * len(sources) if len(prefix) else None,
            # Every worker gets a part of the batch.
            max_batch_size=-(-len(sources) // self._threads),
            beam_size=beam.size,
            patience=_PATIENCE if wide else 1,
            num_hypotheses=round(beam.size * _PATIENCE) if wide else 1,
            length_penalty=_NO_PENALTY,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=max(int(limit) - 1, 1),  # the last position is the end mark's
            suppress_sequences=[self._text([i]) for i in never] or None,
            return_end_token=True,
            return_scores=True,
        )
        return [
            {
                tuple(self._ids[piece] for piece in tokens): score
                for tokens, score in zip(result.hypotheses, result.scores, strict=True)
                if score > _IMPOSSIBLE
            }
            for result in results
        ]

    def _add_prefix(
        self,
        hypotheses: list[dict[tuple[int, ...], float]],
        sources: Sequence[np.ndarray],
        prefix: np.ndarray,
    ) -> None:
        """Add the prefix's own log-probability, which CTranslate2 leaves out."""
        if not len(prefix):
            return
        scored = self.log_probs(sources, [prefix.tolist()] * len(sources))
        for candidates, log_probs in zip(hypotheses, scored, strict=True):
            for tokens in candidates:
                candidates[tokens] += float(log_probs[: len(prefix)].sum())

    def _complete(
        self,
        hypotheses: list[dict[tuple[int, ...], float]],
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
    ) -> None:
        """End hypotheses that met the limit, and score what has no exact log-probability."""
        incomplete = [
            (i, tokens)
            for i, candidates in enumerate(hypotheses)
            for tokens, log_prob in candidates.items()
            if tokens[-1] != EOS or math.isnan(log_prob)
        ]
        if not incomplete:
            return
        bodies = [
            tokens[:-1] if tokens[-1] == EOS else tokens[: limits[i] - 1]
            for i, tokens in incomplete
        ]
        scored = self.log_probs([sources[i] for i, _ in incomplete], bodies)
        for (i, tokens), body, log_probs in zip(incomplete, bodies, scored, strict=True):
            del hypotheses[i][tokens]
            hypotheses[i][*body, EOS] = float(log_probs.sum())

    def _tokens(self, sources: Iterable[np.ndarray]) -> list[list[str]]:
        """Return sources as CTranslate2 takes them, with end mark."""
        return [[*self._text(ids), self._pieces[EOS]] for ids in sources]

    def _text(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[i] for i in ids]


def _ranked(candidates: dict[tuple[int, ...], float], alpha: float) -> list[Found]:
    """Return hypotheses by the score of Wu et al. 2016, equation 14, best first."""
    found = [
        Found(tokens, log_prob, log_prob / ((5 + len(tokens)) / 6) ** alpha)
        for tokens, log_prob in candidates.items()
    ]
    return sorted(found, key=lambda one: -one.score)
