"""The HTML file holds its data and its program, and no text in it is taken for markup."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser

import pytest
from fake_attention import attention

from nmt.viewer import page as html
from nmt.viewer import records

HOSTILE = ["</script>", "<!--", "<script>", "]]>", "&lt;", '"', "\\", "\u2028", "\ud800", "{title}"]


class Elements(HTMLParser):
    """Collects the elements of a page, and the text of those named ``script``."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.scripts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.scripts and self.cdata_elem == "script":
            self.scripts[-1] += data


def test_hostile_tokens_and_sentences_come_back_unchanged() -> None:
    hostile = attention(HOSTILE, HOSTILE)
    sentences = [*HOSTILE, "La casa roja"]
    page = html.attention_page([(sentence, hostile) for sentence in sentences], "</title><b>&")
    elements = Elements(page)
    assert elements.names.count("script") == 2
    assert not {"b", "img", "iframe"} & set(elements.names)
    assert "<title>&lt;/title&gt;&lt;b&gt;&amp;</title>" in page
    data = json.loads(elements.scripts[0])
    assert [item["sentence"] for item in data] == sentences
    for item in data:
        record = records.decode(base64.b64decode(item["record"]))
        assert record.sentence == item["sentence"]
        assert record.tokens["source"] == HOSTILE


def test_the_page_asks_for_nothing_else() -> None:
    page = html.attention_page([("x", attention())], "x")
    assert re.findall(r"https?://[^\s\"']+", page) == ["http://www.w3.org/2000/svg"]  # a name
    policy = re.search(r'content="(default-src.*?)"', page, re.DOTALL)
    assert policy
    assert "default-src 'none'" in policy[1]
    assert not re.search(r"\b(src|href)=(?!\"data:)", page.split("<script", 1)[0])


def test_every_module_of_the_viewer_is_in_it_once() -> None:
    script = Elements(html.attention_page([], "x")).scripts[1]
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    modules = {path.name for path in html.BROWSER.glob("*.js")} - {
        "plugin.js",
        "host.js",
        "former.js",
    }
    assert modules == {*html.VIEWER_MODULES, "file.js"}
    for name in modules:
        first = (html.BROWSER / name).read_text(encoding="utf-8").splitlines()[0]
        assert script.count(first) == 1, name
    names = re.findall(r"^(?:async )?(?:const|let|class|function) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names)) > 20  # one name space


def test_weights_that_do_not_fit_are_refused() -> None:
    broken = attention()
    broken.source.append("one more")
    with pytest.raises(ValueError, match="do not fit"):
        html.attention_page([("x", broken)], "x")
