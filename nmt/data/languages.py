"""Language tags compared, and languages identified by py3langid, which brings its model."""

from __future__ import annotations

from collections.abc import Callable
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
_NAMES = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "ca": "Catalan",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "et": "Estonian",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sr": "Serbian",
    "sv": "Swedish",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
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
    code = tag.replace("_", "-").partition("-")[0].lower()
    return _CODES.get(code, code)


def describe_language(code: str) -> str:
    """Return a language as "German (de)", or its code alone."""
    return f"{_NAMES[code]} ({code})" if code in _NAMES else code


def load_identifier() -> Any:
    """Load py3langid's identifier; it takes a third of a second."""
    from py3langid import langid

    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)


def make_identifier(
    languages: tuple[str, str], key: str, *, certainty: float = CERTAIN, among_all: bool = False
) -> Callable[[str], str | None]:
    """Return a function that identifies the language of a text: one of two, or None if uncertain.

    Args:
        languages: BCP 47 tags.
        key: the option that needs it, for messages.
        certainty: least probability of a language that counts as identified.
        among_all: also consider all other languages of the package; one is returned as its code.

    Raises:
        UserError: py3langid does not support the languages.
    """
    identifier = load_identifier()
    codes = [primary_subtag(language) for language in languages]
    tags = dict(zip(codes, languages, strict=True))
    try:
        if among_all and not set(codes) <= set(identifier.labels):
            raise ValueError(f"choose from: {', '.join(sorted(identifier.labels))}")
        if not among_all:
            identifier.set_languages(codes)
    except ValueError as error:
        raise UserError(f"{key} does not support {' or '.join(languages)}: {error}") from error

    def identify(text: str) -> str | None:
        code, probability = identifier.classify(text)
        return tags.get(code, code) if probability >= certainty else None

    return identify
