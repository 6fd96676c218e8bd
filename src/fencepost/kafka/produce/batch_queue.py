"""The records of a transaction that wait for their batches to be sent."""

from collections.abc import Callable, Iterator

from fencepost.kafka.codec.columns import Content, PartitionColumns, QueuedRecords, Taken
from fencepost.kafka.setting.batch_settings import BatchSettings
from fencepost.record import TopicPartition


class BatchQueue:
    """Records that wait in batches, by partition."""

    def __init__(self, settings: BatchSettings, most_bytes: Callable[[str], int | None]) -> None:
        """`most_bytes` returns the largest batch that a topic takes; None if that cannot be read."""
        self._settings = settings
        self._most_bytes = most_bytes
        self._waiting: dict[TopicPartition, QueuedRecords] = {}
        self._sticky: dict[str, int] = {}
        self._bytes = self._count = 0

    def clear(self) -> None:
        self._waiting.clear()
        self._sticky.clear()
        self._bytes = self._count = 0

    @property
    def is_full(self) -> bool:
        return self._count >= self._settings.queue_records or self._bytes >= self._settings.queue_bytes

    @property
    def has_due(self) -> bool:
        return any(waiting.is_due for waiting in self._waiting.values())

    def is_due(self, place: TopicPartition) -> bool:
        return self._waiting[place].is_due

    def seen(self) -> list[TopicPartition]:
        """Return the partitions of the transaction so far, with queued records or without."""
        return [*self._waiting]

    def filled(self) -> list[TopicPartition]:
        """Return the partitions with queued records."""
        return [place for place, waiting in self._waiting.items() if waiting.count]

    def any_partition(self, topic: str, spare: Iterator[int]) -> TopicPartition:
        """Return the partition whose batch is being filled with records that may go to any; at first a spare one."""
        if topic not in self._sticky:
            self._sticky[topic] = next(spare)
        return TopicPartition(topic, self._sticky[topic])

    def add(self, place: TopicPartition, columns: PartitionColumns) -> int:
        """Queue as many records as fit in a batch. Returns how many were queued."""
        waiting = self._at(place)
        before = waiting.own_bytes
        taken = waiting.add(columns)
        self._count += taken
        self._bytes += waiting.own_bytes - before
        return taken

    def add_taken(self, place: TopicPartition, taken: Taken) -> None:
        """Queue a whole batch."""
        self._at(place).add_taken(taken)
        self._count += taken.rows
        self._bytes += taken.own_bytes()

    def take(self, place: TopicPartition, *, whole: bool) -> list[Content]:
        """Remove and return the batches of a partition; without `whole`, full batches only."""
        waiting = self._waiting[place]
        before, count = waiting.own_bytes, waiting.count
        found = waiting.take(whole=whole)
        self._bytes -= before - waiting.own_bytes
        self._count -= count - waiting.count
        if self._sticky.get(place.topic) == place.partition:
            del self._sticky[place.topic]
        return found

    def _at(self, place: TopicPartition) -> QueuedRecords:
        if place not in self._waiting:
            limit = self._most_bytes(place.topic)
            if limit is None:  # not readable: assume the default limit
                limit = self._settings.record_bytes
            self._waiting[place] = QueuedRecords(self._settings.batch_bytes, self._settings.batch_records, limit)
        return self._waiting[place]
