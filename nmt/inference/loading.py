"""The engines that a run is translated with. Loads Keras only if the Keras engine is chosen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nmt.config.decoding import ENGINES, QUANTIZATIONS
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError, read_backend
from nmt.inference.alignment import Aligner
from nmt.inference.engines import Engines
from nmt.inference.lexicon import Lexicon
from nmt.runs.checkpoint import digest_arrays
from nmt.runs.custom_model import ModelClass, check_model_class
from nmt.runs.folder import RunFolder
from nmt.startup.quiet import quiet_start

if TYPE_CHECKING:  # loads Keras
    from nmt.inference.ctranslate2_engine import CTranslate2Engine
    from nmt.inference.keras_engine import KerasEngine
    from nmt.model.contract import Model


def check_choice(name: str, value: str | None, choices: Sequence[str | None]) -> None:
    """Check that the value of an option is one of its choices.

    Raises:
        UserError: it is not.
    """
    if value not in choices:
        raise UserError(
            f"unknown {name} {value!r}; choose from: {', '.join(filter(None, choices))}"
        )


def open_runs(
    run: str | Path | RunFolder | Sequence[str | Path | RunFolder], model: ModelClass | None
) -> list[RunFolder]:
    """Return the folders of one run or several: see `nmt.inference.translator.Translator.load`.

    Raises:
        UserError: no run is given, or one does not exist.
    """
    runs = [run] if isinstance(run, str | Path | RunFolder) else run
    folders = [
        each if isinstance(each, RunFolder) else RunFolder.open(Path(each), model) for each in runs
    ]
    if not folders:
        raise UserError("give at least one run")
    return folders


def load_engines(
    folders: Sequence[RunFolder],
    tokenizer: Tokenizer,
    name: str,
    quantization: str | None,
    log: Callable[[str], object],
) -> Engines:
    """Load the best weights of a run, or of several as an ensemble.

    Args:
        folders: run folders, at least one.
        tokenizer: tokenizer of the first run.
        name: one of `ENGINES`: see `nmt.inference.translator.Translator.load`.
        quantization: one of `nmt.config.decoding.QUANTIZATIONS`; None: the run's.
        log: called with a line that names the engine.

    Returns:
        The preferred engine and, for "auto", the Keras engine: loaded when a request needs it.

    Raises:
        UserError: a name is unknown, the weights are missing, the engine cannot hold them, the runs
            have different tokenizers, a quantization is given but CTranslate2 does not search, or
            see `check_model_class`.
    """
    from nmt.formats.weights.ctranslate2 import NotConvertibleError

    check_choice("engine", name, ENGINES)
    check_choice("quantization", quantization, (None, *QUANTIZATIONS))
    for folder in folders:
        check_model_class(folder)
    if len(folders) > 1:
        return Engines(_load_ensemble(folders, tokenizer, name, quantization, log))
    [folder] = folders
    reason = ""
    if name == "keras":
        _refuse_quantization(quantization, "the engine is keras")
    if name == "auto" and _backend() != "tensorflow":
        name, reason = "keras", f", since Keras runs on {_backend()}"
    if name != "keras":
        digest = _digest_best(folder)  # before they are read: see `_load_same_weights`
        try:
            engine = _load_ctranslate2(folder, tokenizer, quantization)
        except NotConvertibleError as error:
            if name != "auto":
                raise
            reason = f": {error}"
        else:
            log(f"engine: CTranslate2, {engine.quantization}, {engine.workers} threads")
            if name != "auto":
                return Engines(engine)
            return Engines(engine, partial(_load_same_weights, folder, digest))
    _refuse_quantization(quantization, f"this run is searched by Keras{reason}")
    log(f"engine: Keras{reason}")
    return Engines(_load_keras(folder))


def _load_keras(folder: RunFolder) -> KerasEngine:
    with quiet_start():
        from nmt.inference.keras_engine import KerasEngine

        return KerasEngine(folder.load_model(), Aligner(Lexicon.load(folder.path)))


def _load_same_weights(folder: RunFolder, digest: str) -> KerasEngine:
    """Return the Keras engine with the weights that CTranslate2 was loaded with.

    Weights are compared before and after loading: training may replace them at any time.

    Args:
        folder: the run.
        digest: of its best weights, from before CTranslate2 was loaded.

    Raises:
        UserError: the weights have changed since, or cannot be loaded.
    """
    _check_unchanged(folder, digest)  # before a load that would be in vain
    engine = _load_keras(folder)
    _check_unchanged(folder, digest)
    return engine


def _check_unchanged(folder: RunFolder, digest: str) -> None:
    if _digest_best(folder) != digest:
        raise UserError(
            f"{folder.checkpoints.best} has changed since the run was loaded: load it again, or "
            "restart the service"
        )


def _digest_best(folder: RunFolder) -> str:
    """Return a digest of the best weights; empty without any."""
    best = folder.checkpoints.best
    return digest_arrays(best) if best.is_file() else ""


def _load_ensemble(
    folders: Sequence[RunFolder],
    tokenizer: Tokenizer,
    name: str,
    quantization: str | None,
    log: Callable[[str], object],
) -> KerasEngine:
    if name == "ctranslate2":
        raise UserError("the engine ctranslate2 holds one run: several need the engine keras")
    _refuse_quantization(quantization, "several runs are searched by Keras")
    for folder in folders[1:]:
        if folder.load_tokenizer().fingerprint != tokenizer.fingerprint:
            raise UserError(
                f"{folder.path} and {folders[0].path} have different tokenizers: give runs with "
                "the same tokenizer"
            )
    with quiet_start():
        from nmt.inference.ensemble import Ensemble
        from nmt.inference.keras_engine import KerasEngine

        ensemble = Ensemble([folder.load_model() for folder in folders])
        engine = KerasEngine(cast("Model", ensemble))  # has all that the engine itself uses
    log(f"engine: Keras, an ensemble of {len(folders)} models")
    return engine


def _refuse_quantization(quantization: str | None, reason: str) -> None:
    """Raise a `UserError` if a quantization is given, which only CTranslate2 can follow."""
    if quantization is not None:
        raise UserError(
            f"quantization {quantization} is for the engine ctranslate2, and {reason}: leave it out"
        )


def _load_ctranslate2(
    folder: RunFolder, tokenizer: Tokenizer, quantization: str | None
) -> CTranslate2Engine:
    from nmt.formats.weights.converted import load_or_convert
    from nmt.inference.ctranslate2_engine import CTranslate2Engine

    config = folder.config
    aligner = Aligner(Lexicon.load(folder.path))
    layer = aligner.choose_layer(config.model.decoder_layers)
    return CTranslate2Engine(
        load_or_convert(folder, tokenizer, layer),
        tokenizer,
        config.model.max_length,
        quantization=quantization or config.decoding.quantization,
        aligner=aligner,
    )


def _backend() -> str:
    """Return the backend that Keras runs on, or will run on when it is loaded."""
    keras = sys.modules.get("keras")
    if keras is not None:
        return str(keras.config.backend())
    return read_backend()
