"""How often terms occurred and were used: a table, and a line for the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.errors import UserError
from nmt.inference.results import TermUse
from nmt.inference.term_report import HEADER, TermReport
from nmt.text.terms import Glossary, Term

GLOSSARY = Glossary(
    [Term("gato", "cat"), Term("perro", "hound", "of hunters"), Term("pan", "loaf")], ("es", "en")
)


def make_report() -> TermReport:
    report = TermReport(GLOSSARY)
    report.add([TermUse("perro", "hound", True), TermUse("gato", "cat", False)])
    report.add([TermUse("perro", "hound", False), TermUse("perro", "hound", True)])
    return report


def test_the_table_has_every_term(tmp_path: Path) -> None:
    make_report().write(tmp_path / "report.tsv")
    assert (tmp_path / "report.tsv").read_text(encoding="utf-8").splitlines() == [
        HEADER,
        "perro\thound\t3\t2\tof hunters",
        "gato\tcat\t1\t0\t",
        "pan\tloaf\t0\t0\t",
    ]


def test_the_summary_names_what_was_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    make_report().print_summary()
    out, err = capsys.readouterr()
    assert (out, err) == ("", "terms: 2 of 4 used; not used: perro → hound, gato → cat\n")
    report = TermReport(GLOSSARY)
    report.add([TermUse("pan", "loaf", True)])
    report.print_summary()
    assert capsys.readouterr().err == "terms: 1 of 1 used\n"


def test_without_a_glossary_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    TermReport(None).print_summary()
    assert capsys.readouterr() == ("", "")


def test_an_unwritable_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no/report\.tsv cannot be written: No such file"):
        make_report().write(tmp_path / "no" / "report.tsv")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_explained() -> None:
    with pytest.raises(UserError, match="the disk at /dev is full: free space"):
        make_report().write(Path("/dev/full"))
