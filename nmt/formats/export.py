"""A run into a format, loaded again as its users will load it, and compared with the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.files import write_json
from nmt.formats import manifest
from nmt.formats.folder import MANIFEST_FILE, replace_folder
from nmt.formats.manifest import Check
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.results import Translation
from nmt.inference.translator import Translator
from nmt.model.contract import Model
from nmt.runs.folder import RunFolder


class ExportMismatchError(Exception):
    """What was written translates otherwise than the run."""


def export_run(
    folder: RunFolder,
    place: Path,
    format_name: str,
    *,
    quantization: str = "float32",
    beam_size: int | None = None,
    length_penalty: float | None = None,
    log: Callable[[str], None] = lambda message: None,
) -> Check:
    """Export a run; nothing is kept of what translates otherwise than the run.

    Args:
        folder: of the run.
        place: folder of the export; another export in it is replaced.
        format_name: "savedmodel", "ctranslate2", "tflite", "keras" or "transformers".
        quantization: of the weights: "float32", "int8" or "float16".
        beam_size: of the export's search; None: the run's.
        length_penalty: the same.
        log: takes what differs.

    Returns:
        The comparison of the run's samples.

    Raises:
        ExportMismatchError: the export translates otherwise, which quantized weights may.
        UserError: the run has no weights, or the format cannot hold it.
    """
    config = replace_search(folder.config, beam_size, length_penalty)
    model, tokenizer = folder.load_model(), folder.load_tokenizer()
    longest = max(config.training.row_lengths)
    translator = Translator.from_config(KerasEngine(model), tokenizer, config)
    probes = config.training.probes or []
    sources = manifest.read_samples(folder.samples, probes, tokenizer, longest)
    scores = {name: score["value"] for name, score in folder.test_scores().items()}
    with replace_folder(place) as partial:
        details, check = _write(
            format_name, quantization, model, translator, config, sources, partial
        )
        for difference in check.different:
            log(str(difference))
        if check.wrong and quantization == "float32":
            raise ExportMismatchError(
                f"{len(check.wrong)} of {check.sentences} sample sentences, such as "
                f"'{check.wrong[0].source}', are not translated as the run does; nothing is kept"
            )
        content = manifest.make_manifest(
            partial, folder.path.name, config, tokenizer, scores, check, details
        )
        write_json(partial / MANIFEST_FILE, content)
    return check


def replace_search(config: Config, beam_size: int | None, length_penalty: float | None) -> Config:
    """Return the configuration with another search where one is asked for."""
    asked = {"beam_size": beam_size, "length_penalty": length_penalty}
    given: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
    return dataclasses.replace(config, decoding=dataclasses.replace(config.decoding, **given))


def _write(
    format_name: str,
    quantization: str,
    model: Model,
    translator: Translator,
    config: Config,
    sources: Sequence[str],
    folder: Path,
) -> tuple[dict[str, Any], Check]:
    """Write the export, load it as a user does, and compare it with the run.

    Returns:
        (what the format adds to the manifest, the comparison of ``sources``).
    """
    details: dict[str, Any] = {"format": format_name, "quantization": quantization}
    tokenizer, rescore = translator.tokenizer, None
    if format_name == "savedmodel":
        from nmt.formats import savedmodel

        savedmodel.write(model, tokenizer, config.decoding, folder)
        details["signature"] = savedmodel.describe_signature(config.model.max_length)
        found = savedmodel.translate(folder, sources)
    elif format_name == "ctranslate2":
        from nmt.formats import ctranslate2

        ctranslate2.write(model, tokenizer, config, folder, quantization)
        loaded = ctranslate2.load(folder)
        rescore = ctranslate2.make_rescore(loaded)
        found = _best(loaded, sources)
    elif format_name == "tflite":
        from nmt.formats import tflite

        positions = max(config.training.row_lengths)
        settings: dict[str, Any] = {"positions": positions, "quantization": quantization}
        tflite.write(model, tokenizer, config.decoding, folder, **settings)
        details["signature"] = tflite.describe_signature(positions)
        found = tflite.translate(folder, sources)
    elif format_name == "transformers":
        from nmt.formats.marian import writing

        writing.write(model, tokenizer, config, folder)
        found = _best(writing.load(folder), sources)
    else:
        from nmt.formats import keras_file

        keras_file.write(model, tokenizer, config, folder)
        found = _best(keras_file.load(folder), sources)
    return details, manifest.compare(sources, _best(translator, sources), found, rescore)


def _best(translator: Translator, sources: Sequence[str]) -> list[Translation]:
    """Return the best translation of each source."""
    return [hypotheses[0] for hypotheses in translator.hypotheses(sources)]
