"""The manifest of an export: its content; see `test_folder` for its checks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nmt.config import Config
from nmt.formats.comparison import Difference, ExportCheck
from nmt.formats.manifest import MANIFEST_FILE, make_manifest


def test_content(tmp_path: Path, compose: Callable[..., Config]) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "weights").write_bytes(b"123")
    (tmp_path / MANIFEST_FILE).touch()
    tokenizer: Any = SimpleNamespace(vocabulary_size=30, fingerprint="f", slots=8, lowercases=True)
    difference = Difference("a", "b", -1.0, "c", -2.0, "search")
    content = make_manifest(
        tmp_path,
        "the run",
        compose("decoding.beam_size=7"),
        tokenizer,
        {"BLEU": 50.1},
        ExportCheck(3, [difference]),
        {"format": "some", "quantization": "int8"},
    )
    assert json.loads(json.dumps(content)) == {
        "format": "some",
        "quantization": "int8",
        "nmt": version("nmt"),
        "run": "the run",
        "scores": {"BLEU": 50.1},
        "source_language": "es",
        "target_language": "en",
        "tokenizer": {
            "kind": "bpe",
            "fingerprint": "f",
            "vocabulary_size": 30,
            "slots": 8,
            "lowercases": True,
        },
        "positions": 256,
        "decoding": content["decoding"],
        "check": {
            "sentences": 3,
            "equal": 2,
            "different": [
                {
                    "source": "a",
                    "run": "b",
                    "run_log_prob": -1.0,
                    "export": "c",
                    "export_log_prob": -2.0,
                    "cause": "search",
                }
            ],
        },
        "files": {"deep/weights": hashlib.sha256(b"123").hexdigest()},
    }
    assert content["decoding"]["beam_size"] == 7
