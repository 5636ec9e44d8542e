"""Language tags compared, and languages identified by py3langid, which brings its model."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any

from nmt.errors import UserError
from nmt.text.scripts import primary_subtag

CERTAIN = 0.9  # least probability of a language that counts as identified

# Codes of py3langid for languages whose usual tag is another.
_CODES = {"cmn": "zh", "fil": "tl", "in": "id", "iw": "he", "nb": "no", "sh": "sr"}
# Languages that are taken for each other, or for the larger one.
_SIMILAR = [
    set(codes.split())
    for codes in (
        "ar ary arz",
        "az crh tk tr",
        "ba kk ky tt",
        "be ru uk",
        "bg mk",
        "bn as",
        "bs hr sl sr",
        "ca es ext gl oc an",
        "gl pt",
        "cs sk",
        "da nn no",
        "de lb",
        "en pcm",
        "el grc",
        "fa ku sdh tg",
        "fo is",
        "fr gcf gcr ht oc wa",
        "ga gd",
        "gom hi mr ne sa",
        "he hbo",
        "id jv ms",
        "it lij vec la",
        "lt lv ltg",
        "nl af fy",
        "nso st",
        "tl bcl",
        "uz uzs ug",
        "wuu yue zh",
        "xh zu",
    )
]
# Languages by code: the English name, ISO 639 codes of three letters, the language's own name, the
# Spanish name, and what languages call English, which is in most corpora.
NAMES = {
    "ar": "Arabic|ara|العربية|árabe",
    "bg": "Bulgarian|bul|български|búlgaro",
    "ca": "Catalan|cat|català",
    "cs": "Czech|ces|cze|čeština|česky|checo",
    "da": "Danish|dan|dansk|danés",
    "de": "German|deu|ger|deutsch|alemán|allemand|tedesco|alemão",
    "el": "Greek|ell|gre|ελληνικά|griego",
    "en": "English|eng|inglés|anglais|englisch|inglese|inglês|engels|engelsk|engelska"
    "|englanti|angielski|angličtina|английский|англійська|ingilizce|anglès|αγγλικά|英语|英文|英語|영어|الإنجليزية",
    "es": "Spanish|spa|español|castellano|espagnol|spanisch|spagnolo|espanhol",
    "et": "Estonian|est|eesti|estonio",
    "eu": "Basque|eus|baq|euskara|vasco|euskera",
    "fa": "Persian|fas|per|farsi|فارسی|persa",
    "fi": "Finnish|fin|suomi|finés|finlandés",
    "fr": "French|fra|fre|français|francés|französisch|francese|francês",
    "gl": "Galician|glg|galego|gallego",
    "he": "Hebrew|heb|עברית|hebreo",
    "hi": "Hindi|hin|हिन्दी",
    "hr": "Croatian|hrv|hrvatski|croata",
    "hu": "Hungarian|hun|magyar|húngaro",
    "id": "Indonesian|ind|bahasa indonesia|indonesio",
    "it": "Italian|ita|italiano|italien|italienisch",
    "ja": "Japanese|jpn|日本語|japonés",
    "ko": "Korean|kor|한국어|coreano",
    "lt": "Lithuanian|lit|lietuvių|lituano",
    "lv": "Latvian|lav|latviešu|letón",
    "nl": "Dutch|nld|dut|nederlands|neerlandés|holandés",
    "no": "Norwegian|nor|norsk|noruego",
    "pl": "Polish|pol|polski|polaco",
    "pt": "Portuguese|por|português|portugués|portugais|portugiesisch|portoghese",
    "ro": "Romanian|ron|rum|română|rumano",
    "ru": "Russian|rus|русский|ruso",
    "sk": "Slovak|slk|slo|slovenčina|eslovaco",
    "sl": "Slovenian|slv|slovenščina|esloveno",
    "sr": "Serbian|srp|српски|srpski|serbio",
    "sv": "Swedish|swe|svenska|sueco",
    "th": "Thai|tha|ไทย|tailandés",
    "tr": "Turkish|tur|türkçe|turco",
    "uk": "Ukrainian|ukr|українська|ucraniano",
    "vi": "Vietnamese|vie|tiếng việt|vietnamita",
    "zh": "Chinese|zho|chi|中文|汉语|chino",
}


def covers_tag(language: str, tag: str) -> bool:
    """Whether a BCP 47 tag is of a language: en covers en-GB."""
    return f"{tag.lower()}-".replace("_", "-").startswith(f"{language.lower()}-".replace("_", "-"))


def are_variants(tag: str, other: str) -> bool:
    """Whether one of two BCP 47 tags is a variant of the other, as en-GB is of en."""
    return covers_tag(tag, other) or covers_tag(other, tag)


def are_similar(code: str, other: str) -> bool:
    """Whether two languages, codes of py3langid, are the same or may be taken for each other."""
    return code == other or any({code, other} <= codes for codes in _SIMILAR)


def find_code(tag: str) -> str:
    """Return the code that py3langid has for the language of a BCP 47 tag, if it knows it."""
    code = primary_subtag(tag)
    return _CODES.get(code, code)


def describe_language(code: str) -> str:
    """Return a language as "German (de)", or its code alone."""
    return f"{NAMES[code].partition('|')[0]} ({code})" if code in NAMES else code


@cache
def load_identifier() -> Any:
    """Return py3langid's identifier of all its languages; to unpack its model takes half a second.

    It is shared: copy it before `set_languages`.
    """
    from py3langid import langid

    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)


def make_identifier(
    languages: tuple[str, str], key: str, *, certainty: float = CERTAIN, among_all: bool = False
) -> Callable[[str], str | None]:
    """Return a function that identifies the language of a text, or returns None if uncertain.

    It returns a code of py3langid, of one of the two languages: see `find_code`.

    Args:
        languages: BCP 47 tags.
        key: the option that needs it, for messages.
        certainty: least probability of a language that counts as identified.
        among_all: also consider, and return, all other languages of the package.

    Raises:
        UserError: py3langid does not support the languages.
    """
    identifier = copy(load_identifier())
    codes = list(map(find_code, languages))
    try:
        if among_all and not set(codes) <= set(identifier.labels):
            raise ValueError(f"choose from: {', '.join(sorted(identifier.labels))}")
        if not among_all:
            identifier.set_languages(codes)
    except ValueError as error:
        raise UserError(f"{key} does not support {' or '.join(languages)}: {error}") from error

    def identify(text: str) -> str | None:
        code, probability = identifier.classify(text)
        return str(code) if probability >= certainty else None

    return identify
