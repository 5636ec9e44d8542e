"""A translator that needs no model, and the application with it on a real port."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import uvicorn

from nmt.analysis.explaining.choice import ChoiceExplanation, Reason
from nmt.errors import UserError
from nmt.inference.alternatives import Alternative
from nmt.inference.contract import SearchRequest
from nmt.inference.prefixes import make_prefix
from nmt.inference.results import TermUse, Word
from nmt.inference.segments import Segment, SegmentedText
from nmt.serving.app import About, make_app
from nmt.serving.connections import limited_protocol
from nmt.serving.corrections import CorrectionFile
from nmt.serving.limits import Limits
from nmt.serving.segments import SegmentTranslator, locate_sentences
from nmt.text.case import LetterCase
from nmt.text.context import NO_CONTEXT, PreviousSentences
from nmt.text.marked import MarkedText
from nmt.text.tags import Insertions, TaggedText
from nmt.text.terms import Glossary, Term

SOON = 10  # seconds within which anything here happens, however busy the machine
CLIENT_TIMEOUT = 120  # seconds that a client waits: those of a model that is compiled, and more
ENGLISH = {"Hola": "hello", "mundo": "world", "la": "the", "casa": "house"}
UNSURE = ("house",)
ALTERNATIVES = {"house": 0.5, "home": 0.25, "hut": 0.0004}
LIMITS = Limits(
    max_body=256 * 1024,
    max_sentences=128,
    max_characters=5000,
    max_work=32_768,
    timeout_s=SOON,
    health_s=SOON,
    max_batch=64,
    max_batch_work=100_000,
    max_wait_s=0.0,
    max_queue=100_000,
    max_document=1024 * 1024,
    max_documents=2,
    document_timeout_s=SOON,
)
ABOUT = About("a-run", "es", "en", {"BLEU": {"value": 50.12, "half_width": 2.8}})

# [2 layers, 2 heads, T, S]: the second layer's heads look at one place each, the first layer's
# at all places alike.
CROSS = np.zeros((2, 2, 4, 4), np.float32)
CROSS[0] = 0.25
CROSS[1, 0] = [[0, 0, 1, 0], [0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 1]]
CROSS[1, 1] = [[0.1, 0.1, 0.6, 0.2], [0.6, 0.2, 0.2, 0], [0.2, 0.2, 0.2, 0.4], [0, 0, 0, 1]]


TERMS = [Term("gato", "tomcat"), Term("perro", "unused")]


class FakeTranslator:
    """Translates word by word, records its calls, and waits at its gates while they are closed.

    A text is cut at every "|", and has a token for each character; a part that begins with "=" is
    copied. With quality, a word comes from
    the one in the mirrored place; the model is unsure of the words of `UNSURE`. With a glossary,
    the targets of terms follow the translation, except "unused".
    """

    def __init__(self) -> None:
        self.decoding = SimpleNamespace(beam_size=4, length_penalty=0.6)
        self.test_segment = Segment(np.zeros(1, np.int32), "a")
        self.calls: list[tuple[list[str], SearchRequest]] = []
        self.asked: list[tuple[str, str, int]] = []  # alternatives: sentence, prefix, count
        self.segmented: list[str] = []
        self.segment_gate = threading.Event()
        self.segment_gate.set()
        self.started = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.cross = CROSS
        self.has_attention = True
        self.glossaries = {"animals": Glossary(TERMS, ("es", "en"))}
        self.missing_quality = ""
        self.attention_started = threading.Event()
        self.attention_gate = threading.Event()
        self.attention_gate.set()
        self.attention_error: Exception | None = None
        self.explained: list[tuple[str, ...]] = []  # sentence, prefix, word, other
        self.missing_contributions = ""
        self.loads = 0  # of what attention needs
        self.loading_gate = threading.Event()
        self.loading_gate.set()
        self.loading_error: Exception | None = None

    def segment(
        self,
        text: str,
        glossary: Glossary | None = None,
        prefixes: Mapping[str, str] = MappingProxyType({}),
    ) -> SegmentedText:
        self.segmented.append(text)
        assert self.segment_gate.wait(SOON)
        segments = (
            Segment(
                np.zeros(len(part), np.int32),
                part,
                is_copied=part.startswith("="),
                prefix=make_prefix(prefixes.get(part, "").strip(), (), LetterCase.ORDINARY),
            )
            for part in text.split("|")
            if part
        )
        return SegmentedText(tuple(segments), "", TaggedText(MarkedText(text)))

    def count_prefix(self, segment: Segment) -> int:
        return len(segment.prefix.full_text)

    def alternatives(self, segments: Sequence[Segment], count: int) -> list[list[Alternative]]:
        """Give the words of `ALTERNATIVES`, whatever is before them."""
        self.asked += [(segment.text, segment.prefix.full_text, count) for segment in segments]
        assert self.gate.wait(SOON)
        if any(segment.text == "fail" for segment in segments):
            raise RuntimeError("asked to fail")
        return [
            [
                Alternative(word, probability, f"{segment.prefix.full_text} {word}".strip())
                for word, probability in list(ALTERNATIVES.items())[:count]
            ]
            for segment in segments
        ]

    def begin_document(self) -> PreviousSentences:
        return NO_CONTEXT

    def explain_missing_quality(self) -> str:
        return self.missing_quality

    join_all = SegmentTranslator.join_all

    def join(
        self,
        segmented: SegmentedText,
        hypotheses: list[list[SimpleNamespace]],
        n_best: int,
        *,
        with_sentences: bool = False,
    ) -> Any:
        translations = self._join(hypotheses)
        best = [row[0].text for row in hypotheses]
        begins = [len(" ".join(best[:i])) + bool(i) for i in range(len(best))]
        sentences = (
            locate_sentences(segmented, best, begins, Insertions()) if with_sentences else []
        )
        return SimpleNamespace(translations=translations, sentences=sentences)

    def _join(self, hypotheses: list[list[SimpleNamespace]]) -> list[SimpleNamespace]:
        if len(hypotheses) == 1:
            return hypotheses[0]
        text = ""
        words: list[Word] = []
        for best, *_ in hypotheses:
            begin = len(text) + bool(text)
            text = f"{text} {best.text}".strip()
            words += [
                replace(word, begin=word.begin + begin, end=word.end + begin, sources=())
                for word in best.words
            ]
        return [
            SimpleNamespace(
                text=text,
                log_prob=0.0,
                score=0.0,
                tokens=(),
                lost_spans=(),
                confidence=hypotheses[0][0].confidence if hypotheses else None,
                words=tuple(words),
                terms=tuple(use for best, *_ in hypotheses for use in best.terms),
            )
        ]

    def hypotheses(
        self, segments: Sequence[Segment], request: SearchRequest
    ) -> list[list[SimpleNamespace]]:
        glossary = request.glossary
        texts = [segment.text for segment in segments]
        prefixes = [segment.prefix.full_text for segment in segments]
        uses = [
            tuple(
                TermUse(*match.term[:2], match.term.target != "unused")
                for match in (glossary.find(text) if glossary else ())
            )
            for text in texts
        ]
        self.calls.append((texts, request))
        self.started.set()
        assert self.gate.wait(SOON)
        if "fail" in texts:
            raise RuntimeError("asked to fail")
        return [
            [
                SimpleNamespace(
                    text=" ".join(
                        [
                            english + "!" * n,
                            *(use.target for use in terms if use.is_used),
                        ]
                    ),
                    terms=terms,
                    log_prob=-1.0 - n,
                    score=-0.5 - n,
                    tokens=tuple(range(len(text.split()))),
                    lost_spans=("12",) if text == "lose" else (),
                    confidence=0.61234 if request.quality else None,
                    words=self.words(text, prefix) if request.quality or request.words else (),
                )
                for n in range(request.n_best)
            ]
            for text, prefix, terms in zip(texts, prefixes, uses, strict=True)
            for english in [self.english(text, prefix)]
        ]

    def english(self, text: str, prefix: str = "") -> str:
        """Mirror the words, translate each, and keep the white space; the first are the prefix."""
        parts = [ENGLISH.get(part, part.upper()) for part in re.split(r"(\s+)", text)[::-1]]
        begin = re.split(r"(\s+)", prefix.strip()) if prefix else []
        return "".join(begin + parts[len(begin) :])

    def words(self, text: str, prefix: str) -> tuple[Word, ...]:
        sources = [match.span() for match in re.finditer(r"\S+", text)][::-1]
        return tuple(
            Word(*match.span(), 0.12345 if match[0] in UNSURE else 0.9, (source,))
            for match, source in zip(
                re.finditer(r"\S+", self.english(text, prefix)), sources, strict=True
            )
        )

    def explain(
        self, segmented: SegmentedText, number: int, prefix: str, words: Sequence[str]
    ) -> tuple[ChoiceExplanation, str]:
        """Let each source word contribute more than the one before it, and the first speak for."""
        text, sentence = segmented.source.text, segmented.segments[number].text
        self.explained.append((sentence, prefix, *words))
        assert self.attention_gate.wait(SOON)
        if words[0] == "fail":
            raise RuntimeError("asked to fail")
        if words[0] == words[-1] and len(words) == 2:
            raise UserError("the word and the other one must differ, and not be empty")
        begin = text.index(sentence)
        spans = [match.span() for match in re.finditer(r"\S+", sentence)]
        share = 0.6 / sum(range(1, len(spans) + 1))
        source = tuple(
            Reason(
                text[begin + span[0] : begin + span[1]],
                math.nan if self.missing_contributions else share * n,
                1.5 if n == 1 else -0.25,
                (begin + span[0], begin + span[1]),
            )
            for n, span in enumerate(spans, 1)
        )
        other = words[1] if len(words) == 2 else "home"
        prefix_share = math.nan if self.missing_contributions else 0.4
        prefixes = Reason("BOS", prefix_share, 0.0), Reason("its own pieces", 0.0, math.nan)
        explanation = ChoiceExplanation(-0.5, other, -2.5, source, prefixes, 2.0, -0.75, 3.25)
        return explanation, self.missing_contributions

    def load_attention(self) -> None:
        self.loads += 1
        assert self.loading_gate.wait(SOON)
        if self.loading_error:
            raise self.loading_error

    def attention(
        self, text: str, translation: SimpleNamespace, glossary: object = None
    ) -> SimpleNamespace | None:
        """Give "Hola mundo" four pieces a side; longer texts and empty ones have no attention."""
        self.attention_started.set()
        assert self.attention_gate.wait(SOON)
        if self.attention_error:
            raise self.attention_error
        if len(text.split()) != 2:
            return None
        first, second = text.split()
        to_second, to_first = translation.text.split()
        return SimpleNamespace(
            source=[f"▁{first[:2]}", first[2:], f"▁{second}", "</s>"],
            target_out=[f"▁{to_second}", f"▁{to_first[:3]}", to_first[3:], "</s>"],
            cross=self.cross,
        )


@dataclass
class Answer:
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Running:
    port: int
    translator: FakeTranslator
    app: Any
    connections: Sized  # open ones

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=CLIENT_TIMEOUT)
        try:
            connection.request(method, path, body, headers or {}, **options)
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def post(self, body: bytes | str | dict[str, Any]) -> Answer:
        content = json.dumps(body) if isinstance(body, dict) else body
        return self.ask("POST", "/translate", content, {"Content-Type": "application/json"})

    def correct(self, **body: Any) -> Answer:
        headers = {"Content-Type": "application/json"}
        return self.ask("POST", "/corrections", json.dumps(body), headers)

    def find_alternatives(self, **body: Any) -> Answer:
        headers = {"Content-Type": "application/json"}
        return self.ask("POST", "/alternatives", json.dumps(body), headers)

    def explain(self, **body: Any) -> Answer:
        headers = {"Content-Type": "application/json"}
        return self.ask("POST", "/explain", json.dumps(body), headers)

    def translate(self, text: str | list[str], **options: Any) -> Any:
        answer = self.post({"text": text, **options})
        assert answer.status == 200, answer.body
        return answer.json["translations"]

    def measured(self, sample: str) -> float:
        """Return one sample of the metrics, 0 if there is none."""
        for line in self.ask("GET", "/metrics").body.decode().splitlines():
            if line.startswith(f"{sample} "):
                return float(line.rpartition(" ")[2])
        return 0.0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


@contextmanager
def serving(
    translator: Any = None,
    max_connections: int = 100,
    corrections: CorrectionFile | None = None,
    **changed: Any,
) -> Iterator[Running]:
    """Run the application on a free port, in a thread; with a fake translator if none is given."""
    translator = translator or FakeTranslator()
    limits = replace(LIMITS, **changed)
    http = limited_protocol(limits.timeout_s, max_connections)
    app = make_app(translator, ABOUT, limits, corrections)
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, http=http, ws="none", lifespan="on", log_config=None)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Running(port, translator, app, server.server_state.connections)
    finally:
        if isinstance(translator, FakeTranslator):
            translator.gate.set()
            translator.segment_gate.set()
            translator.attention_gate.set()
        server.should_exit = True
        thread.join(SOON)
        assert not thread.is_alive()
