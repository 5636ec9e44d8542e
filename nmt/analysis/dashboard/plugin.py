"""The "Attention" dashboard of TensorBoard: finds what runs have logged, and serves the viewer.

TensorBoard imports this module at its start, by the entry point ``tensorboard_plugins`` of this
package; hence it imports little. The drawing is done in the browser (`nmt/viewer/browser`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tensorboard import errors, plugin_util
from tensorboard.backend import http_util
from tensorboard.data import provider
from tensorboard.plugins import base_plugin
from werkzeug import Request, Response

from nmt.analysis.dashboard.links import hide_links
from nmt.viewer.page import BROWSER
from nmt.viewer.records import PLUGIN, parse_tag

SAMPLES = 200  # evaluations kept per sentence; 200 of a sentence of 10 tokens are 5 MB at `small`

_TYPES = {".js": "text/javascript", ".css": "text/css"}
_ALL = 1_000_000  # more points than a series can have here

Application = Callable[..., Any]  # WSGI


class AttentionLoader(base_plugin.TBLoader):
    """Raises TensorBoard's limit of points for this plugin, and makes it.

    For all dashboards it hides what ``runs/latest`` would show a second time.
    """

    def fix_flags(self, flags: Any) -> None:
        """Keep `SAMPLES` evaluations, if ``--samples_per_plugin`` says nothing of this plugin.

        TensorBoard's own default of 10 would leave most of a training out. Loaders see the flags
        before data are read, by either of its two data servers.
        """
        flags.samples_per_plugin.setdefault(PLUGIN, SAMPLES)

    def load(self, context: base_plugin.TBContext) -> AttentionPlugin:
        """Return the plugin; from here on no dashboard shows a run under the name of a link."""
        hide_links(context.data_provider, context.logdir or "")
        return AttentionPlugin(context)


class AttentionPlugin(base_plugin.TBPlugin):
    """Answers the questions of the viewer; a bad one is answered with 4xx and one line."""

    plugin_name = PLUGIN

    def __init__(self, context: base_plugin.TBContext) -> None:
        self._data = context.data_provider

    def get_plugin_apps(self) -> dict[str, Application]:
        """Return an application per path."""
        files = [path for path in BROWSER.iterdir() if path.suffix in _TYPES]
        return {
            **{f"/{path.name}": _file(path) for path in files},
            "/runs": Request.application(self._runs),
            "/steps": Request.application(self._steps),
            "/record": Request.application(self._record),
        }

    def is_active(self) -> bool:
        """Return False: TensorBoard asks only if it has found no data of this plugin by itself."""
        return False

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """Return how the dashboard is shown."""
        return base_plugin.FrontendMetadata(es_module_path="/plugin.js", tab_name="Attention")

    def _runs(self, request: Request) -> Response:
        """Answer with runs, the one written last first, and their sentences."""
        listed = self._data.list_blob_sequences(
            plugin_util.context(request.environ),
            experiment_id=plugin_util.experiment_id(request.environ),
            plugin_name=PLUGIN,
        )
        names = sorted(
            listed, key=lambda name: -max(one.max_wall_time for one in listed[name].values())
        )
        answer = [{"name": name, "sentences": _sentences(listed[name])} for name in names]
        return http_util.Respond(request, answer, "application/json")

    def _steps(self, request: Request) -> Response:
        """Answer with the updates after which a sentence was logged, in order."""
        points = [{"step": one.step, "time": one.wall_time} for one in self._points(request)]
        return http_util.Respond(request, points, "application/json")

    def _record(self, request: Request) -> Response:
        """Answer with the record of a sentence after one update."""
        wanted = _argument(request, "step")
        for point in self._points(request):
            if str(point.step) == wanted:
                key = point.values[0].blob_key
                record = self._data.read_blob(plugin_util.context(request.environ), blob_key=key)
                return http_util.Respond(request, record, "application/octet-stream")
        raise errors.NotFoundError(f"nothing was logged after update {wanted!r}")

    def _points(self, request: Request) -> Any:
        run, tag = _argument(request, "run"), _argument(request, "sentence")
        found = self._data.read_blob_sequences(
            plugin_util.context(request.environ),
            experiment_id=plugin_util.experiment_id(request.environ),
            plugin_name=PLUGIN,
            downsample=_ALL,
            run_tag_filter=provider.RunTagFilter(runs=[run], tags=[tag]),
        )
        points = found.get(run, {}).get(tag)
        if points is None:
            raise errors.NotFoundError(f"run {run!r} has no sentence {tag!r}")
        return points


def _sentences(tags: Iterable[str]) -> list[dict[str, str]]:
    """Return the probes of a run in order, without what anybody else has logged for the plugin."""
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


def _file(path: Path) -> Application:
    @Request.application
    def serve(request: Request) -> Response:
        content = path.read_text(encoding="utf-8")
        return http_util.Respond(request, content, _TYPES[path.suffix])

    return serve
