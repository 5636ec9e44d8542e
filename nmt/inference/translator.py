"""Translate text with a trained model: clean, encode, search, decode; one output per input."""

from __future__ import annotations

import heapq
import math
import threading
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from nmt.config import Config, DecodingConfig
from nmt.config.data import list_tags
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError
from nmt.inference.contract import Beam, Draw, Engine, Hypothesis, Sampling, Search
from nmt.inference.cutting import UNKNOWN_LANGUAGE, Cutter, clean_input, join_texts
from nmt.inference.forcing import (
    attend_pairs,
    encode_both,
    label_attention,
    plan_batches,
    score_pairs,
)
from nmt.inference.results import Attention, PairScore, Translation, join_lines

if TYPE_CHECKING:  # loads Keras
    from nmt.inference.engine import KerasEngine

_AHEAD = 1  # chunks of a stream that are searched while the one before is waited for


class _Plan(NamedTuple):
    """How texts are translated."""

    engine: Engine
    search: Callable[
        [list[np.ndarray], np.ndarray, np.ndarray], list[list[Hypothesis]]
    ]  # of a batch
    prefix: np.ndarray  # int32 [P], ids that every translation begins with
    join: Callable[[list[list[Translation]]], list[Translation]]  # parts of a text
    rank: Callable[[list[Translation]], list[Translation]] = lambda found: found


