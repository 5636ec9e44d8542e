"""How sources are mixed, by temperature and in stages; turned around; weighed in the loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sample_corpora import complaint, configure
from test_sources import Pairs, as_pairs, load, numbered, source

from nmt.config.data import StageConfig
from nmt.config.sources import SourceConfig
from nmt.data.batches import InMemoryBatches
from nmt.data.corpus import Corpus, EvaluationSet, load_corpus
from nmt.data.encoded import EncodedCorpus
from nmt.data.mixture import (
    SourcePairs,
    add_phrases,
    count_repeats,
    list_by_occurrence,
    list_pairs,
    list_weights,
    mix_sources,
    sample_run,
    to_source_view,
)
from nmt.data.ragged import RaggedIds
from nmt.data.splitting import Pair


def turned(pairs: list[Pair]) -> list[Pair]:
    return [Pair(pair.target, pair.source) for pair in pairs]


def test_repeated_pairs_have_their_values_in_order() -> None:
    one, two, three = (Pair(name, name) for name in ("one", "two", "three"))
    values = {one: ["a", "b"], two: [""], three: ["c"]}
    assert list_by_occurrence([one, two, one, one, two], values) == ["a", "", "b", "", ""]


# --- Temperature and stages. ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("temperature", "repeats"), [(None, (1, 1)), (1, (1, 1)), (2, (1, 4)), (1e9, (1, 16))]
)
def test_small_sources_are_repeated_by_the_temperature(
    tmp_path: Path, temperature: float | None, repeats: tuple[int, int]
) -> None:
    sources = {
        "large": source(tmp_path, "large", numbered("large", 64)),
        "small": source(tmp_path, "small", numbered("small", 4)),
    }
    corpus = load(sources, temperature=temperature)
    assert tuple(source.repeats for source in corpus.mixture) == repeats


def test_a_weight_of_its_own_comes_before_the_temperature(tmp_path: Path) -> None:
    sources = {
        "large": source(tmp_path, "large", numbered("large", 64)),
        "small": source(tmp_path, "small", numbered("small", 4), weight=16),
    }
    corpus = load(sources, temperature=2)  # 8 for the larger
    assert [source.repeats for source in corpus.mixture] == [1, 32]


def test_neither_generated_pairs_nor_those_without_a_weight_are_repeated() -> None:
    sources = {
        "made": SourceConfig("patterns", pairs=5, weight=8),
        "small": SourceConfig("files", path="small.tsv", weight=1),
        "plain": SourceConfig("files", path="plain.tsv"),
        "empty": SourceConfig("files", path="empty.tsv", weight=1),
        "large": SourceConfig("files", path="large.tsv", weight=4),
    }
    config = configure(sources)
    sizes = {"large": 20, "plain": 1, "small": 1, "made": 5, "empty": 0}
    repeats = count_repeats(config, sizes)
    assert list(repeats.items()) == [("made", 1), ("small", 5), ("plain", 1), ("large", 1)]
    train = {name: as_pairs(numbered(name, size)) for name, size in sizes.items()}
    mixture = mix_sources(config, train, {}, {}, {})
    assert {source.name: source.repeats for source in mixture} == repeats
    assert [source.name for source in mixture if not source.is_read] == ["made"]
    # Nor does the temperature weigh generated pairs.
    config = configure({"made": SourceConfig("patterns"), "small": sources["plain"]}, temperature=2)
    assert count_repeats(config, {"made": 64, "small": 4}) == {"made": 1, "small": 1}


def test_pairs_of_another_run_are_as_many_as_its_weight_gives() -> None:
    sources = {
        "run": SourceConfig("run", run="runs/old", weight=2),
        "new": SourceConfig("files", path="new.tsv", weight=1),
        "large": SourceConfig("files", path="large.tsv", weight=4),
        "plain": SourceConfig("files", path="plain.tsv"),
    }
    pairs = as_pairs(numbered("run", 100))
    config = configure(sources)
    assert sample_run(config, "run", pairs, {"new": 5, "large": 8, "plain": 90}) == pairs[::10]
    assert sample_run(config, "run", pairs, {"plain": 90}) == pairs, "no weight to compare with"
    sources["run"].weight = None
    assert sample_run(config, "run", pairs, {"new": 5}) == pairs


def staged(tmp_path: Path, *stages: StageConfig) -> Corpus:
    sources = {
        "general": source(tmp_path, "general", numbered("general", 12)),
        "domain": source(tmp_path, "domain", numbered("domain", 4)),
    }
    return load(sources, stages=list(stages), dev=2, test=2)


def test_stages_are_mixtures_of_the_same_split(tmp_path: Path) -> None:
    corpus = staged(
        tmp_path,
        StageConfig({"domain": 0}, steps=5),
        StageConfig({"domain": 1, "general": 1}, plateau=2),
        StageConfig({"general": 0}),
    )
    general, domain = ([p for p in corpus.train if p.source.startswith(w)] for w in ("gen", "dom"))
    first, second, third = (list_pairs(mixture) for mixture in corpus.stages)
    assert first == general
    assert third == domain
    times = round(len(general) / len(domain))
    assert second == general + domain * times
    assert times > 1
    held_out = {*corpus.dev, *corpus.test}
    assert len(held_out) == 4
    assert not held_out & {*first, *second, *third}


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([StageConfig({"news": 1})], "data.stages[0].weights: no such source 'news'"),
        (
            [StageConfig({"general": -1})],
            "data.stages[0].weights.general must be at least 0",
        ),
        ([StageConfig({"general": 0, "domain": 0})], "data.stages[0].weights leave nothing"),
        ([StageConfig(), StageConfig()], "data.stages[0] has no end: set its steps, share"),
        ([StageConfig(steps=3)], "data.stages[0] is the last stage and ends with training"),
        ([StageConfig(steps=0), StageConfig()], "data.stages[0].steps must be at least 1"),
        ([StageConfig(share=1), StageConfig()], "data.stages[0].share must be above 0 and below 1"),
    ],
)
def test_stages_that_cannot_be_are_refused(
    tmp_path: Path, stages: list[StageConfig], message: str
) -> None:
    from nmt.config.checks import check_values
    from nmt.config.data import check_data

    sources = {
        "general": source(tmp_path, "general", numbered("general", 12)),
        "domain": source(tmp_path, "domain", numbered("domain", 4)),
    }
    config = configure(sources, stages=stages)

    def check() -> None:
        check_values(config, "data.")
        check_data(config)

    assert complaint(check).startswith(message)


# --- The other way round. -------------------------------------------------------------------------


def test_everything_is_turned_around(tmp_path: Path) -> None:
    talk = numbered("talk", 40)
    forward = load({"talk": source(tmp_path, "talk", talk)}, dev=5, test=5)
    backward = load({"talk": source(tmp_path, "talk", talk)}, dev=5, test=5, reverse=True)
    for split in ("train", "dev", "test"):
        assert getattr(backward, split) == turned(getattr(forward, split))
    both = {"talk": source(tmp_path, "talk", talk, reverse=True)}
    assert load(both, reverse=True).train == as_pairs(talk)


def test_languages_are_those_that_the_model_reads_and_writes() -> None:
    config = configure({}, source_language="es", target_language="en")
    assert config.languages == ("es", "en")
    assert configure({}, source_language="es", target_language="en", reverse=True).languages == (
        *("en", "es"),
    )


def test_both_directions_share_no_sentence_with_dev_or_test(tmp_path: Path) -> None:
    """Splits are made before directions are reversed, which therefore cannot bypass them."""
    talk = numbered("talk", 40)
    corpus = load(
        {
            "to_english": source(tmp_path, "talk", talk, tag="<2en>"),
            "to_spanish": source(tmp_path, "talk", talk, tag="<2es>", reverse=True, split="train"),
        },
        dev=5,
        test=5,
    )
    there = [pair for pair in corpus.train if pair.source.startswith("<2en>")]
    back = [pair for pair in corpus.train if pair.source.startswith("<2es>")]
    assert len(there) == len(back) == 30
    assert all(pair.source.startswith("<2en>") for pair in (*corpus.dev, *corpus.test))
    held_out = {pair.source.split(" ", 1)[1] for pair in (*corpus.dev, *corpus.test)}
    assert len(held_out) == 10
    assert not held_out & {pair.target for pair in back}


def test_a_source_may_be_trained_on_in_both_directions_without_tags(tmp_path: Path) -> None:
    """As in Ding et al. 2021: no pair of one direction is a duplicate of the other's."""
    talk = [*numbered("talk", 6), ("no", "no")]
    corpus = load(
        {
            "forward": source(tmp_path, "talk", talk),
            "backward": SourceConfig(kind="same", of="forward", reverse=True, split="train"),
        }
    )
    assert corpus.train == as_pairs(talk) + turned(as_pairs(talk))
    assert corpus.rejected == {}


