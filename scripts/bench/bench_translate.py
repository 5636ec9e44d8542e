"""Measure translation: sentences per second, latency, agreement. Prints one JSON line per row.

    python scripts/bench/bench_translate.py --run runs/latest --sentences 1000

Rows take turns (A B C A B C ...), because the speed of a shared machine drifts; every figure is a
median over turns. Sentences come from the test split of the run, or from two files. Engines:

- keras: this program's search;
- keras without cache: the same search, but every step reads the whole prefix again;
- ctranslate2 float32 and int8: the engine of `--engine auto`, and its quantized version;
- with --peers, transformers: `generate` of Hugging Face with the weights of the run, if
  `transformers` and `torch` are installed and support the model: pre-norm; relu, relu2 or gelu;
  `model.positions=sinusoidal model.qk_norm=false`, which `compact` has not by default;

With --lines FILE, the whole command on that file is compared with CTranslate2's `translate_batch`,
which is called with tokens; its loading is not counted. The start of a process is measured
separately.
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
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from transformers_peer import PeerError, load_peer

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
    translator = Translator.load({run!r}, engine={engine!r})
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
    parser.add_argument("--peers", action="store_true", help="also measure other toolkits")
    parser.add_argument("--lines", type=Path, help="file for the whole command")
    arguments = parser.parse_args()

    from nmt.config.decoding import QUANTIZATIONS
    from nmt.errors import UserError, fail
    from nmt.runs.folder import RunFolder
    from nmt.startup.commands import set_up_translation
    from nmt.startup.quiet import quiet_start

    set_up_translation()
    try:
        folder = RunFolder.open(arguments.run)
        with quiet_start():
            from nmt.data.evaluation_sets import read_parallel
            from nmt.inference.translator import Translator
            from nmt.runs.corpus import read_corpus

            translators: dict[str, Any] = {"keras": Translator.load(folder.path, engine="keras")}
            for quantization in QUANTIZATIONS:
                translators[f"ctranslate2 {quantization}"] = Translator.load(
                    folder.path, engine="ctranslate2", quantization=quantization
                )
        if arguments.source:
            pairs = read_parallel(arguments.source, arguments.reference)
        else:
            pairs = read_corpus(folder, lambda message: None).test
    except UserError as error:
        fail(error)
    pairs = pairs[: arguments.sentences]
    if arguments.peers:
        try:
            translators["transformers"] = load_peer(translators["keras"])
        except PeerError as error:
            print_row(note=f"no peer is measured: {error}")
    batches(translators, pairs, arguments.turns, arguments.uncached)
    singles(translators, [pair.source for pair in pairs[: arguments.single]])
    agreement(translators, pairs, folder.config.data.languages[1])
    for engine in ("auto", "keras"):
        first_translation(folder.path, pairs[0].source, engine)
    if arguments.lines:
        whole_command(folder, arguments.lines, arguments.turns)


def print_row(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def batches(translators: dict[str, Any], pairs: Sequence[Any], turns: int, uncached: int) -> None:
    """Print sentences per second of every engine, greedy and with a beam of 5."""
    sources = [pair.source for pair in pairs]
    rows: dict[str, tuple[Callable[[Sequence[str]], Any], Sequence[str]]] = {}
    for name, translator in translators.items():
        for beam in (1, 5):
            translate = partial(translator.translate, beam_size=beam)
            rows[f"{name}, beam {beam}"] = (translate, sources)
    if uncached:
        slow = without_cache(translators["keras"])
        few = sources[:: max(1, len(sources) // uncached)][:uncached]
        for beam in (1, 5):
            for name, translator in (("keras", translators["keras"]), ("without cache", slow)):
                translate = partial(translator.translate, beam_size=beam)
                rows[f"{name}, beam {beam}, {len(few)} sentences"] = (translate, few)
    rates: dict[str, list[float]] = {name: [] for name in rows}
    for translate_texts, texts in rows.values():
        translate_texts(texts[:64])  # traces and compiles
    for _ in range(turns):
        for name, (translate_texts, texts) in rows.items():
            begin = time.perf_counter()
            translate_texts(texts)
            rates[name].append(len(texts) / (time.perf_counter() - begin))
    for name, values in rates.items():
        print_row(
            row=name,
            sentences_per_second=round(statistics.median(values), 1),
            lowest=round(min(values), 1),
            highest=round(max(values), 1),
        )
    for name in list(rates):
        for other, label in (
            (name.replace("keras", "ctranslate2 float32"), "keras over ctranslate2 float32"),
            (name.replace("keras", "without cache"), "keras over keras without cache"),
            (name.replace("keras", "transformers"), "keras over transformers"),
        ):
            if name.startswith("keras") and other != name and other in rates:
                ratios = [a / b for a, b in zip(rates[name], rates[other], strict=True)]
                print_row(ratio=f"{label}: {name}", median=round(statistics.median(ratios), 3))


def without_cache(translator: Any) -> Any:
    """Return a translator that decodes the whole prefix again at every step."""
    from keras import ops

    from nmt.inference.engines import Engines
    from nmt.inference.keras_engine import KerasEngine
    from nmt.inference.translator import Translator
    from nmt.model.masks import causal_mask

    model = translator.engine.model

    class Read(NamedTuple):
        prefixes: Any  # int32 [B, k, T]
        memory: Any  # [B, S, D]
        mask: Any  # bool [B, 1, 1, S]

    class Uncached:
        """The model with prefixes instead of a cache: a `nmt.model.contract.Decoder`."""

        max_length = model.max_length
        vocabulary_size = model.vocabulary_size

        def start(self, source: Any, *, beam_size: int, max_length: Any, **_: Any) -> Read:
            mask = ops.not_equal(source, 0)[:, None, None, :]
            shape = (ops.shape(source)[0], beam_size, max_length)
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

        def capacity(self, state: Read) -> Any:
            return ops.shape(state.prefixes)[2]

        def grow(self, state: Read, positions: Any) -> Read:
            batch, k = ops.shape(state.prefixes)[0], ops.shape(state.prefixes)[1]
            more = ops.zeros((batch, k, positions), "int32")
            return state._replace(prefixes=ops.concatenate([state.prefixes, more], axis=2))

        def growing_axes(self, state: Read) -> Read:
            return Read(prefixes=2, memory=-1, mask=-1)

    engine = KerasEngine(model)
    engine._programs = type(engine._programs)(cast("Any", Uncached()))
    return Translator(Engines(engine), translator.tokenizer, translator.decoding)


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
    for name, values in times.items():
        print_row(
            row=f"{name}, one sentence, beam 4",
            median_ms=round(statistics.median(values), 2),
            p95_ms=round(sorted(values)[int(0.95 * len(values))], 2),
        )


def agreement(translators: dict[str, Any], pairs: Sequence[Any], language: str) -> None:
    """Print BLEU of each engine at beam 4, and the share of outputs equal to those of keras."""
    from nmt.inference.metrics import corpus_scores

    expected: list[str] = []
    for name, translator in translators.items():
        outputs = translator.translate([pair.source for pair in pairs], beam_size=4)
        expected = expected or outputs
        references = [pair.target for pair in pairs]
        bleu = corpus_scores(outputs, references, language=language, names=("BLEU",))[0]
        same = sum(a == b for a, b in zip(outputs, expected, strict=True))
        print_row(
            row=f"{name}, beam 4",
            bleu=round(bleu.value, 2),
            same_as_keras=round(same / len(pairs), 4),
            different=[
                {"source": pair.source, "keras": keras, name: output}
                for pair, keras, output in zip(pairs, expected, outputs, strict=True)
                if keras != output
            ][:10],
        )


def first_translation(run: Path, sentence: str, engine: str) -> None:
    """Print the time of a fresh process to its first translation, and of its phases."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "nmt.translate", "--run", str(run), "--engine", engine]
    subprocess.run([*command, sentence], check=True, capture_output=True)
    total = time.perf_counter() - begin
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    numpy = time.perf_counter() - begin
    code = PHASES.format(run=str(run), sentence=sentence, engine=engine)
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    names = ("imports_s", "loading_s", "first_search_s", "second_search_s")
    seconds = (round(float(text), 3) for text in result.stdout.split())
    print_row(
        row=f"first translation of a fresh process, --engine {engine}",
        seconds=round(total, 2),
        import_numpy_s=round(numpy, 2),
        **dict(zip(names, seconds, strict=True)),
    )


