"""Callbacks: code of the user that the training loop calls."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.errors import UserError

if TYPE_CHECKING:  # loads Keras
    from nmt.training.job import Run
    from nmt.training.journal import DevEvaluation
    from nmt.training.report import Report
    from nmt.training.session import Session


class Callback:
    """The base of callbacks, whose methods do nothing: override those that you need.

    Every process of a run calls its own callbacks. An exception ends the run like any other error:
    checkpoints that were saved before are intact, and the run can be resumed.
    """

    def on_start(self, session: Session) -> None:
        """Called before the first update.

        Args:
            session: the run: its ``folder``, ``config``, ``model`` and ``state``; `Session.stop`
                ends it. With JAX, ``model`` gets the weights at evaluations and at the end;
                ``train_step.state()`` returns them at any time.
        """

    def on_update(self, step: int) -> None:
        """Called after every update has been dispatched; its results may not be ready.

        Args:
            step: number of the update, from 1. It can fall: a run may return to a checkpoint.
        """

    def on_report(self, step: int, report: Report) -> None:
        """Called with the measurements of the last ``training.log_every`` updates."""

    def on_evaluation(self, step: int, evaluation: DevEvaluation) -> None:
        """Called with loss, scores and samples on the dev split, after they were saved."""

    def on_save(self, path: Path) -> None:
        """Called after a checkpoint was written to ``path``."""

    def on_end(self, run: Run) -> None:
        """Called with the run, which is complete and scored, or was interrupted."""


def list_callbacks(callbacks: Callback | Iterable[Callback]) -> list[Callback]:
    """Return one callback, or those of an iterable, as a list.

    Raises:
        UserError: one is not an instance of `Callback`.
    """
    listed = [*callbacks] if isinstance(callbacks, Iterable) else [callbacks]
    for callback in listed:
        if not isinstance(callback, Callback):
            raise UserError(
                f"callbacks: {callback!r} is not an instance of nmt.Callback: pass an object of a "
                "class that is derived from it"
            )
    return listed