def test_tests_are_held_out_in_the_direction_of_the_model(tmp_path: Path) -> None:
    talk = numbered("talk", 10)
    config = configure({"talk": source(tmp_path, "talk", talk)}, reverse=True)
    tests = {"some": turned(as_pairs(talk[:3]))}
    test_sets = {"some": EvaluationSet(tests["some"], to_source_view(config, tests["some"]))}
    corpus = load_corpus(config, cache_dir=tmp_path, tests=test_sets)
    assert corpus.train == turned(as_pairs(talk[3:]))
    assert corpus.tests == tests
    assert corpus.rejected == {"in dev or test": 3}


# --- Weights in the loss. -------------------------------------------------------------------------


def weighed(tmp_path: Path, *weights: str) -> Corpus:
    rows = [(*pair, weight) for pair, weight in zip(numbered("talk", 9), weights, strict=False)]
    path = tmp_path / "talk.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    plain: Pairs = numbered("plain", 2)
    talk = source(tmp_path, "unused", plain, columns=[0, 1, 2], weight=4)
    talk.path = str(path)
    return load({"plain": source(tmp_path, "plain", plain, weight=2), "talk": talk})


def test_a_third_column_weighs_pairs(tmp_path: Path) -> None:
    corpus = weighed(tmp_path, "0.5", "2", "0")
    assert [source.repeats for source in corpus.mixture] == [1, 1]
    weights = list_weights(corpus.mixture)
    assert weights is not None
    assert weights.tolist() == [1, 1, 0.5, 2, 0]
    assert list_weights(corpus.mixture[:1]) is None


