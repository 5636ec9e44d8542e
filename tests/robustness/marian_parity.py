"""Compare MarianMT in this program with MarianMT in `transformers`: see check_marian.sh.

Two environments take turns, because neither has the other's packages:

- prepare (this program's): trains tokenizers on the embedded corpus, in the published layout;
- reference (transformers'): creates random models; stores ids, logits and translations;
- compare (this program's): compares those of the converted runs, and exports the runs;
- reference --again (transformers'): stores ids, logits and translations of the exports;
- report (this program's): prints all differences in one table;
- record (transformers'): writes the folder that tests compare with, given
  --work tests/formats/marian/recorded.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

# D, heads, F, layers of encoder and decoder, activation, file: the published families' proportions.
# opus-mt (Marian's transformer-base), tiny, tc-big, a shallow decoder, and others; smaller tables.
SHAPES: dict[str, tuple[int, int, int, int, int, str, str]] = {
    "opus_mt": (512, 8, 2048, 6, 6, "swish", "safetensors"),
    "opus_mt_bin": (512, 8, 2048, 6, 6, "swish", "bin"),
    "tc_big": (1024, 16, 4096, 6, 6, "relu", "safetensors"),
    "tiny": (256, 8, 1536, 6, 2, "swish", "safetensors"),
    "tiny_legacy": (256, 8, 1536, 3, 2, "relu", "legacy"),
    "shallow": (512, 8, 2048, 12, 1, "swish", "safetensors"),
    "narrow": (64, 4, 128, 2, 2, "swish", "bin"),
    "one_head": (32, 1, 64, 1, 1, "relu", "safetensors"),
    "gelu": (128, 4, 512, 2, 2, "gelu_new", "safetensors"),
    "half": (128, 8, 256, 2, 2, "swish", "float16"),
}
BEAM_SHAPE, SENTENCES, BEAM, LONGEST = "narrow", 200, 4, 60
LINES, TRAINED_LINES = "lines.json", "lines_trained.json"
TRAINED = "trained"
RECORDED_SHAPE = (8, 2, 16, 2, 1, "swish", "safetensors")
RECORDED = (  # source, target
    ("El gato duerme.", "The cat sleeps."),
    ("La casa es grande.", "The house is big."),
    ("¿Dónde está el perro?", "Where is the dog?"),
    ("El perro duerme en la casa.", "The dog sleeps in the house."),
    ("El gato está en la casa grande.", "The cat is in the big house."),
    ("¿Es grande el gato?", "Is the cat big?"),
)


def prepare(work: Path, trained: Path | None) -> None:
    """Train a tokenizer for each side, write the texts, and export the trained run, if any."""
    from nmt.data.corpus import load_corpus
    from nmt.formats.export import export_run
    from nmt.runs.corpus import read_corpus
    from nmt.runs.folder import RunFolder
    from nmt.runs.resuming import compose_config

    data = compose_config(["data=phrasebook"]).data
    corpus = load_corpus(data, cache_dir=Path(".cache"))
    shutil.rmtree(work / "models", ignore_errors=True)
    train_tokenizers(work / "tokenizer", corpus.train, vocab_size=1000)
    lines = [pair[0] for pair in corpus.test][: SENTENCES - 4]
    lines += [">>fra<< " + lines[0], ">>deu<< " + lines[1], "¿Qué 漢字 es «esto»?", "A  b"]
    write_json(work / LINES, lines)
    if trained is not None:
        run = RunFolder.open(trained)
        export_run(run, work / "models" / TRAINED / "in", "transformers")
        test = read_corpus(run, lambda line: None).test
        write_json(work / TRAINED_LINES, [pair[0] for pair in test[:SENTENCES]])


def list_models(work: Path) -> list[str]:
    """Return the names of the models: the shapes, and the trained one if it exists."""
    return [*SHAPES, *([TRAINED] if (work / "models" / TRAINED).is_dir() else [])]


def read_lines(work: Path, name: str) -> list[str]:
    """Return the texts for a model."""
    return list(read_json(work / (TRAINED_LINES if name == TRAINED else LINES)))


def train_tokenizers(folder: Path, pairs: Sequence[Sequence[str]], **options: Any) -> None:
    """Write source.spm, target.spm, vocab.json and tokenizer_config.json."""
    import sentencepiece

    folder.mkdir(parents=True, exist_ok=True)
    pieces: dict[str, None] = {}
    for side, name in enumerate(("source", "target")):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([pair[side] for pair in pairs]),
            model_prefix=str(folder / name),
            minloglevel=2,
            **options,
        )
        (folder / f"{name}.model").rename(folder / f"{name}.spm")
        (folder / f"{name}.vocab").unlink()
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.spm"))
        ordinary = (model.id_to_piece(i) for i in range(3, model.get_piece_size()))
        pieces |= dict.fromkeys(ordinary)
    vocabulary = ["</s>", "<unk>", *pieces, ">>fra<<", "<pad>"]
    write_json(folder / "vocab.json", {piece: i for i, piece in enumerate(vocabulary)})
    languages = {"source_lang": "es", "target_lang": "en"}
    write_json(folder / "tokenizer_config.json", languages)


def reference(work: Path, *, again: bool) -> None:
    """Create random models, or load the exports; write their ids, logits and translations."""
    import torch
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    for number, name in enumerate(list_models(work)):
        lines = read_lines(work, name)
        folder = work / "models" / name / ("out" if again else "in")
        if not again and name != TRAINED:
            size = len(read_json(work / "tokenizer" / "vocab.json"))
            make_model(torch, MarianConfig, MarianMTModel, folder, SHAPES[name], size, number)
            for file in (work / "tokenizer").iterdir():
                shutil.copyfile(file, folder / file.name)
        tokenizer = MarianTokenizer.from_pretrained(folder)
        # A copy in safetensors, if any: transformers no longer opens files from before PyTorch 1.6.
        opened = folder.with_name("opened") if (folder.with_name("opened")).is_dir() else folder
        model = MarianMTModel.from_pretrained(folder if again else opened, dtype=torch.float32)
        model.eval()
        results, logits = ask(torch, model, tokenizer, lines, beam=name in (BEAM_SHAPE, TRAINED))
        write_json(folder / "found.json", results)
        np.save(folder / "logits.npy", logits)
        print(f"{name}: {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)


def make_model(
    torch: Any, config_class: Any, model_class: Any, folder: Path, shape: Any, size: int, seed: int
) -> None:
    """Write a model with random weights."""
    width, heads, ffn, encoder, decoder, activation, file_format = shape
    config = config_class(
        d_model=width,
        vocab_size=size,
        decoder_vocab_size=size,
        encoder_layers=encoder,
        decoder_layers=decoder,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=ffn,
        decoder_ffn_dim=ffn,
        activation_function=activation,
        max_position_embeddings=512,
        scale_embedding=True,
        static_position_embeddings=True,
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
        eos_token_id=0,
        forced_eos_token_id=0,
        num_beams=BEAM,
        bad_words_ids=[[size - 1]],
    )
    torch.manual_seed(seed)
    model = model_class(config)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if "layer_norm" in key:
                weight.add_(0.1 * torch.randn_like(weight))
            elif "embed_positions" not in key:
                weight.normal_(std=2 / width**0.5 if weight.ndim > 1 else 0.1)
        model.model.shared.weight.normal_(std=width**-0.5)
        model.final_logits_bias.normal_(std=0.5)
        # Sentences should end early: at the limit, transformers gives the end probability 1.
        model.final_logits_bias[0, 0] = 6.0
    if file_format == "float16":
        model = model.half()
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    if file_format in ("bin", "legacy"):
        shutil.copytree(folder, folder.with_name("opened"))
        (folder / "model.safetensors").unlink()
        state = {key: weight.clone() for key, weight in model.state_dict().items()}
        path = folder / "pytorch_model.bin"
        torch.save(state, path, _use_new_zipfile_serialization=file_format == "bin")


def ask(torch: Any, model: Any, tokenizer: Any, lines: list[str], *, beam: bool) -> Any:
    """Return ids and beam translations of lines, and the logits [T, V] of one pair."""
    ids = tokenizer(lines)["input_ids"]
    results: dict[str, Any] = {"ids": ids}
    with torch.no_grad():
        source = torch.tensor([ids[0]])
        target = torch.tensor([[model.config.decoder_start_token_id, *ids[1][:-1]]])
        logits = model(input_ids=source, decoder_input_ids=target).logits[0].numpy()
        if beam:
            results["beam"] = [translate(torch, model, tokenizer, row) for row in ids]
    return results, logits


def translate(torch: Any, model: Any, tokenizer: Any, ids: list[int]) -> tuple[str, float]:
    """Return the best translation of a beam without length penalty, and its log-probability."""
    output = model.generate(
        torch.tensor([ids]),
        num_beams=BEAM,
        length_penalty=0.0,
        max_length=LONGEST,
        bad_words_ids=[[model.config.pad_token_id]],
        forced_eos_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
    )
    text = tokenizer.decode(output.sequences[0], skip_special_tokens=True)
    return text, float(output.sequences_scores[0])


def record(folder: Path) -> None:
    """Write the small folder that tests compare with, and the results of transformers on it."""
    import torch
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    shutil.rmtree(folder, ignore_errors=True)
    # The smallest normalization rule.
    options = {"vocab_size": 60, "normalization_rule_name": "identity", "model_type": "bpe"}
    train_tokenizers(folder, RECORDED, **options)
    size = len(read_json(folder / "vocab.json"))
    make_model(torch, MarianConfig, MarianMTModel, folder, RECORDED_SHAPE, size, seed=1)
    tokenizer = MarianTokenizer.from_pretrained(folder)
    model = MarianMTModel.from_pretrained(folder).eval()
    for form in ("bin", "legacy"):
        state = {key: weight.clone() for key, weight in model.state_dict().items()}
        torch.save(state, folder / f"{form}.bin", _use_new_zipfile_serialization=form == "bin")
    lines = [source for source, _ in RECORDED] + [f">>fra<< {RECORDED[0][0]}", "¿漢?"]
    results, logits = ask(torch, model, tokenizer, lines, beam=True)
    write_json(folder / "found.json", {"lines": lines, **results, "logits": logits.tolist()})


def compare(work: Path) -> None:
    """Convert each folder, compare the run, and export it."""
    from nmt.formats.export import export_run
    from nmt.formats.marian.reading import convert

    rows = []
    for name in list_models(work):
        lines = read_lines(work, name)
        folder = work / "models" / name
        shutil.rmtree(folder / "run", ignore_errors=True)
        run = convert(folder / "in", folder / "run")
        expected = read_json(folder / "in" / "found.json")
        logits = np.load(folder / "in" / "logits.npy")
        order = list_their_ids(folder / "in", run)
        ours = [[order[i] for i in row] + [0] for row in run.load_tokenizer().encode(lines)]
        row = {
            "shape": name,
            "sentences": len(lines),
            "ids equal": sum(a == b for a, b in zip(ours, expected["ids"], strict=True)),
            "logits differ by": float(np.abs(read_logits(run, ours, order) - logits).max()),
        }
        if "beam" in expected:
            row |= compare_beam(run, lines, expected["beam"])
        export_run(run, folder / "out", "transformers")
        rows.append(row | compare_weights(folder))
        print(row, flush=True)
    write_json(work / "compared.json", rows)


def list_their_ids(folder: Path, run: Any) -> list[int]:
    """Return the id in transformers of each piece of this program."""
    vocabulary = read_json(folder / "vocab.json")
    tokenizer = run.load_tokenizer()
    ids = [
        vocabulary.get(piece, -1) for piece in tokenizer.pieces(range(tokenizer.vocabulary_size))
    ]
    ids[0], ids[1] = -1, vocabulary["<pad>"]
    return ids


def read_logits(run: Any, rows: list[list[int]], order: list[int]) -> np.ndarray:
    """Return the logits of the second sentence given the first, in the order of transformers."""
    back = {theirs: ours for ours, theirs in enumerate(order) if theirs >= 0}
    source = np.array([[back[i] for i in rows[0]]])
    target = np.array([[1, *(back[i] for i in rows[1][:-1])]])
    logits = np.asarray(run.load_model()({"source": source, "target": target}))[0]
    return logits[:, [back[i] for i in range(len(back))]]


def compare_beam(run: Any, lines: list[str], expected: list[tuple[str, float]]) -> dict[str, Any]:
    """Compare translations without length penalty, by our rule for endings and by theirs."""
    from unittest import mock

    from nmt.inference import programs
    from nmt.inference.beam_search import BeamSearch

    pairs = list(zip(search(run, lines), expected, strict=True))
    with mock.patch.object(programs, "BeamSearch", use_their_endings(BeamSearch)):
        with_their_rule = search(run, lines)
    return {
        "beam equal": sum(ours.text == text for ours, (text, _) in pairs),
        "beam better": sum(ours.log_prob > score + 1e-4 for ours, (_, score) in pairs),
        "beam worse": sum(ours.log_prob < score - 1e-4 for ours, (_, score) in pairs),
        "by their rule equal": sum(
            ours.text == text for ours, (text, _) in zip(with_their_rule, expected, strict=True)
        ),
    }


def search(run: Any, lines: list[str]) -> list[Any]:
    """Return the best translation of this program's beam for each line."""
    from dataclasses import replace

    from nmt.inference.translator import Translator

    translator = Translator.load(run.path, engine="keras")
    translator.decoding = replace(
        translator.decoding,
        beam_size=BEAM,
        length_penalty=0.0,
        max_length_ratio=0.0,
        max_length_margin=LONGEST - 1,  # transformers counts the first decoder input
    )
    return [translations[0] for translations in translator.hypotheses(lines)]


