"""What round trips of real documents find."""

from __future__ import annotations

from pathlib import Path

import pytest
import round_trips
from round_trips import ALL, BACK, BACK_TEXTS, OTHERS, OWN, REFUSED, WITH_TEXTS, check, read_files

PAGE = b"<p>Uno <b>dos</b> tres</p>"
XLIFF = (
    b'<xliff version="1.2"><file><body><trans-unit><source>Uno <g id="1">dos</g></source>'
    b"\n<target>One</target></trans-unit></body></file></xliff>"
)
TMX = (
    b'<tmx version="1.4"><header srclang="es"/><body><tu><tuv xml:lang="es"><seg>Hola</seg></tuv>'
    b"</tu></body></tmx>"
)


@pytest.mark.parametrize(
    ("name", "data", "columns"),
    [
        ("a.html", PAGE, {ALL, WITH_TEXTS, OWN, OTHERS, BACK, BACK_TEXTS}),
        ("a.html", PAGE.replace(b" ", b"\n", 1), {ALL, WITH_TEXTS, OWN, OTHERS, BACK_TEXTS}),
        ("a.html", b"<p>12</p>", {ALL}),
        ("a.xlf", XLIFF, {ALL, WITH_TEXTS, OWN, OTHERS}),
        ("a.tmx", TMX, {ALL, WITH_TEXTS, OWN, OTHERS}),
        ("a.docx", b"", {ALL, REFUSED}),
    ],
)
def test_a_document_is_counted_by_what_is_true_of_it(
    name: str, data: bytes, columns: set[str]
) -> None:
    assert set(check(Path(name), data)[0]) == columns


def test_lost_elements_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from nmt.documents.html import HtmlDocument

    monkeypatch.setattr(HtmlDocument, "fill", lambda *_: b"<p>Hab qbf gerf</p>")
    counts, messages = check(Path("a.html"), PAGE)
    assert set(counts) == {ALL, WITH_TEXTS}
    assert messages == [f"not {OWN}", f"not {OTHERS}"]


def test_files_of_the_same_bytes_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.html", "b.html", "c.csv", "d.docx"):
        (tmp_path / name).write_bytes(b"" if name == "d.docx" else PAGE)
    assert [path.name for path, _ in read_files([tmp_path])] == ["a.html", "d.docx"]
    monkeypatch.setattr("sys.argv", ["round_trips.py", str(tmp_path), "--list"])
    round_trips.main()
    output = capsys.readouterr()
    assert output.out.splitlines()[2:] == [
        "| docx | 1 | 1 | 0 | 0 | 0 | 0 | 0 |",
        "| html | 1 | 0 | 1 | 1 | 1 | 1 | 1 |",
    ]
    assert "d.docx: the document is" in output.err
