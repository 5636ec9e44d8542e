"""Sentences of a text: those of `sentencex`, with what it cuts wrongly mended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice

from nmt.text.columns import find_fields, find_gaps
from nmt.text.dates import is_short_month
from nmt.text.final_marks import OTHER_STOPS, STOPS
from nmt.text.names import is_name
from nmt.text.scripts import CAPITALS, primary_subtag
from nmt.text.spans import Span, find_spans, make_kept_test

# Most lines: one sentence in any language, since no mark but the last can end one, and no tab
# separates cells.
_PLAIN = re.compile(r"[¿¡«“\"]*(?!\s)(?:[\w,]|[^\S\t](?!\s{3}))*[.!?…]*")
_CONTEXT = 64  # characters before and after a cut that decide whether it is one
_SPACE = re.compile(r"\s+")
# Members of a character class: marks that belong to the sentence before them.
CLOSING = "\"'”’»)\\]」』）】》〉"
BLOCKS = "p|div|li|ul|ol|tr|td|th|h[1-6]"  # elements of a page between which texts end
_BOX = r"(?:[☐☑☒]|\[ ?\])"
# Between the entries of a menu, the folders of a path, the cells of a row, the boxes of a form.
# Escaped line breaks and tabs, but not the beginnings of LaTeX's commands.
_ESCAPE = r"\\n(?!(?:abla|e[qw]|ot|oindent|u)\b|ewcommand|ewline)|\\[rt](?![a-z])"
_SEPARATOR = re.compile(
    rf"(?<=\s)(?:[|·•‣›→»]|{_BOX}|[>/](?=\s+[{CAPITALS}]))\s+(?=\S)"
    rf"|(?<=\S)[^\S\t]*\t\s*(?=\S)|^(?:[|«‹›»]|{_BOX})\s+(?=\S)|(?<=\s)(?:[|·•‣›→»>]|{_BOX})$"
    rf"|<(?i:/?(?:{BLOCKS})|br)(?: [^<>]*|/)?>\s*|(?:{_ESCAPE})+\s*"
    r"|\|(?=\{[0-9]+\}|\[[0-9*]+,)"
    # PRIMERA.- El precio; Madrid (EFE) - El rey; not 1.- of an item, EE.UU.-, (UE) - Ana -.
    r"|(?:(?<=[\w)]\.)(?<!^\d\.)(?<!^\d\d\.)(?<!^[a-zA-Z]\.)(?<!\.[A-Z]\.)(?<!UU\.)"
    rf"|(?<=[A-Z]{{2}}\)\s)(?!.[^.!?]*?\s[-–—]\s))[-–—]\s+(?=[¿¡«“\"(]*[{CAPITALS}])"
)
_CAPITALIZED = rf"[{CAPITALS}][^\W\d_{CAPITALS}]{{2,}}"
_LABELS = re.compile(rf"{_CAPITALIZED}(?:/{_CAPITALIZED})+")  # Entrada/Salida
_DASH_BETWEEN = re.compile(r"(?<=\S)\s+([—–-]\s+)(?=\S)")
_ENDS_CLAUSE = re.compile(rf"[.!?…:;,{OTHER_STOPS}][{CLOSING}]*(?:\s|$)")
# What ends the piece before a cut: its last word and a dot.
_DOTTED_WORD = re.compile(r"(?:^|[\s(«“\"¿¡/.-])((?:[^\W\d_]|ª)+)\.\s*$")
_INITIALS = re.compile(  # a. m., EE. UU., 3er., 1o.
    r"(?:(?:^|[\s(«“\"])(?:[^\W\d_]{1,2}\.[ \u00a0]?){2,}|\d\.?(?:er[oa]?|[rdtmvn]?[oa])\.)\s*$"
)
_QUOTED = re.compile(f"[.!?…。！？][{CLOSING}]+\\s*$")
_ELLIPSIS = re.compile(r"(?:\.\.|…)\s*$")
_SPEECH_END = re.compile(r"(?:[!?…]|\.\.)\s*$")
_DASH = re.compile(r"[—–―-]\s*")
_ORDINAL = re.compile(
    r"\b(?:der|die|das|den|dem|des|im|vom|zum|zur)\s+\d{1,2}\.\s*$", re.IGNORECASE
)
# What begins the piece after a cut: marks that never begin a sentence.
_NEVER_FIRST = re.compile(f"[ºª,;:!?.…%{CLOSING}](?![\\w¿¡])|[ºª,;]|-\\d")
_YEAR = re.compile(r"(?:del?\s)?[12]\d{3}\b")
# What continues a sentence after a quotation: he said.
_SPEAKS = {"ja": re.compile("と"), "zh": re.compile("[^\\W\\d_]{1,4}[说說问問答喊叫]道?[：，。！]")}
# Cuts that are missing: where a span or "etc." ends a sentence, after a dot in quotation marks,
# after a face that stands for a dot, and before ¿ and ¡.
_MISSING = re.compile(rf"\.+[{CLOSING}]*\s+(?=[¿¡«“\"(]*[^\W\d_])")
_QUOTED_DOT = re.compile(rf"\.[\"'”’»)]\s+(?=[¿¡]?[{CAPITALS}])")
_AFTER_FACE = re.compile(  # a face, a hand or an emoticon, after a word
    r"(?<=[^\W\d_]) (?:[\U0001f600-\U0001f64f\U0001f910-\U0001f92f\U0001f970-\U0001f97a"
    rf"\U0001f44b-\U0001f450\U0001f3fb-\U0001f3ff]+|[:;]'?-?[()]) (?=[¿¡]?[{CAPITALS}])"
)
_FINAL = tuple(STOPS)
_OPENING = re.compile(rf"[.!?…][{CLOSING}]*\s+(?=[¿¡])")
_AND_SO_ON = ("etc", "ecc", "usw", "UU")
# An answer, and no abbreviation of a number.
_NO = re.compile(r"(?:^|[.!?…]\s+|[—–-]\s*)[¿¡]?No\.\s+(?![IVXLC]+\b)(?=[¿¡«“\"(]*[A-ZÀ-ÖØ-Þ])")
# Of a list, or P.S.
_ITEM = re.compile(r"(?:[IVX]{1,4}|[ivx]{2,4}|(?:\d\d?\.)?[A-Za-z](?:\.\d\d?)?|P\.\s?[DS])\.\s+")
_WORD = re.compile(r"[^\W\d_]+")
_QUOTES = "\"'“«‘„("
_AND_SO_ON_WORD = re.compile(rf"\b(?:{'|'.join(_AND_SO_ON)})\b")

# Abbreviations of `sentencex` that are common words as well, so that they may end a sentence, by
# language. Languages without abbreviations of their own have the English ones.
_COMMON_WORDS = {
    "ca": "art cap contra dir en mar nos sobre un vol",
    "da": """bet del do eng form fru if jul kat mat med mul nord par port rest sort tab ti to var
        vær øv""",
    "de": "art ass mag me mich miss ok",
    "en": "ark art bart con dc id ida ill ken la may me min miss ok ore pa ref rep sec",
    "es": """ante anti auto bien con contra da de des di en entre ex extra hipo homo mar micro min
        mini mono multi nos para poli pro re sobre sub super ultra un uni""",
    "fr": "art ca contr ex sec vol",
    "it": """alt ama bar con di fa fai fra grano ha ira iva la lo ma mai me mica min nato ne ore re
        sa sai so su te usa va via""",
    "nb": "del ill me miss ok ut",
    "nl": """bel best bet form gem hand hist it lat me mand max not pan pas pers red tom top ver
        vol""",
    "no": "del ill me miss ok ut",
    "pl": "port serb",
    "ro": "al la me ok ore",
    "ru": "жен муж тел",
    "sk": "hod nám pod stred tu",
    "sv": "art del me ok",
    "tr": "al ok ver",
    "uk": "вид",
}
# The same in every language, before a capital: units, and "no", which may be that of a number.
_UNIT_OR_NO = (
    rf"(?:(?i:cm|hrs?|kg|km|mg|mm)|no(?!\.\s+[IVXLC]+\b))"
    rf"(?=\.\s+[{_QUOTES}]*[^\W\d_a-zß-öø-ÿа-џґ])"
)
_LETTER = rf"[A-HJ-Z](?=\.\s+[{CAPITALS}])"
# Abbreviations after which a sentence continues, in lower case, without their dots.
_BEFORE_NUMBERS = frozenset(
    """abb approx aprox apdo art arts bd bldg c ca cap caps cf ch cód ed eds fig figs fol kap lib ln
    loc máx mín n nr nro nros núm núms p pag pág págs párr pos pp ref s sec sect sig ss t tel telf
    tfno tít v vol vols vs""".split()
)
_BEFORE_WORDS = _BEFORE_NUMBERS | frozenset(
    """adj admón adv asc atte av avda bzw calef cda cdas cdta cdtas cía cl co comp const corp crta
    cta cte ctra dcha dept depto desc dgl dir dpto dr dra dto dtos edif ej esc etc ex excl excmo fdo
    fr gob gr gral grs hab hno hnos hr hrs ilmo inc incl ing izq jr kg kgs km kms lbs lic lt ltd lts
    max mg min ml mm mons mr mrs ms mts nat neg ob obj obs op pcs pdo pdte ph pkg plza pres prof
    profa pról prov pta ptas pto ptos pza pzas qty rep resp rte rvdo seg sobr sr sra sras sres srta
    st sta sto sup tbsp temp trad tsp ud uds urb usw vd vds vel vgl zzgl""".split()
)
_BEFORE_NAMES = frozenset(
    """av avda bd cía dr dra dña fco gral hna hno ing lic mme mlle mons mr mrs ms mª ntra pl prof
    profa sr sra sres srta sta sto""".split()
)
_WORDS_OF_LANGUAGES = {  # where these are words: off, pull, stands, hundred
    **dict.fromkeys(("av", "dra"), frozenset("da nb nn no sv".split())),
    "sta": frozenset("cs it nl ro".split()),
    "sto": frozenset("bs cs hr it pl sk sl sr".split()),
}
# Words that begin a sentence and are not family names, so that "the U.S." ends the one before.
_BEGINNINGS = frozenset(
    """but he her his how if it our she so that their then there these they this we what when where
    who why you además ahora allí aquí aunque con cuando cada desde después donde ella ellas ellos
    en entonces era es esa ese eso esta estas este esto estos está están fue hasta hay luego mi no
    nosotros para pero por porque según se si también todo todos è é elle elles il ils nous vous ich
    sie wir ela ele""".split()
)
_ARTICLES = frozenset("el la las los un una".split())  # the same, before a word in lower case
_SHORT_TITLES = {"es": ("d", "dª"), "fr": ("m", "mm")}


def split_sentences(text: str, language: str) -> list[str]:
    """Return the sentences of a text, each with the white space after it.

    Joined, they are the text. A line break ends a sentence, and white space at the beginning of the
    text belongs to the first one. An empty text has no sentences.

    Args:
        text: text without lone surrogates.
        language: BCP 47 tag; of an unknown language, the usual marks end sentences.
    """
    code = primary_subtag(language)
    pieces: list[str] = []
    space = ""  # before the first sentence
    for line in text.splitlines(keepends=True):
        content = line.strip()
        begin = len(line) - len(line.lstrip())
        if pieces:
            pieces[-1] += line[:begin]
        else:
            space += line[:begin]
        if content:
            sentences = _split_line(content, code)
            sentences[-1] += line[begin + len(content) :]
            pieces += sentences
    return [space + pieces[0], *pieces[1:]] if pieces else [space] * bool(space)


def _split_line(line: str, language: str) -> list[str]:
    """Return the sentences of a line without white space around it, and what separates texts."""
    if _PLAIN.fullmatch(line):
        return [line]
    pieces: list[str] = []
    end = 0
    for first, last in _find_separators(line):
        if first < end:  # inside of the separator before it
            continue
        pieces += _split_text(line[end:first], language)
        separator = line[first:last]
        if separator.isspace() and pieces:
            pieces[-1] += separator
        else:
            pieces.append(separator)
        end = last
    return pieces + _split_text(line[end:], language)


def _find_separators(line: str) -> list[Span]:
    """Return the characters [begin, end) of the separators of a line that are in no kept span."""
    if "/" in line and _LABELS.fullmatch(line):
        return [match.span() for match in re.finditer("/", line)]
    matches = (match.span() for match in _SEPARATOR.finditer(line))
    others = _find_heading_dash(line), find_gaps(line), find_fields(line)
    separators = sorted(chain(matches, *others))
    if not separators:
        return []
    is_inside = make_kept_test(line)
    has_quotation = "«" in line and "»" in line
    return [
        (first, last)
        for first, last in separators
        if not (line[first] in "«»" and has_quotation) and not is_inside(first, first)
    ]


def _find_heading_dash(line: str) -> list[Span]:
    """Return the characters [begin, end) of the dash that divides a heading: "Lunes – viernes".

    It is the only one, and has a word, or a text that begins with a capital, on both sides; a
    number may follow it, and a colon the second text. Empty: no dash divides the line.
    """
    if line.endswith(_FINAL):
        return []
    line = line.partition(": ")[0]
    dashes = list(islice(_DASH_BETWEEN.finditer(line), 2))
    if len(dashes) != 1 or _ENDS_CLAUSE.search(line):
        return []
    first, second = line[: dashes[0].start()], line[dashes[0].end() :]
    are_words = all(len(part) > 1 and part.isalpha() for part in (first, second))
    is_range = first[-1].isdecimal() and second[0].isdecimal()
    has_capitals = first[0].isupper() and (second[0].isupper() or second[0].isdecimal())
    return [dashes[0].span(1)] if are_words or (has_capitals and not is_range) else []


def _split_text(text: str, language: str) -> list[str]:
    """Return the sentences of a text without white space before it; none if it is empty."""
    line = text.rstrip()
    if not line:
        return []
    sentences = _cut_sentences(line, language)
    return [*sentences[:-1], sentences[-1] + text[len(line) :]]


def _cut_sentences(line: str, language: str) -> list[str]:
    """Return the sentences of a line without white space around it."""
    import sentencex

    pieces = sentencex.segment(language, _hide_common_words(line, language))
    spans = list(find_spans(line))
    cuts = {*_missing_cuts(line, spans, language)}
    if len(pieces) == 1 and not cuts:
        return [line]
    cuts.add(len(line))
    end = 0
    for piece in pieces:
        end += len(piece)
        space = _SPACE.match(line, end)  # belongs to the sentence before it
        cuts.add(space.end() if space else end)
    return list(_merge(line, sorted(cuts), spans, language))


def _hide_common_words(line: str, language: str) -> str:
    """Return a line with other letters in place of words that are not abbreviations."""
    return _find_common_words(language).sub(lambda match: "ŋ" * len(match[0]), line)


@cache
def _find_common_words(language: str) -> re.Pattern[str]:
    """Return the expression of words before a dot and a word that may end a sentence.

    They are `_COMMON_WORDS`, `_UNIT_OR_NO` and letters, as in "vitamin C".
    """
    words = "|".join(_COMMON_WORDS.get(language, "").split()) or "(?!)"
    common = rf"(?i:{words})(?=\.\s+[{_QUOTES}]*[^\W\d_])"
    return re.compile(rf"(?<![\w.])(?:{common}|{_UNIT_OR_NO}|{_LETTER})")


def _merge(line: str, cuts: Sequence[int], spans: Sequence[Span], language: str) -> Iterator[str]:
    """Yield the sentences between those cuts that end one."""
    inside = iter(spans)
    first = last = begin = 0
    for cut in cuts:
        while last <= cut and (span := next(inside, None)):
            first, last = span
        before, after = line[max(begin, cut - _CONTEXT) : cut], line[cut : cut + _CONTEXT]
        if (
            before
            and not (begin == 0 and _ITEM.fullmatch(before))
            and not first < cut < last
            and not (after and _continues(before, after, language))
        ):
            yield line[begin:cut]
            begin = cut


def _missing_cuts(line: str, spans: Sequence[Span], language: str) -> Iterator[int]:
    """Yield the ends of sentences before ¿ and ¡, and of those with a span or "etc." at the end.

    Also of those that end with a quotation or a face.
    """
    if "¿" in line or "¡" in line:
        yield from (match.end() for match in _OPENING.finditer(line))
    if "No." in line and language in ("es", "it", "en"):
        yield from (match.end() for match in _NO.finditer(line))
    # A number may be an ordinal: Am 3. Mai.
    ends = [end for begin, end in spans if not line[begin:end].isdecimal()]
    if any(word in line for word in _AND_SO_ON):
        ends += [match.end() for match in _AND_SO_ON_WORD.finditer(line)]
    for end in ends:
        match = _MISSING.match(line, end)
        if match is None:
            continue
        after = line[match.end() : match.end() + _CONTEXT]
        words = _WORD.findall(after)[:2]
        # As in "el presidente de EE. UU. Donald Trump", and in a text in capitals.
        goes_on = any(map(is_name, words[:1])) or " ".join(words).isupper()
        continues = line.startswith("UU", end - 2) and goes_on
        if _first_letter(after).isupper() and not continues:
            yield match.end()
    for match in _QUOTED_DOT.finditer(line):
        before = line[max(0, match.start() - _CONTEXT) : match.start()]
        opening = max(map(before.rfind, _QUOTES))
        begins_sentence = opening == 0 or before[:opening].rstrip().endswith(_FINAL)
        # Several words, other than "Dr."; a bracket inside of a sentence, as (S. A.), ends none.
        if " " in before[opening + 1 :] and (match[0][1] != ")" or begins_sentence):
            yield match.end()
    for match in _AFTER_FACE.finditer(line):
        if line[match.end()] in "¿¡" or not line.endswith(_FINAL):  # as in messages
            yield match.end()


def _continues(before: str, after: str, language: str) -> bool:
    """Whether a sentence continues after a cut."""
    first = after[0]
    is_glued = not before[-1].isspace()
    if _NEVER_FIRST.match(after) or (is_glued and first == "-"):  # J.-C.; 1.- of an item
        return True
    if language in _SPEAKS and _QUOTED.search(before) and _SPEAKS[language].match(after):
        return True
    word = _DOTTED_WORD.search(before)
    dotted = word[1].lower() if word else ""
    dotted = "" if language in _WORDS_OF_LANGUAGES.get(dotted, ()) else dotted
    if is_glued and dotted:  # the dots of U.S.A., Node.js; not the missing space of Madrid.Luis
        return len(dotted) < 3 or not (first in "¿¡" or _first_letter(after).isupper())
    if _YEAR.match(after) and is_short_month(dotted, language):
        return True
    if first in "¿¡" and after[1:2].islower() and _ELLIPSIS.search(before):  # Pero... ¿por qué?
        return True
    if first in "([" and (after[1:2].islower() or after[1:2].isdecimal()):  # a. m. (hora local)
        return bool(_INITIALS.search(before)) or dotted in _BEFORE_WORDS or dotted == "al"
    if first.islower():
        return bool(
            _ELLIPSIS.search(before)
            or _QUOTED.search(before)
            or _INITIALS.search(before)
            or len(dotted) == 1
            or dotted in _BEFORE_WORDS
        )
    if first.isdecimal():
        return dotted in _BEFORE_NUMBERS and not _INITIALS.search(before)
    if dash := _DASH.match(after):  # ¡Ven! —dijo él
        return bool(_SPEECH_END.search(before)) and after[dash.end() : dash.end() + 1].islower()
    if dotted in _SHORT_TITLES.get(language, ()) and not _INITIALS.search(before):
        return not _begins_sentence(after)
    if len(dotted) == 1 and word and word[1].isupper() and dotted != "i" and first.isupper():
        return not _begins_sentence(after)  # an initial
    if language == "de" and _ORDINAL.search(before):  # der 2. Weltkrieg
        return True
    return dotted in _BEFORE_NAMES


def _begins_sentence(text: str) -> bool:
    """Whether the first word of a text is one that begins a sentence, and no family name."""
    words = _WORD.findall(text)[:2]
    first = words[0].lower() if words else ""
    return first in _BEGINNINGS or (first in _ARTICLES and words[-1].islower())


def _first_letter(text: str) -> str:
    """Return the first letter of a text; an empty string if marks other than quotes precede it."""
    return text.lstrip('¿¡«“"(')[:1]
