"""The engine that a run is translated with. Loads no Keras, unless it is the model itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from nmt.config.decoding import ENGINES
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError
from nmt.inference.contract import Engine
from nmt.runs.folder import RunFolder
from nmt.startup.quiet import quiet_start

if TYPE_CHECKING:  # loads Keras
    from nmt.inference.ctranslate2_engine import CTranslate2Engine
    from nmt.inference.engine import KerasEngine
    from nmt.model.contract import Model


def load_engine(
    folder: RunFolder,
    tokenizer: Tokenizer,
    name: str,
    quantization: str | None,
    say: Callable[[str], object],
) -> tuple[Engine, Callable[[], KerasEngine] | None]:
    """Load an engine with the best weights of a run.

    Args:
        folder: of the run.
        tokenizer: of the run.
        name: one of `ENGINES`: see `nmt.inference.translator.Translator.load`.
        quantization: one of `nmt.config.decoding.QUANTIZATIONS`; None: as the run's configuration
            says.
        say: is told in one line which it is.

    Returns:
        (the engine, what loads the model itself for all that this one does not give: None if it
        may not be loaded).

    Raises:
        UserError: there are no weights, the engine cannot hold them, or a quantization is given and
            CTranslate2 is not what searches.
    """
    from nmt.formats.weights.ctranslate2 import NotConvertibleError

    def load_own() -> KerasEngine:
        with quiet_start():
            from nmt.inference.engine import KerasEngine

            return KerasEngine(folder.load_model())

    if name not in ENGINES:
        raise UserError(f"there is no engine {name!r}; there is: {', '.join(ENGINES)}")
    reason = ""
    if name == "keras":
        _refuse_quantization(quantization, "--engine keras is given")
    if name == "auto" and _backend() != "tensorflow":
        name, reason = "keras", f", since Keras runs on {_backend()}"
    if name != "keras":
        try:
            engine = _load_ctranslate2(folder, tokenizer, quantization)
        except NotConvertibleError as error:
            if name != "auto":
                raise
            reason = f": {error}"
        else:
            say(f"engine: CTranslate2, {engine.quantization}, {engine.parallel} threads")
            return engine, load_own if name == "auto" else None
    _refuse_quantization(quantization, f"this run is searched by the model itself{reason}")
    say(f"engine: the model itself{reason}")
    return load_own(), None


def load_ensemble(
    folders: Sequence[RunFolder],
    name: str,
    quantization: str | None,
    say: Callable[[str], object],
) -> KerasEngine:
    """Load the best weights of several runs that write together.

    Args:
        folders: of the runs.
        name: of the engine: "auto" or "keras".
        quantization: None: nothing else can be followed.
        say: is told in one line what it is.

    Raises:
        UserError: there are no weights, the runs do not have one tokenizer, or another engine or a
            quantization is asked for.
    """
    if name not in ("auto", "keras"):
        raise UserError(f"--engine {name} holds one run: several are for --engine keras")
    _refuse_quantization(quantization, "several runs are searched by the models themselves")
    first = folders[0].load_tokenizer().fingerprint
    for folder in folders[1:]:
        if folder.load_tokenizer().fingerprint != first:
            raise UserError(
                f"{folder.path} has another tokenizer than {folders[0].path}: only runs of one "
                "tokenizer can write together"
            )
    with quiet_start():
        from nmt.inference.engine import KerasEngine
        from nmt.inference.ensemble import Ensemble

        together = Ensemble([folder.load_model() for folder in folders])
        engine = KerasEngine(cast("Model", together))  # as far as an engine goes
    say(f"engine: {len(folders)} models together")
    return engine


def _refuse_quantization(quantization: str | None, reason: str) -> None:
    """Refuse what the model itself cannot follow."""
    if quantization is not None:
        raise UserError(
            f"--quantization {quantization} is for --engine ctranslate2, and {reason}: leave it out"
        )


def _load_ctranslate2(
    folder: RunFolder, tokenizer: Tokenizer, quantization: str | None
) -> CTranslate2Engine:
    from nmt.formats.weights.converted import load_or_convert
    from nmt.inference.ctranslate2_engine import CTranslate2Engine

    config = folder.config
    return CTranslate2Engine(
        load_or_convert(folder, tokenizer),
        tokenizer,
        config.model.max_length,
        quantization=quantization or config.decoding.quantization,
    )


def _backend() -> str:
    """Return what Keras runs on, or will when it is loaded."""
    keras = sys.modules.get("keras")
    if keras is not None:
        return str(keras.config.backend())
    return os.environ.get("KERAS_BACKEND", "tensorflow")
