"""A sink that asks at each point of its calls whether it may go on, and keeps what it is given in a file.

What `put` takes is written but for the last records, which wait for the next `put` or for `flush`: so that an offset
that were committed without a flush would be missed. Lines of the file, each written at once and for good:

    open LIFE RUN PARTITION
    put LIFE RUN PARTITION OFFSET VALUE
"""

import os
import socket
import uuid
from collections.abc import Mapping, Sequence

from fencepost.api import SinkBatch, SinkConnector, SinkTask, TopicPartition, Type, setting

_KEPT = 20


class GatedSinkTask(SinkTask):
    """Writes lines: half of them before the middle of each call, and half after it."""

    config: "GatedSink"

    def start(self) -> None:
        self._life = uuid.uuid4().hex[:8]
        self._runs = 0
        self._run_of: dict[int, str] = {}
        self._kept: list[str] = []
        self._out = os.open(self.config.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._gate = socket.create_connection(("127.0.0.1", self.config.gate)).makefile("rw")
        self._ask(f"{self.config.name} {self._life} {os.getpid()}")

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        self._runs += 1
        for place in partitions:
            self._run_of[place.partition] = f"{self._life} {self._runs} {place.partition}"
        self._write_in_halves("open", [f"open {self._run_of[place.partition]}\n" for place in partitions])

    def put(self, batch: SinkBatch) -> None:
        self._kept += [
            f"put {self._run_of[record.kafka_partition or 0]} {record.kafka_offset} {record.value}\n"
            for record in batch
        ]
        due, self._kept = self._kept[:-_KEPT], self._kept[-_KEPT:]
        self._write_in_halves("put", due)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._write_in_halves("flush", self._kept)
        self._kept = []

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        closed = {self._run_of.pop(place.partition) for place in partitions}
        self._kept = [line for line in self._kept if " ".join(line.split()[1:4]) not in closed]

    def stop(self) -> None:
        os.close(self._out)
        self._gate.close()

    def _write_in_halves(self, phase: str, lines: Sequence[str]) -> None:
        middle = len(lines) // 2
        self._ask(f"{phase} before")
        self._write(lines[:middle])
        self._ask(f"{phase} during")
        self._write(lines[middle:])
        self._ask(f"{phase} after")

    def _write(self, lines: Sequence[str]) -> None:
        if lines:
            os.write(self._out, "".join(lines).encode())

    def _ask(self, what: str) -> None:
        """Wait until the test lets the task go on."""
        self._gate.write(what + "\n")
        self._gate.flush()
        if not self._gate.readline():
            raise ConnectionError("the test is over")


class GatedSink(SinkConnector):
    """See above."""

    task = GatedSinkTask

    name: str = setting("name", doc="The connector's name.")
    file: str = setting("file", doc="Where the lines go.")
    gate: int = setting("gate", type=Type.INT, doc="The port of the test.")
