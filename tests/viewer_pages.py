"""Pages with the viewer, and TensorBoard: a plugin for pytest."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE
from fake_attention import log_runs
from tensorboard.program import TensorBoard
from viewer_checks import NEW

ROOT = Path(__file__).parents[1]


def ours(message: Any) -> bool:
    """Tell errors, and whatever our scripts say, from the notes of TensorBoard's own."""
    url = message.location["url"]
    meant = "favicon.ico" in url or "ERR_INTERNET_DISCONNECTED" in message.text
    return (message.type == "error" or "plugin/attention" in url) and not meant


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open pages; nothing may be asked of another origin, and the console stays empty."""
    pages = []
    requests: list[str] = []
    messages: list[str] = []

    def opened(url: str, **options: Any) -> Any:
        page = browser.new_page(**options)
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("console", lambda message: messages.append(message.text) if ours(message) else None)
        page.goto(url)
        pages.append((page, url))
        return page

    yield opened
    for page, _ in pages:
        page.close()
    origins = tuple(re.match(r"\w+://[^/]*/", url)[0] for _, url in pages)  # type: ignore[index]
    assert [url for url in requests if not url.startswith((*origins, "data:"))] == []
    assert messages == []


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    log_runs(folder)
    return folder


@pytest.fixture(scope="module")
def start_tensorboard(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], str]:
    """Return a function that starts TensorBoard with this package; it returns the address."""
    # What an installation leaves behind, in case this one is older than the entry points.
    installed = tmp_path_factory.mktemp("installed") / "nmt-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: nmt\nVersion: 0\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [
        f"{name} = {place}"
        for name, place in project["entry-points"]["tensorboard_plugins"].items()
    ]
    (installed / "entry_points.txt").write_text("\n".join(["[tensorboard_plugins]", *lines]) + "\n")

    def start(logs: Path) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(installed.parent)
            program = TensorBoard()
        program.configure(["", "--logdir", str(logs), "--port", "0", "--reload_interval", "1"])
        return program.launch()  # in threads of this process, and so to its end

    return start


@pytest.fixture(scope="module")
def tensorboard(start_tensorboard: Callable[[Path], str], logs: Path) -> str:
    """Run TensorBoard over the three runs of `log_runs`; return its address."""
    return start_tensorboard(logs)


@pytest.fixture
def frame(tensorboard: str, open_page: Callable[..., Any]) -> Any:
    """Open the page that TensorBoard shows in its frame."""
    page = open_page(f"{tensorboard}data/plugin_entry.html?name=attention")
    page.locator("select[name=run]").select_option(NEW)
    page.get_by_text("300 (3 of 3)").wait_for()
    return page
