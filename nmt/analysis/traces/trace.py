"""The trace of a search for one sentence: every prefix in the beam, and the best next tokens.

The search is the one that translates (`nmt.inference.search`), run one position at a time. Its
``step`` is wrapped so that the state also carries the logits; nothing else differs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops
from scipy.special import log_softmax

from nmt.data.tokenizer import BOS, EOS
from nmt.inference.beam_search import BeamSearch
from nmt.inference.contract import FREE, BeamOptions, Hypothesis, SearchRequest
from nmt.inference.greedy import Greedy
from nmt.inference.programs import make_algorithm, start_state
from nmt.inference.search import Constraints, is_possible
from nmt.inference.segment_writing import SegmentWriter
from nmt.inference.translator import Translator
from nmt.text.spans import show_spans

CANDIDATES = 5  # next tokens recorded for each prefix


@dataclass(frozen=True)
class Candidate:
    """A token that could follow a prefix."""

    token: int
    piece: str
    probability: float


@dataclass
class Node:
    """A prefix in the beam, by its last token; the root is BOS."""

    parent: int | None  # index of the prefix without the last token; None at the root
    depth: int  # tokens, without BOS
    token: int
    piece: str
    log_prob: float  # of the token given the previous ones, in nats
    total: float  # log-probability of the prefix, in nats
    score: float | None  # by which ended hypotheses are ranked; None: not ended
    candidates: tuple[Candidate, ...] = ()  # most probable first; empty: the search stopped here


@dataclass(frozen=True)
class Trace:
    """One search for one sentence."""

    source: list[str]  # S tokens, EOS included
    beam_size: int  # 1: greedy
    length_penalty: float  # alpha of Wu et al. 2016, equation 14
    nodes: list[Node]  # parents before their children; 0 is the root
    finished: list[int]  # nodes of the returned hypotheses, best first
    texts: list[str]  # of the returned hypotheses

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
        return tuple(self.nodes[ancestor].token for ancestor in self.path(node))


@dataclass(frozen=True)
class Parting:
    """Where the best hypothesis of a beam differs first from the greedy one."""

    position: int  # of the first different token, from 0
    before: list[str]  # the tokens that both begin with
    greedy: Candidate
    beam: Candidate
    greedy_text: str
    greedy_log_prob: float  # of the output, in nats
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
    """Search for translations of one sentence and return the trace of the search.

    The best hypothesis is the translation, without its tags and brackets, unless it loops.

    Args:
        translator: a translator of a run.
        text: a source sentence.
        beam_size: hypotheses per position; 1 is greedy, None the run's default.
        length_penalty: alpha of Wu et al. 2016, equation 14; None is the run's default.
        prefix: text that every output begins with.

    Raises:
        UserError: the text is not one segment, an option is invalid, or the Keras model is missing.
    """
    translator = translator.with_keras_engine("a search trace")
    model = translator.keras_engine("a search trace").model
    options = _resolve_options(translator, beam_size, length_penalty)
    begun = translator.pipeline.begin_with(translator.segmenter.segment_whole(text), prefix)
    segment = translator.pipeline.translate_remarks(begun)
    source = np.append(segment.ids, EOS).astype(np.int32)
    forced = translator.pipeline.encode_prefix(segment.prefix.text).astype(np.int32)
    limit = translator.pipeline.output_limit(len(segment.sentence_ids), len(forced))
    constraints = Constraints(
        ops.convert_to_tensor([limit], "int32"),
        ops.convert_to_tensor([forced if len(forced) else [FREE]], "int32"),
        options.parameters,
    )
    algorithm = _record_logits(make_algorithm(model, options.static_options))
    sources = ops.convert_to_tensor(source[None])
    start = _Recorded(
        inner=start_state(model, sources, options.static_options, limit),
        logits=ops.zeros((1, options.beam_size, model.vocabulary_size), "float32"),
    )
    prefixes = _Prefixes(translator, segment.target_spans)
    for progress in _search_by_position(algorithm, start, constraints, limit):
        prefixes.add_position(algorithm, progress)
    ended = [
        tokens
        for tokens, _, score in _list_hypotheses(algorithm, progress)
        if score is not None and is_possible(score)
    ]
    hypotheses = [Hypothesis(tokens, 0.0, 0.0) for tokens in ended]
    writer = SegmentWriter(translator.tokenizer)
    [written] = writer.write(translator.engine, [segment], [hypotheses])
    return Trace(
        source=[show_spans(piece, segment.spans) for piece in translator.tokenizer.pieces(source)],
        beam_size=options.beam_size,
        length_penalty=options.length_penalty,
        nodes=prefixes.nodes,
        finished=[prefixes.by_tokens[tokens] for tokens in ended],
        texts=[translation.text for translation in written],
    )


def _resolve_options(
    translator: Translator, beam_size: int | None, length_penalty: float | None
) -> BeamOptions:
    """Return the options of a search that returns as many hypotheses as its beam has."""
    options = SearchRequest(beam_size, length_penalty).resolve(
        translator.decoding, translator.tokenizer.vocabulary_size
    )
    alpha = options.length_penalty if options.beam_size > 1 else 0.0
    return options._replace(length_penalty=alpha, n_best=options.beam_size, avoids_loops=False)


class _Prefixes:
    """The prefixes that were in the beam so far, as the nodes of a tree.

    Args:
        translator: the translator that searches.
        spans: what pieces show in place of slots.

    Attributes:
        nodes: parents before their children; 0 is the root.
        by_tokens: index of each node, by the ids of its prefix.
    """

    def __init__(self, translator: Translator, spans: Sequence[str]) -> None:
        self._translator, self._spans = translator, spans
        self.nodes = [Node(None, 0, BOS, translator.tokenizer.pieces([BOS])[0], 0.0, 0.0, None)]
        self.by_tokens: dict[tuple[int, ...], int] = {(): 0}
        self._live: list[tuple[int, ...] | None] = [()]  # by row of the beam; None: impossible

    def add_position(self, algorithm: Any, progress: Any) -> None:
        """Add the prefixes that are one token longer, after one more position."""
        index = int(progress.index)
        logits = np.asarray(progress.state.logits)[0].astype(np.float64)  # [k, V]
        log_probs = log_softmax(logits, axis=-1)
        log_probs_after = {}
        for tokens, row in zip(self._live, log_probs, strict=False):  # at first, one row is live
            if tokens is not None:
                log_probs_after[tokens] = row
                candidates = _find_best(self._translator, row, self._spans)
                self.nodes[self.by_tokens[tokens]].candidates = candidates
        self._live = []
        for tokens, total, score in _list_hypotheses(algorithm, progress):
            if score is None:
                self._live.append(tokens if is_possible(total) else None)
            if not is_possible(total) or len(tokens) < index:  # impossible, or ended earlier
                continue
            self.by_tokens[tokens] = len(self.nodes)
            self.nodes.append(
                Node(
                    parent=self.by_tokens[tokens[:-1]],
                    depth=index,
                    token=tokens[-1],
                    piece=show_spans(
                        self._translator.tokenizer.pieces(tokens[-1:])[0], self._spans
                    ),
                    log_prob=float(log_probs_after[tokens[:-1]][tokens[-1]]),
                    total=total,
                    score=score,
                )
            )


def find_parting(greedy: Trace, beam: Trace) -> Parting | None:
    """Return where the best outputs of two searches for one sentence differ first, if at all."""
    greedy_path, beam_path = (
        [trace.nodes[node] for node in trace.path(trace.finished[0])] for trace in (greedy, beam)
    )
    for position, (greedy_node, beam_node) in enumerate(zip(greedy_path, beam_path, strict=False)):
        if greedy_node.token != beam_node.token:
            return Parting(
                position=position,
                before=[node.piece for node in greedy_path[:position]],
                greedy=_as_candidate(greedy_node),
                beam=_as_candidate(beam_node),
                greedy_text=greedy.texts[0],
                greedy_log_prob=greedy_path[-1].total,
                beam_log_prob=beam_path[-1].total,
            )
    return None


def _as_candidate(node: Node) -> Candidate:
    return Candidate(node.token, node.piece, float(np.exp(node.log_prob)))


def _record_logits(algorithm: Any) -> Any:
    """Return the search with the logits of each step in its state."""

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
    """Search to the end, and yield the progress after each position."""

    def advance(progress: Any, until: Any) -> Any:
        return algorithm.advance(progress, constraints, until)

    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        advance = tf.function(advance, autograph=False)
    else:
        import jax

        advance = jax.jit(advance)
    progress = algorithm.begin(start, 1, limit)
    while bool(algorithm.unfinished(progress, constraints)[0]):
        progress = advance(progress, progress.index + 1)
        yield progress


def _list_hypotheses(
    algorithm: Any, progress: Any
) -> Iterator[tuple[tuple[int, ...], float, float | None]]:
    """Yield tokens, log-probability and score (None: not ended) of each hypothesis of a search.

    First come the live prefixes by row of the beam, impossible ones too, then the ended hypotheses.
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
    for row, total, score in zip(*(np.asarray(array)[0] for array in ended), strict=True):
        length = int(np.argmax(row == EOS)) + 1
        yield _ids(row[:length]), float(total), float(score)


def _ids(row: np.ndarray) -> tuple[int, ...]:
    return tuple(map(int, row))


def _find_best(
    translator: Translator, log_probs: np.ndarray, spans: Sequence[str]
) -> tuple[Candidate, ...]:
    """Return the most probable tokens under log-probabilities [V]; kept spans in their slots."""
    best = np.argsort(-log_probs, kind="stable")[:CANDIDATES]
    pieces = translator.tokenizer.pieces(best)
    return tuple(
        Candidate(int(token), show_spans(piece, spans), float(np.exp(log_probs[token])))
        for token, piece in zip(best, pieces, strict=True)
    )
