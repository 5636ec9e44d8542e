"""A run's best weights in the form of CTranslate2, beside the checkpoint they are from.

CTranslate2 declares the variables of a Transformer (`ctranslate2.specs`) and computes it in C++, a
multiple faster than TensorFlow on CPUs. Making the form takes arrays alone, and no Keras.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.tokenizer import BOS, EOS, UNK, Tokenizer
from nmt.errors import UserError
from nmt.files import replace_atomically
from nmt.model.sinusoids import sinusoids
from nmt.model.sizes import (
    RELATIVE_BUCKETS,
    RELATIVE_FARTHEST,
    SINUSOIDAL,
    RecurrentSizes,
    Sizes,
)
from nmt.runs.building import check_weight, choose_weights, make_sizes
from nmt.runs.checkpoint import DAMAGE, digest_arrays
from nmt.runs.folder import RunFolder

FORM_FILE = "best.ctranslate2"
_VERSION = "1"  # of what is written here
_MADE_FROM = "made_from"  # member of the archive
_CACHED_BYTES = 2 << 30  # of all forms in the user's cache
_PARTIAL_SECONDS = 24 * 3600  # after which a file that is half written is nobody's


class NotHeldError(UserError):
    """CTranslate2 cannot hold the model, or does not run here."""


def read_form(folder: RunFolder, tokenizer: Tokenizer) -> dict[str, bytes]:
    """Return the files of the form of a run's best weights; make it if it is not there.

    It is kept beside the checkpoint, or, where that cannot be written to, in the user's cache. One
    of another checkpoint, or a damaged one, is made anew.

    Args:
        folder: of the run.
        tokenizer: of the run.

    Raises:
        NotHeldError: the run has no best weights yet; or see `check_form`.
        UserError: the weights are damaged, or do not fit the configuration.
    """
    sizes = check_form(tokenizer, make_sizes(folder.config.model, tokenizer.vocabulary_size))
    best = folder.checkpoints.best
    if not best.is_file():
        raise NotHeldError("the run has no best weights yet")
    made_from = [path for path in (best, folder.checkpoints.start) if path.is_file()]
    digests = [digest_arrays(path) for path in made_from]
    origin = json.dumps([_VERSION, *digests, tokenizer.fingerprint, repr(sizes)])
    beside = best.with_name(FORM_FILE)
    cached = _user_cache() / f"{hashlib.sha256(origin.encode()).hexdigest()}.ctranslate2"
    for path in (beside, cached):
        found = _read(path, origin)
        if found:
            if path == cached:
                _mark_used(path)
            return found
    weights = choose_weights(folder.load_weights()[0])
    with tempfile.TemporaryDirectory() as made:
        write_model(weights, best, sizes, tokenizer, Path(made))
        files = {file.name: file.read_bytes() for file in sorted(Path(made).iterdir())}
    for path in (beside, cached):
        try:
            _write(path, origin, files)
            if path == cached:
                _prune_cache(path)
            break
        except OSError:  # read-only, full, or another's: it is made again next time
            continue
    return files


def check_form_file(path: Path) -> None:
    """Compare what a form holds with its checksums.

    Raises:
        UserError: it is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except DAMAGE as error:
        raise UserError(f"{path} is damaged: {error}; it will be made anew") from error
    if damaged is not None:
        raise UserError(f"{path} is damaged: {damaged}; it will be made anew")


def check_form(tokenizer: Tokenizer, sizes: Sizes | RecurrentSizes) -> Sizes:
    """Check that CTranslate2 is there, and can hold the model and its vocabulary.

    Returns:
        The sizes, those of a transformer.

    Raises:
        NotHeldError: it does not run here, it does not compute such a model, or two pieces are the
            same string.
    """
    try:
        import ctranslate2  # noqa: F401
    except ImportError as error:
        raise NotHeldError(f"CTranslate2 does not run here ({error})") from error
    if not isinstance(sizes, Sizes):
        raise NotHeldError("CTranslate2 does not compute recurrent models")
    for has, what in (
        (sizes.heads == "pooled", "heads that are pooled (model.heads=pooled)"),
        (sizes.qk_norm, "normalised queries and keys (model.qk_norm=true)"),
        (sizes.positions == "alibi", "linear biases in an encoder (model.positions=alibi)"),
    ):
        if has:
            raise NotHeldError(f"CTranslate2 does not compute {what}")
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    if len(set(pieces)) < len(pieces):
        raise NotHeldError(
            "CTranslate2 knows tokens by their text, and this tokenizer has two of the same"
        )
    return sizes


def _user_cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("nmt") / "ctranslate2"


def _mark_used(path: Path) -> None:
    """Set the time by which `_prune_cache` chooses."""
    with suppress(OSError):
        os.utime(path)


