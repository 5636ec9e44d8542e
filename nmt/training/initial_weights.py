"""The initial weights of a run, and the choice of those that are trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from nmt.config import Config
from nmt.data.batches import BatchPlan
from nmt.data.tokenizer import UNK, Tokenizer
from nmt.errors import UserError, suggest
from nmt.model.contract import Model
from nmt.model.transformer import Transformer
from nmt.runs.building import assign_weights, choose_weights
from nmt.runs.checkpoint import write_arrays
from nmt.runs.folder import RunFolder
from nmt.training.initial_embeddings import initialize_embeddings, initialize_residual_branches
from nmt.training.process_group import ProcessGroup


def initialize_weights(
    model: Model,
    config: Config,
    run: RunFolder,
    tokenizer: Tokenizer,
    plan: BatchPlan,
    process_group: ProcessGroup,
    log: Callable[[str], object],
) -> None:
    """Load or compute the initial weights of a model, add its adapters, and freeze weights.

    Frozen weights are stored once, in the run's folder; checkpoints do not contain them.

    Args:
        model: freshly built.
        config: the configuration of the run, new or resumed.
        run: the run's folder.
        tokenizer: the run's tokenizer.
        plan: the batches of the first stage.
        process_group: the main process stores frozen weights.
        log: called with the origin of the weights.

    Raises:
        UserError: the weights of the source run do not fit, or the stored frozen ones are damaged.
    """
    training = config.training
    if training.resume is None:
        if training.start_from is not None:
            log(load_start_weights(model, RunFolder.open(Path(training.start_from)), tokenizer))
        elif training.initial_embeddings == "cooccurrence":
            initialize_embeddings(model.embedding.table, plan, run.path, process_group, log)
            if isinstance(model, Transformer):
                initialize_residual_branches(model)
    if config.model.lora_rank is not None:
        try:
            model.add_adapters(config.model.lora_rank, config.model.lora_on)
        except ValueError as error:
            raise UserError(f"model.lora_on: {error}") from error
    freeze(model, training.freeze)
    trained = model.trained_weights()
    frozen = {name: w for name, w in model.named_weights().items() if name not in trained}
    if not frozen:
        return
    path = run.checkpoints.start
    if training.resume is None:
        if process_group.is_main_process:
            write_arrays(path, {f"model/{name}": np.asarray(w) for name, w in frozen.items()}, {})
    else:
        arrays = run.checkpoints.read_start()
        stored = {name.removeprefix("model/"): array for name, array in arrays.items()}
        assign_weights(frozen, stored, path)


def load_start_weights(model: Model, source: RunFolder, tokenizer: Tokenizer) -> str:
    """Load the best weights of another run into a model; return a message about them.

    Args:
        model: a model with the sizes of the other run.
        source: the other run.
        tokenizer: this run's tokenizer; if it is another one, `transfer_rows` makes the vectors.

    Raises:
        UserError: the other run has no weights, or they do not fit.
    """
    arrays, path = source.load_weights()
    weights = choose_weights(arrays)
    message = f"starting from the weights of {source.path}"
    old = source.load_tokenizer()
    if old.fingerprint != tokenizer.fingerprint:
        shared, by_piece = 0, (model.embedding.table, model.embedding.bias)  # a row for each piece
        for name, weight in model.named_weights().items():
            if name in weights and any(weight is each for each in by_piece):
                weights[name], shared = transfer_rows(weights[name], old, tokenizer)
        message += (
            f"; {shared:,} of {tokenizer.vocabulary_size:,} pieces are also in its vocabulary"
        )
    assign_weights(model.named_weights(), weights, path)
    return message


def transfer_rows(table: np.ndarray, old: Tokenizer, new: Tokenizer) -> tuple[np.ndarray, int]:
    """Return the rows of another vocabulary [V', ...], and the number of shared pieces.

    A shared piece keeps its row. A new piece gets the mean of the rows of the old pieces that its
    text is cut into; if they are all unknown, the mean of all pieces.

    Args:
        table: float32 [V, ...], the vectors or biases of the old tokenizer's pieces.
        old: the tokenizer of the table.
        new: the tokenizer of the result.
    """
    ids = {piece: i for i, piece in enumerate(old.pieces(range(old.vocabulary_size)))}
    pieces = new.pieces(range(new.vocabulary_size))
    rows = np.empty((new.vocabulary_size, *table.shape[1:]), table.dtype)
    rows[: UNK + 1] = table[: UNK + 1]
    shared = UNK + 1
    space = ids.get("▁")
    mean = table[UNK + 1 :].mean(axis=0)  # models of MarianMT never write padding: a bias of -1e9
    texts = new.decode([[i] for i in range(new.vocabulary_size)])
    # As in targets: sources may be lower-cased, and have no capitals then.
    for i, encoded in enumerate(old.target.encode(texts)):
        if i <= UNK:
            continue
        if pieces[i] in ids:
            rows[i] = table[ids[pieces[i]]]
            shared += 1
            continue
        # The old tokenizer puts a space before every text, which a piece inside a word lacks.
        parts = [j for j in encoded if j > UNK and (j != space or pieces[i].startswith("▁"))]
        rows[i] = table[parts].mean(axis=0) if parts else mean
    return rows, shared


def freeze(model: Model, patterns: Sequence[str]) -> None:
    """Exclude weights from training.

    Args:
        model: built.
        patterns: patterns of weight names such as ``*/self_attention/query/kernel``, or of the
            layers that contain them, such as ``encoder_*``.

    Raises:
        UserError: a pattern matches no weight, or no weight is left to train.
    """
    weights = model.named_weights()
    for pattern in patterns:
        names = [name for name in weights if _matches(name, pattern)]
        if not names:
            near = suggest(pattern, sorted({name.split("/")[0] for name in weights}))
            raise UserError(f"training.freeze: no weight matches '{pattern}'{near}")
        for name in names:
            weights[name].trainable = False
    if not any(weight.trainable for weight in weights.values()):
        raise UserError(f"training.freeze={list(patterns)} leaves nothing to train")


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*")
