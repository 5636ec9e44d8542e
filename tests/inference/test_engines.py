"""The Keras engine behind a preferred one, for several threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from nmt.inference.contract import Engine
from nmt.inference.engines import Engines

if TYPE_CHECKING:
    from nmt.inference.keras_engine import KerasEngine


def test_two_threads_load_the_keras_engine_once() -> None:
    loaded: list[KerasEngine] = []
    both = threading.Barrier(2)

    def load() -> KerasEngine:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)  # seconds, for a second call
        loaded.append(cast("KerasEngine", object()))
        return loaded[-1]

    engines = Engines(cast(Engine, SimpleNamespace(keras_engine=None)), load)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(engines.keras, ["attention", "sampling"]))
    assert results == loaded * 2
    assert len(loaded) == 1
