"""Language tags compared, and languages identified by py3langid, which brings its model."""

from __future__ import annotations

from collections.abc import Callable

from nmt.errors import UserError
from nmt.text.scripts import primary_subtag

CERTAIN = 0.9  # least probability of a language that counts as identified


def covers_tag(language: str, tag: str) -> bool:
    """Whether a BCP 47 tag is of a language: en covers en-GB."""
    return f"{tag.lower()}-".replace("_", "-").startswith(f"{language.lower()}-".replace("_", "-"))


def are_variants(tag: str, other: str) -> bool:
    """Whether one of two BCP 47 tags is a variant of the other, as en-GB is of en."""
    return covers_tag(tag, other) or covers_tag(other, tag)


def make_identifier(
    languages: tuple[str, str], key: str, *, certainty: float = CERTAIN, among_all: bool = False
) -> Callable[[str], str | None]:
    """Return a function that identifies the language of a text: one of two, or None if uncertain.

    Args:
        languages: BCP 47 tags.
        key: the option that needs the package, for messages.
        certainty: least probability of a language that counts as identified.
        among_all: also consider all other languages of the package; one is returned as its code.

    Raises:
        UserError: the package is not installed, or does not support the languages.
    """
    try:
        from py3langid import langid
    except ImportError as error:
        raise UserError(
            f"{key} needs the package py3langid: pip install 'nmt[synthesis]'"
        ) from error
    identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
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
