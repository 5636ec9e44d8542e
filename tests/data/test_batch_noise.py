"""Noise changes the configured share of pairs, fits into rows, and depends on the address alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nmt.config import TokenizerConfig
from nmt.config.noise import NoiseConfig
from nmt.data.batches import Batch, InMemoryBatches
from nmt.data.encoded import EncodedCorpus, encode_pairs
from nmt.data.noise import BatchNoise, PackedPair, RowNoise, count_tokens
from nmt.data.packing import PackedRows
from nmt.data.splitting import Pair
from nmt.data.tokenizer import EOS, SentencePieceTokenizer
from nmt.data.tokenizer_training import list_texts, train_tokenizer
from nmt.text.context import CONTEXT_MARK, split_context
from nmt.text.spans import SLOTS

pytestmark = pytest.mark.xdist_group("tokenizers")

NAMES = "Ana Luis Marta Pedro Sara Tomás".split()
PAIRS = [
    Pair(f"{name} tiene {word} gatos en su jardín.", f"{name} has {number} cats in the garden.")
    for name in NAMES
    for word, number in (("dos", "two"), ("tres", "three"), ("muchos", "many"))
] * 8
CLEAN = NoiseConfig.off().rates


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    config = TokenizerConfig("unigram", 400, 0, 1.0, lowercase_source=True, slots=4)
    trained = train_tokenizer(config, list_texts(config, PAIRS), lambda line: None)
    assert isinstance(trained, SentencePieceTokenizer)
    return trained


def make_noise(tokenizer: SentencePieceTokenizer, seed: int = 1, **rates: float) -> BatchNoise:
    return BatchNoise(CLEAN | rates, tokenizer, ("es", "en"), ["<2en>"], seed)


def plan(corpus: EncodedCorpus, noise: RowNoise | None, length: int = 64) -> InMemoryBatches:
    return InMemoryBatches(corpus, row_lengths=[length], positions=256, seed=3, noise=noise)


def read(batch: Batch, tokenizer: SentencePieceTokenizer) -> list[tuple[str, str]]:
    """Return the texts of all pairs of a batch."""
    pairs = []
    for row in range(len(batch["source"])):
        for segment in range(1, batch["source_segments"][row].max() + 1):
            source, target = (
                batch[name][row][batch[f"{side}_segments"][row] == segment]
                for name, side in (("source", "source"), ("labels", "target"))
            )
            assert source[-1] == target[-1] == EOS
            pairs.append((tokenizer.decode([source])[0], tokenizer.target.decode([target])[0]))
    return pairs


def read_epoch(
    batches: InMemoryBatches, tokenizer: SentencePieceTokenizer
) -> list[tuple[str, str]]:
    return [
        pair
        for step in range(batches.steps_per_epoch)
        for pair in read(batches.batch(step), tokenizer)
    ]


def test_a_batch_depends_on_seed_step_and_order_alone(tokenizer: SentencePieceTokenizer) -> None:
    corpus = encode_pairs(PAIRS, tokenizer)
    rates: dict[str, Any] = {"typos": 0.5, "spans": 0.5, "joined": 0.2}
    first = plan(corpus, make_noise(tokenizer, **rates))
    for step in (2, 0, 2):
        again = plan(corpus, make_noise(tokenizer, **rates)).batch(step)
        for name, array in first.batch(step).items():
            np.testing.assert_array_equal(array, again[name])
    other = plan(corpus, make_noise(tokenizer, seed=2, **rates)).batch(0)
    assert (other["source"] != first.batch(0)["source"]).any()
    later = first.batch(first.steps_per_epoch)  # the same pairs in another epoch
    assert later["source"].shape == first.batch(0)["source"].shape


class RecordingNoise:
    """Changes nothing, and records the addresses of the rows."""

    def __init__(self) -> None:
        self.addresses: list[tuple[int, ...]] = []

    def change_rows(
        self, rows: PackedRows, length: int, addresses: Sequence[Sequence[int]]
    ) -> PackedRows:
        self.addresses += map(tuple, addresses)
        return rows


def test_each_row_of_each_step_and_shuffle_has_noise_of_its_own(
    tokenizer: SentencePieceTokenizer,
) -> None:
    noise = RecordingNoise()
    batches = plan(encode_pairs(PAIRS, tokenizer), noise)
    batch_addresses = [(step, shuffle) for step in (0, 1) for shuffle in (0, 1)]
    for step, shuffle in batch_addresses:
        batches.batch(step, shuffle)
    assert len(set(noise.addresses)) == len(noise.addresses) > len(batch_addresses)
    pairs = [pair_of(tokenizer, "muchos gatos en su jardín.", "Many cats.")] * 4
    typos = make_noise(tokenizer, typos=1.0)
    changed = {str(typos.change(pairs, 200, address)) for address in noise.addresses}
    assert len(changed) == len(noise.addresses)


def test_rows_of_a_replica_are_those_of_the_whole_batch(tokenizer: SentencePieceTokenizer) -> None:
    batches = plan(encode_pairs(PAIRS, tokenizer), make_noise(tokenizer, typos=0.5, quotes=0.5))
    whole = batches.batch(1)
    size = len(whole["source"])
    for half in (np.arange(size // 2), np.arange(size // 2, size + 1)):
        part = batches.batch(1, selection=lambda _, half=half: half)
        for name, array in part.items():
            inside = half[half < size]
            np.testing.assert_array_equal(array[: len(inside)], whole[name][inside])
            assert not array[len(inside) :].any()


def test_without_a_rate_nothing_changes(tokenizer: SentencePieceTokenizer) -> None:
    corpus = encode_pairs(PAIRS, tokenizer)
    noisy = sorted(read_epoch(plan(corpus, make_noise(tokenizer)), tokenizer))
    assert noisy == sorted(read_epoch(plan(corpus, None), tokenizer))


@pytest.mark.parametrize("kind", ["accents", "typos", "punctuation"])
def test_the_configured_share_of_pairs_changes(
    tokenizer: SentencePieceTokenizer, kind: str
) -> None:
    corpus = encode_pairs(PAIRS * 10, tokenizer)
    clean = set(read_epoch(plan(corpus, None), tokenizer))
    noisy = read_epoch(plan(corpus, make_noise(tokenizer, **{kind: 0.3})), tokenizer)
    assert len(noisy) == 10 * len(PAIRS)
    share = sum(pair not in clean for pair in noisy) / len(noisy)
    assert 0.2 < share < 0.33  # some do not fit into their row


def test_joined_pairs_are_pairs_of_the_corpus_in_a_row(tokenizer: SentencePieceTokenizer) -> None:
    corpus = encode_pairs(PAIRS, tokenizer)
    clean = read_epoch(plan(corpus, None), tokenizer)
    noisy = read_epoch(plan(corpus, make_noise(tokenizer, joined=0.3)), tokenizer)
    assert len(noisy) < len(clean)
    sentences = [sum(side.count(".") for side in pair) for pair in noisy]
    assert sum(sentences) == 2 * len(clean)
    for source, target in noisy:
        assert source.count(".") == target.count(".") <= 4
        parts = zip(source.split(". "), target.split(". "), strict=True)
        assert all(
            (a.rstrip("."), b.rstrip(".")) in {(s.rstrip("."), t.rstrip(".")) for s, t in clean}
            for a, b in parts
        )


def pair_of(
    tokenizer: SentencePieceTokenizer, source: str, target: str, weight: float = 1.0
) -> PackedPair:
    [source_ids], [target_ids] = tokenizer.encode([source]), tokenizer.target.encode([target])
    return PackedPair(source_ids.tolist(), target_ids.tolist(), weight)


def test_tags_stay_in_front_and_different_tags_are_not_joined(
    tokenizer: SentencePieceTokenizer,
) -> None:
    noise = make_noise(tokenizer, joined=1.0)
    tagged = pair_of(tokenizer, "<2en> ana tiene gatos.", "Ana has cats.")
    joined = noise.change([tagged, tagged], 64, (0,))
    assert tokenizer.decode([pair.source for pair in joined]) == [
        "<2en> ana tiene gatos. ana tiene gatos."
    ]
    other = pair_of(tokenizer, "ana tiene gatos.", "Ana has cats.")
    assert noise.change([tagged, other], 64, (0,)) == [tagged, other]
    heavy = tagged._replace(weight=2.0)
    assert noise.change([tagged, heavy], 64, (0,)) == [tagged, heavy]
    assert noise.change([heavy, heavy], 64, (0,))[0].weight == 2.0


def test_pairs_that_have_the_same_slot_are_not_joined(tokenizer: SentencePieceTokenizer) -> None:
    """In use, no sentence has a slot twice."""
    first, second = SLOTS[:2]
    noise = make_noise(tokenizer, joined=1.0, spans=1.0)
    for slots, joined in (([first, first], False), ([first, second], True)):
        texts = [f"ana tiene {slot} gatos" for slot in slots]
        pairs = [PackedPair(ids.tolist(), ids.tolist()) for ids in tokenizer.encode(texts)]
        changed = noise.change(pairs, 1000, [1])
        assert len(changed) == (1 if joined else 2)
        source = tokenizer.decode([changed[0].source])[0]
        assert all(source.count(slot) <= 1 for slot in SLOTS)


def test_a_change_without_room_is_not_made(tokenizer: SentencePieceTokenizer) -> None:
    noise = make_noise(tokenizer, typos=1.0)
    pair = pair_of(tokenizer, "muchos gatos en su jardín.", "Many cats.")
    changed = [noise.change([pair], 64, (number,))[0] for number in range(50)]
    lengths = [len(each.source) for each in changed]
    assert max(lengths) > len(pair.source)
    for number in range(50):
        kept = noise.change([pair], count_tokens([pair])[0], (number,))
        assert count_tokens(kept)[0] <= count_tokens([pair])[0]


def test_weights_stay_with_their_pairs(tokenizer: SentencePieceTokenizer) -> None:
    corpus = encode_pairs(PAIRS[:18], tokenizer)
    corpus.weights = np.arange(1, 19, dtype=np.float32)
    for noise in (None, make_noise(tokenizer, typos=1.0)):
        weights: dict[float, str] = {}
        batches = plan(corpus, noise)
        for batch in map(batches.batch, range(batches.steps_per_epoch)):
            for row, segments in enumerate(batch["target_segments"]):
                for segment in range(1, segments.max() + 1):
                    places = segments == segment
                    [weight] = set(batch["weights"][row][places].tolist())
                    [weights[weight]] = tokenizer.target.decode([batch["labels"][row][places]])
        assert weights == {number: pair.target for number, pair in enumerate(PAIRS[:18], 1)}


@pytest.mark.parametrize("tag", ["", "<2en> "])
def test_a_context_does_not_change_and_its_pair_is_not_joined(
    tokenizer: SentencePieceTokenizer, tag: str
) -> None:
    config = TokenizerConfig("unigram", 400, 0, 1.0, lowercase_source=True, slots=4)
    marked = train_tokenizer(config, list_texts(config, PAIRS), str, ["<2en>", CONTEXT_MARK])
    assert isinstance(marked, SentencePieceTokenizer)
    context = f"{tag}marta tiene tres gatos en su jardín. {CONTEXT_MARK} "
    pairs = [
        pair_of(marked, f"{before}ana tiene muchos gatos.", "Ana has many cats.")
        for before in (context, context.replace("tres", "dos"))
    ]
    noise = make_noise(marked, joined=1.0)
    assert noise.change(pairs, 200, (0,)) == pairs
    noise = make_noise(marked, typos=1.0, spans=0.5, quotes=0.5)
    sentences = set()
    for number in range(40):
        [changed] = noise.change(pairs[:1], 200, (number,))
        before, sentence = split_context(marked.decode([changed.source])[0])
        assert before == context
        sentences.add(sentence)
    assert len(sentences) > 20
