"""Runs that TensorBoard lists twice: under their folder, and under a link to it such as ``latest``.

Both of TensorBoard's data servers follow links, and neither has an option against it. The filter is
therefore the data provider, which all dashboards share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorboard.data.provider import DataProvider

_METHODS_BY_RUN = (
    "list_scalars",
    "read_scalars",
    "read_last_scalars",
    "list_tensors",
    "read_tensors",
    "list_blob_sequences",
    "read_blob_sequences",
)


def hide_links(provider: DataProvider, logdir: str) -> None:
    """Make a data provider omit runs that are links to another run of ``logdir``.

    A request by name still works under every name.

    Args:
        provider: changed in place, because other dashboards hold it already.
        logdir: the folder that TensorBoard shows; nothing changes if it is "" (no single folder).
    """
    if not logdir:
        return
    is_link = functools.partial(is_link_to_another, Path(logdir).expanduser())
    list_runs = provider.list_runs

    @functools.wraps(list_runs)
    def list_runs_without_links(*args: Any, **options: Any) -> Any:
        return [run for run in list_runs(*args, **options) if not is_link(run.run_name)]

    provider.list_runs = list_runs_without_links
    for name in _METHODS_BY_RUN:
        setattr(provider, name, _without_links(getattr(provider, name), is_link))


def is_link_to_another(logdir: Path, run: str) -> bool:
    """Return whether a run's folder is a link to another folder in ``logdir``."""
    root = logdir.resolve()
    path = root / run
    real = path.resolve()
    return real != path and real.is_relative_to(root)


def _without_links(
    method: Callable[..., Any], is_link: Callable[[str], bool]
) -> Callable[..., Any]:
    """Return a method whose answer, a mapping by run, omits the runs that are links."""

    @functools.wraps(method)
    def answer(*args: Any, run_tag_filter: Any = None, **options: Any) -> Any:
        data = method(*args, run_tag_filter=run_tag_filter, **options)
        by_name = run_tag_filter is not None and run_tag_filter.runs is not None
        if data is None or by_name:
            return data
        return {run: tags for run, tags in data.items() if not is_link(run)}

    return answer
