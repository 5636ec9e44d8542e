"""What a run trains with is checked before the first update."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from nmt.config.data import StageConfig
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.training.assembly import check_stages_end

if TYPE_CHECKING:
    from workshop import Workshop

pytest_plugins = ("workshop",)
pytestmark = pytest.mark.xdist_group("workshop")

DEV = [Pair("Hola.", "Hello.")]


@pytest.mark.parametrize(
    ("stage", "dev"),
    [
        (StageConfig(plateau=2), DEV),
        (StageConfig(plateau=2, steps=5), []),
        (StageConfig(plateau=2, share=0.5), []),
        (StageConfig(plateau=2, minutes=5.0), []),
        (StageConfig(steps=5), []),
    ],
)
def test_a_stage_ends_by_dev_bleu_or_by_another_limit(stage: StageConfig, dev: list[Pair]) -> None:
    check_stages_end([stage, StageConfig()], dev)


def test_a_stage_that_would_never_end_is_refused() -> None:
    stages = [StageConfig(steps=5), StageConfig(plateau=2), StageConfig()]
    with pytest.raises(UserError, match=r"data\.stages\[1\] ends by plateau=2 alone, without dev"):
        check_stages_end(stages, [])


def test_probes_without_attention_are_named(kept: Workshop) -> None:
    long = " ".join(["Hoy hace mucho frío,"] * 20)
    probes = f"training.probes=['Hoy hace frío.', '🎉', ' ', '{long}']"
    few = "training.max_steps=1", "data.dev=0", "data.test=0"
    shown = io.StringIO()
    with pytest.warns(UserWarning, match="such texts are translated in segments"):
        kept.train(*few, probes, console=Console(file=shown, width=1000))
    warnings = [line for line in shown.getvalue().splitlines() if line.startswith("warning: ")]
    reason = "shows no attention, since it is empty, copied or longer than a row"
    assert warnings == [
        f"warning: training.probes: {probe!r} {reason}: choose another sentence"
        for probe in ("🎉", " ", long)
    ]
