"""Words as groups of tokens, and the words that stand in their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple
from unicodedata import category

import numpy as np

from nmt.data.paired import LANGUAGE_CODE, PairedTokenizer
from nmt.data.tokenizer import EOS, SUFFIX, UNK, Tokenizer
from nmt.errors import UserError
from nmt.inference.contract import SUPPRESSED
from nmt.text.cleaning import clean_input
from nmt.text.scripts import is_unspaced_letter
from nmt.text.words import join_words

_SPACE = "▁"
_INNER = frozenset("'’-")  # marks between two pieces of a word
_RIVALS = 4  # first pieces of rejected words that are continued
_TRIED = 50  # first pieces among which those that begin a word are looked for
_LONGEST = 8  # pieces of a rejected word

Scorer = Callable[[Sequence[Sequence[int]]], np.ndarray]


class TokenWord(NamedTuple):
    """A word, by its tokens."""

    text: str
    begin: int  # tokens [begin, end)
    end: int


def group_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[TokenWord]:
    """Return the words of a text as groups of its tokens; each token belongs to one word.

    A word begins with a space; a mark, a special token and, in scripts without spaces, a piece is a
    word of its own. A mark between two pieces without spaces belongs to their word.
    """
    pieces = tokenizer.pieces(ids)
    begins: list[int] = []
    for index, piece in enumerate(pieces):
        previous = pieces[index - 1] if index else ""
        if previous == _SPACE:
            continue  # the space is the word's
        if _continues_word(piece):
            is_joined = begins and previous in _INNER and begins[-1] < index - 1
            if _has_letters(previous) or is_joined:
                continue
        is_inner = piece in _INNER and _has_letters(previous)
        if is_inner and _continues_word("".join(pieces[index + 1 : index + 2])):
            continue
        begins.append(index)
    ends = [*begins[1:], len(pieces)] if begins else []
    return [
        TokenWord(_write(tokenizer, ids[begin:end]), begin, end)
        for begin, end in zip(begins, ends, strict=True)
    ]


def group_text(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return the text of some tokens, word by word."""
    return " ".join(word.text for word in group_tokens(tokenizer, ids))


def add_bos(words: Sequence[TokenWord], text: str) -> list[TokenWord]:
    """Return BOS, shown as ``text``, and the words: by the tokens that the decoder reads."""
    shifted = (TokenWord(word.text, word.begin + 1, word.end + 1) for word in words)
    return [TokenWord(text, 0, 1), *shifted]


