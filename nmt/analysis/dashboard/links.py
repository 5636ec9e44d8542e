"""Runs that TensorBoard finds twice: by their own folder, and by a link to it such as ``latest``.

Both of TensorBoard's data servers follow links when they look for runs, and neither can be told not
to. So what they found is sorted out between them and the dashboards, all of which ask one object.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorboard.data.provider import DataProvider

_BY_RUN = (
    "list_scalars",
    "read_scalars",
    "read_last_scalars",
    "list_tensors",
    "read_tensors",
    "list_blob_sequences",
    "read_blob_sequences",
)


def hide_links(provider: DataProvider, logdir: str) -> None:
    """Let a data provider leave out runs that are another run of ``logdir``, under a link's name.

    A run that is asked for by name is found under every name.

    Args:
        provider: changed in place, because other dashboards have it already.
        logdir: what TensorBoard shows; "" if it was not given one folder, and then nothing changes.
    """
    if not logdir:
        return
    is_link = functools.partial(leads_to_another, Path(logdir).expanduser())
    list_runs = provider.list_runs

    @functools.wraps(list_runs)
    def list_runs_once(*args: Any, **options: Any) -> Any:
        return [run for run in list_runs(*args, **options) if not is_link(run.run_name)]

    provider.list_runs = list_runs_once
    for name in _BY_RUN:
        setattr(provider, name, _once(getattr(provider, name), is_link))


def leads_to_another(logdir: Path, run: str) -> bool:
    """Return whether a run's folder is, by way of a link, another folder in ``logdir``."""
    root = logdir.resolve()
    named = root / run
    real = named.resolve()
    return real != named and real.is_relative_to(root)


def _once(method: Callable[..., Any], is_link: Callable[[str], bool]) -> Callable[..., Any]:
    """Return a method whose answer is by run without the runs that are links."""

    @functools.wraps(method)
    def answer(*args: Any, run_tag_filter: Any = None, **options: Any) -> Any:
        found = method(*args, run_tag_filter=run_tag_filter, **options)
        by_name = run_tag_filter is not None and run_tag_filter.runs is not None
        if found is None or by_name:
            return found
        return {run: of_run for run, of_run in found.items() if not is_link(run)}

    return answer
