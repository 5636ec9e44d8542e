"""The "Attention" dashboard of TensorBoard: serves the viewer and the records of runs.

TensorBoard imports this module when it starts, by this package's entry point
``tensorboard_plugins``, so it imports little. The browser draws (`nmt/viewer/browser`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tensorboard import errors, plugin_util
from tensorboard.backend import http_util
from tensorboard.data import provider
from tensorboard.plugins import base_plugin
from werkzeug import Request, Response

from nmt.analysis.dashboard.links import hide_links
from nmt.analysis.dashboard.splits import PREFIX, Splits
from nmt.errors import UserError
from nmt.viewer.page import BROWSER
from nmt.viewer.records import PLUGIN, parse_tag

DASHBOARD = "attention"  # name of the dashboard in TensorBoard's address: #attention
FORMER_NAME = "nmt_attention"  # its name up to version 0.2; the records keep it: see `PLUGIN`
SAMPLES = 200  # evaluations kept per sentence; 200 of a sentence of 10 tokens are 5 MB at `small`

_TYPES = {".js": "text/javascript", ".css": "text/css"}
_NO_LIMIT = 1_000_000  # more points than a series has

Application = Callable[..., Any]  # WSGI


class AttentionLoader(base_plugin.TBLoader):
    """Creates the plugin, and raises TensorBoard's limit of points per series for it.

    It also hides, on all dashboards, runs that ``runs/latest`` would show a second time.
    """

    def fix_flags(self, flags: Any) -> None:
        """Keep `SAMPLES` evaluations unless ``--samples_per_plugin attention=N`` sets a number.

        TensorBoard's default of 10 would omit most of a training. Loaders see the flags before
        either of its two data servers reads data.
        """
        samples = flags.samples_per_plugin
        samples.setdefault(PLUGIN, samples.get(DASHBOARD, SAMPLES))

    def load(self, context: base_plugin.TBContext) -> AttentionPlugin:
        """Return the plugin, and hide links to runs on all dashboards."""
        hide_links(context.data_provider, context.logdir or "")
        return AttentionPlugin(context)


class AttentionPlugin(base_plugin.TBPlugin):
    """Answers the viewer's requests; an invalid request gets status 4xx and one line."""

    plugin_name = DASHBOARD

    def __init__(self, context: base_plugin.TBContext) -> None:
        self._data = context.data_provider
        self._splits = Splits(context.logdir or "")

    def get_plugin_apps(self) -> dict[str, Application]:
        """Return the application of each path."""
        files = [path for path in BROWSER.iterdir() if path.suffix in _TYPES]
        return {
            **{f"/{path.name}": _serve_file(path) for path in files},
            "/runs": Request.application(self._runs),
            "/steps": Request.application(self._steps),
            "/record": Request.application(self._record),
            "/splits": Request.application(self._shared_splits),
            "/changes": Request.application(self._changes),
        }

    def data_plugin_names(self) -> tuple[str, ...]:
        """Return the name under which runs log records."""
        return (PLUGIN,)

    def is_active(self) -> bool:
        """Return False: TensorBoard asks only if no run has data of this plugin."""
        return False

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """Return the dashboard's entry module and tab name."""
        return base_plugin.FrontendMetadata(es_module_path="/plugin.js", tab_name="Attention")

    def _runs(self, request: Request) -> Response:
        """Answer with runs, most recently written first, and their sentences."""
        listed = self._data.list_blob_sequences(
            plugin_util.context(request.environ),
            experiment_id=plugin_util.experiment_id(request.environ),
            plugin_name=PLUGIN,
        )
        names = sorted(
            listed, key=lambda name: -max(series.max_wall_time for series in listed[name].values())
        )
        answer = [{"name": name, "sentences": _sentences(listed[name])} for name in names]
        return http_util.Respond(request, answer, "application/json")

    def _steps(self, request: Request) -> Response:
        """Answer with the updates after which a sentence was logged, in order."""
        run, sentence = _argument(request, "run"), _argument(request, "sentence")
        if sentence.startswith(PREFIX):
            computed = self._splits.steps(run, sentence)
            return http_util.Respond(request, computed, "application/json")
        steps = [{"step": point.step, "time": point.wall_time} for point in self._points(request)]
        return http_util.Respond(request, steps, "application/json")

    def _record(self, request: Request) -> Response:
        """Answer with the record of a sentence after one update."""
        run, sentence, step = (_argument(request, name) for name in ("run", "sentence", "step"))
        if sentence.startswith(PREFIX):
            with _not_found():
                record = self._splits.record(run, sentence, _number(step))
            return http_util.Respond(request, record, "application/octet-stream")
        for point in self._points(request):
            if str(point.step) == step:
                key = point.values[0].blob_key
                record = self._data.read_blob(plugin_util.context(request.environ), blob_key=key)
                return http_util.Respond(request, record, "application/octet-stream")
        raise errors.NotFoundError(f"nothing was logged after update {step!r}")

    def _shared_splits(self, request: Request) -> Response:
        """Answer with the splits that two runs have translated."""
        runs = _argument(request, "run"), _argument(request, "other")
        with _not_found():
            return http_util.Respond(request, self._splits.list_shared(*runs), "application/json")

    def _changes(self, request: Request) -> Response:
        """Answer with the sentences of a split that one run translates better."""
        run, other, split = (_argument(request, name) for name in ("run", "other", "split"))
        step, better, count = (
            _number(_argument(request, name)) for name in ("step", "better", "count")
        )
        with _not_found():
            answer = self._splits.compare(run, other, split, step, better=better, count=count)
        return http_util.Respond(request, answer, "application/json")

    def _points(self, request: Request) -> Any:
        run, tag = _argument(request, "run"), _argument(request, "sentence")
        data = self._data.read_blob_sequences(
            plugin_util.context(request.environ),
            experiment_id=plugin_util.experiment_id(request.environ),
            plugin_name=PLUGIN,
            downsample=_NO_LIMIT,
            run_tag_filter=provider.RunTagFilter(runs=[run], tags=[tag]),
        )
        points = data.get(run, {}).get(tag)
        if points is None:
            raise errors.NotFoundError(f"run {run!r} has no sentence {tag!r}")
        return points