@pytest.mark.parametrize("wrong", ["", "much", "nan", "inf", "-1", "1e39"])
def test_what_is_no_weight_is_rejected(tmp_path: Path, wrong: str) -> None:
    corpus = weighed(tmp_path, "1", wrong, "1")
    assert corpus.rejected == {"weight that is no number": 1}
    assert len(corpus.mixture[1].pairs) == 2


def test_weights_stand_over_the_labels_of_their_pair() -> None:
    ids = [np.arange(4, 4 + n, dtype=np.int32) for n in (3, 2, 5)]
    sides = RaggedIds.of(ids)
    weights = np.array([0.5, 2.0, 3.0], np.float32)
    plain = InMemoryBatches(EncodedCorpus(sides, sides), row_lengths=[8], positions=16, seed=1)
    batches = InMemoryBatches(
        EncodedCorpus(sides, sides, weights), row_lengths=[8], positions=16, seed=1
    )
    batch, expected = batches.batch(0), plain.batch(0)
    assert batch.keys() - expected.keys() == {"weights"}
    for name, array in expected.items():
        np.testing.assert_array_equal(batch[name], array)
    assert batch["weights"].dtype == np.float32
    for row in range(len(batch["labels"])):
        for segment in range(1, batch["target_segments"][row].max() + 1):
            cells = batch["target_segments"][row] == segment
            [weight] = set(batch["weights"][row][cells].tolist())
            # A pair is known by its length.
            assert weight == {4: 0.5, 3: 2.0, 6: 3.0}[int(cells.sum())]
    assert not batch["weights"][batch["target_segments"] == 0].any()


@pytest.mark.parametrize(
    ("share", "found", "added"),
    [(0, 9, 0), (0.1, 9, 1), (0.5, 9, 5), (1, 9, 9), (0.04, 9, 0), (0.5, 0, 0)],
)
def test_phrases_are_at_most_a_share_of_the_pairs(share: float, found: int, added: int) -> None:
    """The most frequent ones, each as often as the pairs."""
    pairs = [Pair(f"{number}", f"n{number}") for number in range(10)]
    phrases = {"a": [Pair(f"p{number}", f"q{number}") for number in range(found)], "b": []}
    mixture = tuple(
        SourcePairs(name, pairs[:size], 2, is_read=True) for name, size in {"a": 10, "b": 5}.items()
    )
    mixed = add_phrases(mixture, phrases, share)
    assert mixed[:2] == mixture
    assert list_pairs(mixed[2:]) == phrases["a"][:added] * 2
    assert not any(source.is_read for source in mixed[2:])


def test_phrases_weigh_as_much_as_the_pairs() -> None:
    pairs = [Pair("a b", "c d"), Pair("a c", "c e")]
    mixture = (SourcePairs("a", pairs, 2, is_read=True, weights=[0.5, 0.1]),)
    weights = list_weights(add_phrases(mixture, {"a": [Pair("a", "c")]}, 0.5))
    assert weights == pytest.approx([0.5, 0.1, 0.5, 0.1, 0.3, 0.3])
