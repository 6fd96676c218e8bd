"""FileStreamSource: the lines of one growing file, as in Kafka's connector of that name."""

import time
from collections.abc import Mapping
from typing import Any

from fencepost.api import (
    HIGH,
    LOW,
    Batch,
    ConnectError,
    ExactlyOnceSupport,
    FatalError,
    Form,
    SourceConnector,
    SourceTask,
    Type,
    at_least,
    non_empty,
    setting,
)
from fencepost.builtin.connector.file_stream.lines import (
    FINGERPRINT,
    POSITION,
    FileOffsets,
    FileStart,
    LineReader,
    split_lines,
)
from fencepost.builtin.connector.file_stream.watch import FileWatch
from fencepost.config.connector_limit import a_file
from fencepost.record import PolledAt, Repeated, Utf8Column
from fencepost.record.schema import STRING

FILENAME = "filename"

SHORTEST_WAIT_S = 0.02
LONGEST_WAIT_S = 0.04
"""How often a file is looked at: an appended line is seen within 50 ms, and hundreds of idle tasks share a core."""
WATCHED_WAIT_S = 1.0
"""The same for a file whose changes wake the task: as often as Kafka Connect's task looks at any file."""


class FileStreamSourceTask(SourceTask):
    """Reads the lines of a file and then those appended to it. A line without an end is not returned."""

    config: "FileStreamSourceConnector"

    @classmethod
    def form(cls, config: Any) -> Form:
        return Form.COLUMNS

    def start(self) -> None:
        self.partition = {FILENAME: self.config.file}
        offset = self.context.offset(self.partition)
        position = offset.get(POSITION, 0)
        if not isinstance(position, int) or isinstance(position, bool) or position < 0:
            raise FatalError(f"{self.config.file}: the committed position {position!r} is not a number of bytes")
        self.known = FileStart(offset.get(FINGERPRINT) if position else None)
        split = split_lines
        if self.context.takes_columns:
            from fencepost.builtin.connector.file_stream.lines import (
                split_into_columns,  # Arrow, where it is used
            )

            split = split_into_columns
        self.lines = LineReader(self.config.file, position, self.known, split)
        self.watch = FileWatch(self.config.file, self.context.wake)
        self.wait_s = SHORTEST_WAIT_S

    def poll(self) -> Batch | None:
        block = self.lines.read(self.config.batch_size)
        is_watched = block is None and self.watch.arm()
        if is_watched:
            block = self.lines.read(self.config.batch_size)  # what came in between
        if block is None:
            self.context.wait(WATCHED_WAIT_S if is_watched else self.wait_s)
            self.wait_s = min(self.wait_s * 1.25, LONGEST_WAIT_S)
            return None
        self.wait_s = SHORTEST_WAIT_S
        count = len(block.lines)
        return Batch(
            Repeated(self.config.topic, count),
            Utf8Column(block.lines),
            Repeated(self.partition, count),
            FileOffsets(block.positions, self.known),
            STRING,
            timestamps=PolledAt(time.time_ns() // 1_000_000, count),
        )

    def stop(self) -> None:
        self.watch.close()
        self.lines.close()


class FileStreamSourceConnector(SourceConnector):
    """Sends each line of a file to a topic, and continues with lines that are appended.

    A line ends with `\\n`, `\\r\\n` or `\\r`. One task; the source partition is `{"filename": file}`, the source offset
    `{"position": bytes, "fingerprint": hash}`; the fingerprint covers the file's first bytes. The task waits for a file
    that does not exist yet. It fails if the file becomes shorter, or is rotated or replaced, unless the new file begins
    with what was read.
    """

    task = FileStreamSourceTask

    file: str = setting("file", check=a_file(non_empty()), importance=HIGH, doc="Source filename.")
    topic: str = setting("topic", check=non_empty(), importance=HIGH, doc="The topic to publish data to")
    batch_size: int = setting(
        "batch.size",
        type=Type.INT,
        default=2000,
        check=at_least(1),
        importance=LOW,
        doc="The maximum number of records the source task can read from the file each time it is polled",
    )

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(self, offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]) -> bool:
        """Accept positions in bytes, and tombstones for anything."""
        for partition, offset in offsets.items():
            if offset is not None:
                _check_alteration(dict(partition), offset)
        return True


def _check_alteration(partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
    if POSITION not in offset:
        raise ConnectError(f"Offset objects should either be null or contain the key '{POSITION}'")
    if not isinstance(offset[POSITION], int) or isinstance(offset[POSITION], bool):
        raise ConnectError(f"The value for the '{POSITION}' key in the offset is expected to be a Long value")
    if offset[POSITION] < 0:
        raise ConnectError(f"The value for the '{POSITION}' key in the offset should be a non-negative value")
    if FILENAME not in partition:
        raise ConnectError(f"Partition objects should contain the key '{FILENAME}'")
