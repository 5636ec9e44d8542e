"""The page in a browser: what is typed is translated, and words light what they looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from conftest import CHROMIUM
from fake_service import Running, serving

api = pytest.importorskip("playwright.sync_api")

pytestmark = [
    pytest.mark.xdist_group("serving"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        # No sandbox: as root, in a container, there is none.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def service() -> Iterator[Running]:
    with serving() as running:
        yield running


@pytest.fixture
def page(browser: Any, service: Running) -> Iterator[Any]:
    """Open the page; nothing may be asked of another origin, and no script may fail."""
    page = browser.new_page()
    page.set_default_timeout(10_000)
    asked: list[str] = []
    problems: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        lambda message: (
            problems.append(message.text)
            if message.type == "error" and "Failed to load resource" not in message.text
            else None
        ),
    )
    page.goto(service.url)
    yield page
    page.close()
    assert [url for url in asked if not url.startswith((service.url, "data:"))] == []
    assert problems == []


def weights(page: Any, side: str) -> dict[str, str]:
    """Return the weight that each lit word of a side carries."""
    lit = page.locator(f'.word.lit[data-side="{side}"]')
    return {word.inner_text(): word.get_attribute("data-weight") for word in lit.all()}


def strength(word: Any) -> float:
    """Return how much of the marking colour the word's background has."""
    return word.evaluate("element => Number(getComputedStyle(element).getPropertyValue('--w'))")


def test_typing_translates_and_words_light_what_they_looked_at(page: Any) -> None:
    expect = api.expect
    expect(page).to_have_title("Spanish → English")
    expect(page.locator("#run")).to_have_text("a-run · BLEU 50.1 ± 2.8")
    page.get_by_label("Spanish", exact=True).press_sequentially("Hola mundo")
    expect(page.locator("#target-words")).to_have_text("world hello ")
    expect(page.locator("#source-words")).to_have_text("Hola mundo end ")
    assert page.locator("#map .cell").count() == 16

    # Last layer, mean of both heads. "hello" is two target pieces, "Hola" two source pieces.
    hello = page.locator("#target-words .word", has_text="hello")
    hello.hover()
    assert weights(page, "source") == {"Hola": "0.80", "mundo": "0.10", "end": "0.10"}
    source = page.locator("#source-words .word")
    # The colour goes by the square root of the weight.
    strengths = [strength(word) for word in source.all()]
    assert strengths == pytest.approx([0.894, 0.316, 0.316], abs=1e-3)
    tooltip = page.get_by_role("tooltip")
    expect(tooltip).to_have_text("hello looked at\nHola 0.80\nmundo 0.10\nend 0.10")
    heads = page.locator('#map .head.lit[data-side="source"]').all()
    assert [head.get_attribute("data-weight") for head in heads] == ["0.80"] * 2 + ["0.10"] * 2
    band = page.locator("#map .band")
    assert band.is_visible()
    assert (band.get_attribute("height"), band.get_attribute("width")) == ("44", "88")

    source.filter(has_text="mundo").hover()
    assert weights(page, "target") == {"world": "0.80", "hello": "0.10"}
    assert weights(page, "source") == {}
    expect(tooltip).to_contain_text("mundo was looked at by\nworld 0.80")

    page.locator("h1").hover()
    assert weights(page, "source") == weights(page, "target") == {}
    expect(tooltip).to_be_hidden()


def test_layers_and_heads_can_be_chosen(page: Any) -> None:
    page.locator("#source").press_sequentially("Hola mundo")
    world = page.locator("#target-words .word", has_text="world")
    page.get_by_label("Head").select_option("1")
    world.hover()
    assert weights(page, "source") == {"mundo": "1.00"}
    page.locator("h1").hover()
    page.get_by_label("Layer").select_option("1")
    world.hover()
    assert weights(page, "source") == {"Hola": "0.50", "mundo": "0.25", "end": "0.25"}
    cell = page.locator('#map .cell[data-t="0"][data-s="2"]')
    assert cell.get_attribute("fill-opacity") == "0.25"
    # What was chosen stays while the sentence grows.
    page.locator("#source").fill("la casa")
    page.locator("#target-words .word", has_text="house").hover()
    assert weights(page, "source") == {"la": "0.50", "casa": "0.25", "end": "0.25"}


def test_the_keyboard_reaches_every_word(page: Any) -> None:
    page.locator("#source").press_sequentially("Hola mundo")
    page.locator("#target-words .word").first.wait_for()
    page.keyboard.press("Tab")
    assert weights(page, "target") == {"hello": "0.80", "world": "0.10"}  # from "Hola"
    page.keyboard.press("ArrowRight")
    assert weights(page, "target") == {"world": "0.80", "hello": "0.10"}  # from "mundo"
    page.keyboard.press("Tab")
    assert weights(page, "source")["mundo"] == "0.80"  # from "world"
    focused = page.locator(":focus")
    assert focused.get_attribute("aria-describedby") == "tooltip"
    page.keyboard.press("Escape")
    assert weights(page, "source") == {}


def test_stale_answers_are_dropped(page: Any, service: Running) -> None:
    service.translator.gate.clear()
    source = page.locator("#source")
    for text in ("la", "la casa"):
        with page.expect_request("**/translate"):
            source.fill(text)
    service.translator.gate.set()
    api.expect(page.locator("#target-words")).to_have_text("house the ")
    source.fill("")
    api.expect(page.locator("#target-words")).to_have_text("")
    api.expect(page.locator("#attention")).to_be_hidden()


def test_text_is_never_markup(page: Any) -> None:
    page.locator("#source").fill("<img/src=x> <b>")
    api.expect(page.locator("#target-words")).to_have_text("<B> <IMG/SRC=X> ")
    assert page.locator("main img, main b").count() == 0
    page.locator("#source").fill("<script>alert(1)</script>")
    api.expect(page.locator("#target-words")).to_have_text("<SCRIPT>ALERT(1)</SCRIPT>")
    api.expect(page.locator("#hint")).to_contain_text("translated in parts")


def test_it_says_when_the_service_refuses_fails_or_is_away(page: Any, service: Running) -> None:
    message = page.get_by_role("status")
    source = page.locator("#source")
    source.fill("a" * 5001)
    api.expect(message).to_contain_text("Not translated: a text of 5,001 characters")
    source.fill("fail")
    api.expect(message).to_have_text("Not translated: the translation failed")
    page.context.set_offline(True)
    source.fill("Hola mundo")
    api.expect(message).to_contain_text("does not answer")
    assert source.input_value() == "Hola mundo"
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    api.expect(page.locator("#target-words")).to_have_text("world hello ")
    api.expect(message).to_have_text("")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(browser: Any, service: Running, scheme: str) -> None:
    page = browser.new_page(viewport={"width": 360, "height": 640}, color_scheme=scheme)
    page.goto(service.url)
    page.locator("#source").fill("Hola mundo")
    page.locator("#map svg").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    channels = [int(part) for part in background.removeprefix("rgb(").rstrip(")").split(",")]
    assert (sum(channels) < 3 * 128) == (scheme == "dark")
    page.close()
