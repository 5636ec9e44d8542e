"""Targets: attention records, event files and the dashboard that reads them."""

from __future__ import annotations

import io
import json
import random
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

from fuzz_inputs import TEXTS, Prepared, draw_text, edit, mutate_json, pick, rest, seed


def prepare_records(folder: Path) -> Prepared:
    """Decode attention records as training logs them."""
    import numpy as np

    from nmt.viewer import records

    axes = {"source": ["▁a", "</s>"], "target_in": ["<s>", "▁b"], "target_out": ["▁b", "</s>"]}
    kind = SimpleNamespace(name="cross", title="t", rows="target_out", columns="source")
    viewed = SimpleNamespace(
        kinds=(kind,), weights={"cross": np.full((1, 2, 2, 2), 0.5)}, tokens=axes.__getitem__
    )
    valid = records.encode("a", viewed)
    preamble = struct.Struct("<4sIII")
    size = preamble.unpack_from(valid)[3]
    header, weights = valid[preamble.size :][:size], valid[preamble.size + size :]

    def seal(header: bytes, weights: bytes) -> bytes:
        content = header + weights
        return preamble.pack(b"ATTN", 1, zlib.crc32(content), len(header)) + content

    def check(data: Any) -> None:
        choice = data.ConsumeIntInRange(0, 4)
        if choice == 0:
            record = rest(data)
        elif choice == 1:
            record = edit(data, valid)
        elif choice == 2:
            record = seal(rest(data), b"")
        elif choice == 3:
            record = seal(json.dumps(mutate_json(data, json.loads(header))).encode(), weights)
        else:
            check_tags(data)
            return
        try:
            decoded = records.decode(record)
        except ValueError:
            return
        for array in decoded.weights.values():
            assert array.ndim == 4
            assert array.dtype == np.float32

    def check_tags(data: Any) -> None:
        number = data.ConsumeIntInRange(1, 1 << 20)
        text = draw_text(data)
        assert records.parse_tag(records.tag(number, text)) == (number, text)
        try:
            _, sentence = records.parse_tag(text)
        except ValueError:
            return
        assert text.endswith(sentence)

    seeds = [seed(valid, 0), seed(header, 2), seed("attention/probe_1/a b", 4, 0, 0, 1, 1)]
    rng = random.Random(1)
    return check, seeds + [seed(rng.randbytes(30), choice) for choice in (1, 3) for _ in range(8)]


def prepare_events(folder: Path) -> Prepared:
    """Write names of files and sentences to event files."""
    from nmt.training.events import EventWriter
    from nmt.viewer.records import tag

    def check(data: Any) -> None:
        step = data.ConsumeIntInRange(0, 1 << 40)
        text = draw_text(data)
        with EventWriter(folder / "logs", purge_step=step) as events:
            events.blob(tag(1, text), text.encode("utf-8", "replace"), step, plugin="plugin")
            events.text("samples", text, step)
            events.hparams({"data.path": text, "data.columns": [0, 1], "seed": step})
        for path in (folder / "logs").iterdir():
            path.unlink()

    return check, [seed(text, 0, 0, 0, 0, 0, 0, 1) for text in (*TEXTS, b"\xff", "\0")]


def prepare_dashboard(folder: Path) -> Prepared:
    """Send requests to the TensorBoard plugin, about any event files."""
    from tensorboard import errors

    from nmt.analysis.dashboard import links
    from nmt.analysis.dashboard.plugin import AttentionPlugin

    methods = links._METHODS_BY_RUN
    points = [SimpleNamespace(step=1, wall_time=1.0, values=[SimpleNamespace(blob_key="key")])]

    def provide(listed: dict[str, dict[str, Any]]) -> Any:
        """Return a stand-in for TensorBoard's data provider."""
        runs = [SimpleNamespace(run_name=name) for name in listed]
        read = {run: dict.fromkeys(tags, points) for run, tags in listed.items()}
        nothing: dict[str, Any] = dict.fromkeys(methods, lambda *_, **__: {})
        return SimpleNamespace(
            **nothing
            | {
                "list_runs": lambda *_, **__: runs,
                "list_blob_sequences": lambda *_, **__: listed,
                "read_blob_sequences": lambda *_, **__: read,
                "read_blob": lambda *_, **__: b"ATTN",
            }
        )

    def check(data: Any) -> None:
        names = [pick(data, ("run", ".", "../x", "a b")) for _ in range(2)]
        path = pick(data, ("/runs", "/steps", "/record"))
        is_raw = data.ConsumeBool()
        text = rest(data).decode("utf-8", "replace")
        tags = text.split("\n")[:3]
        data_provider = provide(
            {name: {tag: SimpleNamespace(max_wall_time=1.0) for tag in tags} for name in names}
        )
        links.hide_links(data_provider, str(folder))
        plugin = AttentionPlugin(SimpleNamespace(data_provider=data_provider))
        query = {"run": names[0], "sentence": tags[0], "step": "1"}
        environ = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": path,
            "QUERY_STRING": text.encode().decode("latin-1") if is_raw else urlencode(query),
            "SERVER_NAME": "here",
            "SERVER_PORT": "80",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(),
        }
        statuses: list[str] = []
        try:
            answer = plugin.get_plugin_apps()[path](
                environ, lambda status, _: statuses.append(status)
            )
            b"".join(answer)
        except errors.PublicError:
            return  # TensorBoard answers 4xx
        assert statuses[0].startswith("200")

    tags = ["attention/probe_1/a", "attention/probe_2/a\nattention/probe_1/b/c", "other", ""]
    queries = ["run=run&sentence=a&step=1", "run=run&sentence=%ff&step=x", "step=1"]
    seeds = [seed(tag, 0, 0, n, 0) for tag in tags for n in range(3)]
    return check, seeds + [seed(query, 0, 0, n, 1) for query in queries for n in range(3)]
