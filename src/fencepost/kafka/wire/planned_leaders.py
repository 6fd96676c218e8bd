"""The newest leaders that a planner knows, for the processes that carry out its plan (decision 0104).

An executor may first ask a broker that is cut off from the others, and does not believe it if it knows newer leaders.
"""

from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from fencepost.kafka.value.log_range import LogRange
from fencepost.kafka.wire.experience import NOT_LED, Led, experience_with
from fencepost.record import TopicPartition


def planned_leaders(conf: Mapping[str, Any], places: Iterable[TopicPartition]) -> dict[TopicPartition, Led]:
    """Return the newest leaders of these partitions, as far as any client of this process knows them.

    `conf` has the cluster's `bootstrap.servers`. Sends nothing.
    """
    topics = experience_with(conf).topics
    known = {place: topics[place.topic].led.get(place.partition) for place in places if place.topic in topics}
    return {place: led for place, led in known.items() if led is not None}


def planned_by_topic(conf: Mapping[str, Any], places: Iterable[TopicPartition]) -> dict[str, dict[str, list[int]]]:
    """Return what `planned_leaders` does, by topic and partition, as JSON can have it."""
    found: dict[str, dict[str, list[int]]] = {}
    for place, led in planned_leaders(conf, places).items():
        found.setdefault(place.topic, {})[str(place.partition)] = [*led]
    return found


def learn_planned(conf: Mapping[str, Any], planned: LogRange) -> None:
    """Record the leader that the planner of a range knew. Without the topic's id it may be another topic's."""
    if planned.led != NOT_LED and planned.topic_id:
        id_ = UUID(bytes=b64decode(planned.topic_id + "=="))
        experience_with(conf).learn(planned.place.topic, id_, {planned.place.partition: Led(*planned.led)})
