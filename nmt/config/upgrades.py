"""What configurations of older versions lack or name differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nmt.config.noise import NoiseConfig
from nmt.config.sources import FILES, PATTERNS
from nmt.errors import UserError

# Keys that older runs lack, with the value that reproduces their behaviour.
LATER_KEYS: dict[str, dict[str, Any]] = {
    "decoding": {"quantization": "float32", "no_repeat_ngram": 0, "unit": "sentence"},
    "data": {"reverse": False, "temperature": None, "stages": [], "typical_length_ratio": 1.0}
    | {"noise": NoiseConfig.off().rates, "context": 0, "phrases": 0.0, "check_languages": False}
    | {"known_tags": []},
    "tokenizer": {"lowercase_source": False, "slots": 0},
    "model": {"lora_rank": None, "lora_on": ["*"]},
    "training": {
        "attention_every": 250,
        "deterministic": False,
        "dropout_warmup_epochs": 0,
        "evaluation_share": None,
        "freeze": [],
        "initial_embeddings": "random",
        "max_skipped": 30,
        "max_update_tokens": None,
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
# Likewise, of the kinds of models: keys that not every model has.
_LATER_KEYS_OF_KIND: dict[str, dict[str, Any]] = {
    "transformer": {
        "kind": "transformer",
        "heads": "split",
        "key_value_heads": None,
        "attention_biases": True,
        "attention_output": True,
        "qk_norm": False,
        "norm_epsilon": 1e-6,
        "output_bias": False,
    },
    "rnn": {},
}

# Version 0.1 had one corpus and no sources: kind of corpus -> keys of its source.
_CORPUS_KEYS = {
    "tatoeba": ("archive", "url", "columns"),
    "zip": ("archive", "url", "columns"),
    "tsv": ("path", "columns"),
    "parallel": ("source_path", "target_path"),
    "phrasebook": ("columns",),
}
_SINGLE_CORPUS_KEYS = {"kind", "patterns", "pattern_share"}.union(*_CORPUS_KEYS.values())

# Kinds of sources in versions 0.1 and 0.2 -> today's.
_RENAMED_KINDS = {"tatoeba": "zip", "grammar": PATTERNS, "tsv": FILES, "parallel": FILES}

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
    return LATER_KEYS | {"model": LATER_KEYS["model"] | _LATER_KEYS_OF_KIND.get(str(kind), {})}


def flatten_later_keys(*groups: str) -> dict[str, Any]:
    """Return the keys that stored groups may lack, dotted, with their values."""

    def walk(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, value in values.items():
            if isinstance(value, dict):
                yield from walk(value, f"{prefix}{key}.")
            else:
                yield prefix + key, value

    return dict(walk({group: LATER_KEYS[group] for group in groups}, ""))


def upgrade_data(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``data`` group of an older run in today's form.

    Raises:
        UserError: a stored value is invalid.
    """
    sources = stored.get("sources")
    if isinstance(sources, dict):
        return {**stored, "sources": {name: _upgrade_source(sources[name]) for name in sources}}
    if "sources" in stored or "kind" not in stored:
        return dict(stored)
    kind = str(stored["kind"])
    source = {key: stored[key] for key in _CORPUS_KEYS.get(kind, ()) if stored.get(key) is not None}
    sources = {"pairs": _upgrade_source({"kind": kind} | source)}
    if kind == "phrasebook":
        sources = {"written": sources["pairs"]}
        if patterns := stored.get("patterns"):
            share = stored.get("pattern_share", 0.5)
            if not isinstance(share, float | int):
                raise UserError(f"data.pattern_share must be a number, got {share}")
            generated = {"kind": PATTERNS, "pairs": patterns, "split": "train", "weight": share}
            sources = {"written": sources["written"] | {"weight": 1 - share}, "patterns": generated}
    data = {key: value for key, value in stored.items() if key not in _SINGLE_CORPUS_KEYS}
    return data | {"name": kind, "sources": sources}


def _upgrade_source(source: Any) -> Any:
    """Return a source with today's kind; two aligned files are one list, and have no columns."""
    if not isinstance(source, dict):
        return source
    upgraded = dict(source)
    paths = [upgraded.pop(key, None) for key in ("source_path", "target_path")]
    kind = str(source.get("kind"))
    if kind == "parallel":
        upgraded["path"] = paths
    if isinstance(upgraded.get("path"), list) or upgraded.get("members"):
        upgraded["columns"] = None  # stored for files of dev and test, but not read
    return upgraded | ({"kind": _RENAMED_KINDS[kind]} if kind in _RENAMED_KINDS else {})
