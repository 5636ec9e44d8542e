"""Serve translations over HTTP: ``python -m nmt.serve [--run RUN]``."""

from __future__ import annotations

import argparse
import math
import signal
import socket
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from nmt.arguments import Parser, add_engine, add_run, engine_options
from nmt.errors import UserError, exit_on_user_error
from nmt.runs.folder import RunFolder
from nmt.startup.commands import set_up_serving
from nmt.startup.memory import freeze_heap

if TYPE_CHECKING:  # imports Keras
    from nmt.serving.segments import SegmentTranslator

_PACKAGES = ("fastapi", "prometheus_client", "uvicorn")
_MINIMUM_1 = (
    "max_batch",
    "max_batch_work",
    "timeout_s",
    "health_s",
    "max_connections",
    "max_body_kb",
    "max_sentences",
    "max_characters",
    "max_work",
    "max_document_kb",
    "max_documents",
    "document_timeout_s",
)


def make_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = Parser(
        prog="python -m nmt.serve",
        description="Translate over HTTP: texts, documents, and a page at / that shows attention.",
    )

    def option(name: str, kind: type, default: float | str, text: str) -> None:
        parser.add_argument(name, type=kind, default=default, help=f"{text} (%(default)s)")

    add_run(parser)
    add_engine(parser)
    parser.add_argument(
        "--glossaries",
        type=Path,
        metavar="FOLDER",
        help="glossaries that requests choose by name: FOLDER/NAME.tsv, as nmt.translate --terms",
    )
    option("--host", str, "127.0.0.1", "address to listen at; 0.0.0.0: all of this machine's")
    option("--port", int, 8000, "0: any free port")
    option("--max-batch", int, 64, "most sentences, or segments of long ones, in a batch")
    option("--max-batch-work", int, 1024, "most work of a batch: source tokens times beam")
    option("--max-wait-ms", float, 5, "how long a request waits to be batched")
    option("--queue", int, 131072, "most work waiting; requests beyond it are refused")
    option("--timeout-s", float, 30, "most seconds each to send a head or body, answer, read it")
    option("--health-s", float, 10, "most seconds for the test translation of /healthz")
    option("--max-connections", int, 512, "most connections; further ones are refused")
    option("--max-work", int, 32768, "most work of a request: source tokens times beam")
    option("--max-body-kb", int, 256, "largest request, in KiB")
    option("--max-sentences", int, 128, "most texts of a request")
    option("--max-characters", int, 5000, "most characters of a text")
    option("--max-document-kb", int, 4096, "largest document, in KiB")
    option("--max-documents", int, 2, "most documents translated at the same time")
    option("--document-timeout-s", float, 600, "most seconds to translate a document")
    parser.add_argument(
        "--corrections",
        type=Path,
        metavar="FILE.tsv",
        help="keep corrections of translations in this file, which training reads",
    )
    return parser


def check(arguments: argparse.Namespace) -> None:
    """Check the ranges of numbers.

    Raises:
        UserError: a number is out of its range.
    """
    if not 0 <= arguments.port <= 65535:
        raise UserError(f"--port must be from 0 to 65535, got {arguments.port}")
    for name in _MINIMUM_1:
        value = getattr(arguments, name)
        if not 1 <= value < math.inf:
            raise UserError(f"--{name.replace('_', '-')} must be at least 1, got {value}")
    if not 0 <= arguments.max_wait_ms < math.inf:
        raise UserError(f"--max-wait-ms must be at least 0, got {arguments.max_wait_ms}")
    if arguments.queue < arguments.max_work:
        raise UserError(
            f"--queue must be at least --max-work {arguments.max_work}, got {arguments.queue}"
        )


def bind(host: str, port: int) -> socket.socket:
    """Return a socket at this address that does not listen yet.

    Raises:
        UserError: this machine does not have the address, or it is in use.
    """
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = infos[0]
        listener = socket.socket(family, kind, protocol)
        # Reuse a port that was released a moment ago. On Windows this would share ports in use.
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, UnicodeError) as error:  # a label of the name is empty or too long
        raise _explain_listening(host, port, error) from error
    return listener


