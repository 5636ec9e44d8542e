"""Targets: corpora, archives, texts and tokenizers."""

from __future__ import annotations

import codecs
import gzip
import io
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

from fuzz_inputs import SHORT_LINE, TEXTS, Prepared, draw_text, edit, pack_zip, pick, rest, seed


def check_numbers(content: bytes, numbers: list[int], is_aligned: bool) -> None:
    """Check that each line is read, but empty lines and a header that a table begins with."""
    beginning = content[: SHORT_LINE + 1]
    if b"\r" in beginning and b"\n" not in beginning:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = content.removeprefix(codecs.BOM_UTF8).split(b"\n")
    count = len(lines) - (not lines[-1])
    skipped = count - len(numbers)
    assert numbers == list(range(skipped + 1, count + 1))
    assert not (is_aligned and skipped)
    assert not b"".join(lines[: max(0, skipped - 1)]).strip()


def prepare_reading(folder: Path) -> Prepared:
    """Read lines of tables and of aligned files."""
    from nmt.config.sources import SourceConfig
    from nmt.data import encodings, lines, reading
    from nmt.errors import UserError
    from nmt.inference import lines as output

    for module in (lines, output):
        mock.patch.object(module, "LONGEST_LINE", SHORT_LINE).start()
    table, other = folder / "table.tsv", folder / "other.txt"

    def read(source: SourceConfig) -> list[Any]:
        rows = reading.read_rows({"pairs": source}, "pairs", folder, print, hashes={})
        return [reading.parse_row(row) for row in rows]

    def check(data: Any) -> None:
        is_aligned = data.ConsumeBool()
        columns = [data.ConsumeIntInRange(0, 3), 1]
        content = rest(data)
        if is_aligned:
            middle = len(content) // 2
            table.write_bytes(content[:middle])
            other.write_bytes(content[middle:])
            source = SourceConfig("files", path=[str(table), str(other)])
            content = content[:middle]
        else:
            table.write_bytes(content)
            source = SourceConfig("files", path=str(table), columns=columns)
        count = content.count(b"\n") + (content[-1:] not in (b"", b"\n"))
        latin = encodings.open_text(io.BytesIO(content), "text", "latin-1")
        assert len(list(output.decode_lines(lines.split_lines(latin)))) == count
        with suppress(UserError):  # it is not UTF-8
            text = encodings.open_text(io.BytesIO(content), "text")
            decoded = list(output.decode_lines(lines.split_lines(text)))
            assert all("\n" not in line for line in decoded)
        parsed = read(source)
        if not content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            check_numbers(content, [line.number for line in parsed], is_aligned)
        for line in parsed:
            assert "\n" not in line.raw
            assert all("\n" not in side for side in line.sides or ())

    table_text = "".join(TEXTS)
    long = "a" * SHORT_LINE
    contents = [table_text, "\ufeff" + table_text, f"{long}\t{long}\n{long}b\n", "a\tb\r\n\n\t\n\r"]
    contents += ["a\nb\nc\nd\n"]
    return check, [
        *(seed(content, choice, 0) for content in contents for choice in (0, 1)),
        b"\xff\xfea\0",
    ]


def prepare_cleaning(folder: Path) -> Prepared:
    """Clean texts, normalize them for comparison, and clean input for cutting."""
    from nmt.data.splitting import normalized
    from nmt.text.cleaning import clean_input, clean_text

    def check(data: Any) -> None:
        text = draw_text(data)
        clean = clean_text(text)
        assert clean_text(clean) == clean, "cleaning twice gives another text"
        assert len(clean.splitlines()) <= 1, "a line break is left"
        assert clean == " ".join(clean.split())
        clean.encode()  # no lone surrogates
        clean_input(text).encode()
        # Only empty text is empty after normalization.
        assert bool(normalized(clean)) == bool(clean)

    wide = [text.encode("utf-16-le") for text in (*TEXTS, "e\u0301\u2028\u200d\u200c\ufeff\x85▁")]
    return check, [seed(text, 1) for text in TEXTS] + [seed(text, 0) for text in wide]


def prepare_corpus(folder: Path) -> Prepared:
    """Filter a corpus: every line is accepted once, or rejected for one reason."""
    from nmt.config.data import DataConfig
    from nmt.config.sources import SourceConfig
    from nmt.data.corpus import load_corpus
    from nmt.data.evaluation_sets import read_parallel
    from nmt.data.rejections import rejection_table
    from nmt.errors import UserError

    path, rejected = folder / "pairs.tsv", folder / "rejected.tsv"

    def check(data: Any) -> None:
        tag = "<2en>" if data.ConsumeBool() else None
        config = DataConfig(
            name="files",
            source_language="es",
            target_language="en",
            sources={
                "pairs": SourceConfig("files", path=str(path), tag=tag, ordered=data.ConsumeBool())
            },
            min_words=data.ConsumeIntInRange(1, 2),
            max_words=8,
            max_characters=40,
            max_length_ratio=2.0,
            length_ratio_margin=4,
            typical_length_ratio=None,
            dev=pick(data, (0, 1, 0.2)),
            test=pick(data, (0, 1, 0.2)),
            split_seed=1,
            reverse=data.ConsumeBool(),
            temperature=None,
            stages=[],
            context=data.ConsumeIntInRange(0, 2),
            check_languages=False,
        )
        path.write_bytes(rest(data))
        with suppress(UserError):  # it is not UTF-8
            read_parallel(path, path)
        corpus = load_corpus(config, cache_dir=folder, rejected_file=rejected)
        accepted = len(corpus.train) + len(corpus.dev) + len(corpus.test)
        assert corpus.lines == accepted + sum(corpus.rejected.values()), "a line is lost"
        assert len(rejected.read_bytes().splitlines()) >= corpus.lines - accepted
        for pair in (*corpus.train, *corpus.dev, *corpus.test):
            assert all(side.strip() and len(side.splitlines()) == 1 for side in pair)
        rejection_table(corpus)

    table = "".join(TEXTS)
    more = "".join(f"uno dos {n}\tone two {n}\n" for n in range(30))
    return check, [
        seed(text, 0, 0, n, n) for text in (table, more, table + more) for n in (0, 1, 2)
    ]


