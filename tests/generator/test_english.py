"""English inflection, compared with what a dictionary gives."""

from __future__ import annotations

import pytest
from generator import english

pytestmark = pytest.mark.long

# base, past, participle
IRREGULAR = """
    be was been
    become became become
    begin began begun
    break broke broken
    bring brought brought
    build built built
    buy bought bought
    catch caught caught
    choose chose chosen
    come came come
    cost cost cost
    cut cut cut
    do did done
    draw drew drawn
    drink drank drunk
    drive drove driven
    eat ate eaten
    fall fell fallen
    feed fed fed
    feel felt felt
    find found found
    fly flew flown
    forget forgot forgotten
    forgive forgave forgiven
    get got gotten
    give gave given
    go went gone
    grow grew grown
    have had had
    hear heard heard
    hide hid hidden
    hurt hurt hurt
    keep kept kept
    know knew known
    leave left left
    lend lent lent
    lose lost lost
    make made made
    meet met met
    pay paid paid
    put put put
    read read read
    ride rode ridden
    run ran run
    say said said
    see saw seen
    sell sold sold
    send sent sent
    show showed shown
    sing sang sung
    sit sat sat
    sleep slept slept
    speak spoke spoken
    spend spent spent
    steal stole stolen
    swim swam swum
    take took taken
    teach taught taught
    tell told told
    think thought thought
    throw threw thrown
    understand understood understood
    wake woke woken
    wear wore worn
    win won won
    write wrote written
"""


@pytest.mark.parametrize("line", IRREGULAR.strip().splitlines(), ids=str.strip)
def test_irregular_verbs(line: str) -> None:
    verb, past, participle = line.split()
    assert (english.past(verb), english.participle(verb)) == (past, participle)


@pytest.mark.parametrize(
    ("verb", "past"),
    [
        ("walk", "walked"),
        ("work", "worked"),
        ("play", "played"),
        ("enjoy", "enjoyed"),
        ("show up", "showed up"),
        ("study", "studied"),
        ("cry", "cried"),
        ("try on", "tried on"),
        ("dance", "danced"),
        ("arrive", "arrived"),
        ("agree", "agreed"),
        ("die", "died"),
        ("stop", "stopped"),
        ("plan", "planned"),
        ("hug", "hugged"),
        ("wrap", "wrapped"),
        ("chat", "chatted"),
        ("prefer", "preferred"),
        ("visit", "visited"),
        ("open", "opened"),
        ("listen to", "listened to"),
        ("remember", "remembered"),
        ("travel", "traveled"),
        ("cancel", "canceled"),
        ("wait for", "waited for"),
        ("rain", "rained"),
        ("cook", "cooked"),
        ("fix", "fixed"),
        ("snow", "snowed"),
        ("get up", "got up"),
        ("have breakfast", "had breakfast"),
        ("take care of", "took care of"),
    ],
)
def test_past(verb: str, past: str) -> None:
    assert english.past(verb) == past


@pytest.mark.parametrize(
    ("verb", "participle"),
    [("get up", "gotten up"), ("go back", "gone back"), ("study", "studied"), ("stop", "stopped")],
)
def test_participle(verb: str, participle: str) -> None:
    assert english.participle(verb) == participle


@pytest.mark.parametrize(
    ("verb", "form"),
    [
        ("eat", "eating"),
        ("go", "going"),
        ("do", "doing"),
        ("be", "being"),
        ("see", "seeing"),
        ("agree", "agreeing"),
        ("make", "making"),
        ("write", "writing"),
        ("use", "using"),
        ("argue", "arguing"),
        ("dance", "dancing"),
        ("lie", "lying"),
        ("die", "dying"),
        ("run", "running"),
        ("sit", "sitting"),
        ("swim", "swimming"),
        ("put", "putting"),
        ("cut", "cutting"),
        ("stop", "stopping"),
        ("shop", "shopping"),
        ("quit", "quitting"),
        ("begin", "beginning"),
        ("forget", "forgetting"),
        ("prefer", "preferring"),
        ("visit", "visiting"),
        ("open", "opening"),
        ("order", "ordering"),
        ("travel", "traveling"),
        ("read", "reading"),
        ("sleep", "sleeping"),
        ("rain", "raining"),
        ("snow", "snowing"),
        ("fix", "fixing"),
        ("play", "playing"),
        ("buy", "buying"),
        ("study", "studying"),
        ("cry", "crying"),
        ("help", "helping"),
        ("get up", "getting up"),
        ("wait for", "waiting for"),
        ("take a shower", "taking a shower"),
        ("have dinner", "having dinner"),
    ],
)
def test_ing(verb: str, form: str) -> None:
    assert english.ing(verb) == form


