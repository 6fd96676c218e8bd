"""What all audits ask about the logs of partitions."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.produced import Produced, read_produced
from fencepost.record import TopicPartition

_AGAIN_S = 0.1

Place = tuple[str, int]

OnPartition = Callable[[TopicPartition, int, int], None]
"""Called with a partition, the offset up to which it was read, and its end."""


def read_log(
    conf: Mapping[str, Any], place: TopicPartition, start: int, end: int, on_read: OnPartition | None = None
) -> Iterator[Produced]:
    """Yield the committed records from offset `start` up to before `end`, and say how far that is.

    `conf` is made by `range_conf`. Raises what `read_produced` raises.
    """
    if start >= end:
        return
    for piece in read_produced(conf, place, start, end):
        yield piece
        if on_read is not None:
            on_read(place, piece.offset + len(piece), end)


def await_committed(admin: Admin, ends: Mapping[Place, int], wait_s: float) -> dict[Place, int]:
    """Wait until everything before these offsets is committed or aborted. Returns up to where it is in the end."""
    until_s = time.monotonic() + wait_s
    while True:
        stable = admin.offsets.ends([*ends], read_committed=True)
        if all(stable[place] >= end for place, end in ends.items()) or time.monotonic() >= until_s:
            return stable
        time.sleep(_AGAIN_S)


def existing(admin: Admin, places: Collection[TopicPartition]) -> dict[TopicPartition, str]:
    """Return the partitions that exist, in their order, with the ids of their topics."""
    topics = admin.topics.get_all({place.topic for place in places})
    there = (place for place in places if place.topic in topics)
    return {place: topics[place.topic].id for place in there if place.partition < topics[place.topic].partitions}


def compacted(admin: Admin, places: Collection[TopicPartition]) -> set[str]:
    """Return which of the partitions' topics are compacted: any of their records may be removed."""
    topics = sorted({place.topic for place in places})
    policies = admin.configs.get_all(topics)
    return {topic for topic in topics if "compact" in (policies[topic].get("cleanup.policy") or "")}
