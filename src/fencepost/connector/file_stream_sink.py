"""FileStreamSink: each value as a line of one file, as in Kafka's connector of that name."""

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from fencepost.api import (
    HIGH,
    BinaryColumn,
    FatalError,
    Schema,
    SinkBatch,
    SinkConnector,
    SinkTask,
    TopicPartition,
    Utf8Column,
    setting,
)
from fencepost.record.java_text import java_text


class FileStreamSinkTask(SinkTask):
    """Appends to the file. What a crash has not let it commit is appended again: at least once, as Kafka's does."""

    config: "FileStreamSinkConnector"

    def start(self) -> None:
        path = self.config.file
        try:
            self.out: IO[bytes] = sys.stdout.buffer if path is None else Path(path).open("ab", buffering=1 << 18)  # noqa: SIM115
        except OSError as error:
            raise FatalError(f"file={path}: it cannot be written: {error.strerror or error}") from error
        if path is not None and _ends_within_a_line(Path(path)):
            self.out.write(b"\n")  # whoever was killed in it: else the next line would be its end

    def put(self, batch: SinkBatch) -> None:
        if len(batch):
            self.out.writelines(_lines(batch))
            self.out.flush()  # whoever follows the file sees it now

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Have it on disk."""
        if stat.S_ISREG(os.fstat(self.out.fileno()).st_mode):
            os.fsync(self.out.fileno())

    def stop(self) -> None:
        if self.config.file is not None and hasattr(self, "out"):
            self.out.close()


def _ends_within_a_line(path: Path) -> bool:
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as written:
        written.seek(-1, os.SEEK_END)
        return written.read(1) != b"\n"


def _lines(batch: SinkBatch) -> Sequence[bytes | memoryview]:
    """Return what is written of a batch, in pieces."""
    values = batch.values
    if isinstance(values, Utf8Column):
        if isinstance(values.raw, BinaryColumn):
            from fencepost.connector.line_columns import joined_lines  # Arrow, for those who use it

            return [piece for chunk in values.raw.chunks for piece in joined_lines(chunk)]
        return b"\n".join(values.raw), b"\n"
    texts = (_text(schema, value) for schema, value in zip(batch.value_schemas, values, strict=True))
    return (("\n".join(texts) + "\n").encode("utf-8", "replace"),)


def _text(schema: Schema | None, value: object) -> str:
    """Return what Java prints of a value; of bytes it prints their class and address, which nobody can want."""
    return value.hex() if isinstance(value, bytes) else java_text(schema, value)


class FileStreamSinkConnector(SinkConnector):
    """Appends the value of each record to a file, or to the standard output of the task's process.

    Values are written as text, each as a line; a record without a value as `null`.
    """

    task = FileStreamSinkTask

    file: str | None = setting(
        "file",
        default=None,
        importance=HIGH,
        doc="Destination filename. If not specified, the standard output will be used",
    )

    def alter_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Accept any change: nothing is kept outside of the group."""
        return True