@pytest.mark.parametrize(
    ("verb", "form"),
    [
        ("be", "is"),
        ("be sure", "is sure"),
        ("have", "has"),
        ("have lunch", "has lunch"),
        ("do", "does"),
        ("go", "goes"),
        ("go back", "goes back"),
        ("eat", "eats"),
        ("play", "plays"),
        ("say", "says"),
        ("buy", "buys"),
        ("study", "studies"),
        ("cry", "cries"),
        ("watch", "watches"),
        ("wash", "washes"),
        ("kiss", "kisses"),
        ("miss", "misses"),
        ("fix", "fixes"),
        ("close", "closes"),
        ("see", "sees"),
        ("get up", "gets up"),
        ("look for", "looks for"),
        ("take care of", "takes care of"),
    ],
)
def test_third_person(verb: str, form: str) -> None:
    assert english.third_person(verb) == form


@pytest.mark.parametrize(
    ("noun", "form"),
    [
        ("book", "books"),
        ("house", "houses"),
        ("box", "boxes"),
        ("bus", "buses"),
        ("glass", "glasses"),
        ("dish", "dishes"),
        ("church", "churches"),
        ("city", "cities"),
        ("key", "keys"),
        ("boy", "boys"),
        ("toy store", "toy stores"),
        ("potato", "potatoes"),
        ("tomato", "tomatoes"),
        ("photo", "photos"),
        ("piano", "pianos"),
        ("video", "videos"),
        ("radio", "radios"),
        ("zoo", "zoos"),
    ],
)
def test_plural(noun: str, form: str) -> None:
    assert english.plural(noun) == form


# adjective, comparative, superlative
COMPARISON = """
    tall, taller, tallest
    young, younger, youngest
    old, older, oldest
    kind, kinder, kindest
    cheap, cheaper, cheapest
    weak, weaker, weakest
    cold, colder, coldest
    slow, slower, slowest
    new, newer, newest
    gray, grayer, grayest
    big, bigger, biggest
    hot, hotter, hottest
    fat, fatter, fattest
    thin, thinner, thinnest
    wet, wetter, wettest
    sad, sadder, saddest
    red, redder, reddest
    nice, nicer, nicest
    large, larger, largest
    safe, safer, safest
    strange, stranger, strangest
    free, freer, freest
    happy, happier, happiest
    easy, easier, easiest
    pretty, prettier, prettiest
    busy, busier, busiest
    dry, drier, driest
    friendly, friendlier, friendliest
    simple, simpler, simplest
    gentle, gentler, gentlest
    narrow, narrower, narrowest
    quiet, quieter, quietest
    good, better, best
    bad, worse, worst
    far, farther, farthest
    fun, more fun, most fun
    boring, more boring, most boring
    tired, more tired, most tired
    careful, more careful, most careful
    useless, more useless, most useless
    famous, more famous, most famous
    modern, more modern, most modern
    honest, more honest, most honest
    common, more common, most common
    patient, more patient, most patient
    sincere, more sincere, most sincere
    expensive, more expensive, most expensive
    important, more important, most important
    comfortable, more comfortable, most comfortable
    responsible, more responsible, most responsible
    capable, more capable, most capable
    valuable, more valuable, most valuable
    suitable, more suitable, most suitable
    sociable, more sociable, most sociable
    loyal, more loyal, most loyal
    well known, more well known, most well known
"""


@pytest.mark.parametrize("line", COMPARISON.strip().splitlines(), ids=str.strip)
def test_comparison(line: str) -> None:
    adjective, comparative, superlative = line.strip().split(", ")
    assert (
        english.comparative(adjective),
        english.superlative(english.comparative(adjective)),
    ) == (
        comparative,
        superlative,
    )


ARTICLES = """
    a book, a cat, a year, a yellow shirt, a house, a hotel, a hospital, a horse
    a university, a uniform, a union, a unique idea, a useful tool, a used car, a usual day
    a European city, a euro, a one-way ticket, a TV, a T-shirt, a wine glass
    an apple, an egg, an idea, an orange, an uncle, an umbrella, an ugly dress
    an hour, an honest man, an honor, an heir, an old house, an interesting book
    an unusual name, an unfriendly dog, an unripe pear, an uncomfortable chair
    an unimportant detail, an uninteresting book
    an onion, an only child, an essay, an English class, an Italian, an Argentine
"""


@pytest.mark.parametrize(
    "phrase",
    [phrase for line in ARTICLES.strip().splitlines() for phrase in line.strip().split(", ")],
)
def test_article(phrase: str) -> None:
    article, _, rest = phrase.partition(" ")
    assert english.article(rest) == article
