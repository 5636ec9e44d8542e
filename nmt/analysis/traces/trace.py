"""What a search did for one sentence: every prefix it kept, and what the model offered it there.

The search is the one that translates (`nmt.inference.search`), run one position at a time. Its
``step`` is wrapped, so that the logits a step gave travel in the state; nothing else differs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from nmt.data.tokenizer import BOS, EOS
from nmt.inference.beam_search import BeamSearch
from nmt.inference.contract import Beam
from nmt.inference.greedy import Greedy
from nmt.inference.programs import make_algorithm, start_state
from nmt.inference.results import join_lines
from nmt.inference.search import FREE, IMPOSSIBLE, Constraints
from nmt.inference.translator import Translator

CANDIDATES = 5  # kept of what could follow each prefix


@dataclass(frozen=True)
class Candidate:
    """A token that could follow a prefix."""

    token: int
    piece: str
    probability: float


@dataclass
class Node:
    """A prefix that was kept, by its last token; the root is the begin mark."""

    parent: int | None  # index of the prefix without the last token; None: the root
    depth: int  # tokens, begin mark not counted
    token: int
    piece: str
    log_prob: float  # of the token, given what stands before it, in nats
    total: float  # of the whole prefix, in nats
    score: float | None  # what ended hypotheses are ranked by; None: it has not ended
    candidates: tuple[Candidate, ...] = ()  # the most probable first; (): search stopped here


@dataclass(frozen=True)
class Trace:
    """One search for one sentence."""

    source: list[str]  # S pieces, end mark included
    beam_size: int  # 1: greedy
    length_penalty: float  # alpha of Wu et al. 2016, equation 14
    nodes: list[Node]  # parents stand before their children; 0 is the root
    finished: list[int]  # nodes of the ended hypotheses that were returned, best first
    texts: list[str]  # of these

    def path(self, node: int) -> list[int]:
        """Return the nodes from the root's child to ``node``."""
        path = []
        parent: int | None = node
        while parent:  # neither None nor the root
            path.append(parent)
            parent = self.nodes[parent].parent
        return path[::-1]

    def tokens(self, node: int) -> tuple[int, ...]:
        """Return the ids of a prefix."""
        return tuple(self.nodes[one].token for one in self.path(node))


@dataclass(frozen=True)
class Parting:
    """Where the best hypothesis of a beam leaves the greedy one."""

    position: int  # from 0: the first that differs
    before: list[str]  # the pieces that both begin with
    greedy: Candidate
    beam: Candidate
    greedy_text: str  # the whole output
    greedy_log_prob: float  # of the whole output, in nats
    beam_log_prob: float


class _Recorded(NamedTuple):
    """A decoding state, and the logits of the step that led to it."""

    inner: Any
    logits: Any  # float32 [B, k, V]


def record(
    translator: Translator,
    text: str,
    *,
    beam_size: int | None = None,
    length_penalty: float | None = None,
    prefix: str = "",
) -> Trace:
    """Search for translations of one sentence and keep what the search saw.

    The beam is asked for as many hypotheses as it is wide, so that those which ended second or
    third are seen too; the best of them is the one that the model's own search returns.

    Args:
        translator: of a run.
        text: a source sentence.
        beam_size: hypotheses kept at every position; 1 is greedy. None: the run's default.
        length_penalty: alpha of Wu et al. 2016, equation 14. None: the run's default.
        prefix: what every output begins with.

    Raises:
        UserError: the text is empty or would be translated in parts, or the engine is no model.
    """
    translator = translator.with_keras_engine("a search trace")
    model = translator.keras_engine("a search trace").model
    decoding = translator.decoding
    size = decoding.beam_size if beam_size is None else beam_size
    alpha = decoding.length_penalty if length_penalty is None else length_penalty
    how = Beam(1, 0.0) if size == 1 else Beam(size, alpha, n_best=size)
    ids = translator.segmenter.encode_whole(text)
    source = np.append(ids, EOS).astype(np.int32)
    forced = translator.pipeline.encode_prefix(prefix).astype(np.int32)
    limit = translator.pipeline.output_limit(len(ids), len(forced))
    constraints = Constraints(
        ops.convert_to_tensor([limit], "int32"),
        ops.convert_to_tensor([forced if len(forced) else [FREE]], "int32"),
        how.parameters,
    )
    algorithm = _record_logits(make_algorithm(model, how.static_options))
    start = _Recorded(
        inner=start_state(model, ops.convert_to_tensor(source[None]), how.static_options, limit),
        logits=ops.zeros((1, size, model.vocabulary_size), "float32"),
    )
    prefixes = _Prefixes(translator)
    for progress in _search_by_position(algorithm, start, constraints, limit):
        prefixes.add_position(algorithm, progress)
    ended = [
        tokens
        for tokens, _, score in _list_hypotheses(algorithm, progress)
        if score is not None and score > IMPOSSIBLE / 2
    ]
    return Trace(
        source=translator.tokenizer.pieces(source),
        beam_size=size,
        length_penalty=how.length_penalty,
        nodes=prefixes.nodes,
        finished=[prefixes.by_tokens[tokens] for tokens in ended],
        texts=[join_lines(text) for text in translator.tokenizer.decode(ended)],
    )


