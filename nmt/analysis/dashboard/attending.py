"""Attention on request, in a process of its own: the dashboard's process loads no model.

The process reads a request per line of standard input, and ends with it. It uses no GPU, as those
belong to trainings.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from nmt.errors import UserError

if TYPE_CHECKING:
    from nmt.inference.translator import Translator
    from nmt.runs.folder import RunFolder

IDLE = 600  # seconds without a request after which the process is ended, which frees its memory
_MAX_MODELS = 4  # models in memory: those that were used last
_ANSWER = struct.Struct("<?Q")  # whether it is a record, and the bytes that follow
_NO_GPU = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}


@dataclass(frozen=True)
class AttentionRequest:
    """A sentence whose attention is wanted."""

    run: str  # folder
    checkpoint: str | None  # file; None: the best weights
    source: str
    reference: str


class AttentionProcess:
    """Starts the process when it is first needed, and again after it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # one request at a time
        self._process: subprocess.Popen[bytes] | None = None
        self._timer: threading.Timer | None = None

    def compute(self, request: AttentionRequest) -> bytes:
        """Return the record of a sentence.

        Raises:
            UserError: the run has no weights or no attention for it, or the process ended.
        """
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            try:
                is_record, content = self._exchange(request)
            except (OSError, struct.error) as error:
                self._end()
                raise UserError(
                    "the process that computes attention ended: TensorBoard's output says why"
                ) from error
            self._timer = threading.Timer(IDLE, self.close)
            self._timer.daemon = True
            self._timer.start()
        if not is_record:
            raise UserError(content.decode("utf-8"))
        return content

    def close(self) -> None:
        """End the process, if it runs and computes nothing."""
        with self._lock:
            self._end()

    def _exchange(self, request: AttentionRequest) -> tuple[bool, bytes]:
        if self._process is None:
            self._process = self._start()
        process = self._process
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        process.stdin.write(json.dumps(asdict(request)).encode() + b"\n")
        process.stdin.flush()
        is_record, size = _ANSWER.unpack(process.stdout.read(_ANSWER.size))
        return is_record, process.stdout.read(size)

    def _start(self) -> subprocess.Popen[bytes]:
        package = str(Path(__file__).parents[3])
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        return subprocess.Popen(
            [sys.executable, "-m", "nmt.analysis.dashboard.attending"],
            env=os.environ | _NO_GPU | {"PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches TensorBoard alone
        )

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # unsent bytes
                        pipe.close()
            self._process = None


class Attender:
    """Computes attention with the models that were used last."""

    def __init__(self) -> None:
        self._translators: OrderedDict[tuple[str, str | None, int], Translator] = OrderedDict()

    def compute(self, request: AttentionRequest) -> bytes:
        """Return the record of a sentence.

        Raises:
            UserError: see `AttentionProcess.compute`.
        """
        from nmt.runs.folder import RunFolder
        from nmt.viewer.records import encode

        run = RunFolder.open(Path(request.run))
        attention = self._load(run, request.checkpoint).attention(request.source)
        if attention is None:
            raise UserError(
                "This sentence is copied, or translated in several segments: it has no attention."
            )
        return encode(request.source, attention, request.reference)

    def _load(self, run: RunFolder, checkpoint: str | None) -> Translator:
        from nmt.analysis.comparison.stored import UNIT
        from nmt.inference.translator import Translator
        from nmt.runs.averaging import extract_checkpoint

        weights = Path(checkpoint) if checkpoint else run.checkpoints.best
        modified = weights.stat().st_mtime_ns if weights.is_file() else 0
        key = (str(run.path), checkpoint, modified)
        if key not in self._translators:
            with tempfile.TemporaryDirectory() as folder:
                model = extract_checkpoint(weights, Path(folder, "run")) if checkpoint else run
                translator = Translator.load(model, unit=UNIT)
                translator.keras_engine("attention")  # is loaded while there is the folder
            self._translators[key] = translator
        self._translators.move_to_end(key)
        while len(self._translators) > _MAX_MODELS:
            self._translators.popitem(last=False)
        return self._translators[key]


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer each line of requests."""
    attender = Attender()
    for line in requests:
        request = AttentionRequest(**json.loads(line))
        try:
            is_record, content = True, attender.compute(request)
        except UserError as error:
            is_record, content = False, str(error).encode("utf-8")
        answers.write(_ANSWER.pack(is_record, len(content)) + content)
        answers.flush()


def main() -> None:
    """Answer the requests of the dashboard."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