def prepare_archives(folder: Path) -> Prepared:
    """Read damaged and hostile zip and gzip files; none is unpacked beyond its limit."""
    from nmt.config.sources import SourceConfig
    from nmt.data import archives, downloading, reading

    least = 4096
    mock.patch.object(archives, "max_unpacked", lambda size: 20 * size + least).start()
    zipped, gzipped = folder / "pairs.zip", folder / "pairs.tsv.gz"
    names = ("spa.txt", "_about.txt", "a/spa.txt", "../spa.txt", "/spa.txt", "b.txt", "C:\\b.txt")

    def check(data: Any) -> None:
        choice = data.ConsumeIntInRange(0, 3)
        if choice == 0:
            content = rest(data)
        elif choice == 1:
            members = [pick(data, names) for _ in range(data.ConsumeIntInRange(1, 2))]
            text = b"a\tb\n" * data.ConsumeIntInRange(0, 3000)
            content = edit(data, pack_zip(data, dict.fromkeys(members, text + b"x\ty\n")))
        else:
            text = b"a\tb\n" * data.ConsumeIntInRange(0, 3000)
            content = edit(data, gzip.compress(text))
        path = gzipped if choice > 1 or content[:2] == b"\x1f\x8b" else zipped
        path.write_bytes(content)
        is_zip = path is zipped
        source = SourceConfig(
            "zip" if is_zip else "files",
            archive=str(path) if is_zip else None,
            path=None if is_zip else str(path),
        )
        downloading._inspect_cached(path, "archive")
        rows = reading.read_rows({"pairs": source}, "pairs", folder, print, hashes={})
        unpacked = sum(len(line) for row in rows for line in row.lines)
        assert unpacked <= 20 * len(content) + least + (1 << 16), "more was unpacked than allowed"

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("spa.txt", "".join(TEXTS))
    seeds = [seed(file.getvalue(), 0), seed(gzip.compress(b"a\tb\n"), 0)]
    return check, seeds + [bytes(range(n, 64)) + bytes([n % 4]) for n in range(16)]


def prepare_tokenizer(folder: Path) -> Prepared:
    """Turn text into tokens and back."""
    from nmt.config import TokenizerConfig
    from nmt.data import tokenizer as tokenizers
    from nmt.data.embedded import phrasebook_dir
    from nmt.data.tokenizer_training import train_tokenizer
    from nmt.inference.segmenting import Segmenter
    from nmt.text.cleaning import clean_text

    tables = sorted(phrasebook_dir().glob("*.tsv"))
    texts = [
        clean_text(side)
        for path in tables
        for line in path.read_text(encoding="utf-8").splitlines()
        for side in line.split("\t")
    ]
    trained = [
        train_tokenizer(TokenizerConfig(kind, 600, 0, 0.9995, False, 0), texts, log=lambda _: None)
        for kind in ("unigram", "bpe")
    ]
    pieces = ["[PAD]", "[BOS]", "[EOS]", "[UNK]", "▁casa", "▁", *"abc", "##a", "##b", "##casa"]
    wordpiece = tokenizers.WordPieceTokenizer(pieces)

    def check(data: Any) -> None:
        tokenizer = pick(data, trained)
        room = data.ConsumeIntInRange(1, 12)
        raw = draw_text(data)[:300]  # long enough for many segments
        text = clean_text(raw)
        ids = tokenizer.encode([text])[0]
        assert tokenizer.decode([ids]) == [text], "decoding gives another text"
        assert all(tokenizers.UNK < token < tokenizer.vocabulary_size for token in ids)
        spans = tokenizer.spans(text)
        assert len(spans) == len(ids)
        covered = {index for begin, end in spans for index in range(begin, end)}
        assert covered == set(range(len(text))), "a character belongs to no token"
        segments = Segmenter(tokenizer, room).segment(raw).segments
        assert all(segment.is_copied or 0 < len(segment.ids) <= room for segment in segments)
        joined = "".join(tokenizer.decode([segment.ids for segment in segments]))
        assert joined.replace(" ", "").replace("\ufffd", "") or "\ufffd" in joined or not text
        words = tokenizers.split_words(text)
        assert "".join(words) == (" " + text if text else "").replace(" ", "▁")
        wordpiece.decode([[number % len(pieces) for number in raw.encode("utf-8", "replace")]])

    return check, [seed(text, choice, choice, 1) for text in TEXTS for choice in range(4)]
