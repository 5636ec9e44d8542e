"""English inflection: verbs, plurals, comparison, articles."""

from __future__ import annotations

import re

# Past and participle of irregular verbs.
_IRREGULAR = {
    "be": ("was", "been"),
    "become": ("became", "become"),
    "begin": ("began", "begun"),
    "break": ("broke", "broken"),
    "bring": ("brought", "brought"),
    "build": ("built", "built"),
    "buy": ("bought", "bought"),
    "catch": ("caught", "caught"),
    "choose": ("chose", "chosen"),
    "come": ("came", "come"),
    "cost": ("cost", "cost"),
    "cut": ("cut", "cut"),
    "do": ("did", "done"),
    "draw": ("drew", "drawn"),
    "drink": ("drank", "drunk"),
    "drive": ("drove", "driven"),
    "eat": ("ate", "eaten"),
    "fall": ("fell", "fallen"),
    "feed": ("fed", "fed"),
    "feel": ("felt", "felt"),
    "find": ("found", "found"),
    "fly": ("flew", "flown"),
    "forget": ("forgot", "forgotten"),
    "forgive": ("forgave", "forgiven"),
    "get": ("got", "gotten"),
    "give": ("gave", "given"),
    "go": ("went", "gone"),
    "grow": ("grew", "grown"),
    "have": ("had", "had"),
    "hear": ("heard", "heard"),
    "hide": ("hid", "hidden"),
    "hurt": ("hurt", "hurt"),
    "keep": ("kept", "kept"),
    "know": ("knew", "known"),
    "learn": ("learned", "learned"),
    "leave": ("left", "left"),
    "lend": ("lent", "lent"),
    "lose": ("lost", "lost"),
    "make": ("made", "made"),
    "meet": ("met", "met"),
    "pay": ("paid", "paid"),
    "put": ("put", "put"),
    "read": ("read", "read"),
    "ride": ("rode", "ridden"),
    "run": ("ran", "run"),
    "say": ("said", "said"),
    "see": ("saw", "seen"),
    "sell": ("sold", "sold"),
    "send": ("sent", "sent"),
    "show": ("showed", "shown"),
    "sing": ("sang", "sung"),
    "sit": ("sat", "sat"),
    "sleep": ("slept", "slept"),
    "speak": ("spoke", "spoken"),
    "spend": ("spent", "spent"),
    "steal": ("stole", "stolen"),
    "swim": ("swam", "swum"),
    "take": ("took", "taken"),
    "teach": ("taught", "taught"),
    "tell": ("told", "told"),
    "think": ("thought", "thought"),
    "throw": ("threw", "thrown"),
    "understand": ("understood", "understood"),
    "wake": ("woke", "woken"),
    "wear": ("wore", "worn"),
    "win": ("won", "won"),
    "write": ("wrote", "written"),
}
# Longer verbs that are stressed on the last syllable: beginning, preferred.
_DOUBLED = {"prefer", "begin", "forget"}
_COMPARATIVES = {"good": "better", "bad": "worse", "far": "farther", "fun": "more fun"}
_SILENT_H = ("hour", "honest", "honor", "heir")
_LIKE_YOU = re.compile("uni(?![mn])|use|usu|euro|one(?!s)|once")


def _first(verb: str) -> tuple[str, str]:
    """Split a phrasal verb into the word that is inflected and the rest: get | up."""
    head, space, rest = verb.partition(" ")
    return head, space + rest


def third_person(verb: str) -> str:
    """He eats, goes, studies, gets up."""
    head, rest = _first(verb)
    if head == "be":
        return "is" + rest
    if head == "have":
        return "has" + rest
    return plural(head) + rest


def past(verb: str) -> str:
    """He ate, played, studied, stopped, got up; of be: was."""
    head, rest = _first(verb)
    return (_IRREGULAR[head][0] if head in _IRREGULAR else _with_ed(head)) + rest


def participle(verb: str) -> str:
    """He has eaten, played, gotten up."""
    head, rest = _first(verb)
    return (_IRREGULAR[head][1] if head in _IRREGULAR else _with_ed(head)) + rest


def ing(verb: str) -> str:
    """Eating, making, lying, running, getting up."""
    head, rest = _first(verb)
    if head.endswith("ie"):
        head = head[:-2] + "y"
    elif re.search("[^eoy]e$", head) and head != "be":
        head = head[:-1]
    elif _doubles(head):
        head += head[-1]
    return head + "ing" + rest


def plural(word: str) -> str:
    """Return the regular plural of a noun; verbs take the same -s."""
    if re.search("[^aeiou]y$", word):
        return word[:-1] + "ies"
    if re.search("(s|x|z|ch|sh|[^o]o)$", word) and word not in ("photo", "piano", "video", "radio"):
        return word + "es"
    return word + "s"


def comparative(adjective: str) -> str:
    """Bigger, happier, more expensive, better."""
    if adjective in _COMPARATIVES:
        return _COMPARATIVES[adjective]
    if not _takes_er(adjective):
        return f"more {adjective}"
    if adjective.endswith("e"):
        return adjective + "r"
    if re.search("[^aeiou]y$", adjective):
        return adjective[:-1] + "ier"
    return adjective + (adjective[-1] if _doubles(adjective) else "") + "er"


def superlative(comparative: str) -> str:
    """Biggest, most expensive, best, from bigger, more expensive, better: without article."""
    for regular, irregular in (("more ", "most "), ("better", "best"), ("worse", "worst")):
        if comparative.startswith(regular):
            return irregular + comparative.removeprefix(regular)
    return f"{comparative[:-1]}st"


def article(following: str) -> str:
    """Return a or an, by the sound that ``following`` begins with."""
    word = following.casefold()
    if word.startswith(_SILENT_H):
        return "an"
    vowel = word[0] in "aeiou" and not _LIKE_YOU.match(word)
    return "an" if vowel else "a"


def _with_ed(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    if re.search("[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return verb + (verb[-1] if _doubles(verb) else "") + "ed"


def _doubles(word: str) -> bool:
    """Whether the last consonant is doubled before -ed, -ing, -er: one short, stressed syllable."""
    return word in _DOUBLED or bool(re.fullmatch("[^aeiou]*(qu)?[aeiou][^aeiouwxy]", word))


def _takes_er(adjective: str) -> bool:
    """Whether it is short enough for -er and -est."""
    if " " in adjective or adjective.endswith(("ed", "ing", "ful", "less", "ous")):
        return adjective in ("red",)
    sounded = re.sub("e$", "", re.sub("(?<=[aeiou])y(?=[aeiou])", "-", adjective))
    syllables = len(re.findall("[aeiouy]+", sounded))
    return syllables == 1 or (
        syllables == 2
        and adjective.endswith(("y", "le", "ow", "et"))
        and not adjective.endswith(("able", "ible"))
    )