def use_their_endings(kind: Any) -> type:
    """Return a beam search in which only the k best of 2k candidates may end."""
    from keras import ops

    class Theirs(kind):
        def may_end(self, ends: Any, log_probs: Any) -> Any:
            is_best = ops.arange(2 * self.beam_size) < self.beam_size
            return ops.logical_and(super().may_end(ends, log_probs), is_best)

    return Theirs


def compare_weights(folder: Path) -> dict[str, Any]:
    """Compare the weights of the imported and the exported folder."""
    from nmt.formats.marian.reading import read_weights

    imported, exported = read_weights(folder / "in"), read_weights(folder / "out")
    shared = [name for name in exported if name in imported]
    same = sum(np.array_equal(exported[name], imported[name]) for name in shared)
    return {"weights": len(exported), "weights the same": same}


def report(work: Path) -> None:
    """Add the results for the exports; print the table; exit if a limit is exceeded."""
    wrong = []
    for row in read_json(work / "compared.json"):
        folder = work / "models" / row["shape"]
        imported, exported = (read_json(folder / where / "found.json") for where in ("in", "out"))
        logits = [np.load(folder / where / "logits.npy") for where in ("in", "out")]
        row["out: logits differ by"] = float(np.abs(logits[0] - logits[1]).max())
        row["out: all else the same"] = imported == exported
        print("  ".join(f"{key} {value}" for key, value in row.items()))
        if not (
            row["ids equal"] == row["sentences"]
            and row["logits differ by"] <= 1e-4
            and row["weights the same"] == row["weights"]
            and row["out: all else the same"]
            and row.get("beam worse", 0) == 0
            and row.get("by their rule equal", row["sentences"]) == row["sentences"]
        ):
            wrong.append(row["shape"])
    if wrong:
        raise SystemExit(f"these differ: {', '.join(wrong)}")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(content, ensure_ascii=False, indent=0), encoding="utf-8")


def main() -> None:
    """Run one of the steps."""
    parser = argparse.ArgumentParser(description="Compare with transformers: see check_marian.sh.")
    parser.add_argument("step", choices=("prepare", "reference", "compare", "report", "record"))
    parser.add_argument("--work", type=Path, default=Path(".cache/marian"))
    parser.add_argument("--again", action="store_true", help="use the exports")
    parser.add_argument("--run", type=Path, help="a trained run with model=marian, for prepare")
    arguments = parser.parse_args()
    if arguments.step == "reference":
        reference(arguments.work, again=arguments.again)
    elif arguments.step == "prepare":
        prepare(arguments.work, arguments.run)
    else:
        steps = {"compare": compare, "report": report, "record": record}
        steps[arguments.step](arguments.work)


if __name__ == "__main__":
    main()
