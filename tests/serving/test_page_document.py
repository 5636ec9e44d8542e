"""The page in a browser: a file that is dropped or chosen comes back as a download."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import needs_chromium
from fake_service import Running, serving, until

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("pages",)
pytestmark = [pytest.mark.xdist_group("serving"), needs_chromium]


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with serving() as running:
        yield running


def drop(page: Any, *files: tuple[str, str]) -> None:
    """Drop files, given as name and content, on the page."""
    transfer = page.evaluate_handle(
        """files => {
          const transfer = new DataTransfer();
          for (const [name, content] of files) transfer.items.add(new File([content], name));
          return transfer;
        }""",
        [list(file) for file in files],
    )
    page.dispatch_event("body", "dragover", {"dataTransfer": transfer})
    page.dispatch_event("body", "drop", {"dataTransfer": transfer})


def download(page: Any) -> tuple[str, str]:
    """Follow the link to the result; return its name and content."""
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download").click()
    return downloading.value.suggested_filename, Path(downloading.value.path()).read_text("utf-8")


def choose(page: Any, name: str, content: str) -> None:
    file = {"name": name, "mimeType": "", "buffer": content.encode()}
    page.locator("#file").set_input_files(file)


def test_a_dropped_file_is_translated_and_downloaded(page: Any) -> None:
    page.locator("#source").fill("la casa")
    drop(page, ("carta.html", "<p>Hola <b>mundo</b></p><p>la casa</p>"))
    api.expect(page.locator("#outcome")).to_have_text("Download carta.en.html (2 texts). ")
    assert download(page) == ("carta.en.html", "<p><b>world</b> hello</p><p>house the</p>")
    api.expect(page.locator("#source")).to_have_value("la casa")
    api.expect(page.locator("#target-words")).to_have_text("house the")


def test_a_chosen_file_may_be_chosen_again_and_the_keyboard_suffices(page: Any) -> None:
    for text, translation in (("Hola\n", "hello\n"), ("mundo\n", "world\n")):
        choose(page, "a\u00f1o.txt", text)
        api.expect(page.get_by_role("link", name="Download")).to_be_visible()
        assert download(page) == ("a\u00f1o.en.txt", translation)
        page.evaluate("document.getElementById('outcome').replaceChildren()")
    page.locator("#source").focus()
    page.keyboard.press("Tab")
    api.expect(page.get_by_role("button", name="Translate a file")).to_be_focused()
    # Not by the event of the browser's dialog, which may come before it is waited for.
    page.evaluate(
        "document.getElementById('file').addEventListener('click', (event) => {"
        " event.preventDefault(); document.title = 'choosing'; })"
    )
    page.keyboard.press("Enter")
    api.expect(page).to_have_title("choosing")
    assert ".html" in page.locator("#file").get_attribute("accept").split(",")


def test_of_a_table_the_page_asks_for_the_columns(page: Any) -> None:
    answers = ["text", None]

    def answer(dialog: Any) -> None:
        assert dialog.message.startswith("Columns to translate")
        value = answers.pop(0)
        dialog.dismiss() if value is None else dialog.accept(value)

    page.on("dialog", answer)
    drop(page, ("a.csv", "id,text\nHola,Hola\n"))
    api.expect(page.get_by_role("link", name="Download")).to_be_visible()
    assert download(page) == ("a.en.csv", "id,text\nHola,hello\n")
    drop(page, ("a.csv", "id,text\nHola,Hola\n"))
    api.expect(page.locator("#outcome")).to_have_text("Cancelled.")
    assert not answers


def test_losses_are_named(page: Any, service: Running) -> None:
    drop(page, ("a.txt", "lose\n\nHola"))
    api.expect(page.locator("#outcome")).to_contain_text(
        "(2 texts). The model left out, and the service inserted: 12."
    )
    # A client has one document at a time: the service may not know yet that this one has ended.
    until(lambda: service.ask("POST", "/documents?name=a.pdf", b"").status == 415)
    drop(page, ("a.json", '{"n": "{n, plural, one {Un día} other {# días}}", "a": "Hola"}'))
    api.expect(page.locator("#outcome")).to_contain_text(
        "(1 texts). Choices such as {n, plural, …}, which stay as they were: 1."
    )


def test_progress_is_shown_and_can_be_cancelled(page: Any, service: Running) -> None:
    service.translator.gate.clear()
    choose_file = page.get_by_role("button", name="Translate a file")
    choose_file.focus()
    drop(page, ("carta.txt", "\n\n".join(f"w{n}" for n in range(100))))
    bar = page.get_by_role("progressbar", name="carta.txt")
    api.expect(bar).to_be_visible()
    api.expect(page.locator("#count")).to_have_text("0 of 100 texts")
    assert bar.get_attribute("max") == "100"
    api.expect(choose_file).to_be_focused()  # the focus is not lost
    drop(page, ("other.txt", "Hola"))
    api.expect(page.locator("#outcome")).to_have_text("One file at a time.")
    page.get_by_role("button", name="Cancel").click()
    api.expect(page.locator("#outcome")).to_have_text("Cancelled.")
    api.expect(bar).to_be_hidden()
    api.expect(choose_file).to_be_focused()
    # A client has one document at a time: the next one, of an unknown format, is looked at only
    # when the service knows that the page has hung up.
    until(lambda: service.ask("POST", "/documents?name=a.pdf", b"").status == 415)
    service.translator.gate.set()
    assert service.translate("Hola") == [[{"text": "hello"}]]
    texts = [text for batch, _ in service.translator.calls for text in batch]
    assert "w99" not in texts


def test_errors_are_shown_and_what_is_typed_stays(page: Any) -> None:
    outcome = page.locator("#outcome")
    page.locator("#source").fill("Hola mundo")
    api.expect(page.locator("#target-words")).to_have_text("world hello")
    drop(page, ("a.pdf", "%PDF"))
    api.expect(outcome).to_contain_text("Not translated: files '.pdf' are unknown")
    api.expect(outcome).to_have_class("problem")
    drop(page, ("a.txt", "fail"))
    api.expect(outcome).to_have_text("Not translated: the translation failed")
    drop(page, ("a.txt", "a" * (1024 * 1024 + 1)))
    api.expect(outcome).to_have_text("Not translated: a.txt is larger than the 1,024 KiB allowed")
    drop(page, ("a.txt", "a"), ("b.txt", "b"))
    api.expect(outcome).to_have_text("One file at a time.")
    page.context.set_offline(True)
    drop(page, ("a.txt", "Hola"))
    api.expect(outcome).to_have_text("Not translated: the service does not answer")
    page.context.set_offline(False)
    drop(page, ("a.txt", "Hola"))
    api.expect(outcome).to_contain_text("Download a.en.txt")
    api.expect(outcome).not_to_have_class("problem")
    api.expect(page.locator("#source")).to_have_value("Hola mundo")
    api.expect(page.locator("#target-words")).to_have_text("world hello")


def test_names_are_never_markup(page: Any) -> None:
    drop(page, ("<img src=x>.txt", "Hola"))
    api.expect(page.locator("#outcome")).to_contain_text("Download _img src=x_.en.txt")
    assert page.locator("main img").count() == 0


def test_a_text_that_is_dropped_is_no_file(page: Any) -> None:
    transfer = page.evaluate_handle(
        "() => { const t = new DataTransfer(); t.setData('text/plain', 'Hola'); return t; }"
    )
    page.dispatch_event("#source", "drop", {"dataTransfer": transfer})
    api.expect(page.locator("#progress")).to_be_hidden()
    api.expect(page.locator("#outcome")).to_have_text("")
