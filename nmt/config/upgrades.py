"""What configurations of older versions lack or name differently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nmt.config.noise import NoiseConfig
from nmt.config.sources import FILES, PATTERNS
from nmt.errors import UserError

# Keys that older runs lack, with the value that reproduces their behaviour.
LATER_KEYS: dict[str, dict[str, Any]] = {
    "decoding": {"quantization": "float32", "no_repeat_ngram": 0, "unit": "sentence"},
    "data": {"reverse": False, "temperature": None, "stages": [], "typical_length_ratio": 1.0}
    | {"noise": NoiseConfig.off().rates, "context": 0, "check_languages": False},
    "tokenizer": {"lowercase_source": False, "slots": 0},
    "model": {"lora_rank": None, "lora_on": ["*"]},
    "training": {
        "attention_every": 250,
        "deterministic": False,
        "dropout_warmup_epochs": 0,
        "evaluation_share": None,
        "freeze": [],
        "max_skipped": 30,
        "new_vocabulary": False,
        "on_spike": "skip",
        "spike_factor": None,
        "stop_behind": None,
        "update_tokens": None,
        "devices": "auto",
        "parallel_parts": 1,
        "start_from": None,
        "tokenizer_lines": 500_000,
        "word_dropout": 0,
    },
}
_LATER_TRANSFORMER_KEYS: dict[str, Any] = {
    "kind": "transformer",
    "heads": "split",
    "key_value_heads": None,
    "attention_biases": True,
    "attention_output": True,
    "qk_norm": False,
    "norm_epsilon": 1e-6,
    "output_bias": False,
}

# Keys of the ``data`` group in version 0.1, which had one corpus and no sources.
_FILE_KEYS = {  # of each kind of corpus
    "zip": ("archive", "url", "columns"),
    "tsv": ("path", "columns"),
    "parallel": ("source_path", "target_path"),
    "phrasebook": ("columns",),
}
_SINGLE_CORPUS_KEYS = {
    *("kind", "patterns", "pattern_share"),
    *(key for keys in _FILE_KEYS.values() for key in keys),
}

# Keys of older versions -> what to write today.
RENAMED_KEYS = {
    "data.kind": "data.sources.NAME.kind (or choose a corpus: data=files)",
    "data.path": "data.train (or data.sources.NAME.path)",
    "data.source_path": "data.train=SOURCE_FILE,TARGET_FILE",
    "data.target_path": "data.train=SOURCE_FILE,TARGET_FILE",
    "data.patterns": "data.sources.patterns.pairs",
    "data.pattern_share": "data.sources.patterns.weight and data.sources.written.weight",
}


def list_later_keys(stored: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the keys that a stored configuration may lack, with their values, by group."""
    model = stored.get("model")
    # Before models had kinds, all were transformers.
    kind = model.get("kind", "transformer") if isinstance(model, Mapping) else None
    transformer_keys = _LATER_TRANSFORMER_KEYS if kind == "transformer" else {}
    return LATER_KEYS | {"model": LATER_KEYS["model"] | transformer_keys}


def upgrade_data(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``data`` group of an older run in today's form.

    Version 0.1 had one corpus and no sources; 0.2 had the kinds ``grammar``, ``tsv`` and
    ``parallel``.

    Raises:
        UserError: a stored value is invalid.
    """
    if isinstance(stored.get("sources"), dict):
        return {**stored, "sources": _rename_kinds(stored["sources"])}
    if "sources" in stored or "kind" not in stored:
        return dict(stored)
    corpus = str(stored["kind"])
    kind = "zip" if corpus == "tatoeba" else corpus
    keys = [key for key in _FILE_KEYS.get(kind, ()) if stored.get(key) is not None]
    source = {"kind": kind} | {key: stored[key] for key in keys}
    sources = {"pairs": source}
    if corpus == "phrasebook":
        sources = {"written": source}
        if stored.get("patterns"):
            share = stored.get("pattern_share", 0.5)
            if not isinstance(share, float | int):
                raise UserError(f"data.pattern_share must be a number, got {share}")
            source["weight"] = 1 - share
            sources["patterns"] = {
                "kind": PATTERNS,
                "pairs": stored["patterns"],
                "split": "train",
                "weight": share,
            }
    data = {key: value for key, value in stored.items() if key not in _SINGLE_CORPUS_KEYS}
    return data | {"name": corpus, "sources": _rename_kinds(sources)}


def _rename_kinds(sources: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return sources with today's kinds; two aligned files are one list of them."""
    renamed = {}
    for name, source in sources.items():
        if isinstance(source, dict):
            paths = [source.get("source_path"), source.get("target_path")]
            kinds = {"grammar": PATTERNS, "tsv": FILES, "parallel": FILES}
            kind = source.get("kind")
            source = {k: v for k, v in source.items() if k not in ("source_path", "target_path")}
            if kind in kinds:
                source["kind"] = kinds[kind]
            if kind == "parallel":
                source["path"] = paths
        renamed[name] = source
    return renamed
