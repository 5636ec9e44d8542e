"""The page meets WCAG 2.2 AA, as far as a program can tell, in each state, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import needs_chromium
from fake_service import Running

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("pages",)
pytestmark = [pytest.mark.xdist_group("serving"), needs_chromium]

SCHEMES = ("light", "dark")
SMALLEST_TARGET = 24  # CSS pixels, success criterion 2.5.8
# Of an element's border, or of what it is called, to the background behind it.
CONTRAST = """([element, property]) => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const paint = (colours) => {
    for (const colour of colours) {
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (channels) => channels.map((channel) => channel / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = [];
  for (let each = element.parentElement; each; each = each.parentElement) {
    behind.unshift(getComputedStyle(each).backgroundColor);
  }
  const [, colour] = getComputedStyle(element)[property].match(/((?:rgba?|color)\\([^)]*\\))/);
  const [light, dark] = [luminance(paint(["white", ...behind, colour])),
                         luminance(paint(["white", ...behind]))].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}"""


def contrast(element: Any, prop: str) -> float:
    """Return the contrast ratio of a colour of an element to the background of its parents."""
    handle = element.element_handle()
    ratio: float = element.page.evaluate(CONTRAST, [handle, prop])
    return ratio


def translated(page: Any, text: str = "la casa") -> None:
    page.locator("#source").fill(text)
    page.locator("#target-words .word").first.wait_for()


def show_error(page: Any) -> None:
    translated(page)
    page.locator("#source").fill("fail")
    api.expect(page.locator("#stale")).to_be_visible()


def show_absence(page: Any) -> None:
    translated(page)
    page.context.set_offline(True)
    page.locator("#source").fill("Hola")
    page.get_by_role("button", name="Try again").wait_for()


def show_alternatives(page: Any) -> None:
    translated(page)
    page.locator("#target-words .word").first.click()
    page.locator("#alternatives-list button").first.wait_for()


def show_reasons(page: Any) -> None:
    show_alternatives(page)
    page.get_by_role("button", name="Why this word?").click()
    page.locator("#reasons-rows").wait_for()


def show_choice(page: Any) -> None:
    show_alternatives(page)
    page.get_by_role("button", name="home").click()
    page.get_by_role("button", name="Undo all").wait_for()


def show_attention(page: Any) -> None:
    translated(page, "Hola mundo")
    page.locator("summary").click()
    page.locator("#viewer svg").wait_for()


def show_lit_words(page: Any) -> None:
    translated(page)
    page.locator("#target-words .word").first.focus()
    page.get_by_role("tooltip").wait_for()


def show_correction(page: Any) -> None:
    translated(page)
    page.get_by_role("button", name="Correct", exact=True).click()
    page.get_by_role("button", name="Save correction").wait_for()


def show_too_much(page: Any) -> None:
    page.locator("#source").fill("a" * 5001)
    page.locator("#counter.over").wait_for()


STATES: dict[str, Callable[[Any], None]] = {
    "empty": lambda page: None,
    "translated": translated,
    "error": show_error,
    "away": show_absence,
    "alternatives": show_alternatives,
    "reasons": show_reasons,
    "choice": show_choice,
    "attention": show_attention,
    "lit words": show_lit_words,
    "correction": show_correction,
    "too much": show_too_much,
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("state", STATES)
def test_no_state_of_the_page_violates_a_rule(
    open_page: Callable[..., Any], violations: Callable[[Any], list[str]], state: str, scheme: str
) -> None:
    page = open_page(color_scheme=scheme, reduced_motion="reduce")
    STATES[state](page)
    assert violations(page) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_progress_of_a_file_violates_no_rule(
    open_page: Callable[..., Any],
    violations: Callable[[Any], list[str]],
    service: Running,
    scheme: str,
) -> None:
    page = open_page(color_scheme=scheme, reduced_motion="reduce")
    service.translator.gate.clear()
    file = {"name": "a.txt", "mimeType": "", "buffer": b"Hola"}
    page.locator("#file").set_input_files(file)
    page.get_by_role("progressbar", name="a.txt").wait_for()
    api.expect(page.locator("#count")).to_have_text("0 of 1 texts")
    assert violations(page) == []
    service.translator.gate.set()
    page.get_by_role("link", name="Download a.en.txt").wait_for()
    assert violations(page) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_borders_and_marks_are_seen(open_page: Callable[..., Any], scheme: str) -> None:
    """Success criterion 1.4.11, which axe-core does not check."""
    page = open_page(color_scheme=scheme, reduced_motion="reduce")
    translated(page)
    for name in (".pane", "#choose", "#copy", "#glossary"):
        assert contrast(page.locator(name).first, "borderTopColor") >= 3, name
    assert contrast(page.locator(".word.unsure"), "textDecorationColor") >= 3
    page.locator("#target-words .word").first.focus()
    page.locator(".word.lit").wait_for()
    assert contrast(page.locator(".word.lit"), "boxShadow") >= 3
    assert contrast(page.locator(".word.active"), "boxShadow") >= 3
    page.keyboard.press("Tab")  # the keyboard is used: the focus is to be seen
    for name in ("#source", "#copy", "#target-words .word", "#glossary"):
        element = page.locator(name).first
        element.focus()
        assert element.evaluate("element => getComputedStyle(element).outlineWidth") == "2px"
        assert contrast(element, "outlineColor") >= 3, name


def test_controls_are_large_enough(page: Any) -> None:
    show_choice(page)
    page.locator("#target-words .word").first.click()
    page.locator("#alternatives-list button").first.wait_for()
    controls = page.locator(
        "main > :not(details) :is(button, select, textarea):visible, header select, summary, .word"
    )
    assert controls.count() > 12
    for control in controls.all():
        box = control.bounding_box()
        # Words stand in a line of text, which may be less wide.
        is_word = "word" in (control.get_attribute("class") or "").split()
        assert box["height"] >= SMALLEST_TARGET
        assert is_word or box["width"] >= SMALLEST_TARGET


@pytest.mark.parametrize("state", ["empty", "choice", "reasons", "attention", "error"])
def test_a_narrow_page_and_spaced_text_lose_nothing(
    open_page: Callable[..., Any], state: str
) -> None:
    """Success criteria 1.4.10 and 1.4.12."""
    page = open_page(viewport={"width": 320, "height": 640})
    STATES[state](page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate(
        """() => {
          const sheet = new CSSStyleSheet();
          sheet.replaceSync(`* { line-height: 1.5 !important; letter-spacing: 0.12em !important;
            word-spacing: 0.16em !important; } p { margin-bottom: 2em !important; }`);
          document.adoptedStyleSheets.push(sheet);
        }"""
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    cut = page.evaluate(
        """() => [...document.querySelectorAll("main :is(button, p, h2, li, span)")]
          .filter((each) => each.checkVisibility() && !each.closest(".spoken, .attention-viewer"))
          .filter((each) => each.scrollWidth > each.clientWidth + 1
            && getComputedStyle(each).display !== "inline")
          .map((each) => each.id || each.textContent)"""
    )
    assert cut == []


def test_the_page_has_landmarks_headings_and_languages(page: Any) -> None:
    show_alternatives(page)
    for role, name in (("main", None), ("banner", None), ("region", "Spanish")):
        assert (
            page.get_by_role(role, **({"name": name, "exact": True} if name else {})).count() == 1
        )
    assert page.get_by_role("region", name="English", exact=True).count() == 1
    assert page.get_by_role("heading", level=1).inner_text() == "Spanish → English"
    assert page.get_by_role("heading", level=2).all_inner_texts() == ["Spanish", "English"]
    languages = {"#source": "es", "#source-words": "es", "#target-words": "en"}
    languages |= {"#alternatives-word": "en", "#alternatives-list": "en"}
    for name, language in languages.items():
        assert page.locator(name).get_attribute("lang") == language
    assert page.locator("html").get_attribute("lang") == "en"


def test_arrow_keys_fit_the_orientation_of_both_lists_of_words(page: Any) -> None:
    target = page.locator("#target-words")
    assert target.get_attribute("aria-orientation") is None  # a group has none
    translated(page)
    for name in ("#source-words", "#target-words"):
        line = page.locator(name)
        assert line.get_attribute("role") == "listbox"
        assert line.get_attribute("aria-orientation") == "horizontal"
    page.locator("#source").fill("")
    api.expect(target).to_have_attribute("role", "group")
    assert target.get_attribute("aria-orientation") is None


def test_text_from_right_to_left_is_laid_out_so(page: Any) -> None:
    page.locator("#source").fill("שלום עולם")
    target = page.locator("#target-words")
    words = target.locator(".word")
    api.expect(words).to_have_count(2)
    for name in ("#source", "#source-words", "#target-words"):
        direction = page.locator(name).evaluate("element => getComputedStyle(element).direction")
        assert direction == "rtl", name
    assert words.first.bounding_box()["x"] > words.last.bounding_box()["x"]
    words.first.focus()
    page.keyboard.press("ArrowLeft")
    api.expect(words.last).to_be_focused()


def test_nothing_moves_for_those_who_do_not_want_it(open_page: Callable[..., Any]) -> None:
    page = open_page(reduced_motion="reduce")
    duration = "element => getComputedStyle(element).transitionDuration"
    assert page.locator("#target-words").evaluate(duration) == "0s"
    moving = open_page(reduced_motion="no-preference")
    assert moving.locator("#target-words").evaluate(duration) == "0.15s"