def _write(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return the text of a word; special tokens are shown by their pieces."""
    text = tokenizer.decode([ids])[0].strip()
    return text or "".join(tokenizer.pieces(ids)).strip(_SPACE) or _SPACE


def _continues_word(piece: str) -> bool:
    """Whether a piece belongs to the word before it, if that has letters."""
    if piece.startswith(SUFFIX) or _is_byte(piece):
        return True
    return _has_letters(piece[:1]) and not is_unspaced_letter(piece[:1])


def _has_letters(piece: str) -> bool:
    """Whether a piece has letters, digits or their marks: not only punctuation and symbols."""
    if piece.startswith("<") and piece.endswith(">"):
        return _is_byte(piece)
    return any(category(sign)[0] in "LNM" for sign in piece)


def _is_byte(piece: str) -> bool:
    return len(piece) == 6 and piece.startswith("<0x")


def find_tag(tokenizer: Tokenizer, tags: Sequence[str], ids: Sequence[int]) -> range:
    """Return the indices of the tokens of the tag, such as ``<2en>``, that a source begins with.

    The language code of a `PairedTokenizer` counts as one.
    """
    if isinstance(tokenizer, PairedTokenizer):
        [first] = tokenizer.pieces(ids[:1]) or [""]
        if re.match(LANGUAGE_CODE, first):
            return range(1)
    encoded = ([int(i) for i in row] for row in tokenizer.encode(tags))
    sizes = [len(tag) for tag in encoded if list(ids[: len(tag)]) == tag]
    return range(max(sizes, default=0))


def choose_word(words: Sequence[TokenWord], wanted: str) -> int:
    """Return the index of the first word with this text, in any letter case.

    Raises:
        UserError: no word has this text.
    """
    texts = [word.text for word in words]
    for candidates, text in ((texts, wanted), ([t.casefold() for t in texts], wanted.casefold())):
        if text.strip() in candidates:
            return candidates.index(text.strip())
    raise UserError(
        f"the translation has no word {wanted!r} to explain; choose from: {', '.join(texts)}"
    )


def encode_other(
    tokenizer: Tokenizer, before: Sequence[int], written: Sequence[int], other: str
) -> tuple[int, ...]:
    """Return the ids of another word, as they would stand after a prefix.

    Args:
        tokenizer: of the target.
        before: ids of the prefix.
        written: ids of the word in whose place it stands.
        other: its text.

    Raises:
        UserError: it is empty, or the written word itself.
    """
    text = clean_input(other)
    if not text:
        raise UserError("the other word is empty: give a word")
    prefix, whole = tokenizer.decode([before, [*before, *written]])
    space = _choose_space(prefix, whole[len(prefix) :], text)
    [encoded] = tokenizer.encode([prefix + space + text])
    joined = [int(i) for i in encoded]
    if joined[: len(before)] == list(before) and len(joined) > len(before):
        ids = joined[len(before) :]
    else:  # the pieces before it would be others
        ids = [int(i) for i in tokenizer.encode([text])[0]]
    if tuple(ids) == tuple(written):
        raise UserError(f"the translation has the word {other!r} itself: give another one")
    return tuple(ids)


def _choose_space(prefix: str, written: str, other: str) -> str:
    """Return the space between a prefix and a word, like that before the word in whose place it is.

    Args:
        prefix: the text before it.
        written: that word and the space before it; empty for EOS.
        other: the word.
    """
    if not prefix:
        return ""
    are_alike = _has_letters(written) == _has_letters(other)
    if written and are_alike:
        return " " if written.startswith(" ") else ""
    last = prefix[-1]
    if last == '"' and prefix.count(last) % 2 == 0:
        last = "”"  # it closes
    joined, [_, (begin, _)] = join_words([last, other])
    return joined[1:begin]


def separate(
    score: Scorer,
    before: Sequence[int],
    written: tuple[int, ...],
    following: int,
    other: tuple[int, ...],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids of two words, one piece longer where one begins with the other.

    Without what follows it, "cat" is at least as probable as "cats": it gets the piece that follows
    it in the translation (``following``), or if it is the rejected word, the most probable one that
    does not make it the written word.

    Raises:
        UserError: the other word is what the translation has, and more of it.
    """
    if other[: len(written)] == written:
        longer = (*written, following)
        if other[: len(longer)] == longer:
            raise UserError("the translation has the other word, too: name one that it lacks")
        return longer, other
    if written[: len(other)] == other:
        [row] = score([[*before, *other]])
        row = forbid(row, [written[len(other)]])
        return written, (*other, int(row.argmax()))
    return written, other


class _Rival(NamedTuple):
    """A word that could stand in the place of another one, while it is written."""

    word: int  # index of the other one
    ids: tuple[int, ...]
    log_probs: tuple[float, ...]  # of each piece


def find_rivals(
    score: Scorer, tokenizer: Tokenizer, tokens: Sequence[int], words: Sequence[TokenWord]
) -> list[tuple[int, ...]]:
    """Return the ids of the most probable other word in the place of each word.

    Of the most probable first pieces other than the word's, each is continued with the most
    probable piece until a new word begins; the word with the highest log-probability wins. A first
    piece that would continue the word before does not count.
    """
    growing: list[_Rival] = []
    starts = score([tokens[: word.begin] for word in words])
    for number, (word, row) in enumerate(zip(words, starts, strict=True)):
        row = forbid(row, [tokens[word.begin]])
        best = np.argsort(-row, kind="stable")[:_TRIED].tolist()
        own, *pieces = tokenizer.pieces([tokens[word.begin], *best])
        rivals = [
            _Rival(number, (i,), (float(row[i]),))
            for i, piece in zip(best, pieces, strict=True)
            if _continues_word(own) or not _continues_word(piece)
        ]
        growing += (rivals or [_Rival(number, (best[0],), (float(row[best[0]]),))])[:_RIVALS]
    done: list[_Rival] = []
    for _ in range(_LONGEST):
        done += [rival for rival in growing if rival.ids[-1] == EOS]
        growing = [rival for rival in growing if rival.ids[-1] != EOS]
        if not growing:
            break
        rows = score([[*tokens[: words[each.word].begin], *each.ids] for each in growing])
        grown = [_grow(rival, row) for rival, row in zip(growing, rows, strict=True)]
        ended = [_has_ended(tokenizer, each.ids) for each in grown]
        done += [rival for rival, has_ended in zip(growing, ended, strict=True) if has_ended]
        growing = [rival for rival, has_ended in zip(grown, ended, strict=True) if not has_ended]
    done = [_drop_inner(tokenizer, rival) for rival in [*done, *growing]]
    best_ids = []
    for number, word in enumerate(words):
        rivals = [rival for rival in done if rival.word == number]
        others = [each for each in rivals if _write(tokenizer, each.ids) != word.text]
        best_ids.append(max(others or rivals, key=lambda rival: sum(rival.log_probs)).ids)
    return best_ids


def _grow(rival: _Rival, row: np.ndarray) -> _Rival:
    """Append the most probable next piece."""
    best = int(row.argmax())
    return _Rival(rival.word, (*rival.ids, best), (*rival.log_probs, float(row[best])))


def _has_ended(tokenizer: Tokenizer, ids: Sequence[int]) -> bool:
    """Whether the last piece begins another word, or ends the output."""
    *_, last = tokenizer.pieces(ids)
    return ids[-1] in (EOS, *SUPPRESSED) or (
        last not in _INNER and len(group_tokens(tokenizer, ids)) > 1
    )


def _drop_inner(tokenizer: Tokenizer, rival: _Rival) -> _Rival:
    """Drop a mark at the end that might have been inside of the word, but was not."""
    if len(rival.ids) > 1 and tokenizer.pieces(rival.ids[-1:])[0] in _INNER:
        return _Rival(rival.word, rival.ids[:-1], rival.log_probs[:-1])
    return rival


def forbid(row: np.ndarray, ids: Sequence[int]) -> np.ndarray:
    """Return log-probabilities [V] without those of some ids, and of ids that no output has."""
    row = row.copy()
    row[[*SUPPRESSED, UNK, *ids]] = -np.inf
    return row
