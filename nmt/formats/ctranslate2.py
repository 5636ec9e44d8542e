"""CTranslate2: an export for `ctranslate2.Translator`, and for `load`."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
from keras import ops

from nmt.config import Config, files
from nmt.data.tokenizer import Tokenizer, load_tokenizer
from nmt.errors import UserError
from nmt.formats.comparison import Rescore
from nmt.formats.loading import make_translator
from nmt.formats.manifest import check_files
from nmt.formats.weights.ctranslate2 import NotConvertibleError, check_supported, write_model
from nmt.inference.alignment import Aligner
from nmt.inference.ctranslate2_engine import CTranslate2Engine
from nmt.inference.lexicon import Lexicon
from nmt.inference.results import Translation
from nmt.inference.translator import Translator
from nmt.model.contract import Model
from nmt.runs.folder import CONFIG_FILE


def write(
    model: Model, tokenizer: Tokenizer, config: Config, folder: Path, quantization: str
) -> None:
    """Write a float32 model for `ctranslate2.Translator`, and the configuration for `load`.

    If the folder has the run's lexicon, alignments are read from the layer that it names.

    Raises:
        UserError: see `nmt.formats.weights.ctranslate2.check_supported`.
    """
    try:
        sizes = check_supported(tokenizer, model.sizes)
    except NotConvertibleError as error:
        raise UserError(f"{error}: use --format savedmodel") from error
    weights = {
        name: np.asarray(ops.convert_to_numpy(weight))
        for name, weight in model.named_weights().items()
    }
    layer = Aligner(Lexicon.load(folder)).choose_layer(sizes.decoder_layers)
    write_model(weights, folder, sizes, tokenizer, folder, quantization, layer)
    tokenizer.save(folder)
    files.save(config, folder / CONFIG_FILE)


def load(folder: str | Path) -> Translator:
    """Return a translator for an exported folder, without the run.

    Raises:
        UserError: the folder is not such an export, or is damaged.
    """
    folder = Path(folder)
    if not (folder / "model.bin").is_file():
        raise UserError(f"{folder} is not a CTranslate2 model: it has no model.bin")
    check_files(folder)
    tokenizer = load_tokenizer(folder)
    config = files.load(folder / CONFIG_FILE)
    aligner = Aligner(Lexicon.load(folder))
    engine = CTranslate2Engine(folder, tokenizer, config.model.max_length, aligner=aligner)
    return make_translator(folder, engine, tokenizer, config)


def make_rescore(translator: Translator) -> Rescore:
    """Return a function that scores a translation with an export."""

    def rescore(source: str, translation: Translation) -> float:
        [segment] = translator.segmenter.segment(source).segments
        engine = cast(CTranslate2Engine, translator.engine)
        return float(engine.score([segment.ids], [np.array(translation.tokens[:-1])])[0].sum())

    return rescore
