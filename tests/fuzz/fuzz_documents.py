"""Target: documents."""

from __future__ import annotations

import codecs
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from fuzz_inputs import Prepared, pick, rest, seed

# Their untranslated segments stay, so that a document keeps its bytes.
_IN_PLACE = ("html", "markdown", "subtitles", "catalog", "text")
# Tags and brackets, not line breaks and signs, say where their segments end.
_STRUCTURED = ("html", "catalog")
_CUE = "1\n00:00:01,000 --> 00:00:02,000\n- <i>Hola</i>, Ana.\n- ¿Qué tal?\n\n"
_SEEDS = {
    "html": (
        "<!doctype html><title>Una casa</title><p lang=es>Hola <b>bonito</b> &amp; <br>nuevo</p>",
        "<ul><li>Uno<li>Dos</ul><script>a<b</script><img alt='Un gato'><pre>x  y</pre><!-- z -->",
    ),
    "markdown": (
        "# Título\n\nUn **texto** con [enlace](a.md 'nota') y `código`.\n\n- uno\n- dos\n",
        "> cita\n\n| a | b |\n|---|---|\n| *x* | y |\n\n```py\nx\n```\n[a]: b\n\n---\nt: 1\n---\n",
    ),
    "subtitles": (_CUE, "WEBVTT\nLanguage: es\n\n00:01.000 --> 00:02.000\n<v Ana>Hola &lt;\n"),
    "po": (
        'msgid ""\nmsgstr ""\n"Language: es\\n"\n\n#, c-format\nmsgid "Hola %s"\nmsgstr ""\n',
        'msgctxt "a"\nmsgid "Un gato"\nmsgid_plural "%d gatos"\nmsgstr[0] ""\nmsgstr[1] ""\n',
    ),
    "xliff": (
        '<xliff version="1.2"><file source-language="es" target-language="en"><body>'
        '<trans-unit id="1"><source>Hola <g id="1">Ana</g><x id="2"/></source></trans-unit></body>'
        "</file></xliff>",
        '<xliff version="2.0" srcLang="es" trgLang="en"><file id="f"><unit id="u"><segment><source>'
        'Hola <pc id="1">Ana</pc></source></segment></unit></file></xliff>',
        '<tmx version="1.4"><header srclang="es"/><body><tu><tuv xml:lang="es"><seg>Hola</seg>'
        "</tuv></tu></body></tmx>",
    ),
    "catalog": (
        '{"a": "Hola {name}", "b": ["Uno", {"c": "<b>Dos</b>"}]}',
        "es:\n  a: Hola\n  b: |\n    x\n",
    ),
    "table": ('a,b\nHola,1\n"Un, dos",2\n', "Hola\tAdiós\n"),
    "text": ("Un párrafo\nde dos líneas.\n\n* Otro.\n",),
}
FORMATS = tuple(_SEEDS)


def prepare_documents(folder: Path) -> Prepared:
    """Fill documents with their own texts, and with others."""
    from nmt.documents.formats import DocumentOptions, extract

    for name in FORMATS:  # so that their coverage is known
        import_module(f"nmt.documents.{name}")
    languages = DocumentOptions("es", "en", columns=("1",))

    def check(data: Any) -> None:
        name = pick(data, FORMATS)
        options = languages if name in ("xliff", "table") else DocumentOptions()
        content = rest(data)
        document = extract(content, name, options)
        own = [segment.without_kept() for segment in document.segments]
        filled = document.fill(own)
        if name in _IN_PLACE:
            assert filled == content, "the document's own texts change it"
        others = [replace(text, text=codecs.encode(text.text, "rot13")) for text in own]
        again = extract(document.fill(others), name, options)
        if name in _STRUCTURED:
            read, written = (
                ["".join(text.without_kept().text.split()) for text in texts]
                for texts in (again.segments, others)
            )
            assert read == written, "other texts are not read again"

    return check, [
        seed(content, number)
        for number, contents in enumerate(_SEEDS.values())
        for content in contents
    ]