class _Prefixes:
    """The prefixes that a search has kept until now, as the nodes of a tree.

    Attributes:
        nodes: parents stand before their children; 0 is the root.
        by_tokens: index of a node, by the ids of its prefix.
    """

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self.nodes = [Node(None, 0, BOS, translator.tokenizer.pieces([BOS])[0], 0.0, 0.0, None)]
        self.by_tokens: dict[tuple[int, ...], int] = {(): 0}
        self._live: list[tuple[int, ...] | None] = [()]  # place by place; None: impossible

    def add_position(self, algorithm: Any, progress: Any) -> None:
        """Add what one more position has made of the live prefixes."""
        index = int(progress.index)
        log_probs = _log_softmax(np.asarray(progress.state.logits)[0])  # [k, V]
        offered = {}
        for tokens, row in zip(self._live, log_probs, strict=False):  # at first one place is live
            if tokens is not None:
                offered[tokens] = row
                candidates = _find_best(self._translator, row)
                self.nodes[self.by_tokens[tokens]].candidates = candidates
        self._live = []
        for tokens, total, score in _list_hypotheses(algorithm, progress):
            if score is None:
                self._live.append(tokens if total > IMPOSSIBLE / 2 else None)
            if total <= IMPOSSIBLE / 2 or len(tokens) < index:  # no prefix, or ended before
                continue
            self.by_tokens[tokens] = len(self.nodes)
            self.nodes.append(
                Node(
                    parent=self.by_tokens[tokens[:-1]],
                    depth=index,
                    token=tokens[-1],
                    piece=self._translator.tokenizer.pieces(tokens[-1:])[0],
                    log_prob=float(offered[tokens[:-1]][tokens[-1]]),
                    total=total,
                    score=score,
                )
            )


def find_parting(greedy: Trace, beam: Trace) -> Parting | None:
    """Return where the best outputs of two searches for one sentence part; None: nowhere."""
    ours, theirs = (one.path(one.finished[0]) for one in (greedy, beam))
    for position, both in enumerate(zip(ours, theirs, strict=False)):
        mine, other = greedy.nodes[both[0]], beam.nodes[both[1]]
        if mine.token != other.token:
            return Parting(
                position=position,
                before=[greedy.nodes[one].piece for one in ours[:position]],
                greedy=_as_candidate(mine),
                beam=_as_candidate(other),
                greedy_text=greedy.texts[0],
                greedy_log_prob=greedy.nodes[ours[-1]].total,
                beam_log_prob=beam.nodes[theirs[-1]].total,
            )
    return None


def _as_candidate(node: Node) -> Candidate:
    return Candidate(node.token, node.piece, float(np.exp(node.log_prob)))


def _record_logits(algorithm: Any) -> Any:
    """Return the search with logits kept in its state."""

    def step(tokens: Any, index: Any, state: _Recorded) -> tuple[Any, _Recorded]:
        logits, inner = algorithm.step(tokens, index, state.inner)
        return logits, _Recorded(inner, logits)

    def reorder(state: _Recorded, parents: Any) -> _Recorded:
        return state._replace(inner=algorithm.reorder(state.inner, parents))

    changes = {"step": step} | ({"reorder": reorder} if isinstance(algorithm, BeamSearch) else {})
    return dataclasses.replace(algorithm, **changes)


def _search_by_position(
    algorithm: Any, start: _Recorded, constraints: Constraints, limit: int
) -> Iterator[Any]:
    """Search position by position to the end, and yield the progress after each."""

    def advance(progress: Any, until: Any) -> Any:
        return algorithm.advance(progress, constraints, until)

    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        advance = tf.function(advance, autograph=False)
    else:
        import jax

        advance = jax.jit(advance)
    progress = algorithm.begin(start, constraints, limit)
    while bool(algorithm.unfinished(progress, constraints)[0]):
        progress = advance(progress, progress.index + 1)
        yield progress


def _list_hypotheses(
    algorithm: Any, progress: Any
) -> Iterator[tuple[tuple[int, ...], float, float | None]]:
    """Yield tokens, log-probability and score (None: not ended) of what a search holds.

    First the live prefixes, place by place, impossible ones too; then the ended hypotheses.
    """
    index = int(progress.index)
    if isinstance(algorithm, Greedy):
        tokens = _ids(np.asarray(progress.tokens)[0, 0, :index])
        total = float(progress.log_probs[0, 0])
        yield tokens, total, total if tokens[-1:] == (EOS,) else None
        return
    live = np.asarray(progress.live_tokens)[0, :, :index]
    for row, total in zip(live, np.asarray(progress.live_log_probs)[0], strict=True):
        yield _ids(row), float(total), None
    ended = (progress.ended_tokens, progress.ended_log_probs, progress.ended_scores)
    for row, total, score in zip(*(np.asarray(part)[0] for part in ended), strict=True):
        length = int(np.argmax(row == EOS)) + 1
        yield _ids(row[:length]), float(total), float(score)


def _ids(row: np.ndarray) -> tuple[int, ...]:
    return tuple(map(int, row))


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    """[k, V] -> float64 [k, V]."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _find_best(translator: Translator, log_probs: np.ndarray) -> tuple[Candidate, ...]:
    """Return the most probable tokens under log-probabilities [V]."""
    best = np.argsort(-log_probs, kind="stable")[:CANDIDATES]
    pieces = translator.tokenizer.pieces(best)
    return tuple(
        Candidate(int(token), piece, float(np.exp(log_probs[token])))
        for token, piece in zip(best, pieces, strict=True)
    )
