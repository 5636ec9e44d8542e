"""A generated corpus with planted duplicates, near duplicates and leaks, for bench_prepare.py."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

WORDS = 60_000
LETTERS = "aaabcdeeefghiiijlmnoooprstuvzáéíóúñ"
DUPLICATES, NEAR, TESTED = 0.05, 0.02, 0.001  # shares of lines
BLOCK = 50_000  # lines generated at once


@dataclass
class Planted:
    """Planted lines, by line number."""

    near: dict[int, float] = field(default_factory=dict)  # similarity to an earlier line
    duplicates: int = 0
    tested: dict[int, str] = field(
        default_factory=dict
    )  # lines that share a side with the test file


class Grammar:
    """Generates sentences and their translations."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._rng = np.random.default_rng(seed)
        words = set[str]()
        while len(words) < WORDS:
            words.add("".join(self.rng.choices(LETTERS, k=self.rng.randint(2, 9))))
        self.words = sorted(words)
        self.rng.shuffle(self.words)
        self.other = [f"{word[::-1]}{'ate'[len(word) % 3]}" for word in self.words]
        share = 1 / (np.arange(WORDS) + 2.7)
        self._until = np.cumsum(share / share.sum())

    def sentences(self, count: int) -> Iterator[list[int]]:
        """Yield sentences as word numbers: 3 to 40 words, 8 on average."""
        lengths = np.clip(self._rng.lognormal(2.0, 0.45, count), 3, 40).astype(int)
        numbers = np.searchsorted(self._until, self._rng.random(lengths.sum()))
        ends = np.cumsum(lengths).tolist()
        words = numbers.clip(max=WORDS - 1).tolist()
        for begin, end in zip([0, *ends], ends, strict=False):
            yield words[begin:end]

    def write_out(self, sentence: list[int]) -> str:
        source = " ".join([self.words[i] for i in sentence]).capitalize()
        target = " ".join([self.other[i] for i in sentence]).capitalize()
        return f"{source}.\t{target}."

    def vary(self, sentence: list[int]) -> list[int]:
        """Return the sentence with one word of ten replaced."""
        varied = list(sentence)
        for _ in range(max(1, len(varied) // 10)):
            varied[self.rng.randrange(len(varied))] = self.rng.randrange(WORDS)
        return varied


def make_corpus(folder: Path, pairs: int, files: int) -> Planted:
    """Write a corpus in several .gz files, and a test file; return the planted lines."""
    grammar, planted = Grammar(1), Planted()
    tested = [grammar.write_out(words) for words in grammar.sentences(max(20, int(pairs * TESTED)))]
    (folder / "tested.tsv").write_text("".join(f"{line}\n" for line in tested), encoding="utf-8")
    earlier: list[list[int]] = []
    per_file = -(-pairs // files)
    for number in range(files):
        path = folder / f"corpus-{number:03}.tsv.gz"
        with gzip.open(path, "wt", compresslevel=1, encoding="utf-8", newline="\n") as file:
            count = min(per_file, pairs - number * per_file)
            for begin in range(0, count, BLOCK):
                first = number * per_file + begin
                sentences = grammar.sentences(min(BLOCK, count - begin))
                for line, sentence in enumerate(sentences, first):
                    file.write(plant(grammar, planted, sentence, earlier, tested, line) + "\n")
    return planted


def plant(
    grammar: Grammar,
    planted: Planted,
    sentence: list[int],
    earlier: list[list[int]],
    tested: list[str],
    line: int,
) -> str:
    """Return a line: usually the sentence, otherwise a planted one."""
    rng = grammar.rng
    draw = rng.random()
    if earlier and draw < DUPLICATES:
        planted.duplicates += 1
        return grammar.write_out(rng.choice(earlier))
    if earlier and draw < DUPLICATES + NEAR:
        origin = max(rng.choices(earlier, k=3), key=len)  # a long one changes less
        varied = grammar.write_out(grammar.vary(origin))
        planted.near[line] = similarity(grammar.write_out(origin), varied)
        return varied
    if draw < DUPLICATES + NEAR + TESTED:
        sides = rng.choice(tested).split("\t")
        side = rng.randrange(2)
        new = grammar.write_out(sentence).split("\t")
        new[side] = sides[side].upper().rstrip(".") + " !"
        planted.tested[line] = "\t".join(new)
        return planted.tested[line]
    if len(earlier) < BLOCK:
        earlier.append(sentence)
    elif rng.random() < 0.01:
        earlier[rng.randrange(BLOCK)] = sentence
    return grammar.write_out(sentence)


def similarity(first: str, second: str) -> float:
    """Return the Jaccard similarity of the 4-grams of two pairs."""
    from nmt.data.splitting import normalized
    from nmt.preparing.minhash import GRAM

    sets = []
    for line in (first, second):
        text = "\t".join(map(normalized, line.split("\t"))) + "\n" * (GRAM - 1)
        sets.append({text[i : i + GRAM] for i in range(len(text) - GRAM + 1)})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])
