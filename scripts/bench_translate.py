"""Measure translation: sentences per second, latency, agreement. One JSON line per row.

    python scripts/bench_translate.py --run runs/latest --sentences 1000

Rows take turns (A B C A B C ...), because the speed of a shared machine drifts; every figure is a
median over turns. Sentences come from the test split of the run, or from two files. Engines:

- keras: this program's own search;
- keras without cache: the same search, every step of which reads the whole prefix anew;
- ctranslate2 float32 and int8: what `--engine auto` searches with, and the same in bytes;
- with --peers, transformers: `generate` of Hugging Face with the weights of the run, where
  `transformers` and `torch` are installed and hold the model: pre-norm, relu, relu2 or gelu.

With --lines FILE, the whole command on that file is measured against CTranslate2's own
`translate_batch`, called with all sentences ready as tokens and loading not counted. The start of a
process is measured apart.
"""

from __future__ import annotations

import argparse
import json
import os
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
    parser.add_argument("--peers", action="store_true", help="measure other toolkits, too")
    parser.add_argument("--lines", type=Path, help="a file for the whole command")
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
            from nmt.data.corpus import read_parallel
            from nmt.inference.translator import Translator
            from nmt.runs.corpus import read_corpus

            translators = {"keras": Translator.load(folder.path, engine="keras")}
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
        translators |= peers(translators["keras"])
    batches(translators, pairs, arguments.turns, arguments.uncached)
    singles(translators, [pair.source for pair in pairs[: arguments.single]])
    agreement(translators, pairs, folder.config.data.languages[1])
    for engine in ("auto", "keras"):
        first_translation(folder.path, pairs[0].source, engine)
    if arguments.lines:
        whole_command(folder, arguments.lines, arguments.turns)


