"""Limits of the service: the size of a request, and the work that it may cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

from fastapi import HTTPException

DOCUMENTS = "/documents"  # the path of documents, which have limits of their own
MAX_BEAM = 16  # memory and time grow with the beam, and larger ones do not translate better
MAX_REQUESTED_PENALTY = 2.0
MAX_ATTENTION_TEXTS = 4  # each needs a pass of the model
MAX_ATTENTION_TOKENS = 256  # source tokens of a request; the pass grows with their square
# Work per token of computing attention: the pass reads the translation as one hypothesis.
ATTENTION_WORK = 1
# Work per token of the confidence of a translation: it is read once for the probabilities of its
# tokens, and once for their alignment.
QUALITY_WORK = 2
WORDS_WORK = 1  # per token of aligning the words of a translation
MAX_ALTERNATIVES = 16  # next words of a request: as many as are completed
# Work per token of the next words after a prefix: each of 16 candidates is found, completed and
# scored (`nmt.inference.alternatives`).
ALTERNATIVES_WORK = 3 * MAX_ALTERNATIVES
_RIVALS_WORK = 40  # per token of scoring the rivals of an explained word, in up to 33 passes
_HIDDEN_WORK = 2  # passes per token of the sentence or the prefix: it is hidden for two words


def count_explanation(tokens: int, prefix: int) -> int:
    """Return the work of explaining a word, given the tokens of the sentence and of the prefix."""
    return max(tokens, prefix) * (_RIVALS_WORK + _HIDDEN_WORK * (tokens + prefix))


@dataclass(frozen=True)
class Limits:
    """Limits of requests, of batches and of waiting times."""

    max_body: int  # bytes, of other bodies than documents
    max_sentences: int  # texts per request
    max_characters: int  # per text
    # Work of a request: source tokens times beam (2 * beam + 1 with a glossary), + 1 with
    # attention, + 2 * nbest with quality.
    max_work: int
    timeout_s: float  # to read a body, and again to answer it, unless it is a document
    health_s: float  # to translate the text of the health check
    max_batch: int  # sentences, or segments of long ones
    max_batch_work: int
    max_wait_s: float  # how long a request waits to be batched
    max_queue: int  # work
    max_document: int  # bytes of the body of a document
    max_documents: int  # received or translated at the same time
    document_timeout_s: float  # to translate a document

    @property
    def late(self) -> str:
        """The error of an answer that takes too long."""
        return f"no answer within {self.timeout_s:g} seconds"

    def check_size(self, texts: Sequence[str], attention: bool) -> None:
        """Check number and length of texts.

        Raises:
            HTTPException: 413 beyond a limit.
        """
        if len(texts) > self.max_sentences:
            raise HTTPException(
                413, f"{len(texts):,} texts are more than the {self.max_sentences:,} allowed"
            )
        if attention and len(texts) > MAX_ATTENTION_TEXTS:
            raise HTTPException(413, f"attention is for at most {MAX_ATTENTION_TEXTS} texts")
        self.check_lengths(texts)

    def check_lengths(self, texts: Iterable[str]) -> None:
        """Check the lengths of texts, without a limit on their number.

        Raises:
            HTTPException: 413 beyond the limit.
        """
        longest = max(map(len, texts), default=0)
        if longest > self.max_characters:
            raise HTTPException(
                413,
                f"a text of {longest:,} characters is longer than the {self.max_characters:,} "
                "allowed",
            )

    def check_work(
        self,
        tokens_of_texts: Sequence[int],
        attends: Sequence[bool],
        search_work: int,
        quality_work: int,
    ) -> None:
        """Check the work of a request.

        Args:
            tokens_of_texts: source tokens of each text.
            attends: whether attention is computed, for each text.
            search_work: work per token of the search: see `SearchOptions.search_work`.
            quality_work: work per token of computing confidence.

        Raises:
            HTTPException: 413 beyond a limit.
        """
        tokens = sum(tokens_of_texts)
        attended = sum(compress(tokens_of_texts, attends))
        if attended > MAX_ATTENTION_TOKENS:
            raise HTTPException(
                413,
                f"attention is given for at most {MAX_ATTENTION_TOKENS:,} tokens, not for "
                f"{attended:,}: send fewer or shorter texts, or ask without attention",
            )
        work = search_work + quality_work
        also = " with quality" if quality_work else ""
        also += " and attention" if attended else ""
        self._check_total(
            tokens * work + attended * ATTENTION_WORK, f"{tokens:,} tokens at {work:,} each{also}"
        )

    def check_alternatives(self, tokens: int) -> None:
        """Check the work of the alternatives of a sentence, given its source tokens.

        Raises:
            HTTPException: 413 beyond the limit.
        """
        self._check_total(tokens * ALTERNATIVES_WORK, f"the alternatives of {tokens:,} tokens")

    def check_explanation(self, tokens: int, prefix: int) -> None:
        """Check the work of explaining a word: see `count_explanation`.

        Raises:
            HTTPException: 413 beyond a limit.
        """
        if tokens > MAX_ATTENTION_TOKENS:
            raise HTTPException(
                413, f"words are explained in sentences of at most {MAX_ATTENTION_TOKENS:,} tokens"
            )
        self._check_total(
            count_explanation(tokens, prefix),
            f"explaining a word in {prefix:,} tokens of the translation of {tokens:,}",
        )

    def _check_total(self, work: int, subject: str) -> None:
        if work > self.max_work:
            raise HTTPException(
                413,
                f"{work:,} units of work for {subject}: at most {self.max_work:,} are allowed",
            )
