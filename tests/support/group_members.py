"""Members of one group, with the partitions that each was assigned."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.codec.committed import Answered
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.read.group_input import GroupInput
from fencepost.kafka.setting.client_settings import sink_conf
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.group_commit import commit_for
from support.log_writer import LogWriter


class Notes:
    """An assignee that records its calls."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []
        self.begins: dict[TopicPartition, int] = {}
        self.on_revoked: Callable[[Collection[TopicPartition]], None] = lambda places: None

    def assigned(
        self, positions: Mapping[TopicPartition, int], fresh: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        self.log.append(("assigned", dict(positions)))
        self.fresh = set(fresh)
        return {place: offset for place, offset in self.begins.items() if place in positions}

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.log.append(("revoked", set(partitions)))
        self.on_revoked(partitions)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        self.log.append(("lost", set(partitions)))


class Members:
    """Makes members of one group, and closes them."""

    def __init__(self, bootstrap: str, topic: str, kind: type[GroupInput] = GroupInput) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, f"connect-{topic}"
        self.kind = kind
        self.made: list[GroupInput] = []

    def conf(self, **settings: str) -> dict[str, Any]:
        given = {
            "bootstrap.servers": self.bootstrap,
            "session.timeout.ms": "20000",
            "heartbeat.interval.ms": "300",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        return dict(sink_conf(given, self.group, "test").conf)

    def join(self, notes: Notes, whole: Collection[str] = (), **settings: str) -> GroupInput:
        self.made.append(self.kind(self.conf(**settings), [self.topic], notes, whole=whole))
        return self.made[-1]

    def offsets(self) -> GroupOffsets:
        return GroupOffsets({"bootstrap.servers": self.bootstrap}, self.group)


def commit_late(members: Members, member: GroupInput, writer: LogWriter, offset: int) -> None:
    """Commit an offset of partition 0 in a topic that was created again since, and has five records.

    Members do so that do not know of the new topic yet.
    """
    place = TopicPartition(members.topic, 0)
    member.commit({place: offset})
    (committed,) = member._client.consumer.committed([ClientPartition(*place)], timeout=30)
    member.close()
    assert committed.leader_epoch == 0
    writer.recreate(members.topic, partitions=2)
    writer.send(members.topic, [str(n) for n in range(5)], 0)
    eventually(lambda: not members.offsets().read(), within_s=60)  # the broker deletes it with the topic
    note = f"{committed.metadata}\0"  # librdkafka reads past the end of one that does not end so
    commit_for(members.offsets(), [GroupOffset(*place, offset, note, committed.leader_epoch)])


def read(member: GroupInput, count: int, within_s: float = 30.0) -> list[tuple[int, int]]:
    """Return (partition, offset) of the next records."""
    found: list[tuple[int, int]] = []
    deadline = time.monotonic() + within_s
    while len(found) < count and time.monotonic() < deadline:
        fetched = member.poll(0.1, 100)
        found += [(place.partition, offset) for place, offset in zip(fetched.places, fetched.offsets, strict=True)]
    return found


def poll_for_long(member: GroupInput) -> None:
    """Poll until something is wrong, but not for ever."""
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        member.poll(0.1, 100)


def damaged(records: memoryview, *others: Any) -> Answered:
    """Return a broker's answer with its last bit changed; this replaces `Answered`."""
    changed = bytearray(records)
    if changed:
        changed[-1] ^= 1
    return Answered(memoryview(changed), *others)
