"""Translators over a run: the model itself, or one of its exports."""

from __future__ import annotations

from nmt.errors import UserError
from nmt.inference.translator import Translator
from nmt.runs.folder import RunFolder


def load_translator(folder: RunFolder, engine: str) -> Translator:
    """Load what translates.

    Args:
        folder: of the run.
        engine: "keras", or the name of an export that has an engine: "ctranslate2",
            "ctranslate2_int8" or "ctranslate2_float16".

    Raises:
        UserError: the run has no weights, or has not been exported for this engine.
    """
    if engine == "keras":
        return Translator.load(folder.path)
    place = folder.path / "exports" / engine
    if not place.is_dir():
        name, _, quantization = engine.partition("_")
        more = f" --quantization {quantization}" if quantization else ""
        raise UserError(
            f"the run has no {place}; make it: python -m nmt.export --format {name}{more} "
            f"--run {folder.path}"
        )
    from nmt.exporting.ctranslate2 import load

    return load(place)