def say(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def peers(own: Any) -> dict[str, Any]:
    """Return what other toolkits make of the same weights, as far as they are installed."""
    try:
        import torch
        import transformers
    except ImportError as error:
        say(note=f"no peer is measured: {error.name} is not installed")
        return {}
    transformers.logging.set_verbosity_error()
    sizes = own.engine.model.sizes
    if sizes.norm != "pre" or sizes.activation == "swiglu":
        say(note="no peer is measured: transformers has no model of this shape")
        return {}
    config = transformers.M2M100Config(
        vocab_size=sizes.vocabulary_size,
        d_model=sizes.d_model,
        encoder_layers=sizes.encoder_layers,
        decoder_layers=sizes.decoder_layers,
        encoder_attention_heads=sizes.num_heads,
        decoder_attention_heads=sizes.num_heads,
        encoder_ffn_dim=sizes.ffn_width,
        decoder_ffn_dim=sizes.ffn_width,
        activation_function={"gelu": "gelu_pytorch_tanh"}.get(sizes.activation, sizes.activation),
        max_position_embeddings=sizes.max_length,
        scale_embedding=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    torch.set_num_threads(os.cpu_count() or 1)
    model = transformers.M2M100ForConditionalGeneration(config).eval()
    copy_weights(own.engine.model, model)
    return {"transformers": Transformers(model, own)}


def copy_weights(ours: Any, theirs: Any) -> None:
    """Give a model of Hugging Face the weights of a run."""
    import torch

    weights = {name: weight.numpy() for name, weight in ours.named_weights().items()}
    parts = {
        "self_attention/": "self_attn.",
        "causal_self_attention/": "self_attn.",
        "cross_attention/": "encoder_attn.",
        "self_attention_norm/": "self_attn_layer_norm.",
        "causal_self_attention_norm/": "self_attn_layer_norm.",
        "cross_attention_norm/": "encoder_attn_layer_norm.",
        "feed_forward_norm/": "final_layer_norm.",
        "feed_forward/inner/": "fc1.",
        "feed_forward/outer/": "fc2.",
    }
    ends = {"query/": "q_proj.", "key/": "k_proj.", "value/": "v_proj.", "output/": "out_proj."}
    state = {}
    for name, array in weights.items():
        side, _, rest = name.partition("/")
        stack, _, number = side.partition("_")
        if stack == "embedding":
            state["model.shared.weight"] = array
            continue
        place = f"model.{stack}."
        if number == "norm":
            place += "layer_norm."
        elif stack in ("encoder", "decoder"):
            begin = next(one for one in parts if rest.startswith(one))
            place += f"layers.{number}.{parts[begin]}"
            rest = rest.removeprefix(begin)
            for one, other in ends.items():
                rest = rest.replace(one, other)
        kind = {"kernel": "weight", "gamma": "weight", "beta": "bias"}.get(rest.split(".")[-1])
        place += ".".join([*rest.split(".")[:-1], kind or rest.split(".")[-1]])
        state[place] = array.T if rest.endswith("kernel") else array
    tensors = {name: torch.tensor(array) for name, array in state.items()}
    missing, unexpected = theirs.load_state_dict(tensors, strict=False)
    tied = {"encoder.embed_tokens", "decoder.embed_tokens", "lm_head"}
    left = [name for name in missing if not any(one in name for one in tied)]
    if unexpected or left:
        raise SystemExit(f"the weights of transformers have other names: {unexpected} {left}")
    positions = torch.tensor(ours.position_table())
    for stack in (theirs.model.encoder, theirs.model.decoder):
        table = stack.embed_positions  # whose first two rows are of its own padding
        table.weights = torch.cat([torch.zeros(2, positions.shape[1]), positions])
        for module in stack.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = 1e-6
    theirs.tie_weights()


class Transformers:
    """`generate` of Hugging Face, over batches of similar length."""

    def __init__(self, model: Any, own: Any) -> None:
        self.model, self.own = model, own

    def translate(self, texts: Sequence[str], beam_size: int) -> list[str]:
        import torch

        sources = self.own.tokenizer.encode(texts)
        order = sorted(range(len(texts)), key=lambda i: -len(sources[i]))
        found = [""] * len(texts)
        size = self.own.decoding.batch_size
        for begin in range(0, len(order), size):
            members = order[begin : begin + size]
            longest = 1 + len(sources[members[0]])
            ids = torch.zeros((len(members), longest), dtype=torch.int64)
            for row, i in zip(ids, members, strict=True):
                row[: len(sources[i]) + 1] = torch.tensor([*sources[i], 2])
            with torch.inference_mode():
                outputs = self.model.generate(
                    input_ids=ids,
                    attention_mask=(ids != 0).long(),
                    num_beams=beam_size,
                    do_sample=False,
                    max_new_tokens=min(2 * longest + 20, self.own.engine.max_length - 1),
                )
            decoded = self.own.tokenizer.decode(outputs.tolist())
            for i, text in zip(members, decoded, strict=True):
                found[i] = text
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
            (name.replace("keras", "transformers"), "keras over transformers"),
        ):
            if name.startswith("keras") and other != name and other in rates:
                ratios = [a / b for a, b in zip(rates[name], rates[other], strict=True)]
                say(ratio=f"{label}: {name}", median=round(statistics.median(ratios), 3))


def without_cache(translator: Any) -> Any:
    """Return a translator whose every step decodes the whole prefix again."""
    from keras import ops

    from nmt.inference.engine import KerasEngine
    from nmt.inference.translator import Translator
    from nmt.model.masks import causal_mask

    model = translator.engine.model

    class Read(NamedTuple):
        prefixes: Any  # int32 [B, k, T]
        memory: Any  # [B, S, D]
        mask: Any  # bool [B, 1, 1, S]

    class Uncached:
        """The model with prefixes in the place of a cache: a `nmt.model.contract.Decoder`."""

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


def agreement(translators: dict[str, Any], pairs: Sequence[Any], language: str) -> None:
    """Print BLEU of each engine at beam 4, and how many outputs equal those of the run itself."""
    from nmt.inference.metrics import corpus_scores

    expected: list[str] = []
    for name, translator in translators.items():
        outputs = translator.translate([pair.source for pair in pairs], beam_size=4)
        expected = expected or outputs
        references = [pair.target for pair in pairs]
        bleu = corpus_scores(outputs, references, language=language, names=("BLEU",))[0]
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


def first_translation(run: Path, sentence: str, engine: str) -> None:
    """Print how long a fresh process takes to its first translation, and where the time goes."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "nmt.translate", "--run", str(run), "--engine", engine]
    subprocess.run([*command, sentence], check=True, capture_output=True)
    whole = time.perf_counter() - begin
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    numpy = time.perf_counter() - begin
    code = PHASES.format(run=str(run), sentence=sentence, engine=engine)
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    names = ("imports_s", "loading_s", "first_search_s", "second_search_s")
    seconds = (round(float(one), 3) for one in result.stdout.split())
    say(
        row=f"first translation of a fresh process, --engine {engine}",
        seconds=round(whole, 2),
        import_numpy_s=round(numpy, 2),
        **dict(zip(names, seconds, strict=True)),
    )


def whole_command(folder: Any, lines: Path, turns: int) -> None:
    """Print how fast a file is translated: the command, and CTranslate2 given tokens."""
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
    say(
        row=f"a file of {len(texts):,} lines, beam 4",
        command=[round(rate) for rate in rates["command"]],
        translate_batch=[round(rate) for rate in rates["translate_batch"]],
        ratio=round(statistics.median(ratios), 3),
    )


if __name__ == "__main__":
    main()
