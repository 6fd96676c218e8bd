"""FileStreamSink: each value as a line of one file, as in Kafka's connector of that name."""

import sys
from collections.abc import Iterable, Mapping, Sequence

from fencepost.api import (
    HIGH,
    BinaryColumn,
    ExactlyOnceSupport,
    Repeated,
    Schema,
    SinkBatch,
    SinkConnector,
    SinkTask,
    TopicPartition,
    Utf8Column,
    setting,
)
from fencepost.builtin.connector.file_stream.line_file import LineFile, Piece
from fencepost.config.file_limit import a_file
from fencepost.record.java_text import java_text, java_texts


class FileStreamSinkTask(SinkTask):
    """Appends to the file. After a crash what was not committed is appended again: at least once, as in Kafka."""

    config: "FileStreamSinkConnector"
    out: LineFile | None = None

    def start(self) -> None:
        if self.config.file is not None:
            self.out = LineFile(self.config.file)

    def put(self, batch: SinkBatch) -> None:
        if not len(batch):
            return
        pieces = _lines(batch)
        if self.out is not None:
            self.out.append(pieces)  # readers of the file see it at once
        else:
            sys.stdout.buffer.write(b"".join(pieces))  # in one call: tasks of a slot share it
            sys.stdout.buffer.flush()

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the file to disk."""
        if self.out is not None:
            self.out.sync()

    def stop(self) -> None:
        if self.out is not None:
            self.out.close()


def _lines(batch: SinkBatch) -> Sequence[Piece]:
    values = batch.values
    if isinstance(values, Utf8Column):
        lines = values.utf8()
        if isinstance(lines, BinaryColumn):
            from fencepost.builtin.connector.file_stream.line_columns import joined_lines  # Arrow, for those who use it

            return [piece for chunk in lines.chunks for piece in joined_lines(chunk)]
        return b"\n".join(lines), b"\n"
    texts = _texts(batch.value_schemas, values)
    return (("\n".join(texts) + "\n").encode("utf-8", "replace"),)


def _texts(schemas: Sequence[Schema | None], values: Sequence[object]) -> Iterable[str]:
    """Return the texts that Java prints for values; bytes as hexadecimal, since Java prints only their address."""
    if isinstance(schemas, Repeated):
        return java_texts(schemas.value, values, _hexadecimal)
    return (java_text(schema, value, _hexadecimal) for schema, value in zip(schemas, values, strict=True))


def _hexadecimal(data: bytes | bytearray | memoryview) -> str:
    return data.hex()


class FileStreamSinkConnector(SinkConnector):
    """Appends the value of each record to a file, or to the standard output of the task's process.

    Each value is written as a line of text; a record without a value as `null`. Several tasks can share a file: their
    lines are not mixed, even on a network file system, if its locks apply to all machines.
    """

    task = FileStreamSinkTask

    file: str | None = setting(
        "file",
        default=None,
        check=a_file(),
        importance=HIGH,
        doc="Destination filename. If not specified, the standard output will be used",
    )

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Accept any change: only the group has positions."""
        return True
