"""Exporting a run: written, loaded as its users will load it, and compared with the run."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.config.data import list_tags
from nmt.errors import UserError
from nmt.files import replace_folder, write_json
from nmt.formats.comparison import ExportCheck, compare, read_sources
from nmt.formats.folder import check_output
from nmt.formats.manifest import MANIFEST_FILE, make_manifest
from nmt.inference.alignment import Aligner
from nmt.inference.engines import Engines
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.lexicon import LEXICON_FILE, Lexicon
from nmt.inference.quality import QUALITY_FILE
from nmt.inference.results import Translation
from nmt.inference.segments import Segment
from nmt.inference.translator import Translator
from nmt.model.contract import Model
from nmt.runs.custom_model import check_model_class, read_model_name
from nmt.runs.folder import RunFolder
from nmt.text.case import LetterCase
from nmt.text.cleaning import clean_input, clean_text
from nmt.text.context import remove_context
from nmt.text.source_words import WORDS_FILE
from nmt.text.spans import find_spans

_FORMATS_WITH_WORDS = ("ctranslate2", "keras")  # which correct typing errors and keep unseen names
_COPIED_FILES = (WORDS_FILE, LEXICON_FILE, QUALITY_FILE)  # which these formats read
_TRACED_FORMATS = ("savedmodel", "tflite")  # of any model; the others know the package's own


class ExportMismatchError(Exception):
    """The export translates differently from the run."""


def export_run(
    run: RunFolder,
    output: Path,
    format_name: str,
    *,
    quantization: str = "float32",
    beam_size: int | None = None,
    length_penalty: float | None = None,
    log: Callable[[str], None] = lambda message: None,
) -> ExportCheck:
    """Export a run; an export in float32 that translates differently is removed.

    Args:
        run: the run folder.
        output: folder of the export; another export in it is replaced.
        format_name: "savedmodel", "ctranslate2", "tflite", "keras" or "transformers".
        quantization: of the weights: "float32", "int8" or "float16".
        beam_size: of the export's search; None: the run's.
        length_penalty: of the export's search; None: the run's.
        log: called with each difference.

    Returns:
        The run and its export, compared on the run's samples.

    Raises:
        ExportMismatchError: the export translates differently; quantized ones may.
        UserError: the run has no weights, the format does not support it, or files would be lost.
    """
    check_output(output.absolute())
    config = replace_search(run.config, beam_size, length_penalty)
    check_model_class(run)
    if run.model_class is not None and format_name not in _TRACED_FORMATS:
        raise UserError(
            f"{format_name} has no model={read_model_name(run)}, a class from Python: choose from: "
            f"{', '.join(_TRACED_FORMATS)}"
        )
    model, tokenizer = run.load_model(), run.load_tokenizer()
    words = run.load_source_words() if format_name in _FORMATS_WITH_WORDS else None
    engines = Engines(KerasEngine(model, Aligner(Lexicon.load(run.path))))
    translator = Translator.from_config(engines, tokenizer, config, words=words)
    sources = select_samples(run, translator, format_name)
    scores = {name: score["value"] for name, score in run.test_scores().items()}
    with replace_folder(output) as partial:
        if format_name in _FORMATS_WITH_WORDS:
            _copy_files(run.path, partial)
        details, check = _write(
            format_name, quantization, model, translator, config, sources, partial
        )
        for difference in check.differences:
            log(str(difference))
        if check.wrong and quantization == "float32":
            raise ExportMismatchError(
                f"{len(check.wrong)} of {check.sentences} sample sentences, such as "
                f"'{check.wrong[0].source}', are not translated as the run does; nothing is "
                "kept"
            )
        content = make_manifest(partial, run.path.name, config, tokenizer, scores, check, details)
        write_json(partial / MANIFEST_FILE, content)
    return check


def select_samples(run: RunFolder, translator: Translator, format_name: str) -> list[str]:
    """Return the run's samples that the export reads alike, such as single sentences.

    The other formats neither cut texts nor leave out marks around them, tags and brackets, and
    SavedModel cuts them by simpler rules.
    """
    training = run.config.training
    sources = read_sources(
        run.samples, training.probes or [], translator.tokenizer, max(training.row_lengths)
    )
    if format_name == "savedmodel":  # reads no contexts
        tags = list_tags(run.config.data)
        sources = [remove_context(source, tags) for source in sources]
    texts = zip(sources, translator.segmenter.segment_all(sources), strict=True)
    chosen = {
        source: text.segments[0]
        for source, text in texts
        if len(text.segments) == 1
        and not text.segments[0].is_copied
        and not any(text.spaces)
        and not text.source.tags
        and not (text.segments[0].brackets.tags or text.segments[0].remarks)
        and text.segments[0].case is not LetterCase.TITLE
    }
    if format_name != "savedmodel":
        return list(chosen)
    from nmt.formats.text_in_graph import count_sentences

    counts = count_sentences(list(chosen), translator.decoding.unit)
    return [
        source
        for (source, segment), count in zip(chosen.items(), counts, strict=True)
        if count == 1 and clean_text(source) == clean_input(source) and _is_read_literally(segment)
    ]


def _is_read_literally(segment: Segment) -> bool:
    """Whether a sentence has no signs and names that a SavedModel reads otherwise."""
    text = segment.full_text
    spans = tuple(text[begin:end] for begin, end in find_spans(text))
    is_unchanged = segment.normalized is None or segment.normalized.text == segment.text
    return is_unchanged and spans == segment.spans


def _copy_files(run: Path, folder: Path) -> None:
    for name in _COPIED_FILES:
        if (run / name).is_file():
            shutil.copyfile(run / name, folder / name)


def replace_search(config: Config, beam_size: int | None, length_penalty: float | None) -> Config:
    """Return the configuration with another beam size or length penalty; None: unchanged."""
    search: dict[str, Any] = {"beam_size": beam_size, "length_penalty": length_penalty}
    changes = {key: value for key, value in search.items() if value is not None}
    return dataclasses.replace(config, decoding=dataclasses.replace(config.decoding, **changes))


def _write(
    format_name: str,
    quantization: str,
    model: Model,
    translator: Translator,
    config: Config,
    sources: Sequence[str],
    folder: Path,
) -> tuple[dict[str, Any], ExportCheck]:
    """Write the export, load it as a user does, and compare it with the run.

    Returns:
        (the format's entries in the manifest, the check on ``sources``).
    """
    details: dict[str, Any] = {"format": format_name, "quantization": quantization}
    tokenizer, rescore = translator.tokenizer, None
    if format_name == "savedmodel":
        from nmt.formats import savedmodel

        savedmodel.write(model, tokenizer, config.decoding, folder, list_tags(config.data))
        details["signature"] = savedmodel.describe_signature(
            config.model.max_length, max(config.training.row_lengths)
        )
        exported = savedmodel.translate(folder, sources)
    elif format_name == "ctranslate2":
        from nmt.formats import ctranslate2

        ctranslate2.write(model, tokenizer, config, folder, quantization)
        loaded = ctranslate2.load(folder)
        rescore = ctranslate2.make_rescore(loaded)
        exported = _translate(loaded, sources)
    elif format_name == "tflite":
        from nmt.formats import tflite

        positions = max(config.training.row_lengths)
        settings: dict[str, Any] = {"positions": positions, "quantization": quantization}
        tflite.write(model, tokenizer, config.decoding, folder, **settings)
        details["signature"] = tflite.describe_signature(positions)
        exported = tflite.translate(
            folder,
            sources,
            tags=list_tags(config.data),
            languages=config.data.languages,
            context=config.data.context,
        )
    elif format_name == "transformers":
        from nmt.formats.marian import writing

        writing.write(model, tokenizer, config, folder)
        exported = _translate(writing.load(folder, config), sources)
    elif format_name == "keras":
        from nmt.formats import keras_file

        keras_file.write(model, tokenizer, config, folder)
        exported = _translate(keras_file.load(folder), sources)
    else:
        raise ValueError(f"nothing writes the format {format_name}")
    return details, compare(sources, _translate(translator, sources), exported, rescore)


def _translate(translator: Translator, sources: Sequence[str]) -> list[Translation]:
    """Return the best translation of each source by a single search, as exports search."""
    hypotheses = translator.hypotheses(sources, no_repeat_ngram=translator.decoding.no_repeat_ngram)
    return [translations[0] for translations in hypotheses]