class Translator:
    """An engine with its tokenizer, ready to translate.

    Args:
        engine: turns source ids into target ids.
        tokenizer: the tokenizer of its ids.
        decoding: defaults of the search.
        longest: tokens, end mark included, of the longest sequence in training: longer texts are
            translated in parts. None: as many as the engine has positions.
        load_own: gives the model itself, for what the engine cannot; called once, when that is
            first asked for. None: only the engine is there.
        tags: words of which one may begin a text: a text that is cut has it before every part.
        target_language: BCP 47 tag, by which translations of parts are joined with spaces or
            without. "und" where it is unknown.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        decoding: DecodingConfig,
        *,
        longest: int | None = None,
        load_own: Callable[[], KerasEngine] | None = None,
        tags: Sequence[str] = (),
        target_language: str = UNKNOWN_LANGUAGE,
    ) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.decoding = decoding
        room = min(longest or engine.max_length, engine.max_length) - 1  # end mark
        self._cutter = Cutter(tokenizer, room, tags)
        self._target_language = target_language
        self._load_own = load_own
        self._own: KerasEngine | None = cast("KerasEngine", engine) if engine.own else None
        self._loading = threading.Lock()

    @classmethod
    def from_config(
        cls,
        engine: Engine,
        tokenizer: Tokenizer,
        config: Config,
        *,
        whole: bool = False,
        load_own: Callable[[], KerasEngine] | None = None,
    ) -> Translator:
        """Return a translator as the configuration of its run says.

        Args:
            engine: see `Translator`, as for the others.
            tokenizer: of the run.
            config: of the run.
            whole: translate texts in one go that are longer than any of training.
            load_own: gives the model itself.
        """
        return cls(
            engine,
            tokenizer,
            config.decoding,
            longest=None if whole else max(config.training.row_lengths),
            load_own=load_own,
            tags=list_tags(config.data),
            target_language=config.data.languages[1],
        )

    @classmethod
    def load(
        cls,
        run: str | Path | Sequence[str | Path] = "runs/latest",
        *,
        engine: str = "auto",
        quantization: str | None = None,
        whole: bool = False,
        say: Callable[[str], object] = lambda line: None,
    ) -> Translator:
        """Load the best weights of a run folder, or of several that write together.

        Args:
            run: the folder; or several of one tokenizer, whose log-probabilities are averaged. Only
                the models themselves do that, and there is no attention then.
            engine: one of `nmt.config.decoding.ENGINES`: "keras", the model itself;
                "ctranslate2", the same model in C++, which neither samples nor shows attention;
                "auto", the latter where it can hold the model, and the model itself for what else
                is asked.
            quantization: what CTranslate2 computes with, "float32" or "int8"; refused where it is
                not what searches. None: as the run's ``decoding.quantization`` says.
            whole: translate texts in one go that are longer than any of training, up to
                ``model.max_length``. Not every model does well there: docs/training.md.
            say: is told which engine it is.

        Raises:
            UserError: there is no run, or it has no weights yet, or the engine cannot hold them; or
                several do not have one tokenizer.
        """
        from nmt.inference.loading import load_engine, load_ensemble
        from nmt.runs.folder import RunFolder

        paths = [run] if isinstance(run, str | Path) else run
        folders = [RunFolder.open(Path(path)) for path in paths]
        folder, config = folders[0], folders[0].config
        if len(folders) > 1:
            shortest = min(max(one.config.training.row_lengths) for one in folders)
            together = load_ensemble(folders, engine, quantization, say)
            return cls(
                together,
                folder.load_tokenizer(),
                config.decoding,
                longest=None if whole else shortest,
                tags=list_tags(config.data),
                target_language=config.data.languages[1],
            )
        tokenizer = folder.load_tokenizer()
        found, load_own = load_engine(folder, tokenizer, engine, quantization, say)
        return cls.from_config(found, tokenizer, config, whole=whole, load_own=load_own)

    @property
    def room(self) -> int:
        """Most tokens, without end mark, of a text that is translated in one go."""
        return self._cutter.room

    @property
    def has_attention(self) -> bool:
        """Whether `attention` can be given: the model itself is loaded, or may be."""
        return self._own is not None or self._load_own is not None

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        coverage_penalty: float = 0.0,
        prefix: str = "",
    ) -> list[str]:
        """Return one translation per text, in order; an empty text gives an empty one."""
        best = self.hypotheses(
            texts,
            beam_size=beam_size,
            length_penalty=length_penalty,
            coverage_penalty=coverage_penalty,
            prefix=prefix,
        )
        return [hypotheses[0].text for hypotheses in best]

    def hypotheses(
        self,
        texts: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        coverage_penalty: float = 0.0,
        n_best: int = 1,
        prefix: str = "",
    ) -> list[list[Translation]]:
        """Return up to ``n_best`` translations per text, best first.

        A text longer than training's longest is cut after sentences, after clauses, between words
        or, without spaces, between characters, and translations of its parts are joined: those
        whose scores sum up to the most.

        Args:
            texts: source sentences.
            beam_size: hypotheses kept at every position; 1 is greedy. None: the run's default.
            length_penalty: alpha of Wu et al. 2016, equation 14. None: the run's default.
            coverage_penalty: beta of the same equation.
            n_best: translations wanted, at most ``beam_size``.
            prefix: what every translation begins with.

        Raises:
            UserError: ``n_best`` is larger than the beam, the beam than the vocabulary, a penalty
                is below 0, or the prefix is too long.
        """
        search = Search(beam_size, length_penalty, coverage_penalty, n_best, prefix)
        return self.run(texts, search)

    def hypotheses_of_parts(
        self,
        parts: Sequence[np.ndarray],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        n_best: int = 1,
    ) -> list[list[Translation]]:
        """Return up to ``n_best`` translations of each part of a text, best first.

        With `cut` before and `join_best` behind, these are the `hypotheses` of the text.

        Args:
            parts: ids int32 [S - 1] without end mark.
            beam_size: see `hypotheses`, as for the others.
            length_penalty: of the search.
            n_best: translations wanted.

        Raises:
            UserError: as `hypotheses`.
        """
        plan = self._plan(Search(beam_size, length_penalty, n_best=n_best))
        with ThreadPoolExecutor(plan.engine.parallel) as pool:
            return self._begin_parts(parts, range(0), plan, pool)()

    def run(self, texts: Sequence[str], how: Search | Draw) -> list[list[Translation]]:
        """Return translations per text, best first.

        Raises:
            UserError: as `hypotheses`, `samples` and `minimum_bayes_risk`.
        """
        found = list(self.stream([texts], how))
        return found[0] if found else []

    def stream(
        self, chunks: Iterable[Sequence[str]], how: Search | Draw
    ) -> Generator[list[list[Translation]]]:
        """Yield what `run` returns for each chunk of texts, in order.

        The next chunk is read, prepared and searched beside the one that is yielded next, so that
        no core waits; an empty chunk gives nothing, but lets what has begun come first. When the
        iterator is closed, batches that have begun are waited for, and no others.
        """
        plan = self._plan(how)
        waiting: deque[Callable[[], list[list[Translation]]]] = deque()
        pool = ThreadPoolExecutor(plan.engine.parallel)
        try:
            for texts in chain(chunks, [[]]):
                if len(texts):
                    waiting.append(self._begin(texts, plan, pool))
                while len(waiting) > (_AHEAD if len(texts) else 0):
                    yield waiting.popleft()()
        finally:
            pool.shutdown(cancel_futures=True)

    def _plan(self, how: Search | Draw) -> _Plan:
        prefix = self.prefix_ids(how.prefix)
        return (
            self._plan_search(how, prefix)
            if isinstance(how, Search)
            else self._plan_draw(how, prefix)
        )

    def _plan_search(self, how: Search, prefix: np.ndarray) -> _Plan:
        """Choose an engine for a search, after a check of its numbers."""
        size = self.decoding.beam_size if how.beam_size is None else how.beam_size
        alpha = self.decoding.length_penalty if how.length_penalty is None else how.length_penalty
        if how.n_best > size:
            raise UserError(
                f"{how.n_best} translations need a beam of at least {how.n_best}, not {size}"
            )
        pieces = self.tokenizer.vocabulary_size
        if size > pieces:
            raise UserError(
                f"beam_size must be at most {pieces:,}, the pieces of the vocabulary, got {size:,}"
            )
        for name, value in (("length_penalty", alpha), ("coverage_penalty", how.coverage_penalty)):
            if not 0 <= value < math.inf:
                raise UserError(f"{name}={value} is not at least 0")
        beam = Beam(size, alpha, how.coverage_penalty, how.n_best)
        engine = self.engine if self.engine.can(beam) else self.own_engine("a coverage penalty")

        def search(
            sources: list[np.ndarray], limits: np.ndarray, prefix: np.ndarray
        ) -> list[list[Hypothesis]]:
            return engine.search(sources, limits, beam, prefix)

        return _Plan(engine, search, prefix, lambda parts: self.join_best(parts, how.n_best))

    def _plan_draw(self, how: Draw, prefix: np.ndarray) -> _Plan:
        engine = self.own_engine("samples")
        sampling = Sampling(how.count, how.temperature, how.top_k, how.top_p)

        def draw(
            sources: list[np.ndarray], limits: np.ndarray, prefix: np.ndarray
        ) -> list[list[Hypothesis]]:
            keys = [zlib.crc32(ids.astype("<i4").tobytes(), how.seed) for ids in sources]
            drawn = np.array(keys, np.uint32).view(np.int32)
            return engine.sample(sources, limits, sampling, prefix, drawn)

        plan = _Plan(engine, draw, prefix, lambda parts: self._join_drawn(parts, how.seed))
        return plan._replace(rank=_rank_by_agreement) if how.agreeing else plan

    def samples(
        self,
        texts: Sequence[str],
        count: int,
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 1,
        prefix: str = "",
    ) -> list[list[Translation]]:
        """Return ``count`` random translations per text, the most probable first.

        The same text and seed give the same translations, whatever else is translated beside it.
        Those of a text that is cut are made of a random translation of each part.

        Args:
            texts: source sentences.
            count: translations per text, which may repeat each other.
            temperature: above 1 more varied, below 1 more probable translations.
            top_k: draw from the k most probable pieces only; 0: from all.
            top_p: draw from the fewest pieces that together have this probability.
            seed: of the draws.
            prefix: what every translation begins with.

        Raises:
            UserError: the engine cannot sample, or the prefix is too long.
        """
        return self.run(texts, Draw(count, temperature, top_k, top_p, seed, prefix))

    def minimum_bayes_risk(
        self, texts: Sequence[str], count: int, **sampling: Any
    ) -> list[list[Translation]]:
        """Return, best first, the sampled translations by how much they agree with the others.

        A translation's score is its mean chrF against all samples of its text, which stand for the
        translations that the model finds probable (Eikema & Aziz 2020, equation 4).

        Args:
            texts: source sentences.
            count: samples per text.
            sampling: as for `samples`.
        """
        return self.run(texts, Draw(count, agreeing=True, **sampling))

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """Return the log-probability of each piece of given translations (forced decoding).

        Args:
            pairs: source and target texts.

        Raises:
            UserError: a text has more tokens than the model positions.
        """
        return score_pairs(self.engine, self.tokenizer, pairs, batch_size=self.decoding.batch_size)

    def attentions(self, pairs: Sequence[tuple[str, str]]) -> list[Attention]:
        """Return the weights with which given translations are written (forced decoding).

        Args:
            pairs: source and target texts.

        Raises:
            UserError: the engine does not show its attention, or a text has more tokens than the
                model positions.
        """
        engine = self.own_engine("attention")
        return attend_pairs(engine, self.tokenizer, pairs, batch_size=self.decoding.batch_size)

    def lengths(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Return the tokens of the longer side of each pair, end mark included."""
        sides = zip(*encode_both(self.tokenizer, pairs), strict=True)
        return [max(len(source), len(target)) + 1 for source, target in sides]

    def attention(self, text: str, translation: Translation | None = None) -> Attention | None:
        """Return the weights with which ``text`` was read while ``translation`` was written.

        Args:
            text: a source sentence.
            translation: None: the best one.

        Returns:
            None if there is nothing to attend to (an empty text), or the text was cut in parts.

        Raises:
            UserError: the engine does not show its attention.
        """
        engine = self.own_engine("attention")
        parts = self._cutter.cut(text)
        if len(parts) != 1:
            return None
        if translation is None:
            translation = self.hypotheses([text])[0][0]
        target, last = np.asarray(translation.tokens[:-1], np.int32), translation.tokens[-1]
        [weights] = engine.attention(parts, [target])
        return label_attention(engine, self.tokenizer, parts[0], target, last, weights)

    def own_engine(self, wanted: str) -> KerasEngine:
        """Return the model itself, for what no other engine gives; load it if it is not there yet.

        May be called from several threads at a time.

        Raises:
            UserError: it cannot be loaded, and so there is none of what is ``wanted``.
        """
        with self._loading:
            if self._own is None:
                if self._load_own is None:
                    raise UserError(f"only the engine of this program gives {wanted}")
                self._own = self._load_own()
            return self._own

    def own(self, wanted: str) -> Translator:
        """Return a translator over the model itself, so that all it gives is of one engine.

        Raises:
            UserError: as `own_engine`.
        """
        engine = self.own_engine(wanted)
        if engine is self.engine:
            return self
        return Translator(
            engine,
            self.tokenizer,
            self.decoding,
            longest=self.room + 1,
            tags=self._cutter.tags,
            target_language=self._target_language,
        )

    def _begin(
        self, texts: Sequence[str], plan: _Plan, pool: Executor
    ) -> Callable[[], list[list[Translation]]]:
        """Cut and encode texts, and begin to search their parts; return what waits for the end."""
        parts: list[np.ndarray] = []
        spans = []
        for cut in self._cutter.cut_all(texts):
            spans.append((len(parts), len(parts) + len(cut)))
            parts.extend(cut)
        # Only the first part of a text begins with its prefix.
        found = self._begin_parts(parts, [begin for begin, _ in spans], plan, pool)

        def finish() -> list[list[Translation]]:
            of_parts = found()
            of_texts = [of_parts[begin:end] for begin, end in spans]
            return [plan.rank(one[0] if len(one) == 1 else plan.join(one)) for one in of_texts]

        return finish

    def _begin_parts(
        self, parts: Sequence[np.ndarray], forced: Sequence[int], plan: _Plan, pool: Executor
    ) -> Callable[[], list[list[Translation]]]:
        """Begin to search, in batches of similar length; return what waits for the end.

        Args:
            parts: ids int32 [S - 1] of each, without end mark.
            forced: indices of those whose translations begin with the plan's prefix.
            plan: how to search.
            pool: runs the batches.
        """
        found: list[list[Translation]] = [[] for _ in parts]

        def work(members: list[int], prefix: np.ndarray) -> None:
            sources = [parts[i] for i in members]
            limits = np.array([self.limit(len(ids), len(prefix)) for ids in sources], np.int32)
            outputs = plan.search(sources, limits, prefix)
            tokens = [one.tokens for candidates in outputs for one in candidates]
            decoded = iter(self.tokenizer.decode(tokens))
            for i, candidates in zip(members, outputs, strict=True):
                found[i] = [
                    Translation(join_lines(next(decoded)), one.log_prob, one.score, one.tokens)
                    for one in candidates
                ]

        groups = [(list(range(len(parts))), plan.prefix)]
        if len(plan.prefix):
            begins = set(forced)
            groups = [
                ([i for i in range(len(parts)) if i in begins], plan.prefix),
                ([i for i in range(len(parts)) if i not in begins], plan.prefix[:0]),
            ]
        jobs = [
            pool.submit(work, [members[i] for i in batch], prefix)
            for members, prefix in groups
            for batch in plan_batches(
                [len(parts[i]) for i in members], self.decoding.batch_size, plan.engine.parallel
            )
        ]

        def finish() -> list[list[Translation]]:
            for job in jobs:
                job.result()
            return found

        return finish

    def prefix_ids(self, prefix: str) -> np.ndarray:
        """Return the ids int32 [P] that an output with this prefix begins with.

        Raises:
            UserError: the prefix is too long.
        """
        cleaned = clean_input(prefix)
        ids = self.tokenizer.target.encode([cleaned])[0] if cleaned else np.zeros(0, np.int32)
        if len(ids) >= self.engine.max_length:
            raise UserError(f"the prefix has {len(ids)} tokens, more than the model can write")
        return ids

    def limit(self, source_tokens: int, prefix_tokens: int) -> int:
        """Return how many tokens an output may have, end mark included."""
        ratio, margin = self.decoding.max_length_ratio, self.decoding.max_length_margin
        wanted = max(int(source_tokens * ratio) + margin, prefix_tokens + margin)
        return min(wanted, self.engine.max_length)

    def whole(self, text: str) -> np.ndarray:
        """Return the ids int32 [S - 1] of a text that is translated in one go, without end mark.

        Raises:
            UserError: the text is empty, or would be cut in parts.
        """
        return self._cutter.whole(text)

    def cut(self, text: str) -> list[np.ndarray]:
        """Return the ids int32 [S - 1] of the parts in which a text is translated."""
        return self._cutter.cut(text)

    def join_best(self, parts: list[list[Translation]], count: int) -> list[Translation]:
        """Return the ``count`` best of all ways to choose one translation per part, best first.

        A text without parts has one translation, which is empty.
        """
        best: list[tuple[Translation, ...]] = [()]
        for candidates in parts:
            longer = [(*chosen, one) for chosen in best for one in candidates]
            best = heapq.nlargest(
                count, longer, key=lambda chosen: sum(one.score for one in chosen)
            )
        return [self._join(chosen) for chosen in best]

    def _join_drawn(self, parts: list[list[Translation]], seed: int) -> list[Translation]:
        """Join translations drawn of each part by chance; the most probable first.

        An engine sorts what it draws: joined in that order, the most probable of each part would
        meet.
        """
        drawn = [
            [
                candidates[i]
                for i in np.random.default_rng([seed, number]).permutation(len(candidates))
            ]
            for number, candidates in enumerate(parts)
        ]
        joined = map(self._join, zip(*drawn, strict=True)) if parts else [self._join([])]
        return sorted(joined, key=lambda one: -one.log_prob)

    def _join(self, chosen: Sequence[Translation]) -> Translation:
        """Join translations of the parts of one text; no parts make an empty translation."""
        return Translation(
            text=join_texts([part.text for part in chosen], self._target_language),
            log_prob=sum(part.log_prob for part in chosen),
            score=sum(part.score for part in chosen),
            tokens=tuple(token for part in chosen for token in part.tokens),
        )


def _rank_by_agreement(drawn: list[Translation]) -> list[Translation]:
    """Rank samples by their mean chrF against all of them: see `Translator.minimum_bayes_risk`."""
    from nmt.inference.metrics import expected_chrf  # loads sacreBLEU

    distinct = list({one.text: one for one in drawn}.values())
    scores = expected_chrf([one.text for one in distinct], [one.text for one in drawn])
    chosen = [
        Translation(one.text, one.log_prob, score, one.tokens)
        for one, score in zip(distinct, scores, strict=True)
    ]
    return sorted(chosen, key=lambda one: -one.score)
