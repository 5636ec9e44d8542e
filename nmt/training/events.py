"""TensorBoard event files without TensorFlow: scalars, pictures, texts, bytes, hyperparameters.

Summaries are tensors with the metadata of their dashboard, the format of TensorFlow 2. Records are
written here, because TensorBoard's `EventFileWriter` imports TensorFlow if it is installed.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.plugins.scalar import metadata as scalar_metadata
from tensorboard.plugins.text import metadata as text_metadata
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from nmt.errors import attach_filename
from nmt.text.cleaning import replace_surrogates

HParam = bool | int | float | str | list[Any] | None


class EventWriter:
    """Writes one new event file in a folder, which is one run in TensorBoard.

    Methods may be called from several threads. Records can be read after `flush`. In tags and
    texts, question marks replace characters that UTF-8 cannot encode, which file names may have.

    Args:
        folder: the folder of the file; created if it is missing.
        purge_step: the first step that a resumed run will write. TensorBoard drops the points of
            earlier files from that step on; its default, fast loader does so for each tag when the
            tag is next written. None at the start of a run.
    """

    def __init__(self, folder: Path, *, purge_step: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads files in the order of their names: that of a resumed run must be last.
        # The clock may be behind that of the machine that wrote the others.
        stamps = (path.name.split(".")[3] for path in folder.glob("events.out.tfevents.*"))
        newest = max((int(stamp) for stamp in stamps if stamp.isdecimal()), default=0)
        stamp = max(time.time_ns(), newest + 1)
        name = f"events.out.tfevents.{stamp}.{socket.gethostname()}.{os.getpid()}"
        self._path = folder / name
        self._records = RecordWriter(self._path.open("xb"))
        self._lock = Lock()
        self._add(file_version="brain.Event:2")
        if purge_step is not None:
            restart = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            # The first START of a run purges nothing, and its first file lacks one: write it twice.
            self._add(step=purge_step, session_log=restart)
            self._add(step=purge_step, session_log=restart)
        self.flush()

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Add a point to the curve ``tag``, in float32."""
        tensor = make_tensor_proto(float(value), dtype="float32")
        self._summary(tag, scalar_metadata.create_summary_metadata("", ""), tensor, step)

    def image(self, tag: str, png: bytes, step: int) -> None:
        """Add a picture.

        Raises:
            ValueError: ``png`` is not a PNG file.
        """
        if png[:8] != b"\x89PNG\r\n\x1a\n" or len(png) < 24:
            raise ValueError("an image must be the bytes of a PNG file")
        width, height = struct.unpack(">II", png[16:24])
        tensor = make_tensor_proto([str(width).encode(), str(height).encode(), png])
        metadata = image_metadata.create_summary_metadata("", "")
        self._summary(tag, metadata, tensor, step)

    def text(self, tag: str, markdown: str, step: int) -> None:
        """Add a text in Markdown."""
        tensor = make_tensor_proto(replace_surrogates(markdown).encode())
        self._summary(tag, text_metadata.create_summary_metadata("", ""), tensor, step)

    def blob(self, tag: str, data: bytes, step: int, *, plugin: str) -> None:
        """Add bytes for a plugin, which receives them unchanged."""
        metadata = summary_pb2.SummaryMetadata(
            plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name=plugin),
            data_class=summary_pb2.DATA_CLASS_BLOB_SEQUENCE,
        )
        self._summary(tag, metadata, make_tensor_proto([data]), step)

    def hparams(self, values: Mapping[str, HParam]) -> None:
        """Show the run in the HPARAMS dashboard; only the first call in a folder counts.

        TensorBoard makes every scalar a column, and shows the hyperparameters in which runs differ
        first.

        Args:
            values: hyperparameters by name; None and lists are shown as strings.
        """
        start = plugin_data_pb2.SessionStartInfo(start_time_secs=time.time())
        for name, value in values.items():
            if isinstance(value, bool):
                start.hparams[name].bool_value = value
            elif isinstance(value, int | float):
                start.hparams[name].number_value = value
            else:
                start.hparams[name].string_value = replace_surrogates(str(value))
        content = plugin_data_pb2.HParamsPluginData(session_start_info=start)
        metadata = hparams_metadata.create_summary_metadata(content)
        tag = hparams_metadata.SESSION_START_INFO_TAG
        self._summary(tag, metadata, hparams_metadata.NULL_TENSOR, step=0)

    def flush(self) -> None:
        """Write all records so far to the file."""
        with self._lock, attach_filename(self._path):
            self._records.flush()

    def close(self) -> None:
        """Flush and close the file; closing twice does nothing."""
        with self._lock, attach_filename(self._path):
            self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _summary(self, tag: str, metadata: Any, tensor: Any, step: int) -> None:
        tag = replace_surrogates(tag)
        value = summary_pb2.Summary.Value(tag=tag, metadata=metadata, tensor=tensor)
        self._add(step=step, summary=summary_pb2.Summary(value=[value]))

    def _add(self, **event: Any) -> None:
        record = event_pb2.Event(wall_time=time.time(), **event).SerializeToString()
        with self._lock, attach_filename(self._path):
            self._records.write(record)