def _prune_cache(current: Path) -> None:
    """Remove the least recently used forms while all are too large, but never the current one.

    A form is read as a whole, so removing it disturbs no process that uses it. Several processes
    may prune at a time. What a killed process left half written is removed when it is a day old.
    """
    forms: list[tuple[float, int, Path]] = []
    size = 0
    for path in current.parent.iterdir():
        with suppress(OSError):  # another process was faster
            status = path.stat()
            if path.name.startswith("."):
                if status.st_mtime < time.time() - _PARTIAL_SECONDS:
                    path.unlink()
            elif path.suffix == current.suffix:
                size += status.st_size
                if path != current:
                    forms.append((status.st_mtime, status.st_size, path))
    for _, bytes_of_form, path in sorted(forms):
        if size <= _CACHED_BYTES:
            break
        with suppress(OSError):
            path.unlink()
        size -= bytes_of_form


def _read(path: Path, origin: str) -> dict[str, bytes]:
    """Return the files in a form; none if it is missing, damaged or of another origin."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
                return {}  # nothing is compressed: it would expand without end
            if archive.read(_MADE_FROM).decode() != origin:
                return {}
            # Every member is compared with its checksum while it is read.
            return {name: archive.read(name) for name in archive.namelist() if name != _MADE_FROM}
    except (*DAMAGE, KeyError):  # no such member
        return {}


def _write(path: Path, origin: str, files: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_atomically(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, content in {_MADE_FROM: origin.encode(), **files}.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # which has no time of its own


def write_model(
    weights: Mapping[str, np.ndarray],
    origin: Path,
    sizes: Sizes,
    tokenizer: Tokenizer,
    folder: Path,
    quantization: str = "float32",
) -> None:
    """Write a model that CTranslate2's own translator reads too.

    Args:
        weights: by name, as in `nmt.model.contract.Model.named_weights`.
        origin: where they are from, for messages.
        sizes: of the transformer.
        tokenizer: its tokenizer.
        folder: exists.
        quantization: of the weights: "float32", "int8" or "float16".

    Raises:
        UserError: weights do not fit the sizes.
    """
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    spec = _Specification(weights, origin, sizes).spec
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.unk_token = pieces[UNK]
    spec.config.bos_token = spec.config.decoder_start_token = pieces[BOS]
    spec.config.eos_token = pieces[EOS]
    spec.config.layer_norm_epsilon = sizes.norm_epsilon
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(folder))


class _Specification:
    """A `ctranslate2.specs.TransformerSpec` with copies of a model's weights.

    Args:
        weights: by name.
        origin: where they are from, for messages.
        sizes: of the transformer.
    """

    def __init__(self, weights: Mapping[str, np.ndarray], origin: Path, sizes: Sizes) -> None:

        self._weights, self._origin, self._sizes = weights, origin, sizes
        self.spec = spec = self._make_spec()
        width = sizes.d_model
        table = self._take("embedding/table", sizes.vocabulary_size, width)
        # Embeddings are multiplied by sqrt(D) on both sides, which CTranslate2 does by default.
        spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = table
        spec.decoder.projection.weight = table
        if sizes.output_bias:
            spec.decoder.projection.bias = self._take("embedding/bias", sizes.vocabulary_size)
        for stack in (spec.encoder, spec.decoder):
            if hasattr(stack, "position_encodings"):
                stack.position_encodings.encodings = self._list_positions()
        for number, layer in enumerate(spec.encoder.layer):
            name = f"encoder_{number}"
            self._fill_self_attention(layer.self_attention, f"{name}/self_attention")
            self._fill_bias(layer.self_attention, "encoder_bias")
            self._fill_feed_forward(layer.ffn, name)
        for number, layer in enumerate(spec.decoder.layer):
            name = f"decoder_{number}"
            cross = f"{name}/cross_attention"
            self._fill_self_attention(layer.self_attention, f"{name}/causal_self_attention")
            self._fill_bias(layer.self_attention, "decoder_bias")
            self._fill_norm(layer.attention.layer_norm, f"{cross}_norm")
            self._fill_projections(layer.attention.linear[0], cross, "query")
            self._fill_projections(layer.attention.linear[1], cross, "key", "value")
            self._fill_output(layer.attention.linear[2], cross)
            self._fill_feed_forward(layer.ffn, name)
        if sizes.norm == "pre":
            self._fill_norm(spec.encoder.layer_norm, "encoder_norm")
            self._fill_norm(spec.decoder.layer_norm, "decoder_norm")

    def _make_spec(self) -> Any:
        """Return a specification without weights."""
        from ctranslate2.specs import (
            TransformerDecoderSpec,
            TransformerEncoderSpec,
            TransformerSpec,
        )
        from ctranslate2.specs.common_spec import Activation

        sizes = self._sizes
        # relu(x) ** 2 is relu(x) * x: a gated block whose gate has the weights of its inner layer.
        activation, gated = {
            "relu": (Activation.RELU, False),
            "relu2": (Activation.RELU, True),
            "gelu": (Activation.GELUTanh, False),  # Keras's default is the approximation by tanh
            "silu": (Activation.SWISH, False),
            "swiglu": (Activation.SWISH, True),
        }[sizes.activation]
        options: dict[str, Any] = {
            "pre_norm": sizes.norm == "pre",
            "activation": activation,
            "ffn_glu": gated,
            "relative_attention_bias": sizes.positions == "relative",
            "rotary_dim": 0 if sizes.positions == "rotary" else None,  # 0: whole heads
            "rotary_interleave": False,  # pairs are of the two halves of a head
        }
        return TransformerSpec(
            TransformerEncoderSpec(sizes.encoder_layers, sizes.num_heads, **options),
            TransformerDecoderSpec(sizes.decoder_layers, sizes.num_heads, **options),
        )

    def _list_positions(self) -> np.ndarray:
        """Return what is added to the embeddings [P, D]: nothing, where positions act otherwise."""
        shape = (self._sizes.max_length, self._sizes.d_model)
        if self._sizes.positions == "learned":
            return self._take("positions/table", *shape)
        if self._sizes.positions in SINUSOIDAL:
            return sinusoids(*shape, halves=self._sizes.positions == "sinusoidal_halves")
        return np.zeros(shape, np.float32)

    def _take(self, name: str, *shape: int) -> np.ndarray:
        """Return an array of its own, for quantization changes arrays in place."""
        found = self._weights.get(name)
        check_weight(self._origin, name, found, shape)
        return np.array(found, np.float32)

    def _fill_linear(self, spec: Any, width: int, to: int, name: str) -> None:
        """Fill in a dense layer [D, F]."""
        spec.weight = self._take(f"{name}/kernel", width, to).T
        spec.bias = self._take(f"{name}/bias", to)

    def _fill_norm(self, spec: Any, name: str) -> None:
        width = self._sizes.d_model
        spec.gamma, spec.beta = (
            self._take(f"{name}/gamma", width),
            self._take(f"{name}/beta", width),
        )

    def _fill_self_attention(self, spec: Any, name: str) -> None:
        self._fill_norm(spec.layer_norm, f"{name}_norm")
        self._fill_projections(spec.linear[0], name, "query", "key", "value")
        self._fill_output(spec.linear[1], name)

    def _fill_projections(self, spec: Any, name: str, *parts: str) -> None:
        """Join what makes queries, keys or values of all heads side by side, [sum, D]."""
        found = [self._list_heads(f"{name}/{part}", shared=part != "query") for part in parts]
        spec.weight = np.concatenate([kernel.T for kernels, _ in found for kernel in kernels])
        spec.bias = np.concatenate([bias for _, biases in found for bias in biases])

    def _list_heads(self, name: str, *, shared: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return kernels [D, K] and biases [K] of H heads; those that heads share are repeated."""
        sizes = self._sizes.cross_attention
        width, each = sizes.d_model, sizes.head_width
        heads = sizes.groups if shared else sizes.num_heads
        if sizes.heads == "own":
            names = [f"{name}/head_{number}" for number in range(heads)]
            kernels = [self._take(f"{one}/kernel", width, each) for one in names]
            biases = [self._take_bias(one, each) for one in names]
        else:
            kernels = np.split(self._take(f"{name}/kernel", width, heads * each), heads, axis=1)
            biases = np.split(self._take_bias(name, heads * each), heads)
        repeats = range(sizes.num_heads // heads)
        return [one for one in kernels for _ in repeats], [one for one in biases for _ in repeats]

    def _take_bias(self, name: str, width: int) -> np.ndarray:
        if not self._sizes.attention_biases:
            return np.zeros(width, np.float32)
        return self._take(f"{name}/bias", width)

    def _fill_output(self, spec: Any, name: str) -> None:
        """Fill in the output projection; where there is none, one that changes nothing."""
        width = self._sizes.d_model
        spec.weight, spec.bias = np.eye(width, dtype=np.float32), np.zeros(width, np.float32)
        if self._sizes.attention_output:
            spec.weight = self._take(f"{name}/output/kernel", width, width).T
            spec.bias = self._take_bias(f"{name}/output", width)

    def _fill_bias(self, spec: Any, name: str) -> None:
        """Fill in the bias by distance, where there is one: every layer has that of its stack."""
        if self._sizes.positions == "relative":
            shape = (RELATIVE_BUCKETS, self._sizes.num_heads)
            spec.relative_attention_bias = self._take(f"{name}/table", *shape)
            spec.relative_attention_max_distance = np.dtype("int32").type(RELATIVE_FARTHEST)

    def _fill_feed_forward(self, spec: Any, block: str) -> None:
        name = f"{block}/feed_forward"
        width, inner = self._sizes.d_model, self._sizes.ffn_width
        self._fill_norm(spec.layer_norm, f"{name}_norm")
        self._fill_linear(spec.linear_1, inner, width, f"{name}/outer")
        gate = f"{name}/gate" if self._sizes.activation == "swiglu" else f"{name}/inner"
        self._fill_linear(spec.linear_0, width, inner, gate)
        if self._sizes.activation in ("relu2", "swiglu"):
            self._fill_linear(spec.linear_0_noact, width, inner, f"{name}/inner")
