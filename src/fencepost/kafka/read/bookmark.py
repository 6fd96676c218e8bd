"""A position in a topic that is stored as the offsets of a consumer group without members.

The position is moved in a transaction, and the transactional id fences other writers. Group membership does not protect
it: in a transaction, a coordinator accepts offsets without a generation even if the group has members (seen on Kafka
4.3.1). So members are looked up first (E10).
"""

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from fencepost.api.errors import FatalError
from fencepost.kafka.errors import translate
from fencepost.kafka.group.group_admin import GroupAdmin
from fencepost.kafka.library_log import library_log
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.wire.library_client import new_client

_COMMITTED = "read_committed"  # with it, a question for offsets waits for open transactions


class Bookmark:
    """The position in one topic that is stored under a name. A context manager."""

    def __init__(self, conf: Mapping[str, Any], group: str, topic: str, *, timeout_s: float = 30.0) -> None:
        """`conf` has a reader's settings, with librdkafka's names. `group` is the name."""
        self.group = group
        self._topic = topic
        self._conf = conf
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._timeout_s = timeout_s
        self._consumers: dict[str, Any] = {}  # by isolation level

    def _consumer(self, isolation: str) -> Any:
        if isolation not in self._consumers:
            settings = {**self._conf, "group.id": self.group, "isolation.level": isolation}
            self._consumers[isolation] = new_client(Consumer, settings, logger=library_log(__name__))
        return self._consumers[isolation]

    def __enter__(self) -> "Bookmark":
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._consumers.values():
            each.close()

    def ensure_no_members(self) -> None:
        """Raise FatalError if the group has members: the offsets then belong to them (E10)."""
        with closing(GroupAdmin(self._conf, timeout_s=self._timeout_s)) as admin:
            members = admin.describe(self.group).members
        if members:
            who = ", ".join(sorted(member.host for member in members))
            raise FatalError(f"Group {self.group} is for positions alone, and has members (at {who}): end them first")

    @property
    def metadata(self) -> Any:
        """Return the group metadata for a transaction."""
        return self._consumer(_COMMITTED).consumer_group_metadata()

    def read(self, partitions: Iterable[int]) -> dict[int, GroupOffset]:
        """Return the offset of each partition that has one, with its metadata.

        Waits for the end of a transaction that may change them. Raises what `translate` returns.
        """
        return self._read(self._consumer(_COMMITTED), partitions)

    def peek(self, partitions: Iterable[int]) -> dict[int, GroupOffset]:
        """Return what was committed last, without waiting: to show it, as it may change at any moment."""
        return self._read(self._consumer("read_uncommitted"), partitions)

    def _read(self, consumer: Any, partitions: Iterable[int]) -> dict[int, GroupOffset]:
        asked = [TopicPartition(self._topic, partition) for partition in partitions]
        try:
            found = consumer.committed(asked, timeout=self._timeout_s)
        except KafkaException as error:
            raise translate(error, f"reading the offsets of group {self.group}", self._bootstrap) from error
        for each in found:
            if each.error is not None:
                raise translate(each.error, f"reading the offsets of group {self.group}", self._bootstrap)
        return {
            each.partition: GroupOffset(self._topic, each.partition, each.offset, each.metadata or "")
            for each in found
            if each.offset >= 0
        }