def whole_command(folder: Any, lines: Path, turns: int) -> None:
    """Print the speed on a file: of the command, and of CTranslate2 on tokens."""
    import ctranslate2

    from nmt.formats.weights.converted import load_or_convert
    from nmt.startup.devices import cores

    tokenizer = folder.load_tokenizer()
    texts = lines.read_text(encoding="utf-8").splitlines()
    tokens = [[*tokenizer.pieces(ids), "</s>"] for ids in tokenizer.encode(texts)]
    translator = ctranslate2.Translator(
        "run", files=load_or_convert(folder, tokenizer), inter_threads=cores(), intra_threads=1
    )
    rates: dict[str, list[float]] = {"command": [], "translate_batch": []}
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "nmt.translate", "--run", str(folder.path), "--beam", "4"]
        command += ["--file", str(lines), "--output", str(Path(scratch) / "output")]
        for _ in range(turns):
            begin = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            rates["command"].append(len(texts) / (time.perf_counter() - begin))
            begin = time.perf_counter()
            translator.translate_batch(
                tokens, beam_size=4, max_batch_size=1024, batch_type="tokens"
            )
            rates["translate_batch"].append(len(texts) / (time.perf_counter() - begin))
    ratios = [a / b for a, b in zip(*rates.values(), strict=True)]
    print_row(
        row=f"a file of {len(texts):,} lines, beam 4",
        command=[round(rate) for rate in rates["command"]],
        translate_batch=[round(rate) for rate in rates["translate_batch"]],
        ratio=round(statistics.median(ratios), 3),
    )


if __name__ == "__main__":
    main()
