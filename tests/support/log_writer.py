"""Writes records to topics, with and without transactions, and deletes their beginnings."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually


class LogWriter:
    """One producer with transactions, and one without. Values are text here, mostly."""

    def __init__(self, bootstrap: str) -> None:
        conf = {"bootstrap.servers": bootstrap, "linger.ms": 1, "message.max.bytes": 8_000_000}
        self.bootstrap = bootstrap
        self.admin = Admin(conf)
        self.plain = Producer({**conf, "enable.idempotence": True})  # else what is tried again may come out of order
        self.transactional = self._transactional(conf)
        self._raw = AdminClient({"bootstrap.servers": bootstrap})

    def _transactional(self, conf: dict[str, Any]) -> Producer:
        producer = Producer({**conf, "transactional.id": uuid.uuid4().hex, "transaction.timeout.ms": 900_000})
        producer.init_transactions(30)
        return producer

    def topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        """Create a topic; of its configs, dots are written as `_`."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        self.admin.topics.create(name, partitions=partitions, replication=1, configs=settings)
        return name

    def send(self, topic: str, values: Sequence[str | bytes], partition: int = 0, **how: Any) -> None:
        """Write without a transaction."""
        for value in values:
            self.plain.produce(topic, value, partition=partition, **how)
        self.plain.flush(30)

    @contextmanager
    def transaction(self, *, is_committed: bool = True) -> Iterator[Producer]:
        """Commit or abort at the end of the block what is produced in it."""
        self.transactional.begin_transaction()
        try:
            yield self.transactional
            self.transactional.flush(30)
        except BaseException:
            self.transactional.abort_transaction(30)
            raise
        if is_committed:
            self.transactional.commit_transaction(30)
        else:
            self.transactional.abort_transaction(30)

    def write(
        self, topic: str, values: Sequence[str | bytes], partition: int = 0, *, is_committed: bool = True, **how: Any
    ) -> None:
        """Write in one transaction."""
        with self.transaction(is_committed=is_committed) as producer:
            for value in values:
                producer.produce(topic, value, partition=partition, **how)

    def settle(self, topics: Sequence[str]) -> None:
        """Wait until no transaction is open: its markers are written after the commit has returned."""

        def is_settled() -> bool:
            places = [
                (name, p) for name, found in self.admin.topics.get_all(topics).items() for p in range(found.partitions)
            ]
            ends = [self.admin.offsets.ends(places, read_committed=level) for level in (True, False)]
            return ends[0] == ends[1]

        eventually(is_settled)

    def truncate(self, topic: str, before: int, partition: int = 0) -> None:
        """Delete the records before an offset."""
        for future in self._raw.delete_records([TopicPartition(topic, partition, before)]).values():
            future.result(30)

    def recreate(self, topic: str, partitions: int = 1) -> None:
        """Delete a topic, and create another one of that name."""
        self.admin.topics.delete([topic])

        def is_created() -> bool:
            self.admin.topics.create(topic, partitions=partitions, replication=1)
            return True

        eventually(is_created)

    def close(self) -> None:
        """Let go, and abort what is open. A client that is left prints that the broker is gone."""
        for producer in (self.transactional, self.plain):
            producer.purge()  # a broker that is away is not waited for
            producer.close()
        del self._raw
        self.admin.close()
