"""Dead letters on a real broker, and what resends them."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from fencepost.dead_letter.letter import Selection, Skipped
from fencepost.dead_letter.progress import progress_name
from fencepost.dead_letter.resend import Resend
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.group.memberless import Bookmark
from fencepost.kafka.read.browse import TopicBrowser, TopicRecord
from fencepost.kafka.setting.client_settings import range_conf, transactional_conf
from fencepost.testing import eventually

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
"""Of a process that runs `main`."""


class DeadLetters:
    """Those of a sink that has the name of the topic that it reads; they are in `dead`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.dead = f"{topic}-dead"

    def bury(
        self,
        *values: str,
        connector: str | None = None,
        partition: int = 0,
        origin: str | None = None,
        at: int = 1,
        key: bytes | None = None,
        timestamp: int = 0,
    ) -> None:
        """Write dead letters with these values, of records of `origin`'s partition `at`."""
        facts = {
            "topic": origin or self.topic,
            "partition": str(at),
            "offset": "7",
            "connector.name": connector or self.topic,
            "stage": "TASK_PUT",
        }
        context = [(f"__connect.errors.{name}", fact.encode()) for name, fact in facts.items()]
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            headers = [("own", b"1"), *context]
            producer.produce(self.dead, value.encode(), key, partition, headers=headers, timestamp=timestamp)
        assert producer.flush(30) == 0

    def resend(self, via: str | None = None, skip: Sequence[str] = (), only: Sequence[str] | None = None) -> int:
        """Do what `fencepost dead-letters C --resend` does once it is confirmed; returns how many were sent."""
        conf, group = self.reader_conf, progress_name(self.topic)
        browser = TopicBrowser(conf, self.dead)
        bookmark = Bookmark(conf, group, self.dead)
        selection = None if only is None else Selection(self.dead, only)
        own = Resend(self.topic, browser, bookmark, skipped=Skipped.of(self.dead, skip), selection=selection)
        return own.send(transactional_conf({"bootstrap.servers": via or self.bootstrap}, group).conf)

    @property
    def reader_conf(self) -> dict[str, object]:
        return dict(range_conf({"bootstrap.servers": self.bootstrap}, "test").conf)

    def place(self, offset: int, partition: int = 0) -> str:
        return f"{self.dead}-{partition}@{offset}"

    def read(self, topic: str | None = None) -> list[TopicRecord]:
        """Return what is committed in the sink's topic; a commit is answered before its markers are in the log."""
        topic = topic or self.topic
        admin = Admin({"bootstrap.servers": self.bootstrap})
        places = [(topic, 0), (topic, 1)]
        eventually(
            lambda: admin.offsets.ends(places, read_committed=True) == admin.offsets.ends(places, read_committed=False)
        )
        browser = TopicBrowser(self.reader_conf, topic)
        return list(browser.read(browser.ranges))

    @property
    def values(self) -> list[str]:
        return [(record.value or b"").decode() for record in self.read()]

    def alter(self, topic: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        client = AdminClient({"bootstrap.servers": self.bootstrap})  # which must outlive its answers
        for future in client.incremental_alter_configs([resource]).values():
            future.result(30)
        admin = Admin({"bootstrap.servers": self.bootstrap})
        eventually(lambda: admin.configs.get(topic)[key] == value)  # the broker hears of it a moment later

    def forget_group(self) -> None:
        """Do what a broker does after offsets.retention.minutes."""
        GroupOffsets({"bootstrap.servers": self.bootstrap}, progress_name(self.topic)).delete()

    def commit(self, offset: int, metadata: str, partition: int = 0) -> None:
        """Write an offset of the group that keeps the progress, as another program might."""
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        wanted = [TopicPartition(self.dead, partition, offset, metadata)]
        request = ConsumerGroupTopicPartitions(progress_name(self.topic), wanted)
        for future in client.alter_consumer_group_offsets([request]).values():
            future.result(30)


def main(bootstrap: str, topic: str, via: str) -> None:
    """Resend in a process of its own, which a test can kill."""
    DeadLetters(bootstrap, topic).resend(via)


if __name__ == "__main__":
    main(*sys.argv[1:])
