"""Numbers in the digits of other scripts, as languages write them that have none of their own."""

from __future__ import annotations

import re
from functools import cache

from nmt.text.scripts import UNKNOWN_LANGUAGE, UNSPACED_SENTENCES, primary_subtag

_NUMBER = re.compile(r"[+−±~$€£¥-]*\d")  # its beginning
_HALF_DAY_SPACE = re.compile(r"(?<=[ap]\.)\s(?=m\.$)", re.IGNORECASE)  # of 8:30 a. m.
_ARABIC_LANGUAGES = frozenset(
    """ar ara arb ary arz bal ckb fa fas glk ks lrc mzn per pes pnb prs ps pus sd ug uig ur
    urd""".split()
)
_DEVANAGARI_LANGUAGES = frozenset("bho hi hin mai mar mr ne nep sa".split())
# The zero of a script, the marks between its digits - before decimals and thousands -, and the
# languages that write them.
_SCRIPTS = (
    ("٠", "٫٬", _ARABIC_LANGUAGES),
    ("۰", "٫٬", _ARABIC_LANGUAGES),
    ("०", "", _DEVANAGARI_LANGUAGES),
    ("０", "．，", UNSPACED_SENTENCES | {"ko", "kor"}),
)
# Languages with a point before decimals; others have a comma.
_POINT_LANGUAGES = frozenset(
    """cmn cy cym en eng fil ga gle he heb hi hin iw ja jpn ko kor ms msa mt mlt nan ne nep sw swa
    ta tam th tha tl ur urd wuu yue zh zho""".split()
)


def localize_digits(text: str, language: str) -> str:
    """Return a number with the digits of a language: ``2.5`` of ``٢٫٥`` in English.

    The ``a. m.`` of a clock time has its space in Spanish only. Thousands are not separated:
    ``1,500`` would be less than two in many languages.

    Args:
        text: a kept span; others than numbers stay.
        language: BCP 47 tag. Where it is unknown, all digits stay.
    """
    if not _NUMBER.match(text):
        return text
    if primary_subtag(language) not in ("es", UNKNOWN_LANGUAGE):
        text = _HALF_DAY_SPACE.sub("", text)
    if text.isascii():
        return text
    return text.translate(_list_foreign_digits(language))


@cache
def _list_foreign_digits(language: str) -> dict[int, str]:
    """Return the digits and marks that a language lacks, as a table of `str.translate`."""
    code = primary_subtag(language)
    if code == UNKNOWN_LANGUAGE:
        return {}
    decimal_mark = "." if code in _POINT_LANGUAGES else ","
    written: dict[str, str] = {}
    for zero, marks, languages in _SCRIPTS:
        if code not in languages:
            written |= {chr(ord(zero) + digit): str(digit) for digit in range(10)}
            written |= dict(zip(marks, (decimal_mark, ""), strict=False))
    return str.maketrans(written)
