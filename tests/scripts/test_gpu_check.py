"""The GPU check without a GPU: its rehearsal, its time limits, and failing parts."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gpu_check
import gpu_tables
import gpu_training
import pytest
from conftest import corpus_lines
from gpu_lowering import NO_GPU
from gpu_offline import ARCHIVE, install, override_path
from gpu_parity import TOLERANCES
from gpu_processes import PartError, find_error_line, run_limited
from gpu_session import TOKENIZER, Session
from gpu_speed import (
    SAME_LOSS,
    Row,
    SpeedMeter,
    compare_losses,
    list_scaling,
    list_speeds,
)
from rich.console import Console
from workloads import BATCH_TOKENS, PRECISIONS

from nmt.config import Config
from nmt.data.downloading import archive_name

ROOT = Path(__file__).parents[2]


def check_command(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script as a user does, with the interpreter of the tests."""
    more = {"GPU_CHECK_PYTHON": sys.executable, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    return subprocess.run(
        ["bash", str(ROOT / "scripts" / "gpu" / "gpu_check.sh"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | more | environment,
    )


def results(out: Path) -> list[dict[str, Any]]:
    lines = (out / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def parse(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> argparse.Namespace:
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", *map(str, words)])
    return gpu_check.parse_arguments()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A small zip of English TAB Spanish lines, as `data=tatoeba` reads them."""
    swapped = ["\t".join(reversed(line.split("\t")[:2])) for line in corpus_lines(300)]
    path = tmp_path / "pairs.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("spa-eng/spa.txt", "\n".join(swapped) + "\n")
    return path


# --- The whole way ------------------------------------------------------------------------------


def without_tensorflow(folder: Path) -> str:
    """Return a PYTHONPATH on which importing TensorFlow fails."""
    (folder / "tensorflow").mkdir(parents=True)
    (folder / "tensorflow" / "__init__.py").write_text('raise ImportError("none here")\n')
    return str(folder)


@pytest.mark.slow
def test_a_prepared_folder_is_rehearsed_on_jax_without_tensorflow(
    tmp_path: Path, archive: Path
) -> None:
    prepared, out = tmp_path / "it's prepared", tmp_path / "out"
    done = check_command("--prepare", prepared, "--archive", archive, "--cpu-rehearsal")
    assert done.returncode == 0, done.stderr
    files = {path.relative_to(prepared).parts[0] for path in prepared.rglob("*")}
    assert files == {ARCHIVE, "tokenizers", "encoded", "phrases"}
    (encoded,) = (prepared / "encoded").iterdir()
    written = encoded.stat().st_mtime_ns

    done = check_command(
        *("--cpu-rehearsal", "--encoded", prepared, "--out", out, "--runs", tmp_path / "runs"),
        PYTHONPATH=without_tensorflow(tmp_path / "hidden"),
    )
    assert done.returncode == 0, done.stdout + done.stderr + (out / "log.txt").read_text()
    found = results(out)
    assert all(result["rehearsal"] for result in found)
    # The prepared corpus was used: nothing was encoded again.
    assert [path.stat().st_mtime_ns for path in (prepared / "encoded").iterdir()] == [written]

    assert [result["backend"] for result in found if result["part"] == "devices"] == ["jax"]
    parity = {result["what"]: result for result in found if result["part"] == "parity"}
    assert set(parity) == set(TOLERANCES)
    # The same device twice: the same numbers. Fewer bits: others, within the tolerance.
    assert parity["float32"]["loss_error"] < 1e-6
    assert 1e-6 < parity["mixed_bfloat16"]["loss_error"] < 1e-2
    for result in parity.values():
        assert result["status"] == "ok"
        assert abs(result["loss"] / result["cpu_loss"] - 1) <= result["loss_tolerance"]
        assert f"{result['loss_tolerance']:.1e}" in done.stdout

    speed = {result["what"]: result for result in found if result["part"] == "speed"}
    off = speed.pop("tiny mixed_bfloat16, XLA off")
    assert (off["status"], off["note"][:22]) == ("skipped", "cannot be off on JAX: ")
    assert set(speed) == {
        *(f"tiny {precision}" for precision in PRECISIONS),
        "tiny mixed_bfloat16, fused",
    }
    for result in speed.values():
        assert result["status"] == "ok"
        assert result["backend"] == "jax"
        assert result["tokens_per_second"] > 0
        assert result["utilisation"] > 0
    assert speed["tiny float32"]["precision"] == "float32"

    (train,) = [result for result in found if result["part"] == "train"]
    assert (train["status"], train["updates"], train["sentences"]) == ("ok", 4, 16)
    assert 0 <= train["scores"]["BLEU"]["value"] <= 100
    assert (tmp_path / "runs" / "latest" / "evaluation_test.json").is_file()
    assert (out / "tables.txt").read_text(encoding="utf-8") in done.stdout


@pytest.mark.long
def test_a_speed_is_rehearsed_and_a_run_without_a_corpus_is_skipped(tmp_path: Path) -> None:
    out = tmp_path / "out"
    parts = ("--parts", "speed,train", "--rows", "tiny float32")
    done = check_command("--cpu-rehearsal", *parts, "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    device, speed, train = results(out)
    assert (device["part"], device["status"]) == ("devices", "ok")
    assert (speed["what"], speed["status"]) == ("tiny float32", "ok")
    assert speed["batches"] == [[4, 64]]
    assert f"{speed['tokens_per_second']:,}" in (out / "tables.txt").read_text(encoding="utf-8")
    assert (train["part"], train["status"]) == ("train", "skipped")
    assert train["note"] == "no corpus was given: name one with --archive or --encoded"


def test_a_part_that_fails_is_named_and_stops_no_other(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = check_command(
        *("--cpu-rehearsal", "--parts", "parity,speed", "--rows", "tiny float32,fused"),
        *("--override", "model.num_heads=3", "--out", out),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = results(out)
    why = "error: model.d_model=64 is not divisible by num_heads=3"
    failed = [result for result in found if result["status"] == "failed"]
    assert [result["part"] for result in failed] == ["parity", *["speed"] * 2]
    assert {result["note"] for result in failed} == {why}
    assert done.stdout.count(f"failed: {why}") >= 3
    assert why in (out / "log.txt").read_text(encoding="utf-8")


@pytest.mark.slow
def test_two_devices_and_three_precisions_are_rehearsed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = check_command("--cpu-rehearsal", "--parts", "scaling,precision", "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr + (out / "log.txt").read_text()
    found = results(out)
    scaling = [result for result in found if result["part"] == "scaling"]
    shapes = [(row["devices"], row["batches"]) for row in scaling if "devices" in row]
    assert shapes == [(1, [[4, 64]]), (2, [[4, 64]]), (2, [[8, 64]])]
    one, two, twice = (row["loss"] for row in scaling if "devices" in row)
    assert two == pytest.approx(one, rel=SAME_LOSS)
    assert twice != pytest.approx(one, rel=SAME_LOSS)
    assert scaling[-1]["within"] == abs(two / one - 1)
    precisions = [result for result in found if result["part"] == "precision"]
    assert [result["what"] for result in precisions] == list(PRECISIONS)
    assert all(0 < result["dev_loss"] < 10 for result in precisions)
    # Each was trained in what it is called by.
    assert len({result["dev_loss"] for result in precisions}) == 3


def test_without_a_gpu_one_line_says_so(tmp_path: Path) -> None:
    done = check_command("--backend", "jax", "--out", tmp_path / "out", **NO_GPU)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: no CUDA GPU: jax sees none; --cpu-rehearsal ")
    assert not (tmp_path / "out").exists()


# --- Configurations -----------------------------------------------------------------------------


def test_every_size_precision_kernel_and_compilation_has_a_row(
    compose: Callable[..., Any],
) -> None:
    rows = list_speeds(("base", "big", "small"))
    named = [row.what for row in rows]
    assert len(set(named)) == len(named)
    for model, precision in itertools.product(("small", "base", "big"), PRECISIONS):
        assert f"{model} {precision}" in named
    assert {row.model for row in rows if row.attention == "fused"} == {"small", "base", "big"}
    assert any(not row.xla for row in rows)
    for row in rows:
        config = compose(*row.overrides)
        assert config.model.name == row.model
        assert config.training.precision == row.precision
        assert config.model.attention_kernel == row.attention
        assert (config.training.jit_compile != "off") == row.xla


def test_devices_share_a_batch_or_have_one_as_large_each(compose: Callable[..., Any]) -> None:
    assert [(row.devices, row.fold) for row in list_scaling("tiny", 6)] == [
        *((1, 1), (2, 1), (4, 1), (6, 1)),
        *((2, 2), (4, 4), (6, 6)),
    ]
    assert [row.devices for row in list_scaling("tiny", 8)][:4] == [1, 2, 4, 8]
    rows = list_scaling("tiny", 2)
    assert len({row.what for row in rows}) == len(rows)
    for row in rows:
        training = compose(*row.overrides).training
        assert training.devices == str(row.devices)
        assert training.batch_tokens == row.fold * BATCH_TOKENS["tiny"]


def shared(devices: int, loss: float, fold: int = 1) -> dict[str, Any]:
    row = {"devices": devices, "fold": fold, "loss": loss}
    return {"part": "scaling", "what": f"{devices}", "status": "ok", **row}


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ([shared(1, 2.0), shared(2, 2.0001), shared(2, 1.5, fold=2)], "ok"),
        ([shared(1, 2.0), shared(2, 2.01)], "failed"),
        ([shared(1, 2.0)], "failed"),  # the others failed
        ([shared(2, 2.0), shared(4, 2.0)], "failed"),  # one device alone failed
        ([shared(1, 2.0), shared(2, float("nan"))], "failed"),
    ],
)
def test_devices_that_share_a_batch_must_have_the_loss_of_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, results: list[dict[str, Any]], status: str
) -> None:
    session = Session(parse(monkeypatch, "--out", tmp_path))
    session.results += results
    compare_losses(session)
    assert session.results[-1]["status"] == status


def test_the_tokenizer_measured_is_that_of_the_run(compose: Callable[..., Any]) -> None:
    recipe = compose("experiment=tatoeba_gpu")
    measured = compose("data=tatoeba", *TOKENIZER)
    assert (measured.data, measured.tokenizer) == (recipe.data, recipe.tokenizer)


@pytest.mark.parametrize("name", ["plain", "it's", "a\\b", "x=1,y z", "b\\'"])
def test_any_path_passes_through_an_override(
    tmp_path: Path, compose: Callable[..., Any], name: str
) -> None:
    path = tmp_path / name
    assert compose(override_path("cache_dir", path)).cache_dir == str(path)


# --- Limits of time -----------------------------------------------------------------------------


def test_a_command_is_stopped_at_its_limit_with_its_children(tmp_path: Path) -> None:
    log, pid = tmp_path / "log.txt", tmp_path / "pid"
    program = f"sleep 300 & echo $! > {pid}; echo begun; wait"
    begin = time.monotonic()
    with pytest.raises(PartError, match=r"^stopped after 5 s$"):
        run_limited(["bash", "-c", program], 5.0, log)
    assert time.monotonic() - begin < 30
    assert "begun" in log.read_text()
    child = Path("/proc") / pid.read_text().strip() / "status"

    def ended() -> bool:  # one that has ended may wait for its parent as a zombie
        try:
            return "State:\tZ" in child.read_text()
        except OSError:
            return True

    if child.parent.parent.is_dir():
        patience = time.monotonic() + 30  # a signal takes its time on a busy machine
        while not ended() and time.monotonic() < patience:
            time.sleep(0.05)
        assert ended()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("raise ValueError('so\\nmuch')", "ValueError: so"),
        ("import sys; sys.exit('error: mend this')", "error: mend this"),
        ("import sys; sys.exit(3)", "exit status 3"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
    ],
)
def test_a_command_that_fails_says_why(tmp_path: Path, program: str, message: str) -> None:
    with pytest.raises(PartError) as caught:
        run_limited([sys.executable, "-c", program], 60, tmp_path / "log.txt")
    assert str(caught.value) == message


def test_notes_behind_a_traceback_are_not_its_error_line() -> None:
    said = """
Traceback (most recent call last):
  File "x.py", line 1, in <module>
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory
--------------------
For simplicity, JAX has removed its internal frames from the traceback.
"""
    line = find_error_line(said)
    assert line == "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory"
    assert find_error_line("one\ntwo\n\n") == "two"
    assert find_error_line("") == ""


def test_rows_that_do_not_fit_beside_the_run_are_left_for_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, archive: Path
) -> None:
    words = ("--archive", archive, "--out", tmp_path, "--minutes", "9", "--train-minutes", "4")
    session = Session(parse(monkeypatch, *words))
    meter = SpeedMeter(session)
    measured: list[Row] = []
    killed: list[Row] = []

    class FakeProcess:
        def __init__(self, row: Row) -> None:
            self.kill = lambda: killed.append(row)

        def wait(self) -> int:
            return 0

    def worker(row: Row) -> tuple[Any, None]:
        return argparse.Namespace(process=FakeProcess(row), row=row), None

    left = {"seconds": 0.0}

    def measure(row: Row, worker: Any, errors: None) -> None:
        assert worker.row == row
        measured.append(row)
        left["seconds"] -= 100.0
        monkeypatch.setattr(meter, "_row_seconds", [100.0])

    monkeypatch.setattr(meter, "_start_worker", worker)
    monkeypatch.setattr(meter, "_measure", measure)
    monkeypatch.setattr(session, "seconds_left", lambda: left["seconds"])
    rows = list_speeds(("base", "big", "small"))
    reserve = gpu_training.seconds_for_training(session)
    assert reserve == 4 * 60 + gpu_training.FINISH_SECONDS
    left["seconds"] = reserve + 250.0
    remaining = meter.measure_rows(rows, reserve=reserve)
    assert measured == rows[:2]
    assert remaining == rows[2:]
    assert killed == rows[2:3]  # it was being set up
    left["seconds"] = 350.0
    assert meter.measure_rows(remaining, reserve=0.0) == rows[5:]


def test_a_run_without_time_left_is_skipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, archive: Path
) -> None:
    words = ("--archive", archive, "--out", tmp_path, "--minutes", "1.5")
    session = Session(parse(monkeypatch, *words))
    monkeypatch.setattr(gpu_training, "run_limited", None)  # not called
    gpu_training.train_recipe(session)
    [result] = session.results
    assert (result["part"], result["status"]) == ("train", "skipped")
    assert result["note"] == "no time is left of 1.5 minutes: raise --minutes"


# --- Wheels -------------------------------------------------------------------------------------


def wheel(folder: Path, name: str, version: str) -> None:
    """Write the wheel of a module that knows its version."""
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{about}/RECORD"])
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        for path, text in (files | {f"{about}/RECORD": record}).items():
            file.writestr(path, text)


def test_missing_wheels_are_installed_beside_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from importlib import metadata

    wheels, site = tmp_path / "wheels", tmp_path / "site"
    wheel(wheels, "module_that_is_missing", "1.5")
    wheel(wheels, "rich", metadata.version("rich"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "before")
    install(wheels, site)
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(site), "before"])
    assert metadata.version("module_that_is_missing") == "1.5"
    assert not (site / "rich.py").exists()  # the same version is there already


@pytest.mark.parametrize(
    ("names", "message"), [([], "holds no wheel"), (["broken"], "pip install failed: ERROR: ")]
)
def test_wheels_that_do_not_install_end_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: Sequence[str], message: str
) -> None:
    for name in names:
        (tmp_path / f"{name}-1.0-py3-none-any.whl").write_bytes(b"no zip")
    with pytest.raises(SystemExit) as caught:
        install(tmp_path, tmp_path / "site")
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_folder_that_was_not_prepared_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        Session(parse(monkeypatch, "--encoded", tmp_path))
    assert caught.value.code == 2
    assert f"holds no {ARCHIVE}: make it with --prepare" in capsys.readouterr().err


def test_the_archive_is_named_as_the_cache_names_it(compose: Callable[..., Config]) -> None:
    (source,) = compose("data=tatoeba").data.sources.values()
    assert source.url is not None
    assert archive_name(source.url) == ARCHIVE


# --- Tables -------------------------------------------------------------------------------------


def text_of(table: Any) -> str:
    console = Console(width=gpu_tables.WIDTH, record=True, quiet=False, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    console.print(table)
    return console.export_text()


def test_the_table_of_speeds_shows_what_was_measured() -> None:
    measured = {
        "status": "ok",
        "tokens_per_second": 1_234_567,
        "step_ms": 12.34,
        "utilisation": 0.321,
        "peak_device_mb": 5120,
        "compile_s": 21.4,
        "product_gflops": 790_000.0,
    }
    rows = [Row("base", "float32"), Row("small", "mixed_bfloat16", "fused", xla=False)]
    found = [
        {"part": "speed", "what": rows[0].what, **vars(rows[0]), **measured},
        {
            **{"part": "speed", "what": rows[1].what, **vars(rows[1])},
            **{"status": "failed", "note": "killed by SIGKILL"},
        },
    ]
    text = text_of(gpu_tables.tabulate_speeds(found))
    cells = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in text.splitlines()
        if "│" in line
    ]
    small, base = cells
    assert base == [
        *("base", "float32", "explicit", "on"),
        *("1,234,567", "12.3", "32.1%", "5.0 GiB", "21 s", "ok"),
    ]
    assert small[:4] == ["small", "mixed_bfloat16", "fused", "off"]
    assert small[4:] == ["", "", "", "", "", "failed: killed by SIGKILL"]
    assert "790 TFLOP/s" in text


def test_the_table_of_devices_compares_with_as_many_alone() -> None:
    one = {"part": "scaling", "status": "ok", "batches": [[2, 64]], "loss": 1.25}
    rows = [Row("tiny", "float32", devices=count) for count in (1, 4)]
    found = [
        {**vars(row), **one, "what": row.what, "tokens_per_second": rate}
        for row, rate in zip(rows, (1000, 3000), strict=True)
    ]
    text = text_of(gpu_tables.tabulate_scaling(found))
    cells = [[cell.strip() for cell in line.split("│")] for line in text.splitlines()]
    assert ["4", "128", "3,000", "75%", "1.25000", "ok"] in [row[3:-1] for row in cells]


def test_parts_without_results_have_no_table() -> None:
    assert [table([]) for table in gpu_tables.TABLES] == [None] * 5


def test_the_shell_script_finds_a_python(tmp_path: Path) -> None:
    """A checkout without an environment falls back on python3."""
    scripts = tmp_path / "scripts" / "gpu"
    scripts.mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "gpu" / "gpu_check.sh", scripts)
    (scripts / "gpu_check.py").write_text("import sys; print(*sys.argv[1:], sep='|')\n")
    environment = {key: value for key, value in os.environ.items() if key != "GPU_CHECK_PYTHON"}
    done = subprocess.run(
        ["bash", str(scripts / "gpu_check.sh"), "--out", "a folder"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout == "--out|a folder\n"
