"""Where a run begins that does not begin from nothing, and what of its model is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from nmt.config import Config
from nmt.data.tokenizer import UNK, Tokenizer
from nmt.errors import UserError, suggest
from nmt.model.contract import Model
from nmt.runs.building import assign_weights, choose_weights
from nmt.runs.checkpoint import write_arrays
from nmt.runs.folder import RunFolder

TABLE = "embedding/table"  # the one weight that knows the vocabulary


def initialize_weights(
    model: Model, config: Config, run: RunFolder, tokenizer: Tokenizer, say: Callable[[str], object]
) -> None:
    """Give a model the weights that it starts from, and settle which of them are trained.

    Those that are not are kept in the run's folder once, and no checkpoint has them.

    Args:
        model: freshly built.
        config: of the run, new or resumed.
        run: its folder.
        tokenizer: of the run.
        say: is told where weights are from.

    Raises:
        UserError: what it is to start from does not fit, or what it did start from is damaged.
    """
    training = config.training
    if training.resume is None and training.start_from is not None:
        say(load_start_weights(model, RunFolder.open(Path(training.start_from)), tokenizer))
    if config.model.lora_rank is not None:
        try:
            model.add_adapters(config.model.lora_rank, config.model.lora_on)
        except ValueError as error:
            raise UserError(f"model.lora_on: {error}") from error
    freeze(model, training.freeze)
    trained = model.trained_weights()
    fixed = {name: w for name, w in model.named_weights().items() if name not in trained}
    if not fixed:
        return
    path = run.checkpoints.start
    if training.resume is None:
        write_arrays(path, {f"model/{name}": np.asarray(w) for name, w in fixed.items()}, {})
    else:
        assign_weights(fixed, choose_weights(run.checkpoints.read_start()), path)


def load_start_weights(model: Model, source: RunFolder, tokenizer: Tokenizer) -> str:
    """Give a model the best weights of another run; return what there is to say of it.

    Args:
        model: of the sizes of the other run's.
        source: the other run.
        tokenizer: of this run. Where it is not the other's, vectors of tokens are made of those of
            the other: see `translate_table`.

    Raises:
        UserError: the other run has no weights, or they do not fit.
    """
    arrays, path = source.load_weights()
    weights = choose_weights(arrays)
    said = f"starting from the weights of {source.path}"
    old = source.load_tokenizer()
    if old.fingerprint != tokenizer.fingerprint:
        weights[TABLE], kept = translate_table(weights[TABLE], old, tokenizer)
        said += f"; {kept:,} of {tokenizer.vocabulary_size:,} pieces are in its vocabulary, too"
    assign_weights(model.named_weights(), weights, path)
    return said


def translate_table(table: np.ndarray, old: Tokenizer, new: Tokenizer) -> tuple[np.ndarray, int]:
    """Return vectors of another vocabulary's tokens, and how many tokens both have.

    A piece that both have keeps its vector. A new one begins as the mean of the vectors of what the
    old tokenizer makes of its text; where that is nothing it knows, as the mean of all.

    Args:
        table: float32 [V, D], of the old tokenizer's ids.
        old: the tokenizer of the table.
        new: the tokenizer of what is returned, [V', D].
    """
    ids = {piece: i for i, piece in enumerate(old.pieces(range(old.vocabulary_size)))}
    pieces = new.pieces(range(new.vocabulary_size))
    found = np.empty((new.vocabulary_size, table.shape[1]), table.dtype)
    found[: UNK + 1] = table[: UNK + 1]
    kept = UNK + 1
    space = ids.get("▁")
    mean = table.mean(axis=0)
    texts = new.decode([[i] for i in range(new.vocabulary_size)])
    for i, encoded in enumerate(old.encode(texts)):
        if i <= UNK:
            continue
        if pieces[i] in ids:
            found[i] = table[ids[pieces[i]]]
            kept += 1
            continue
        # A piece from inside a word has no space before it; the old tokenizer puts one there.
        known = [j for j in encoded if j > UNK and (j != space or pieces[i].startswith("▁"))]
        found[i] = table[known].mean(axis=0) if known else mean
    return found, kept


def freeze(model: Model, patterns: Sequence[str]) -> None:
    """Leave weights out of training.

    Args:
        model: built.
        patterns: of names, as in ``encoder_*``, which takes what is inside, too, or
            ``*/self_attention/query/kernel``.

    Raises:
        UserError: no weight has such a name, or none would be trained.
    """
    weights = model.named_weights()
    for pattern in patterns:
        found = [name for name in weights if _matches(name, pattern)]
        if not found:
            near = suggest(pattern, sorted({name.split("/")[0] for name in weights}))
            raise UserError(f"training.freeze: no weight is called '{pattern}'{near}")
        for name in found:
            weights[name].trainable = False
    if not any(weight.trainable for weight in weights.values()):
        raise UserError(f"training.freeze={list(patterns)} leaves nothing to train")


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*")
