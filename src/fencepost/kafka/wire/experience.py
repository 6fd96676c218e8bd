"""What the clients of a process have learned about a cluster: its brokers, and who leads (decision 0104).

A broker that is cut off from the controllers and the other brokers serves clients with what it knew before. So older
leaders are never believed once newer ones are known, and questions that any broker can answer go to one after another.
Planners send the newest leaders that they know to the processes that carry out their plans.
"""

import logging
import random
import threading
import time
from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from fencepost.kafka.value.position import LogRange
from fencepost.kafka.wire.access import Address, addresses_of
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

QUIET_S = 5.0
"""After this long without anything new, another broker is asked for the leaders."""
_LAST_S = 30.0  # how long a server that failed is asked last
_STALE_S = 60.0
_MOST_KEYS = 10_000
_NO_ID = UUID(int=0)


class Led(NamedTuple):
    """The leader of a partition: its epoch, and its node; -1 if there is none."""

    epoch: int
    node: int


NOT_LED = Led(-1, -1)


@dataclass(frozen=True, slots=True)
class TopicView:
    """The newest leaders of a topic's partitions that any broker has reported. `id` is None for old brokers."""

    id: UUID | None
    led: Mapping[int, Led]


class _Turns:
    """Whose turn it is to be asked what any server can answer. Thread-safe."""

    def __init__(self) -> None:
        self._failed_s: dict[Address, float] = {}
        self._asked: dict[Address, float] = {}  # numbers, in the order of the questions; negative before the first one
        self._in_use = threading.Lock()
        self.sure: tuple[Address, ...] = ()
        """The brokers that knew the newest leaders when two were asked last."""

    def in_order(self, addresses: Iterable[Address]) -> list[Address]:
        """Return these servers: the one that was not asked for longest is the first.

        A server that failed lately is among the last: one that never responds does not delay the others.
        """
        since_s = time.monotonic() - _LAST_S
        with self._in_use:
            for address in addresses:
                self._asked.setdefault(address, -random.random())
            failed = {each: failed_s for each, failed_s in self._failed_s.items() if failed_s > since_s}
            return sorted(dict.fromkeys(addresses), key=lambda each: (failed.get(each, 0.0), self._asked[each]))

    def asked(self, address: Address) -> None:
        """Record that a server is asked now: the others are next."""
        with self._in_use:
            self._asked[address] = max((0.0, *self._asked.values())) + 1

    def failed(self, address: Address) -> None:
        """Record that a server did not answer, or that what it knows is out of date."""
        with self._in_use:
            self._failed_s[address] = time.monotonic()


