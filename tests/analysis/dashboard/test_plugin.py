"""The plugin answers through TensorBoard's own application, over both of its data servers."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE
from fake_attention import SENTENCES, STEPS, attention, log, log_runs
from tensorboard.backend.application import TensorBoardWSGIApp
from tensorboard.default import get_static_plugins
from tensorboard.program import TensorBoard
from werkzeug.test import Client, TestResponse

from nmt.analysis.dashboard.links import is_link_to_another
from nmt.analysis.dashboard.plugin import (
    DASHBOARD,
    FORMER_NAME,
    SAMPLES,
    AttentionLoader,
    FormerAddress,
    _sentences,
)
from nmt.viewer import records

pytestmark = pytest.mark.xdist_group("attention plugin")

OURS = f"plugin/{DASHBOARD}"
TAGS = [records.tag(number, sentence) for number, sentence in enumerate(SENTENCES, start=1)]


def board(folder: Path, load_fast: str) -> Client:
    """Return a client of TensorBoard with this plugin, as its command makes it.

    The slow data server reads in a thread of this process. It is left to `until`, because a thread
    that still reads when the process ends would abort it.
    """
    program = TensorBoard(plugins=[*get_static_plugins(), AttentionLoader(), FormerAddress])
    interval = "1" if load_fast == "true" else "0"
    options = {"logdir": str(folder), "load_fast": load_fast, "reload_interval": interval}
    program.configure(["tensorboard", *(f"--{name}={value}" for name, value in options.items())])
    provider, multiplexer = program._make_data_provider()
    app = TensorBoardWSGIApp(
        program.flags, program.plugin_loaders, provider, program.assets_zip_provider, multiplexer
    )
    client = Client(app)
    client.program = program  # owns the data server's process
    client.read = lambda: multiplexer and multiplexer.AddRunsFromDirectory(str(folder)).Reload()
    return client


def ask(client: Client, path: str, **parameters: Any) -> TestResponse:
    return client.get(f"/data/{OURS}/{path}", query_string=parameters)


def until(client: Client, path: str, is_complete: Any, **parameters: Any) -> Any:
    """Ask until TensorBoard has read the event files."""
    deadline = time.monotonic() + PATIENCE / 1000
    while True:
        client.read()
        answer = client.get(f"/data/{path}", query_string=parameters)
        if answer.status_code == 200 and is_complete(answer.json):
            return answer.json
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.1)


@pytest.fixture(scope="module", params=["true", "false"], ids=["fast", "slow"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Client:
    folder = tmp_path_factory.mktemp("logs")
    log_runs(folder)
    client = board(folder, request.param)
    until(client, f"{OURS}/runs", lambda runs: len(runs) == 2)
    for run in ("2026-01-02_new/logs", "latest/logs"):
        options = {"run": run, "sentence": TAGS[0]}
        until(client, f"{OURS}/steps", lambda steps: len(steps) == 3, **options)
    for run in ("2025-12-31_before/logs", "2026-01-01_old/logs"):
        options = {"run": run, "tag": "train/loss"}
        until(client, "plugin/scalars/scalars", lambda points: len(points) == 1, **options)
    return client


def test_the_dashboard_is_listed(client: Client) -> None:
    listed = client.get("/data/plugins_listing").json[DASHBOARD]
    assert listed["enabled"]
    assert listed["tab_name"] == "Attention"
    assert listed["loading_mechanism"]["type"] == "IFRAME"
    script = client.get(listed["loading_mechanism"]["module_path"])
    assert script.status_code == 200
    assert script.content_type.startswith("text/javascript")
    assert "export function render" in script.text


def test_the_former_name_leads_to_the_dashboard_and_has_no_tab(client: Client) -> None:
    listed = client.get("/data/plugins_listing").json[FORMER_NAME]
    assert not listed["enabled"]
    script = client.get(listed["loading_mechanism"]["module_path"])
    assert "#attention" in script.text


def test_the_newest_run_comes_first_and_is_not_shown_twice(client: Client) -> None:
    sentences = [
        {"id": tag, "text": sentence} for tag, sentence in zip(TAGS, SENTENCES, strict=True)
    ]
    assert ask(client, "runs").json == [
        {"name": "2026-01-02_new/logs", "sentences": sentences},
        {"name": "2026-01-01_old/logs", "sentences": sentences},
    ]


def test_no_dashboard_shows_the_newest_run_twice(client: Client) -> None:
    """The link `latest` is one of the folders that TensorBoard reads."""
    runs = ["2025-12-31_before/logs", "2026-01-01_old/logs", "2026-01-02_new/logs"]
    assert sorted(client.get("/data/runs").json) == runs
    for path in ("scalars/tags", "hparams/experiment", "images/tags", "text/tags"):
        answer = client.get(f"/data/plugin/{path}")
        assert answer.status_code in (200, 400), path  # 400: nothing was logged for it
        assert "latest" not in answer.text, path
    assert sorted(client.get("/data/plugin/scalars/tags").json) == runs
    tags = client.get("/data/plugin/timeseries/tags").json["scalars"]
    assert sorted(tags["runTagInfo"]) == runs
    requests = [{"plugin": "scalars", "tag": "train/loss"}]
    [series] = client.post(
        "/data/plugin/timeseries/timeSeries", data={"requests": json.dumps(requests)}
    ).json
    assert sorted(series["runToSeries"]) == runs
    # Whoever asks for it by its name gets it.
    points = client.get(
        "/data/plugin/scalars/scalars", query_string={"run": "latest/logs", "tag": "train/loss"}
    ).json
    assert [point[1:] for point in points] == [[10, 0.5]]


def test_a_link_is_hidden_where_it_is_link_to_another_folder_of_runs(tmp_path: Path) -> None:
    for folder in ("runs/a/logs", "elsewhere/logs"):
        (tmp_path / folder).mkdir(parents=True)
    runs = tmp_path / "runs"
    (runs / "latest").symlink_to("a", target_is_directory=True)
    (runs / "gone").symlink_to("deleted", target_is_directory=True)
    (runs / "other").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "all").symlink_to("runs", target_is_directory=True)
    for logdir in (runs, tmp_path / "all", tmp_path / "x" / ".." / "runs"):
        hidden = [
            run
            for run in (".", "a/logs", "latest/logs", "gone/logs", "other/logs", "unknown")
            if is_link_to_another(logdir, run)
        ]
        assert hidden == ["latest/logs", "gone/logs"]
    assert not is_link_to_another(runs / "latest", "logs")
    assert not is_link_to_another(Path("gs://bucket/runs"), "a/logs")


def test_what_others_log_for_the_plugin_is_left_out() -> None:
    sentences = _sentences(["theirs", records.tag(10, "b"), "", records.tag(2, "c")])
    assert [sentence["text"] for sentence in sentences] == ["c", "b"]
    assert sentences[0]["id"] == records.tag(2, "c")


@pytest.mark.parametrize("run", ["2026-01-02_new/logs", "latest/logs"])
def test_every_step_gives_its_record(client: Client, run: str) -> None:
    for tag, sentence in zip(TAGS, SENTENCES, strict=True):
        steps = ask(client, "steps", run=run, sentence=tag).json
        assert [point["step"] for point in steps] == list(STEPS)
        assert [point["time"] for point in steps] == sorted(point["time"] for point in steps)
        for step, sharpness in STEPS.items():
            answer = ask(client, "record", run=run, sentence=tag, step=step)
            assert answer.content_type == "application/octet-stream"
            record = records.decode(answer.data)
            assert record.sentence == sentence
            expected = attention(sharpness=sharpness).cross
            np.testing.assert_allclose(record.weights["cross"], expected, atol=1e-3)


@pytest.mark.parametrize(
    ("path", "parameters", "status", "message"),
    [
        ("steps", {}, 400, "the parameter 'run' is missing"),
        ("steps", {"run": "x"}, 400, "the parameter 'sentence' is missing"),
        ("steps", {"run": "x", "sentence": TAGS[0]}, 404, "run 'x' has no sentence"),
        ("steps", {"run": "latest/logs", "sentence": "loss"}, 404, "has no sentence 'loss'"),
        ("record", {"run": "latest/logs", "sentence": TAGS[0]}, 400, "'step' is missing"),
        (
            "record",
            {"run": "latest/logs", "sentence": TAGS[0], "step": "7"},
            404,
            "nothing was logged after update '7'",
        ),
        ("record", {"run": "x\ny", "sentence": TAGS[0], "step": "100"}, 404, "run 'x\\ny' has no"),
        ("../runs", {}, 404, ""),
    ],
)
def test_bad_questions_are_answered_in_one_line(
    client: Client, path: str, parameters: dict[str, str], status: int, message: str
) -> None:
    answer = ask(client, path, **parameters)
    assert answer.status_code == status
    assert message in answer.text
    if message:
        assert answer.content_type.startswith("text/plain")
        assert len(answer.text.splitlines()) == 1


@pytest.mark.parametrize("load_fast", ["true", "false"])
def test_long_trainings_and_runs_in_progress(tmp_path: Path, load_fast: str) -> None:
    client = board(tmp_path, load_fast)
    assert not client.get("/data/plugins_listing").json[DASHBOARD]["enabled"]
    assert ask(client, "runs").json == []
    folder = tmp_path / "run" / "logs"
    for step in range(1, 60):
        log(folder, step)
    parameters = {"run": "run/logs", "sentence": TAGS[1]}
    steps = until(client, f"{OURS}/steps", lambda steps: len(steps) == 59, **parameters)
    # TensorBoard's default keeps 10.
    assert [point["step"] for point in steps] == list(range(1, 60))
    assert client.get("/data/plugins_listing").json[DASHBOARD]["enabled"]
    # Resumed after update 50, the run goes another way.
    log(folder, 51, purge_step=51)
    steps = until(client, f"{OURS}/steps", lambda steps: len(steps) == 51, **parameters)
    assert steps[-1]["step"] == 51


def test_the_users_own_limit_stays() -> None:
    program = TensorBoard(plugins=[*get_static_plugins(), AttentionLoader()])
    program.configure(["tensorboard", "--logdir", "x", "--samples_per_plugin", "images=3"])
    assert program.flags.samples_per_plugin == {"images": 3, records.PLUGIN: SAMPLES}
    for name in (records.PLUGIN, DASHBOARD):
        program.configure(["tensorboard", "--logdir", "x", "--samples_per_plugin", f"{name}=7"])
        assert program.flags.samples_per_plugin[records.PLUGIN] == 7


def test_answers_are_json_that_browsers_take(client: Client) -> None:
    assert json.loads(ask(client, "runs").data)[0]["sentences"][1]["text"] == SENTENCES[1]
