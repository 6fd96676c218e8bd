"""A task that keeps its position in a consumer group (KIP-447), as the leader does and sinks that write to Kafka will.

It keeps the writer's rules as `task/source/runner.py` does: a struck writer is replaced, and after any error the
position is read again behind a new one.
"""

import threading
from itertools import accumulate
from typing import Any

import confluent_kafka

from fencepost.api import FencedError
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.value.position import GroupOffset
from fencepost.transaction import CommitUnknownError, ProduceError, TransactionalWriter

_STARTS_OVER = (CommitUnknownError, ProduceError, FencedError)


class GroupTask:
    """Delivers the numbers of batches of given sizes. A context manager: the task runs inside, in a thread."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group_id: str,
        metadata: Any,
        sizes: tuple[int, ...],
        *,
        via: str | None = None,
        conf: dict[str, Any] | None = None,
    ) -> None:
        """`metadata`: of a live member of the group."""
        self.transactional_ids = (f"late-{topic}",)
        usual = transactional_conf({"bootstrap.servers": via or bootstrap}, self.transactional_ids[0]).conf
        self._conf = {**usual, **(conf or {})}
        self._topic = topic
        self._metadata = metadata
        self._ends = list(accumulate(sizes))
        self._consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"group-task-{topic}", daemon=True)
        self._positions: list[tuple[int, int]] = []  # what was committed, and what was stored then
        self._producers_made = 0
        self._error: Exception | None = None

    def __enter__(self) -> "GroupTask":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping.set()
        self._thread.join(30)
        self._consumer.close()

    @property
    def producers_retired(self) -> int:
        return self._producers_made - 1

    @property
    def failure(self) -> str | None:
        """Return the error with which the task failed, if it did."""
        if self._error is not None:
            return repr(self._error)
        lost = [pair for pair in self._positions if pair[0] != pair[1]]
        return f"committed and stored positions differ: {lost}" if lost else None

    def position(self) -> int:
        """Return the committed position; open transactions are waited for."""
        found = self._consumer.committed([confluent_kafka.TopicPartition(self._topic, 0)], timeout=20)
        return max(0, int(found[0].offset))

    def _run(self) -> None:
        try:
            while not self._is_stopping.is_set() and self._run_instance():
                pass
        except Exception as error:
            self._error = error

    def _run_instance(self) -> bool:
        """Run one producer, until it is struck, fails, or all is done. Returns whether there was anything to do."""
        writer = TransactionalWriter(self._conf, self.transactional_ids[0])
        try:
            writer.open()
            position = self.position()  # E3; before, it would wait for the predecessor's transaction
            if self._next_end(position) is None:
                return False
            self._producers_made += 1
            while not (self._is_stopping.is_set() or writer.is_struck) and (end := self._next_end(position)):
                self._transact(writer, position, end)
                position = end
                self._positions.append((end, self.position()))
        except _STARTS_OVER:
            pass
        finally:
            writer.abort()
            writer.close()
        return True

    def _transact(self, writer: TransactionalWriter, start: int, end: int) -> None:
        for number in range(start, end):
            writer.send(self._topic, str(number).encode(), partition=number % 2)
        writer.commit(group_offsets=[GroupOffset(self._topic, 0, end)], group_metadata=self._metadata)

    def _next_end(self, position: int) -> int | None:
        return next((end for end in self._ends if end > position), None)
