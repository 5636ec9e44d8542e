"""Damage copies of a run and its exports, and count the outcomes.

    python tests/robustness/damage.py --run runs/latest --count 300

A trial damages one file of a copy (changes a byte, cuts or deletes it) and reads it: by translating
with the run and its exports, as resuming does, and as other commands do. SavedModel and TFLite are
loaded by their own libraries; there `nmt.inspect verify` must report the damage. Outcomes:

- same: the same translations;
- older: training would resume from an older valid checkpoint, with a message;
- error: one line that names the file;
- other: a different translation, without a message;
- traceback: any other exception, or the process died.

The exit status is 1 if one of the last two occurs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

SENTENCES = ["¿Dónde está la estación?", "Ayer compré un libro muy interesante.", "Hoy hace frío."]
OUTCOMES = ("same", "older", "error", "other", "traceback")  # from the best to the worst
TAIL = 1 << 15  # bytes at the end, which hold the directory of an archive
HANGS = 120  # seconds; a trial that takes longer counts as a dead process

Outcome = tuple[str, str]  # one of `OUTCOMES`, and the message


class Damage(NamedTuple):
    name: str  # file inside the run
    how: str  # "byte", "cut" or "deletion"
    offset: int
    mask: int  # XORed with the byte


class RunEngine:
    """Reads a run: translations, checkpoints, other files."""

    def __init__(self, path: Path) -> None:
        from nmt.inference.keras_engine import KerasEngine
        from nmt.inference.translator import Translator
        from nmt.runs.checkpoint import read_arrays
        from nmt.runs.folder import RunFolder

        folder = RunFolder.open(path)
        self._config = folder.config
        self._engine = KerasEngine(folder.load_model())
        self._checkpoints = [
            read_arrays(folder.checkpoints.path(step))
            for step in reversed(folder.checkpoints.steps())
        ]
        self._expected = self._translate(folder)
        self._fast = Translator.load(path).translate(SENTENCES)

    def attempt(self, path: Path, name: str) -> Outcome:
        """Read all of a run with one damaged file."""
        from nmt.inference.translator import Translator
        from nmt.runs.folder import RunFolder

        def translate() -> str:
            outputs = self._translate(RunFolder.open(path))
            return "same" if outputs == self._expected else "other"

        def translate_fast() -> str:
            outputs = Translator.load(path, engine="ctranslate2").translate(SENTENCES)
            return "same" if outputs == self._fast else "other"

        readers = (translate, translate_fast, lambda: self._resume(path), lambda: read_others(path))
        return worst(judge(reader) for reader in readers)

    def _translate(self, folder: Any) -> list[str]:
        """Translate with the Keras model, reusing the compiled search."""
        from nmt.inference.engines import Engines
        from nmt.inference.keras_engine import KerasEngine
        from nmt.inference.translator import Translator

        config, model = folder.config, folder.load_model()
        if config.model == self._config.model:
            for name, weight in self._engine.model.named_weights().items():
                weight.assign(model.named_weights()[name])
            engine = self._engine
        else:
            engine = KerasEngine(model)
        translator = Translator.from_config(Engines(engine), folder.load_tokenizer(), config)
        return translator.translate(SENTENCES)

    def _resume(self, path: Path) -> str:
        """Read the newest checkpoint, and compare it with the undamaged ones."""
        from nmt.runs.folder import RunFolder

        latest = RunFolder.open(path).checkpoints.load_latest()
        if latest is None:
            return "other"
        ages = [age for age, sound in enumerate(self._checkpoints) if are_equal(latest, sound)]
        return ("same" if ages[0] == 0 else "older") if ages else "other"


class ExportEngine:
    """Reads an export in a format that this program loads."""

    def __init__(self, path: Path) -> None:
        self._expected = self._translate(path)

    def attempt(self, path: Path, name: str) -> Outcome:
        """Translate with an export with one damaged file."""
        return judge(lambda: "same" if self._translate(path) == self._expected else "other")

    def _translate(self, path: Path) -> list[str]:
        from nmt.formats import ctranslate2, keras_file

        module = keras_file if path.name.startswith("keras") else ctranslate2
        return module.load(path).translate(SENTENCES)


class VerifiedExport:
    """Verifies an export that only another library loads."""

    def __init__(self, path: Path) -> None:
        pass

    def attempt(self, path: Path, name: str) -> Outcome:
        """Verify an export with one damaged file."""
        from nmt.errors import UserError

        def check() -> str:
            if is_reported(path, name):
                raise UserError(f"verify reports {name}")
            return "same" if name == "manifest.json" else "other"

        return judge(check)


def are_equal(one: Any, other: Any) -> bool:
    """Whether two checkpoints hold the same arrays and metadata."""
    arrays, others = one[0], other[0]
    return (
        one[1] == other[1]
        and arrays.keys() == others.keys()
        and all(
            array.dtype == others[name].dtype
            and array.shape == others[name].shape
            and array.tobytes() == others[name].tobytes()
            for name, array in arrays.items()
        )
    )


def read_others(path: Path) -> str:
    """Read the files of a run that other commands read."""
    from nmt.formats.comparison import read_sources
    from nmt.runs.folder import RunFolder

    folder = RunFolder.open(path)
    folder.read_corpus_record()
    folder.test_scores()
    probes = folder.config.training.probes or []
    read_sources(folder.samples, probes, folder.load_tokenizer(), 64)
    with tempfile.TemporaryDirectory() as copy:
        if (path / "metrics.jsonl").is_file():
            shutil.copy(path / "metrics.jsonl", copy)
        RunFolder(Path(copy)).metrics.drop_after(1)
    return "same"


def judge(read: Callable[[], str]) -> Outcome:
    """Call a reader; return the outcome."""
    from nmt.errors import UserError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read(), ""
    except UserError as error:
        return "traceback" if "\n" in str(error) else "error", str(error)
    except Exception as error:
        return "traceback", repr(error)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    return max(outcomes, key=lambda outcome: OUTCOMES.index(outcome[0]))


def verdict(folder: Path, name: str) -> str:
    """Return whether `verify` reports damage, as text."""
    return str(is_reported(folder, name))


def is_reported(folder: Path, name: str) -> bool:
    """Whether `verify` reports damage."""
    from nmt.errors import UserError
    from nmt.inspect.verify import verify

    try:
        return any(file.verdict == "damaged" for file in verify(folder))
    except UserError:
        return True


def serve(kind: type, path: Path, pipe: Connection) -> None:
    """Run the trials that arrive on a pipe."""
    from nmt.startup.commands import set_up_translation
    from nmt.startup.quiet import quiet_start

    set_up_translation()
    with quiet_start():
        engine = kind(path)
        pipe.send(None)
        while (name := pipe.recv()) is not None:
            outcome = engine.attempt(path, name)
            pipe.send((outcome, judge(partial(verdict, path, name))))


class Engine:
    """A process that loads the same folder again and again, restarted if it dies."""

    def __init__(self, kind: type, path: Path) -> None:
        self._kind, self.path = kind, path
        self._process: Any = None

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (self._kind, self.path, theirs)
        self._process = context.Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def attempt(self, name: str) -> tuple[Outcome, bool]:
        """Return the outcome with a damaged file, and whether `verify` reports it."""
        self._pipe.send(name)
        try:
            if not self._pipe.poll(HANGS):
                raise EOFError("it hangs")
            outcome, (reported, message) = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            self._process.kill()
            self._process = None
            return ("traceback", f"the process died: {error!r}"), False
        if reported == "traceback":
            outcome = ("traceback", f"verify: {message}")
        return outcome, reported == "True"

    def ensure_started(self) -> None:
        """Start the process unless it is running."""
        if self._process is None:
            self.start()

    def stop(self) -> None:
        if self._process is not None:
            self._pipe.send(None)
            self._process.join()


def kind_of(name: str) -> str:
    """Return the row of the table for a file."""
    for folder in ("logs", "inspection", "samples"):
        if name.startswith(f"{folder}/"):
            return f"{folder}/"
    if name.startswith(("evaluation_", "scores_")):
        return "evaluation_*.json"
    name = re.sub(r"step_\d+", "step_*", name)
    return re.sub(r"variables/.*", "variables/", name)


def draw(kinds: dict[str, list[str]], run: Path, rng: random.Random) -> tuple[str, Damage]:
    """Draw a kind of file, a file, and its damage; every second one is near its end."""
    kind = rng.choice(sorted(kinds))
    name = rng.choice(kinds[kind])
    size = (run / name).stat().st_size
    low = max(0, size - TAIL) if rng.random() < 0.5 else 0
    how = rng.choices(("byte", "cut", "deletion"), (0.7, 0.2, 0.1))[0]
    mask = 1 << rng.randrange(8) if rng.random() < 0.5 else rng.randrange(1, 256)
    return kind, Damage(name, how, rng.randrange(low, max(1, size)), mask)


def damage(path: Path, change: Damage) -> Callable[[], object]:
    """Damage a file; return a function that restores it."""
    original = path.read_bytes()
    if change.how == "deletion":
        path.unlink()
    elif change.how == "cut":
        path.write_bytes(original[: change.offset])
    else:
        changed = bytearray(original)
        changed[change.offset] ^= change.mask
        path.write_bytes(changed)
    return lambda: path.write_bytes(original)


def copy_run(run: Path, target: Path) -> Path:
    """Copy a run, and add checksums to a copy of an older one."""
    from nmt.runs.folder import RunFolder

    copy = Path(shutil.copytree(run.resolve(), target / "run"))
    folder = RunFolder.open(copy)
    folder.write_config(folder.config)
    folder.write_corpus_record(folder.read_corpus_record())
    return copy


def make_engines(run: Path) -> dict[str, Engine]:
    """Return the engines of the run and of each export, by the prefix of their file names."""
    engines = {"": Engine(RunEngine, run)}
    exports = run / "exports"
    for path in sorted(exports.iterdir()) if exports.is_dir() else ():
        kind = ExportEngine if path.name.startswith(("keras", "ctranslate2")) else VerifiedExport
        engines[f"exports/{path.name}/"] = Engine(kind, path)
    return engines


def main() -> None:
    parser = argparse.ArgumentParser(description="Damage copies of a run, and load them.")
    parser.add_argument("--run", type=Path, default=Path("runs/latest"))
    parser.add_argument("--count", type=int, default=300, help="trials (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only files whose names contain it"
    )
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = copy_run(arguments.run, Path(folder))
        kinds: dict[str, list[str]] = {}
        for path in sorted(run.rglob("*")):
            name = path.relative_to(run).as_posix()
            if path.is_file() and path.stat().st_size and arguments.only in name:
                kinds.setdefault(kind_of(name), []).append(name)
        engines = make_engines(run)
        counts: Counter[tuple[str, str]] = Counter()
        for _ in range(arguments.count):
            kind, change = draw(kinds, run, rng)
            prefix = max((key for key in engines if change.name.startswith(key)), key=len)
            engines[prefix].ensure_started()  # while its folder is undamaged
            restore = damage(run / change.name, change)
            (outcome, message), reported = engines[prefix].attempt(change.name.removeprefix(prefix))
            restore()
            counts[kind, outcome] += 1
            counts[kind, "verify"] += reported
            if outcome in ("other", "traceback"):
                print(f"{outcome}: {change}: {message[:200]}", flush=True)
        for engine in engines.values():
            engine.stop()
    print_table(sorted(kinds), counts)
    print(f"{arguments.count} trials in {time.monotonic() - begin:.0f} s")
    sys.exit(any(counts[kind, outcome] for kind in kinds for outcome in ("other", "traceback")))


def print_table(kinds: list[str], counts: Counter[tuple[str, str]]) -> None:
    """Print one row per kind of file; the last column counts reports of `verify`."""
    width = max(map(len, kinds))
    columns = (*OUTCOMES, "verify")
    print(f"{'file':{width}}", *(f"{column:>9}" for column in columns))
    for kind in kinds:
        print(f"{kind:{width}}", *(f"{counts[kind, column]:9}" for column in columns))
    totals = (sum(counts[kind, column] for kind in kinds) for column in columns)
    print(f"{'all':{width}}", *(f"{total:9}" for total in totals))


if __name__ == "__main__":
    main()
