"""What a run trains with is checked before the first update."""

from __future__ import annotations

import pytest

from nmt.config.data import StageConfig
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.training.assembly import check_stages_end

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