class _StaleTopics:
    """The topics of which only older leaders are reported than are known."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def drop(self, topic: str) -> None:
        self._since_s.pop(topic, None)

    def add(self, topic: str) -> None:
        """Record that older leaders were reported, and warn if that has been so for long."""
        now_s = time.monotonic()
        if now_s - self._since_s.setdefault(topic, now_s) > _STALE_S:
            self._since_s[topic] = now_s
            log.warning(
                "for %g s every broker that answers has reported older leaders of topic %s than are known, so nothing "
                "is read from it or written to it. If the cluster was restored from a copy, restart this worker",
                _STALE_S, topic,
            )  # fmt: skip


class Experience:
    """One cluster, as all clients of this process know it. Thread-safe."""

    def __init__(self) -> None:
        self.addresses: dict[int, Address] = {}
        """The addresses of all brokers that were ever reported."""
        self.topics: dict[str, TopicView] = {}
        """The newest leaders. A view is replaced, never changed."""
        self.answered: dict[tuple[int, str], Address] = {}
        """Who answered last which broker coordinates a group or transactional id, by its kind and name."""
        self._brokers: frozenset[Address] = frozenset()  # that are up, as reported last
        self.turns = _Turns()
        self._renewed_s: dict[str, float] = {}
        self._stale = _StaleTopics()
        self._in_use = threading.Lock()

    @property
    def brokers(self) -> frozenset[Address]:
        """Return the addresses of the brokers that are up, as reported last; none if no broker was asked yet."""
        return self._brokers

    def servers(self, known: Iterable[Address], *, has_others: bool = True) -> list[Address]:
        """Return the known servers and the brokers that are up, in the order in which to ask them."""
        return self.turns.in_order((*known, *(self._brokers if has_others else ())))

    def learn_nodes(self, nodes: Iterable[Any], *, is_all: bool = False) -> None:
        """Record addresses. `is_all`: these are all brokers that are up."""
        found = {node.node_id: (node.host, node.port) for node in nodes}
        self.addresses.update(found)
        if is_all:
            self._brokers = frozenset(found.values())

    def leader(self, topic: str, partition: int) -> int:
        """Return the node that leads a partition, as far as that is known; -1 if it is not."""
        view = self.topics.get(topic)
        return -1 if view is None else view.led.get(partition, NOT_LED).node

    def learn(self, topic: str, id_: UUID | None, led: Mapping[int, Led]) -> bool:
        """Record the leaders of a topic. Returns False, and records nothing, if newer ones are known of a partition.

        A topic without an id may have been created again, with which its epochs begin again: they are believed.
        """
        id_ = None if id_ == _NO_ID else id_
        with self._in_use:
            known = self.topics.get(topic)
            if known is None or id_ is None or known.id != id_:
                if known is None or known.id != id_ or known.led != led:
                    self.topics[topic] = TopicView(id_, led)
            elif any(known.led[each].epoch > led[each].epoch for each in known.led.keys() & led.keys()):
                self._stale.add(topic)
                return False
            elif any(known.led.get(each) != led[each] for each in led):
                self.topics[topic] = TopicView(id_, {**known.led, **led})
            self._stale.drop(topic)
        return True

    def judge(self, seen: Sequence[tuple[Address | None, Mapping[str, Mapping[int, Led]]]]) -> None:
        """Record which brokers' metadata are as new as what is known by now. The others are asked last for a while."""
        sure = []
        for address, topics in seen:
            if address is not None and all(self._is_newest(topic, led) for topic, led in topics.items()):
                sure.append(address)
            elif address is not None:
                self.turns.failed(address)
        self.turns.sure = tuple(each for each in sure if each in self._brokers) or self.turns.sure

    def _is_newest(self, topic: str, led: Mapping[int, Led]) -> bool:
        view = self.topics.get(topic)
        return view is None or all(view.led.get(each, NOT_LED).epoch <= led[each].epoch for each in led)

    def due(self, topics: Collection[str]) -> list[str]:
        """Return the topics whose leaders nobody in this process has looked up for some time: the caller will."""
        now_s = time.monotonic()
        with self._in_use:
            found = [each for each in topics if now_s - self._renewed_s.get(each, float("-inf")) > QUIET_S]
            self._renewed_s |= dict.fromkeys(found, now_s)
        return found

    def record_coordinator(self, kind: int, key: str, address: Address) -> None:
        """Record who answered which broker coordinates a group or transactional id."""
        if len(self.answered) > _MOST_KEYS:
            self.answered.clear()
        self.answered[kind, key] = address


_clusters: dict[frozenset[Address], Experience] = {}
_in_use = threading.Lock()


def experience_of(servers: Iterable[Address]) -> Experience:
    """Return the experience with the cluster of these bootstrap servers, whatever their order."""
    with _in_use:
        return _clusters.setdefault(frozenset(servers), Experience())


def experience_with(conf: Mapping[str, Any]) -> Experience:
    """Return the experience with the cluster that a client's settings name. Sends nothing."""
    return experience_of(addresses_of(str(conf.get("bootstrap.servers", ""))))


def led_of(topic: Any) -> dict[int, Led]:
    """Return the leaders of a topic from an answer to Metadata."""
    return {each.partition_index: Led(each.leader_epoch, each.leader_id) for each in topic.partitions}


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
