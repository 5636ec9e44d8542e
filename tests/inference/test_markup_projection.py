"""Marks follow the words that they are around; whatever the alignment, they stay well nested."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from marked_texts import (
    assert_is_sound,
    build,
    marked_texts,
    translations,
    try_examples,
    write,
)

from nmt.inference.markup_projection import needs_alignment, project_marks, project_tags
from nmt.inference.results import Translation, Word
from nmt.text.marked import Mark, MarkedText
from nmt.text.tags import read_tags
from nmt.text.words import find_words


def project(tagged: str, text: str, links: str) -> str:
    """Carry marks; return the translation with tags.

    Args:
        tagged: see `build`.
        text: the translation.
        links: for each of its words the numbers of source words: "0 1,2 -" (-: none).
    """
    source = build(tagged)
    spans = find_words(source.text)
    words = [
        Word(*span, None, tuple(spans[int(i)] for i in numbers.split(",") if i != "-"))
        for span, numbers in zip(find_words(text), links.split(), strict=True)
    ]
    projected = project_marks(source, text, words)
    assert_is_sound(projected)
    return write(projected)


def test_an_element_around_the_mark_of_an_item_stays_there() -> None:
    source = build("<b>a)</b> La <i>casa</i>")
    words = [Word(3, 6, None, ((3, 5),)), Word(7, 12, None, ((6, 10),))]
    projected = project_marks(source, "a) The house", words)
    assert write(projected) == "<0>a)</0> The <1>house</1>"


@pytest.mark.parametrize(
    ("tagged", "text", "links", "expected"),
    [
        ("La <b>casa</b> azul", "The blue house", "0 2 1", "The blue <0>house</0>"),
        ("La <b>casa azul</b>", "The blue house", "0 2 1", "The <0>blue house</0>"),
        ("<b>La casa</b>", "The house", "0 1", "<0>The house</0>"),
        ("<b>¿Dónde está?</b>", "Where is it?", "1 2 - 3", "<0>Where is it?</0>"),
        # A part of a word marks all of it.
        ("in<b>creíble</b>", "unbelievable", "0", "<0>unbelievable</0>"),
        # Of a word that stays as it is, the same part.
        ("Es CO<b>2</b> puro", "It is pure CO2", "0 0 2 1", "It is pure CO<0>2</0>"),
        ("Es H<b>2</b>SO<i>4</i>.", "It is H2SO4.", "0 0 1 2", "It is H<0>2</0>SO<1>4</1>."),
        # Nested.
        (
            "Un <b>libro <i>muy</i> bueno</b>.",
            "A very good book.",
            "0 2 3 1 4",
            "A <0><1>very</1> good book</0>.",
        ),
        # Around the same words.
        ("Un <b><i>libro</i></b>", "A book", "0 1", "A <0><1>book</1></0>"),
        # The contiguous words that agree best.
        ("No <b>lo he visto</b> hoy", "Today I have not seen it", "4 2 2 0 3 1",
         "Today <0>I have not seen it</0>"),
        # A word without sources belongs where its neighbors do.
        ("<b>Vino ayer</b> Ana", "he came then Ana", "- 0 1 2", "<0>he came then</0> Ana"),
        # Siblings do not overlap.
        ("<b>a</b> <i>b</i>", "y x", "1 0", "<1>y</1> <0>x</0>"),
        ("<b>a</b> <i>b</i>", "x", "0,1", "<0>x</0><1></1>"),
        # The marks beside an element's words stay outside, as in the source.
        ("¿Ves <b>la casa</b>?", "See the house?", "1 2 3 -", "See <0>the house</0>?"),
        ("Ana;<b>Mi casa</b>", "Ana ;My house", "0 - 2 3", "Ana ;<0>My house</0>"),
        ("Di <b>¡hola!</b>", "Say hello!", "0 2 -", "Say <0>hello!</0>"),
        # The ellipsis that begins the next cue does not belong to it.
        ("<b>A nadie...</b> ...y no", "To nobody... ...and no", "0 1 2 2 3 4",
         "<0>To nobody...</0> ...and no"),
        # An element whose words vanished stays beside something.
        ("uno <b>dos</b> tres", "one three", "0 2", "<0>one</0> three"),
    ],
)  # fmt: skip
def test_elements_follow_their_words(tagged: str, text: str, links: str, expected: str) -> None:
    assert project(tagged, text, links) == expected


@pytest.mark.parametrize(
    ("tagged", "text", "links", "expected"),
    [
        # After the word that they touch, before the next one otherwise.
        ("La casa<x/> azul", "The blue house", "0 2 1", "The blue house<0></0>"),
        ("La <x/>casa azul", "The blue house", "0 2 1", "The blue <0></0>house"),
        ("<x/>La casa", "The house", "0 1", "<0></0>The house"),
        ("La casa<x/>", "The house", "0 1", "The house<0></0>"),
        # Several keep their order.
        ("La casa<x/><x/> azul", "blue house", "2 1", "blue house<0></0><1></1>"),
        # Never inside of a sibling, always inside of the parent.
        ("<b>La casa</b><x/> azul", "The blue house", "0 2 1", "<0>The blue house</0><1></1>"),
        ("<b>La<x/> casa</b> azul", "The blue house", "0 2 1", "<0>The<1></1> blue house</0>"),
        # Elements with nothing but elements.
        ("La <a><x/></a> casa", "The house", "0 1", "The <0><1></1></0>house"),
        # With the space on both sides.
        ("Uno. <x/> Dos.", "One.  Two.", "0 1 2 3", "One. <0></0> Two."),
        ("Uno. <x/> <y/> Dos.", "One.   Two.", "0 1 2 3", "One. <0></0> <1></1> Two."),
        ("Uno. <x/>Dos.", "One. Two.", "0 1 2 3", "One. <0></0>Two."),
        # At either end, with the space beside them and before the full stop.
        ("<x/> La casa", " The house", "0 1", "<0></0> The house"),
        ("<a><x/></a> La casa", " The house", "0 1", "<0><1></1></0> The house"),
        ("La casa <x/>", "The house ", "0 1", "The house <0></0>"),
        ("La casa: <x/>.", "The house: .", "0 1 2 3", "The house: <0></0>."),
        ("La casa<x/>!", "The house!", "0 1 2", "The house<0></0>!"),
    ],
)
def test_empty_elements_keep_their_place(tagged: str, text: str, links: str, expected: str) -> None:
    assert project(tagged, text, links) == expected


def test_kept_elements_come_where_their_character_does() -> None:
    assert project("Usa <k/> aquí", "Here use \uf000", "2 0 1") == "Here use <0></0>"
    assert project("<k/> y <k/>", "\uf001 and \uf000", "2 1 0") == "<1></1> and <0></0>"
    # Nothing but kept elements inside.
    assert project("La <b><k/></b> casa", "it \uf000 is", "0 1 2") == "it <0><1></1></0> is"
    # At an end of its parent, with the space beside it.
    assert project("Un <b>perro <k/></b> duerme", "a dog \uf000 sleeps", "0 1 2 3") == (
        "a <0>dog <1></1></0> sleeps"
    )
    assert project("Un <b><k/> perro</b> duerme", "a \uf000 dog sleeps", "0 1 2 3") == (
        "a <0><1></1> dog</0> sleeps"
    )
    # Lost: after the word before it. Repeated: once.
    assert project("Usa <k/> aquí", "use here", "0 2") == "use <0></0>here"
    assert project("Usa <k/>", "use \uf000 \uf000", "0 1 1") == "use <0></0> "
    # Outside of its parent: inside of it.
    assert project("<b>Usa <k/></b> aquí", "\uf000 here use", "1 2 0") == " here <0><1></1>use</0>"


def test_line_breaks_are_matched_by_their_order() -> None:
    assert project("Hola<br/>mundo<br/>fin", "Hello\nworld\nend", "0 1 2") == (
        "Hello<0></0>world<1></1>end"
    )
    assert project("Uno\ndos<br/>tres", "One\ntwo\nthree", "0 1 2") == "One\ntwo<0></0>three"


def test_without_an_alignment_words_are_matched_by_position() -> None:
    source = build("uno <b>dos</b> tres cuatro")
    assert write(project_marks(source, "one two three four", [])) == "one <0>two</0> three four"


@try_examples(2000)
@given(st.data())
def test_whatever_the_alignment_marks_are_sound_and_complete(data: st.DataObject) -> None:
    source = data.draw(marked_texts())
    text, words = data.draw(translations(source))
    projected = project_marks(source, text, words)
    assert_is_sound(projected)
    assert len(projected.marks) == len(source.marks)
    assert [mark.parent for mark in projected.marks] == [mark.parent for mark in source.marks]
    signs = {source.text[mark.begin] for mark in source.marks if mark.is_kept}
    left = [sign for sign in text if sign not in signs]
    assert [sign for sign in projected.text if sign not in signs] == left
    assert not (signs - {"\n"}).intersection(projected.text)


@given(marked_texts())
@example(build("<b>a</b><br/>"))
@example(MarkedText("Hola HolaHola", (Mark(0, 9), Mark(9, 13))))  # one begins in a word
def test_the_text_itself_is_its_translation(source: MarkedText) -> None:
    """With every word aligned to itself, marks stay where words, not spaces, tell their place."""
    spans = find_words(source.text)
    words = [Word(*span, None, (span,)) for span in spans]
    projected = project_marks(source, source.text, words)
    bare = source.without_kept()
    assert projected.text == bare.text
    assert_is_sound(projected)


def list_words(marked: MarkedText) -> list[list[str]]:
    """Return the words of each element."""
    spans = find_words(marked.text)
    return [
        [marked.text[a:b] for a, b in spans if a < mark.end and mark.begin < b]
        for mark in marked.marks
    ]


@given(marked_texts())
def test_elements_around_whole_words_keep_them(source: MarkedText) -> None:
    spans = find_words(source.text)
    ends = [end for mark in source.marks for end in (mark.begin, mark.end)]
    assume(not any(begin < at < end for begin, end in spans for at in ends))
    words = [Word(*span, None, (span,)) for span in spans]
    projected = project_marks(source, source.text, words)
    assert list_words(projected) == list_words(source.without_kept())


def test_thousands_of_elements_are_projected() -> None:
    count = 5_000
    text = "casa " * count
    marks = tuple(Mark(5 * i, 5 * i + 4) for i in range(count))
    words = [Word(*span, None, (span,)) for span in find_words(text)]
    projected = project_marks(MarkedText(text, marks), text, words)
    assert projected.marks == marks


@pytest.mark.parametrize(
    ("tagged", "needed"),
    [
        ("uno", False),
        (" <b>uno dos</b> ", False),
        ("<x/>uno<x/> ", False),
        ("uno <k/> dos<br/>tres", False),
        ("uno <x/> dos", True),
        ("<b>uno</b> dos", True),
        ("<b>uno <i>dos</i></b>", True),
    ],
)
def test_which_texts_need_an_alignment(tagged: str, needed: bool) -> None:
    assert needs_alignment(build(tagged)) is needed


def test_tags_follow_their_words() -> None:
    source = read_tags("La <a>casa</a> <b>blanca</b>.")
    words = (
        Word(0, 3, 0.5, ((0, 2),)),
        Word(4, 9, None, ((8, 14),)),
        Word(10, 15, None, ((3, 7), (14, 15))),
    )
    translation = Translation("The white house.", -1.0, -0.5, (7, 2), ("x",), words=words)
    tagged, places = project_tags(source, translation)
    assert tagged.text == "The <b>white</b> <a>house</a>."
    found = [tagged.text[word.begin : word.end] for word in tagged.words]
    assert found == ["The", "white", "house"]
    text = "La <a>casa</a> <b>blanca</b>."
    assert [[text[slice(*span)] for span in word.sources] for word in tagged.words] == [
        ["La"],
        ["blanca"],
        ["casa", "."],
    ]
    assert tagged.words[0].confidence == 0.5
    assert (tagged.tokens, tagged.lost_spans) == ((7, 2), ("x",))
    assert places.insert("The white house.") == tagged.text


def test_no_tag_comes_into_another_one() -> None:
    source = read_tags("<p>uno <b>dos</b></p>")
    words = (Word(3, 6, None, ((3, 6),)), Word(8, 9, None, ((7, 10),)))
    tagged, _ = project_tags(source, Translation("<p>one</p>", 0.0, 0.0, (), words=words))
    assert tagged.text == "<p><b>one</b></p>"


def test_brackets_stay_around_an_address() -> None:
    source, text = MarkedText("Ana <a@b.org> x", (Mark(4, 13),)), "x Ana <a@b.org>"
    sources = [(14, 15), (0, 3), *[(4, 13)] * 5]
    words = [
        Word(*span, None, (span_of_source,))
        for span, span_of_source in zip(find_words(text), sources, strict=True)
    ]
    assert project_marks(source, text, words).marks == (Mark(6, 15),)


def test_tags_whose_words_are_not_known_are_lost_unless_they_are_around_the_text() -> None:
    translation = Translation("uno dos", 0.0, 0.0, ())
    tagged, _ = project_tags(read_tags("one <b>two</b>"), translation)
    assert tagged.lost_spans == ("<b>", "</b>")
    assert tagged.text == "uno <b>dos</b>"
    around, _ = project_tags(read_tags("<b>one two</b>"), translation)
    assert (around.text, around.lost_spans) == ("<b>uno dos</b>", ())
    same, places = project_tags(read_tags("one <br> two"), translation)
    assert same is translation
    assert places.insert("uno") == "uno"


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("uno <b>(dos)</b>", "one (two)", "one <b>(two)</b>"),
        ("uno (<b>dos</b>)", "one (two)", "one (<b>two</b>)"),
        ("<b>uno (dos)</b> tres", "(one) two three", "<b>(one) two</b> three"),
        ("<b>uno (dos)</b> tres", "one (two) three", "<b>one (two)</b> three"),
        ('<b>uno "dos"</b> tres', '"one" two three', '<b>"one" two</b> three'),
        ('uno <b>"dos</b> tres"', 'one "two three"', 'one "<b>two</b> three"'),
        ("<b>(uno</b> dos)", "(one two)", "(<b>one</b> two)"),
    ],
)
def test_elements_have_both_or_none_of_two_brackets(source: str, text: str, expected: str) -> None:
    """Brackets are no words of the translation; they follow the words beside them."""
    tagged = read_tags(source)
    starts = {each: tagged.text.index(each) for each in ("uno", "dos", "tres") if each in source}
    numbers = dict(zip(("one", "two", "three"), starts.items(), strict=False))
    words = tuple(
        Word(begin, end, None, ((at, at + len(name)),))
        for begin, end in find_words(text)
        if text[begin:end] in numbers
        for name, at in [numbers[text[begin:end]]]
    )
    assert project_tags(tagged, Translation(text, 0.0, 0.0, (), words=words))[0].text == expected
