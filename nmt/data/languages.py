"""Which language a text is in, by the package py3langid, whose model comes with it."""

from __future__ import annotations

from collections.abc import Callable

from nmt.errors import UserError

CERTAIN = 0.9  # probability of a language from which on it counts


def make_identifier(
    languages: tuple[str, str], key: str, *, certainty: float = CERTAIN, among_all: bool = False
) -> Callable[[str], str | None]:
    """Return what tells which of two languages a text is in; None where it is not certain.

    Args:
        languages: BCP 47 tags.
        key: what a user sets to have languages told, for messages.
        certainty: probability of a language from which on it counts.
        among_all: whether it may be any language that the model knows, which is then returned by
            its code.

    Raises:
        UserError: it is not installed, or does not know them.
    """
    try:
        from py3langid import langid
    except ImportError as error:
        raise UserError(
            f"{key} needs the package py3langid: pip install 'nmt[synthesis]'"
        ) from error
    identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    codes = [language.partition("-")[0].lower() for language in languages]
    known = dict(zip(codes, languages, strict=True))
    try:
        if among_all and not set(codes) <= set(identifier.labels):
            raise ValueError(f"it knows {', '.join(sorted(identifier.labels))}")
        if not among_all:
            identifier.set_languages(codes)
    except ValueError as error:
        raise UserError(f"{key} does not know {' or '.join(languages)}: {error}") from error

    def identify(text: str) -> str | None:
        code, probability = identifier.classify(text)
        return known.get(code, code) if probability >= certainty else None

    return identify
