"""Targets: stored configurations and command lines."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any
from unittest import mock

from fuzz_inputs import (
    LONGEST_INPUT,
    TSV,
    WORDS,
    Prepared,
    compose_table_config,
    draw_json,
    edit,
    mutate_json,
    pick,
    rest,
    seed,
)


def prepare_config(folder: Path) -> Prepared:
    """Load stored configurations: any bytes, and a valid one with changed values."""
    import yaml
    from omegaconf import OmegaConf

    from nmt.config import files

    path = folder / "config.yaml"
    text = files.to_yaml(compose_table_config(folder))
    valid = yaml.safe_load(text)
    old = {key: value for key, value in valid["data"].items() if key != "sources"}
    old_corpus = {"kind": "phrasebook", "patterns": 8, "pattern_share": 0.5}

    def check(data: Any) -> None:
        choice = data.ConsumeIntInRange(0, 7)
        if choice == 0:
            path.write_bytes(rest(data))
        elif choice == 1:
            path.write_bytes(edit(data, text.encode()))
        else:
            values = valid if choice < 6 else valid | {"data": old | old_corpus}
            for _ in range(data.ConsumeIntInRange(1, 3)):
                values = mutate_json(data, values)
                group = pick(data, list(valid))
                if isinstance(values, dict) and group in values:
                    values = values | {group: mutate_json(data, values[group])}
            check_values(values)
            return
        check_round_trip(files.load(path))

    def check_values(values: Any) -> None:
        """Load these values without writing and parsing YAML, which takes most of the time."""
        try:
            stored = OmegaConf.create(values if isinstance(values, dict | list) else {"a": values})
        except Exception:
            return  # no YAML holds these values
        path.write_text("a: 1")
        with mock.patch.object(OmegaConf, "load", return_value=stored):
            config = files.load(path)
        check_round_trip(config)

    def check_round_trip(config: Any) -> None:
        if next(counter) % 16 == 0:  # it is slow
            files.save(config, path)
            assert files.load(path) == config, "loading a saved configuration gives another one"

    counter = itertools.count()

    seeds = [seed(text[:LONGEST_INPUT], 0), seed("name: ???\nseed: 1\n", 0), seed("- 1\n", 0)]
    seeds += [seed("a: &a [*a]\n", 0), seed("[" * 500, 0), seed("data: {kind: tatoeba}\n", 0)]
    rng = random.Random(1)
    return check, seeds + [
        seed(rng.randbytes(40), choice) for choice in range(1, 8) for _ in range(4)
    ]


def prepare_overrides(folder: Path) -> Prepared:
    """Compose a configuration from the overrides of a command line."""
    from nmt.runs.resuming import compose_config

    def check(data: Any) -> None:
        if not data.ConsumeBool():
            content = rest(data).replace(b"\0", b"").decode("utf-8", "surrogateescape")
            compose_config(content.split("\n")[:4])
            return
        # Hydra composes slowly: one override in most of the executions.
        key = pick(data, keys)
        sign = pick(data, ("", "", "", "+", "++", "~"))
        value = pick(data, WORDS) if data.ConsumeBool() else str(draw_json(data))
        compose_config([f"{sign}{key}={value}".replace("\0", "")])

    from nmt.config.schema import list_keys

    keys = [*list_keys(), "data.sources.written.weight", "data.sources.new.kind", "hydra.run.dir"]
    lines = ["\n".join([*TSV, "data.train=a.tsv"]), "model=small\n~data.dev"]
    lines += ["seed=1,2", "+a.b=1", "seed=[1"]
    lines += ["training.resume=latest", "data@x=tsv", "'a'=b", "=", "a=${b}"]
    rng = random.Random(1)
    return check, [seed(line, 0) for line in lines] + [
        seed(rng.randbytes(20), 1) for _ in range(16)
    ]
