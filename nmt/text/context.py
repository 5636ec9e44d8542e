"""Previous source sentences, put before a sentence so that the model knows what it refers to.

"2+1": the source has the sentences before, the target does not (Tiedemann & Scherrer 2017). A mark,
which the tokenizer reserves as a piece, stands after each of them.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from nmt.text.scripts import UNKNOWN_LANGUAGE, UNSPACED
from nmt.text.sentences import split_sentences

CONTEXT_MARK = "\ue008"  # a private character: see `nmt.text.spans`
_PRIVATE = re.compile("[\ue000-\uf8ff]")  # marks, and what stands for kept elements of a document
MAX_CHARACTERS = 300  # of a context: about as many as two long sentences have


def add_context(text: str, previous: Sequence[str]) -> str:
    """Return a text with the previous sentences put in front of it.

    Of a long context, the beginning is left out.

    Args:
        text: a source.
        previous: cleaned sentences, the nearest last.
    """
    context = "".join(f"{sentence} {CONTEXT_MARK} " for sentence in previous)
    if len(context) > MAX_CHARACTERS:
        context = _drop_partial_word(context[-MAX_CHARACTERS:])
    return context + text


def _drop_partial_word(context: str) -> str:
    """Return the end of a context without the word that it may be cut in."""
    part, _, rest = context.partition(" ")
    if not rest.startswith(CONTEXT_MARK):
        return rest
    # The part is all that is left of its sentence: its last word, unless words have no spaces.
    is_unspaced = re.match(UNSPACED, part[-1:]) is not None
    return context if is_unspaced else rest.removeprefix(f"{CONTEXT_MARK} ")


def split_context(text: str) -> tuple[str, str]:
    """Return the context that a text begins with, with the space after it, and the rest."""
    at = text.rfind(CONTEXT_MARK) + 1
    at += at > 0 and text.startswith(" ", at)
    return text[:at], text[at:]


def split_tag(text: str, tags: Sequence[str]) -> tuple[str, str]:
    """Return the tag that a text begins with, with the space after it, and the rest."""
    tag = next((f"{tag} " for tag in tags if text.startswith(f"{tag} ")), "")
    return tag, text.removeprefix(tag)


def remove_context(text: str, tags: Sequence[str] = ()) -> str:
    """Return a text without its context; the tag before that stays."""
    sentence = split_context(text)[1]
    if sentence == text or split_tag(sentence, tags)[0]:  # each line may begin with the tag
        return sentence
    return split_tag(text, tags)[0] + sentence


def to_context(sentence: str) -> str:
    """Return a sentence for a context: in one line, without private characters."""
    return " ".join(_PRIVATE.sub(" ", sentence).split())


class PreviousSentences:
    """The sentences before a text, in one document.

    Args:
        count: how many are remembered; 0: none.
        language: BCP 47 tag, whose rules decide where sentences end.
    """

    def __init__(self, count: int, language: str) -> None:
        self._sentences: deque[str] = deque(maxlen=count)
        self._language = language

    def begin_document(self) -> None:
        """Forget all sentences."""
        self._sentences.clear()

    def add_to(self, text: str) -> str:
        """Return a text with the previous sentences put in front of it; remember its own."""
        if not self._sentences.maxlen or not text.strip():
            return text
        text = text.replace(CONTEXT_MARK, " ")  # of the text itself
        extended = add_context(text, self._sentences)
        sentences = map(to_context, split_sentences(text, self._language))
        self._sentences.extend(filter(None, sentences))
        return extended


def add_contexts(lines: Iterable[str], previous: PreviousSentences) -> Iterator[str]:
    """Yield lines with the previous sentences in front; an empty line begins another document."""
    for line in lines:
        if not line.strip():
            previous.begin_document()
        yield previous.add_to(line)


NO_CONTEXT = PreviousSentences(0, UNKNOWN_LANGUAGE)