class FormerAddress(base_plugin.TBPlugin):
    """Makes links to the dashboard's former name open the dashboard."""

    plugin_name = FORMER_NAME

    def get_plugin_apps(self) -> dict[str, Application]:
        """Return the application of its one path."""
        return {"/former.js": _serve_file(BROWSER / "former.js")}

    def data_plugin_names(self) -> tuple[str, ...]:
        """Return no name: the records belong to the dashboard, and this has no tab."""
        return ()

    def is_active(self) -> bool:
        """Return False: TensorBoard lists it among the inactive dashboards."""
        return False

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """Return the module that opens the dashboard, and a name."""
        return base_plugin.FrontendMetadata(
            es_module_path="/former.js", tab_name="Attention (former address)"
        )


def _sentences(tags: Iterable[str]) -> list[dict[str, str]]:
    """Return the probes of a run in order; other tags of the plugin are ignored."""
    probes = []
    for tag in tags:
        with suppress(ValueError):
            probes.append((*parse_tag(tag), tag))
    return [{"id": tag, "text": text} for _, text, tag in sorted(probes)]


def _argument(request: Request, name: str) -> str:
    value = request.args.get(name)
    if value is None:
        raise errors.InvalidArgumentError(f"the parameter {name!r} is missing")
    return value


def _number(text: str) -> int:
    if not text.isdecimal():
        raise errors.InvalidArgumentError(f"{text!r} is not a number")
    return int(text)


@contextmanager
def _not_found() -> Iterator[None]:
    """Answer a `UserError` with status 404 and its message."""
    try:
        yield
    except UserError as error:
        raise errors.NotFoundError(str(error)) from error


def _serve_file(path: Path) -> Application:
    @Request.application
    def serve(request: Request) -> Response:
        content = path.read_text(encoding="utf-8")
        return http_util.Respond(request, content, _TYPES[path.suffix])

    return serve
