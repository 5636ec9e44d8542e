"""Measure translation: sentences per second, latency, agreement. One JSON line per row.

    python scripts/bench_translate.py --run runs/latest --sentences 1000

Rows take turns (A B C A B C ...), because the speed of a shared machine drifts; every figure is a
median over turns. Sentences come from the test split of the run, or from two files. Engines:

- keras: this program's own search;
- keras without cache: the same search, every step of which reads the whole prefix anew;
- ctranslate2 float32 and int8: exports of the run, made here, where CTranslate2 is installed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PHASES = """
import time
from nmt.startup.devices import one_thread_per_operation
one_thread_per_operation()
begin = time.perf_counter()
from nmt.startup.quiet import quiet_start
with quiet_start():
    from nmt.inference.translator import Translator
imported = time.perf_counter()
with quiet_start():
    translator = Translator.load({run!r})
loaded = time.perf_counter()
translator.translate([{sentence!r}])
first = time.perf_counter()
translator.translate([{sentence!r}])
print(imported - begin, loaded - imported, first - loaded, time.perf_counter() - first)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure translation.")
    parser.add_argument("--run", type=Path, default=Path("runs/latest"))
    parser.add_argument("--source", type=Path, help="sentences; default: the run's test split")
    parser.add_argument("--reference", type=Path, help="their translations")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--single", type=int, default=100, help="sentences translated one by one")
    parser.add_argument("--uncached", type=int, default=128, help="sentences without the cache")
    arguments = parser.parse_args()

    from nmt.errors import UserError, fail
    from nmt.runs.folder import RunFolder
    from nmt.startup.commands import start_translating
    from nmt.startup.quiet import quiet_start

    start_translating()
    try:
        folder = RunFolder.open(arguments.run)
        with quiet_start():
            from nmt.data.corpus import read_parallel
            from nmt.inference.translator import Translator
            from nmt.runs.corpus import read_corpus

            translators = {"keras": Translator.load(folder.path)}
        if arguments.source:
            pairs = read_parallel(arguments.source, arguments.reference)
        else:
            pairs = read_corpus(folder, lambda message: None).test
    except UserError as error:
        fail(error)
    pairs = pairs[: arguments.sentences]
    with tempfile.TemporaryDirectory() as exports:
        translators |= exported(folder, Path(exports))
        batches(translators, pairs, arguments.turns, arguments.uncached)
        singles(translators, [pair.source for pair in pairs[: arguments.single]])
        agreement(translators, pairs)
    first_translation(folder.path, pairs[0].source)


