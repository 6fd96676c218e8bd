"""Marks that outlive the process that sets them, even if it is killed right afterwards."""

from contextlib import closing

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.read.log import LogReader

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
        found: list[bytes | None] = []
        with closing(LogReader(self._conf, self._topic)) as reader:
            reader.read_to_end(_TIMEOUT_S, lambda record: found.append(record.value))
        return found.count(mark.encode())
