"""Groups that fail over: a mirror with transactions, checkpoints and committed groups, all on a running worker."""

import random

import pytest
from confluent_kafka import Consumer
from flow import Flow
from mirrored import SOON, await_same

from fencepost.kafka.read.log import LogReader
from fencepost.testing import eventually

PARTITIONS = 2
AT_TARGET = {"offset-syncs.topic.location": "target"}


class Failover:
    """A mirrored topic whose values are numbers, each of which is there once, and where they lie at both ends."""

    def __init__(self, flow: Flow, topic: str) -> None:
        self.flow = flow
        self.topic = flow.source.topic(topic, partitions=PARTITIONS)
        self._next = 0

    def start(self) -> None:
        flow, topics = self.flow, {"topics": self.topic}
        flow.start("Sink", **{**SOON, **topics, "transaction.producer": "true"})
        often = ("emit.checkpoints", "sync.group.offsets", "refresh.groups")
        intervals = {f"{what}.interval.seconds": "1" for what in often}
        enabled = {"sync.group.offsets.enabled": "true", "groups": flow.groups}
        flow.create("Checkpoint", **{**AT_TARGET, **topics, **intervals, **enabled})

    def write(self, draw: random.Random) -> None:
        """Write transactions to both partitions, some of which are aborted, and records without."""
        for partition in range(PARTITIONS):
            for is_committed in (True, False, True, draw.random() < 0.5):
                self.flow.source.write(self.topic, self._numbers(draw), partition, is_committed=is_committed)
            if draw.random() < 0.5:
                self.flow.source.send(self.topic, self._numbers(draw), partition)
        self.flow.source.settle([self.topic])

    def _numbers(self, draw: random.Random) -> list[str]:
        first, self._next = self._next, self._next + draw.randint(1, 9)
        return [str(number) for number in range(first, self._next)]

    @property
    def remote(self) -> str:
        return self.flow.remote(self.topic)

    def ends(self) -> list[int]:
        """Return the ends of the source's logs, after markers and aborted records."""
        found = self.flow.source.admin.offsets.ends(
            [(self.topic, partition) for partition in range(PARTITIONS)], read_committed=True
        )
        return [found[self.topic, partition] for partition in range(PARTITIONS)]

    def at_source(self) -> list[dict[bytes, int]]:
        return _places(self.flow.source.bootstrap, self.topic)

    def at_target(self) -> list[dict[bytes, int]]:
        return _places(self.flow.target.bootstrap, self.remote)

    def await_group(self, group: str) -> list[int]:
        """Return a group's offsets at the target, once there is one for each partition."""

        def stands() -> dict[tuple[str, int], int]:
            found = self.flow.committed_at_target(group)
            assert len(found) == PARTITIONS, found
            return found

        found = eventually(stands, within_s=60)
        return [found[self.remote, partition] for partition in range(PARTITIONS)]


def _places(bootstrap: str, topic: str) -> list[dict[bytes, int]]:
    """Return the offset of each value that is committed, for each partition."""
    found: list[dict[bytes, int]] = [{} for _ in range(PARTITIONS)]
    reader = LogReader({"bootstrap.servers": bootstrap}, topic)
    try:
        reader.read_to_end(30, lambda record: found[record.partition].update({record.value or b"": record.offset}))
    finally:
        reader.close()
    return found


@pytest.fixture
def failover(flow: Flow, topic_name: str) -> Failover:
    made = Failover(flow, topic_name)
    made.start()
    return made


def test_nothing_is_skipped_and_at_a_boundary_nothing_is_read_twice(failover: Failover) -> None:
    seed = random.randrange(1 << 30)
    draw, flow = random.Random(seed), failover.flow
    stood: dict[str, list[int]] = {}
    before: list[int] = []
    for number in range(4):
        failover.write(draw)
        await_same(flow, failover.topic)  # so the mirror has a boundary here, wherever else
        last = [max(places.values()) + 1 for places in failover.at_source()]
        for kind, offsets in (("behind", last), ("end", failover.ends())):
            group = flow.group(f"-{kind}-{number}")
            stood[group] = offsets
            flow.commit(group, failover.topic, *offsets)
        if number:
            group = flow.group(f"-middle-{number}")
            stood[group] = [draw.randint(*ends) for ends in zip(before, last, strict=True)]
            flow.commit(group, failover.topic, *stood[group])
        before = last
    source, target = failover.at_source(), failover.at_target()
    for group, offsets in stood.items():
        for partition, at in enumerate(failover.await_group(group)):
            unread = {value for value, offset in source[partition].items() if offset >= offsets[partition]}
            reads = {value for value, offset in target[partition].items() if offset >= at}
            assert unread <= reads, f"seed {seed}: {group} skips {sorted(unread - reads)} of partition {partition}"
            if "-middle-" not in group:
                assert unread == reads, f"seed {seed}: {group} reads {sorted(reads - unread)} of {partition} twice"


def test_a_consumer_goes_on_at_the_target_where_it_stopped(failover: Failover) -> None:
    seed = random.randrange(1 << 30)
    draw, flow, group = random.Random(seed), failover.flow, failover.flow.group()
    failover.write(draw)
    await_same(flow, failover.topic)
    flow.commit(group, failover.topic, *failover.ends())
    read = {value for places in failover.at_source() for value in places}
    failover.await_group(group)
    failover.write(draw)
    await_same(flow, failover.topic)
    wanted = {value for places in failover.at_source() for value in places} - read
    consumer = Consumer({"bootstrap.servers": flow.target.bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([failover.remote])
    found: list[bytes | None] = []

    def has_read() -> bool:
        found.extend(message.value() for message in consumer.consume(100, 0.2) if message.error() is None)
        return wanted <= set(found)

    try:
        eventually(has_read, within_s=60, every_s=0)
    finally:
        consumer.close()
    assert sorted(value or b"" for value in found) == sorted(wanted), f"seed {seed}"