def _explain_listening(host: str, port: int, error: Exception) -> UserError:
    reason = getattr(error, "strerror", None) or error
    return UserError(f"cannot listen at {host}, port {port}: {reason}")


def listen(listener: socket.socket) -> None:
    """Listen, and print the address.

    Raises:
        UserError: another service has begun to listen at this address meanwhile.
    """
    host, port = listener.getsockname()[:2]
    try:
        listener.listen()
    except OSError as error:
        raise _explain_listening(host, port, error) from error
    print(f"listening at http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)


def read_scores(run_folder: RunFolder) -> dict[str, dict[str, float | None]]:
    """Return the run's scores on its test split; warn and return none if they are damaged."""
    try:
        return run_folder.test_scores()
    except UserError as error:
        message = (
            f"the run has no scores: {error}; python -m nmt.train "
            f"training.resume={run_folder.path} writes them anew"
        )
        warnings.warn(message, stacklevel=2)
        return {}


def read_limits(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of `nmt.serving.limits.Limits`."""
    return {
        "max_body": arguments.max_body_kb * 1024,
        "max_sentences": arguments.max_sentences,
        "max_characters": arguments.max_characters,
        "max_work": arguments.max_work,
        "timeout_s": arguments.timeout_s,
        "health_s": arguments.health_s,
        "max_batch": arguments.max_batch,
        "max_batch_work": arguments.max_batch_work,
        "max_wait_s": arguments.max_wait_ms / 1000,
        "max_queue": arguments.queue,
        "max_document": arguments.max_document_kb * 1024,
        "max_documents": arguments.max_documents,
        "document_timeout_s": arguments.document_timeout_s,
    }


def load_translator(arguments: argparse.Namespace, run_folder: RunFolder) -> SegmentTranslator:
    """Load the run and its glossaries, and make the first search, and load the attention of Keras.

    Raises:
        UserError: the run or a glossary is damaged, or the engine cannot run it.
    """
    from nmt.inference.contract import SearchRequest
    from nmt.inference.translator import Translator
    from nmt.serving.glossaries import read_glossaries
    from nmt.serving.segments import SegmentTranslator

    glossaries = {}
    if arguments.glossaries:
        glossaries = read_glossaries(arguments.glossaries, run_folder.config.data.languages)
    translator = Translator.load(run_folder, **engine_options(arguments))
    segment_translator = SegmentTranslator(translator, glossaries)
    # The first search of a process is the slowest one.
    segment_translator.hypotheses([segment_translator.test_segment], SearchRequest())
    if translator.engine.keras_engine is not None:
        segment_translator.load_attention()
    return segment_translator


def run(arguments: argparse.Namespace) -> None:
    """Serve the run until a signal stops the server."""
    check(arguments)
    run_folder = RunFolder.open(arguments.run)
    scores = read_scores(run_folder)
    listener = bind(arguments.host, arguments.port)
    # Heavy imports wait until the arguments are checked.
    try:
        import uvicorn

        from nmt.serving.app import About, make_app
        from nmt.serving.connections import limited_protocol
        from nmt.serving.corrections import CorrectionFile
        from nmt.serving.limits import Limits
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        raise UserError(f"serving needs {error.name}: pip install 'nmt[serve]'") from error
    languages, path = run_folder.config.data.languages, arguments.corrections
    corrections = None if path is None else CorrectionFile(path, languages)
    translator = load_translator(arguments, run_folder)
    source, target = (language.replace("_", "-") for language in languages)  # for browsers
    about = About(run_folder.path.name, source, target, scores)
    app = make_app(translator, about, Limits(**read_limits(arguments)), corrections)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            app.state.service.is_stopping = True
            super().handle_exit(sig, frame)

    server = Server(
        uvicorn.Config(
            app,
            http=limited_protocol(arguments.timeout_s, arguments.max_connections),
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(arguments.timeout_s) + 1,
        )
    )
    # Once stopped, the server raises the signal again, which would then kill the process.
    signal.signal(signal.SIGTERM, server.handle_exit)
    freeze_heap()
    listen(listener)
    server.run(sockets=[listener])


def main() -> None:
    """Run the command line."""
    set_up_serving()
    arguments = make_parser().parse_args()
    exit_on_user_error(lambda: run(arguments))


if __name__ == "__main__":
    main()
