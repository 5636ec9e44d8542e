"""Requests choose a glossary by name, and learn which of its terms were used."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_service import SOON, TERMS, serving, until

from nmt.errors import UserError
from nmt.serving.glossaries import read_glossaries
from nmt.text.terms import Term


def test_a_glossary_is_used_by_name_and_its_terms_are_reported() -> None:
    with serving() as running:
        [[plain]], [[best]] = (
            running.translate("gato perro", **options) for options in ({}, {"glossary": "animals"})
        )
        assert "terms" not in plain
        assert best["text"] == "PERRO GATO tomcat"
        assert best["terms"] == [
            {"source": "gato", "target": "tomcat", "is_used": True},
            {"source": "perro", "target": "unused", "is_used": False},
        ]
        assert running.ask("GET", "/info").json["glossaries"] == {"animals": len(TERMS)}


def test_an_unknown_glossary_is_named() -> None:
    with serving() as running:
        answer = running.post({"text": "gato", "glossary": "plants"})
        assert answer.status == 422
        assert answer.json == {"error": "unknown glossary 'plants': choose from: animals"}
        answer = running.ask("POST", "/documents?name=a.html&glossary=plants", b"<p>gato</p>")
        assert (answer.status, answer.json) == (
            422,
            {"error": "unknown glossary 'plants': choose from: animals"},
        )


def test_searches_with_and_without_a_glossary_share_no_batch() -> None:
    with serving() as running, ThreadPoolExecutor() as pool:
        running.translator.gate.clear()
        pool.submit(running.translate, "Hola")
        assert running.translator.started.wait(SOON)
        pool.submit(running.translate, ["gato", "casa"], glossary="animals")
        until(lambda: running.measured("nmt_sentences_total") == 1 + 2)
        pool.submit(running.translate, "gato")
        until(lambda: running.measured("nmt_sentences_total") == 1 + 2 + 1)
        running.translator.gate.set()
    glossaries = [request.glossary for _, request in running.translator.calls]
    assert glossaries == [None, running.translator.glossaries["animals"], None]


def test_a_document_uses_a_glossary() -> None:
    with serving() as running:
        page = b"<p>gato</p><p>perro</p>"
        answer = running.ask("POST", "/documents?name=a.html&glossary=animals", page)
        assert answer.body == b"<p>GATO tomcat</p><p>PERRO</p>"
        report = json.loads(answer.headers["document-report"])
        assert (report["terms"], report["unused_terms"]) == (2, 1)
        events = running.ask(
            "POST",
            "/documents?name=a.html&glossary=animals",
            page,
            {"Accept": "text/event-stream"},
        ).body.decode()
        last = json.loads(events.rpartition("data: ")[2])
        assert [use["is_used"] for use in last["terms"]] == [True, False]


def test_glossaries_are_the_tables_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "law.tsv").write_text("juez\tjudge\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("", encoding="utf-8")
    glossaries = read_glossaries(tmp_path, ("es", "en"))
    assert {name: each.terms for name, each in glossaries.items()} == {
        "law": (Term("juez", "judge"),)
    }
    (tmp_path / "zoo.csv").write_text("gato,cat\n", encoding="utf-8")
    assert read_glossaries(tmp_path, ("es", "en"))["zoo"].terms == (Term("gato", "cat"),)
    (tmp_path / "zoo.tsv").write_text("gato\tcat\n", encoding="utf-8")
    with pytest.raises(UserError, match="has two glossaries of one name: rename one of them"):
        read_glossaries(tmp_path, ("es", "en"))
    for name in ("law.tsv", "zoo.tsv", "zoo.csv"):
        (tmp_path / name).unlink()
    with pytest.raises(UserError, match=r"has no glossary: put files \*\.tsv or \*\.csv there"):
        read_glossaries(tmp_path, ("es", "en"))
    for path in (tmp_path / "notes.txt", tmp_path / "missing"):
        with pytest.raises(UserError, match=f"--glossaries {path} is not a folder: name one"):
            read_glossaries(path, ("es", "en"))