def say(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def exported(folder: Any, where: Path) -> dict[str, Any]:
    """Export the run for CTranslate2, if that is installed, and load the exports."""
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        say(note="CTranslate2 is not installed: pip install -e '.[ctranslate2]'")
        return {}
    from nmt.exporting.ctranslate2 import load, write

    found = {}
    for quantization in ("float32", "int8"):
        path = where / quantization
        path.mkdir()
        write(folder.load_model(), folder.load_tokenizer(), folder.config, path, quantization)
        found[f"ctranslate2 {quantization}"] = load(path)
    return found


def batches(translators: dict[str, Any], pairs: Sequence[Any], turns: int, uncached: int) -> None:
    """Print sentences per second of every engine, greedy and with a beam of 5."""
    sources = [pair.source for pair in pairs]
    sides: dict[str, tuple[Callable[[Sequence[str]], Any], Sequence[str]]] = {}
    for name, translator in translators.items():
        for beam in (1, 5):
            sides[f"{name}, beam {beam}"] = (
                lambda texts, translator=translator, beam=beam: translator.translate(
                    texts, beam_size=beam
                ),
                sources,
            )
    if uncached:
        slow = without_cache(translators["keras"])
        few = sources[:: max(1, len(sources) // uncached)][:uncached]
        for beam in (1, 5):
            for name, translator in (("keras", translators["keras"]), ("without cache", slow)):
                sides[f"{name}, beam {beam}, {len(few)} sentences"] = (
                    lambda texts, translator=translator, beam=beam: translator.translate(
                        texts, beam_size=beam
                    ),
                    few,
                )
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for translate, texts in sides.values():
        translate(texts[:64])  # traces and compiles
    for _ in range(turns):
        for name, (translate, texts) in sides.items():
            begin = time.perf_counter()
            translate(texts)
            rates[name].append(len(texts) / (time.perf_counter() - begin))
    for name, found in rates.items():
        say(
            row=name,
            sentences_per_second=round(statistics.median(found), 1),
            lowest=round(min(found), 1),
            highest=round(max(found), 1),
        )
    for name in list(rates):
        for other, label in (
            (name.replace("keras", "ctranslate2 float32"), "keras over ctranslate2 float32"),
            (name.replace("keras", "without cache"), "keras over keras without cache"),
        ):
            if name.startswith("keras") and other != name and other in rates:
                ratios = [a / b for a, b in zip(rates[name], rates[other], strict=True)]
                say(ratio=f"{label}: {name}", median=round(statistics.median(ratios), 3))


def without_cache(translator: Any) -> Any:
    """Return a translator whose every step decodes the whole prefix again."""
    from keras import ops

    from nmt.inference.engine import KerasEngine
    from nmt.inference.translator import Translator
    from nmt.model.attention import causal_mask

    model = translator.engine.model

    class Read(NamedTuple):
        prefixes: Any  # int32 [B, k, T]
        memory: Any  # [B, S, D]
        mask: Any  # bool [B, 1, 1, S]

    class Uncached:
        """The model with prefixes in the place of a cache: a `nmt.model.contract.Decoder`."""

        max_length = model.max_length
        vocabulary_size = model.vocabulary_size

        def start(self, source: Any, *, hypotheses: int, max_length: Any, **_: Any) -> Read:
            mask = ops.not_equal(source, 0)[:, None, None, :]
            shape = (ops.shape(source)[0], hypotheses, max_length)
            return Read(ops.zeros(shape, "int32"), model.encode(source, mask)[0], mask)

        def step(self, tokens: Any, index: Any, state: Read) -> tuple[Any, Read]:
            prefixes = ops.slice_update(state.prefixes, (0, 0, index), tokens[:, :, None])
            batch, k = ops.shape(prefixes)[0], ops.shape(prefixes)[1]
            flat = ops.reshape(prefixes[:, :, : index + 1], (batch * k, index + 1))
            memory, mask = (ops.repeat(part, k, axis=0) for part in (state.memory, state.mask))
            logits, _, _ = model.decode(flat, memory, causal_mask(index + 1), mask)
            last = ops.reshape(logits[:, -1], (batch, k, model.vocabulary_size))
            return last, state._replace(prefixes=prefixes)

        def reorder(self, state: Read, parents: Any) -> Read:
            chosen = ops.take_along_axis(state.prefixes, parents[:, :, None], axis=1)
            return state._replace(prefixes=chosen)

        def room(self, state: Read) -> Any:
            return ops.shape(state.prefixes)[2]

        def grow(self, state: Read, positions: Any) -> Read:
            batch, k = ops.shape(state.prefixes)[0], ops.shape(state.prefixes)[1]
            more = ops.zeros((batch, k, positions), "int32")
            return state._replace(prefixes=ops.concatenate([state.prefixes, more], axis=2))

        def growing_axes(self, state: Read) -> Read:
            return Read(prefixes=2, memory=-1, mask=-1)

    engine = KerasEngine(model)
    engine.model = Uncached()
    return Translator(engine, translator.tokenizer, translator.decoding)


def singles(translators: dict[str, Any], sources: Sequence[str]) -> None:
    """Print the latency of one sentence at a time, beam 4, warm."""
    times: dict[str, list[float]] = {name: [] for name in translators}
    for translator in translators.values():
        for source in sources[:3]:
            translator.translate([source], beam_size=4)
    for source in sources:
        for name, translator in translators.items():
            begin = time.perf_counter()
            translator.translate([source], beam_size=4)
            times[name].append(1e3 * (time.perf_counter() - begin))
    for name, found in times.items():
        say(
            row=f"{name}, one sentence, beam 4",
            median_ms=round(statistics.median(found), 2),
            p95_ms=round(sorted(found)[int(0.95 * len(found))], 2),
        )


def agreement(translators: dict[str, Any], pairs: Sequence[Any]) -> None:
    """Print BLEU of each engine at beam 4, and how many outputs equal those of the run itself."""
    from nmt.inference.metrics import corpus_scores

    expected: list[str] = []
    for name, translator in translators.items():
        outputs = translator.translate([pair.source for pair in pairs], beam_size=4)
        expected = expected or outputs
        bleu = corpus_scores(outputs, [pair.target for pair in pairs], names=("BLEU",))[0]
        same = sum(one == two for one, two in zip(outputs, expected, strict=True))
        say(
            row=f"{name}, beam 4",
            bleu=round(bleu.value, 2),
            same_as_keras=round(same / len(pairs), 4),
            different=[
                {"source": pair.source, "keras": one, name: two}
                for pair, one, two in zip(pairs, expected, outputs, strict=True)
                if one != two
            ][:10],
        )


def first_translation(run: Path, sentence: str) -> None:
    """Print how long a fresh process takes to its first translation, and where the time goes."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "nmt.translate", "--run", str(run), sentence]
    subprocess.run(command, check=True, capture_output=True)
    whole = time.perf_counter() - begin
    code = PHASES.format(run=str(run), sentence=sentence)
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    phases = dict(
        zip(
            ("imports_s", "loading_s", "first_search_s", "second_search_s"),
            (round(float(seconds), 2) for seconds in result.stdout.split()),
            strict=True,
        )
    )
    say(row="first translation of a fresh process", seconds=round(whole, 2), **phases)


if __name__ == "__main__":
    main()
