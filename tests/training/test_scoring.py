"""Dev and test are scored by the rules of the language that they are translated into."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sample_configs import LANGUAGES, configured

from nmt.data.corpus import Corpus
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.training import scoring
from nmt.training.evaluator import Evaluator
from nmt.training.process_group import ProcessGroup

INTO_CHINESE = [Pair("<2zh> Hello.", "你好。"), Pair("<2zh> I'm leaving.", "我走了。")]
INTO_ENGLISH = [Pair("<2en> 你好。", "Hello."), Pair("<2en> 我走了。", "I'm leaving.")]
SESSION: Any = SimpleNamespace(
    config=configured(
        *("experiment=both_directions", "data=files", "data.train=a.tsv", *LANGUAGES),
        *("data.source_language=zh", "data.sources.reversed.tag='<2zh>'"),
    ),
    process_group=ProcessGroup(),
    console=None,
)


@pytest.mark.parametrize(
    ("pairs", "tokenizer"),
    [(INTO_CHINESE, "zh"), (INTO_ENGLISH, "13a"), (INTO_CHINESE + INTO_ENGLISH, "13a")],
)
def test_dev_sentences_in_two_languages_are_scored_as_those_of_the_first(
    pairs: list[Pair], tokenizer: str
) -> None:
    translator: Any = None
    evaluator = Evaluator(SESSION, None, pairs, translator, {})
    bleu, _ = evaluator._score([pair.target for pair in pairs])
    assert f"|tok:{tokenizer}|" in bleu.signature


def test_each_test_set_is_scored_by_its_own_language(monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, Any] = {}
    session = SimpleNamespace(**vars(SESSION))
    session.folder = SimpleNamespace(write_json=written.__setitem__)
    tests = {"back": INTO_CHINESE, "both": INTO_CHINESE + INTO_ENGLISH}
    corpus = Corpus((), dev=[], test=INTO_ENGLISH, rejected={}, lines=0, tests=tests)
    targets = {pair.source: pair.target for pair in tests["both"]}
    monkeypatch.setattr(scoring, "Translator", SimpleNamespace(load=lambda *_, **__: None))
    monkeypatch.setattr(
        scoring,
        "translate_with_progress",
        lambda translator, sources, console: [targets[source] for source in sources],
    )
    scores = scoring.score_run(session, corpus)
    signatures = {name: each.evaluation.scores[0].signature for name, each in scores.items()}
    for name, tokenizer in (("test", "13a"), ("back", "zh"), ("both", "13a")):
        assert f"|tok:{tokenizer}|" in signatures[name]
    parts = written["evaluation_test_both.json"]["by_language"]
    assert [(part["language"], part["sentences"]) for part in parts] == [("en", 2), ("zh", 2)]
    assert "by_language" not in written["evaluation_test_back.json"]


def test_a_start_run_that_lost_its_weights_is_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: Any, **__: Any) -> None:
        raise UserError("it has no weights yet")

    session: Any = SimpleNamespace(
        components=SimpleNamespace(open_start=lambda path: path),
        console=SimpleNamespace(print=print),
    )
    monkeypatch.setattr(scoring, "Translator", SimpleNamespace(load=load))
    assert scoring._load_start(session, tmp_path, "auto") is None
    assert capsys.readouterr().out == f"not compared with {tmp_path}: it has no weights yet\n"
    assert scoring._load_start(session, tmp_path / "missing", "auto") is None
    assert capsys.readouterr().out == ""
