"""Marks that outlive the process that sets them, even if it is killed right afterwards."""

from collections import Counter

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.read.log import LogReader, LogRecord

_TIMEOUT_S = 20.0


class Marks:
    """A topic of one partition: a record is a mark. Nothing connects before the first call."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._conf = {"bootstrap.servers": bootstrap}
        self._topic = topic

    def set(self, mark: str) -> None:
        """Set `mark` once more; it is in the log when this returns."""
        client = LibrdkafkaProducer({**self._conf, "acks": "all"})
        client.produce(self._topic, mark.encode())
        client.flush(_TIMEOUT_S)
        client.drop()

    def count(self, mark: str) -> int:
        """Return how often `mark` was set."""
        Admin(self._conf).topics.ensure(self._topic, partitions=1, replication=1)
        found: Counter[bytes | None] = Counter()
        reader = LogReader(self._conf, self._topic)

        def count(record: LogRecord) -> None:
            found[record.value] += 1

        try:
            reader.read_to_end(_TIMEOUT_S, count)
        finally:
            reader.close()
        return found[mark.encode()]
