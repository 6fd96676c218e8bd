"""The brokers of a cluster: partition leaders, coordinators, and a connection to each broker that is needed.

Only read requests are sent here. They change nothing and may be repeated.
"""

import logging
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from confluent_kafka import KafkaError

from fencepost.kafka.wire.access import Access, Address
from fencepost.kafka.wire.connection import Connection, connect
from fencepost.kafka.wire.errors import BUSY, AnswerError, LostError, ensure

T = TypeVar("T")

log = logging.getLogger(__name__)

GROUP, TRANSACTION = 0, 1
"""Kinds of coordinators."""

TOPIC_RESOURCE = 2
"""A type of resources, as requests about settings and ACLs name them."""

_MAX_MESSAGE_BYTES, _COMPRESSION = "max.message.bytes", "compression.type"
_AS_SENT = "producer"
_ASK_AGAIN_S = 0.02
_NEW_TOPIC_S = 30.0
_SOON_S = 2.0
_STALE_S = 60.0
_MOST_IDS = 1024
_NOT_YET = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE})
_NO_COORDINATOR = BUSY | {KafkaError.COORDINATOR_NOT_AVAILABLE}


class Taking(NamedTuple):
    """The batch size limit and the compression of a topic, as far as its settings are readable.

    A `compression` of None keeps the batch's own. Otherwise the broker recompresses the batch and checks the new size.
    """

    most_bytes: int | None
    compression: str | None


@dataclass
class Experience:
    """What outlives a `Cluster`, if its successor is given it: without it, that would begin with the same bad server.

    Attributes:
        failed_s: when connecting to servers last failed.
        newest: the newest epochs of leaders, by topic: its id, and the epochs by partition.
        stale_since_s: since when all metadata of a topic is older than what is known.
    """

    failed_s: dict[Address, float] = field(default_factory=dict)
    newest: dict[str, tuple[Any, dict[int, int]]] = field(default_factory=dict)
    stale_since_s: dict[str, float] = field(default_factory=dict)


class Cluster:
    """Metadata and connections for one incarnation. For one thread at a time; `close` is for any thread."""

    def __init__(
        self,
        access: Access,
        metadata_age_s: float,
        *,
        awaits_topics: bool = True,
        experience: Experience | None = None,
    ) -> None:
        """`metadata_age_s`: the maximum age of a topic's metadata. Nothing is sent yet.

        `awaits_topics`: whether to create a missing topic, if brokers create topics automatically, and wait for it.
        """
        self._access = access
        self._age_s = metadata_age_s
        self._awaits_topics = awaits_topics
        self._addresses: dict[int, Address] = {}
        self._connections: dict[int, Connection] = {}
        self._first: Connection | None = None
        self._experience = experience or Experience()
        self._topics: dict[str, tuple[float, list[int]]] = {}
        self._epochs: dict[str, list[int]] = {}
        self._taking: dict[str, Taking] = {}
        self._is_closed = False

    def connections(self) -> list[Connection]:
        """Return the connections to leaders and coordinators."""
        return list(self._connections.values())

    def leaders(self, topic: str, deadline_s: float) -> list[int]:
        """Return the node that leads each partition of a topic; -1 for a partition without a leader.

        Raises AnswerError, LostError.
        """
        asked_s, found = self._topics.get(topic, (0.0, []))
        if not found or time.monotonic() - asked_s > self._age_s:
            until_s = min(deadline_s, time.monotonic() + _NEW_TOPIC_S * self._awaits_topics)
            found = retry_on(lambda: self._metadata(topic, deadline_s), _NOT_YET, until_s, _ASK_AGAIN_S)
            self._topics[topic] = (time.monotonic(), found)
            self._taking.pop(topic, None)
        return found

    def epochs(self, topic: str) -> list[int]:
        """Return the leader epoch of each partition from the same metadata; -1 if the broker is too old."""
        return self._epochs[topic]

    def taking(self, topic: str, deadline_s: float) -> Taking:
        """Return the limits of a topic, which are as old as the metadata of its leaders.

        Raises LostError, UnsupportedError.
        """
        if topic not in self._taking:
            self._taking[topic] = self._settings_of(topic, deadline_s)
        return self._taking[topic]

    def forget(self, topic: str) -> None:
        """Discard the metadata of a topic, because a broker's answer contradicts it."""
        self._topics.pop(topic, None)
        self._taking.pop(topic, None)

    def coordinator(self, kind: int, key: str, deadline_s: float) -> int:
        """Return the node that coordinates a group or transactional id. Raises AnswerError, LostError."""
        return retry_on(lambda: self._coordinator(kind, key, deadline_s), _NO_COORDINATOR, deadline_s, _ASK_AGAIN_S)

    def ask(self, request: Any, newest: int, deadline_s: float, *, oldest: int = 0) -> Any:
        """Ask any broker: the one that was asked last, or else the first server that answers.

        Raises LostError, UnsupportedError.
        """
        if self._first is not None and not self._first.is_usable():
            self._first.close()
            self._first = None
        if self._first is None:
            self._first = self._any(deadline_s)
            self._ensure_open(self._first)
        return self._first.ask(request, self._first.version(request, oldest, newest), deadline_s)

    def metadata(self, topics: Collection[str] | None, deadline_s: float, *, has_rights: bool = False) -> Any:
        """Return the brokers that are up, and these topics (None: all), as one broker sees them. Creates no topic.

        `has_rights`: whether to include what the principal may do with each topic. Raises LostError, or AnswerError if
        leaders of `topics` are out of date.
        """
        from fencepost.kafka.kafka_library import MetadataRequest as Request

        wanted = None if topics is None else [Request.MetadataRequestTopic(name=each) for each in topics]
        request = Request(
            topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=has_rights
        )
        answer = self.ask(request, 12, deadline_s)
        self._learn(answer.brokers)
        for topic in answer.topics if topics is not None else ():
            if not topic.error_code:
                self._ensure_fresh(topic.name, topic)
        return answer

    def coordinators(self, kind: int, keys: Collection[str], deadline_s: float) -> dict[str, int | AnswerError]:
        """Return the node that coordinates each group or transactional id, or the error for it (KIP-699).

        A coordinator that is not available is not waited for. Raises LostError, UnsupportedError.
        """
        from fencepost.kafka.kafka_library import FindCoordinatorRequest

        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        found: dict[str, int | AnswerError] = {}
        for each in self.ask(request, 4, deadline_s, oldest=4).coordinators:
            found[each.key] = each.node_id
            if each.error_code:
                found[each.key] = AnswerError(each.error_code, f"coordinator of {each.key}", each.error_message)
            else:
                self._learn([each])
        return found

    def connection(self, node: int, deadline_s: float) -> Connection:
        """Return the connection to a node: the present one, or a new one if that has ended and no answer is due.

        If it may have ended, answers that are due are taken first. Raises LostError, AnswerError.
        """
        known = self._connections.get(node)
        if known is not None:
            if known.unanswered and known.may_have_ended:
                known.take(deadline_s)
            if known.unanswered or known.is_usable():
                return known
            known.close()
        if node not in self._addresses:
            raise AnswerError(KafkaError.BROKER_NOT_AVAILABLE, f"the address of broker {node}")
        address = self._addresses[node]
        made = self._just_asked(address) if known is None else None
        if made is not None:
            self._first = None  # whoever asks again makes another one
        made = self._connections[node] = made or connect(address, self._access, deadline_s)
        self._ensure_open(made)
        return made

    def _just_asked(self, address: Address) -> Connection | None:
        """Return the connection on which brokers were asked if it is to this address: most clients ask only once.

        An older one may have been lost without a sign, together with that which it would replace.
        """
        first = self._first
        is_fresh = first is not None and first.address == address and not first.may_have_ended and first.is_usable()
        return first if is_fresh else None

    def let_go(self, node: int) -> None:
        """Close the connection to a node, even if answers are due."""
        known = self._connections.pop(node, None)
        if known is not None:
            known.close()

    def close(self) -> None:
        """Close all connections at once."""
        self._is_closed = True
        for connection in (self._first, *self._connections.copy().values()):
            if connection is not None:
                connection.close()

    def _ensure_open(self, made: Connection) -> None:
        if self._is_closed:  # by another thread in the meantime
            made.close()
            raise LostError("the client is closed", is_sent=False)

    def _any(self, deadline_s: float) -> Connection:
        """Return a connection to the first server that answers soon; if none does, to the first that answers at all.

        A server that never responds does not delay the others: servers that failed are tried last, so that the next
        call continues where the previous one ran out of time.
        """
        problem = LostError("no bootstrap.servers", is_sent=False)
        known = dict.fromkeys((*self._access.servers, *self._addresses.values()))
        addresses = sorted(known, key=lambda address: self._experience.failed_s.get(address, 0.0))
        for timeout_s in (*([_SOON_S] if len(addresses) > 1 else ()), self._access.answer_s):
            for address in addresses:
                try:
                    return connect(address, self._access, min(deadline_s, time.monotonic() + timeout_s))
                except AnswerError:  # it does not let us in: perhaps another one does, the next time
                    self._experience.failed_s[address] = time.monotonic()
                    raise
                except LostError as error:
                    problem = error
                    self._experience.failed_s[address] = time.monotonic()
                    if time.monotonic() >= deadline_s:  # the others have not failed
                        raise
        raise problem

    def _learn(self, nodes: Iterable[Any]) -> None:
        self._addresses.update({node.node_id: (node.host, node.port) for node in nodes})

    def _metadata(self, topic: str, deadline_s: float) -> list[int]:
        from fencepost.kafka.kafka_library import MetadataRequest

        wanted = [MetadataRequest.MetadataRequestTopic(name=topic)]
        answer = self.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=self._awaits_topics), 12, deadline_s)
        self._learn(answer.brokers)
        (found,) = answer.topics
        ensure(found.error_code, f"metadata of topic {topic}")
        partitions = sorted(found.partitions, key=lambda each: each.partition_index)
        self._ensure_fresh(topic, found)
        if all(each.leader_id < 0 for each in partitions):
            raise AnswerError(KafkaError.LEADER_NOT_AVAILABLE, f"metadata of topic {topic}")
        self._epochs[topic] = [each.leader_epoch for each in partitions]
        return [each.leader_id for each in partitions]

    def _ensure_fresh(self, topic: str, found: Any) -> None:
        """Refuse metadata of a broker that does not know the last elections yet. Another broker is asked the next time.

        A broker that still believes that it leads a partition would report a wrong end of its log. For the same reason
        the metadata of a cluster that was restored from a copy is refused, and a warning says so.
        """
        reported = {each.partition_index: each.leader_epoch for each in found.partitions}
        id_, known = self._experience.newest.get(topic, (found.topic_id, {}))
        if id_ != found.topic_id:
            known = {}
        if any(epoch < known.get(partition, epoch) for partition, epoch in reported.items()):
            if self._first is not None:
                self._experience.failed_s[self._first.address] = time.monotonic()
                self._first.close()
                self._first = None
            self._warn_of_stale(topic)
            raise AnswerError(KafkaError.LEADER_NOT_AVAILABLE, f"metadata of topic {topic}, which are out of date")
        self._experience.stale_since_s.pop(topic, None)
        self._experience.newest[topic] = (found.topic_id, known | reported)

    def _warn_of_stale(self, topic: str) -> None:
        now_s = time.monotonic()
        if now_s - self._experience.stale_since_s.setdefault(topic, now_s) > _STALE_S:
            self._experience.stale_since_s[topic] = now_s
            log.warning(
                "for %g s every broker that answers has reported older leaders of topic %s than are known, so nothing "
                "is read from it or written to it. If the cluster was restored from a copy, restart this worker",
                _STALE_S, topic,
            )  # fmt: skip

    def _settings_of(self, topic: str, deadline_s: float) -> Taking:
        from fencepost.kafka.kafka_library import DescribeConfigsRequest as Request

        wanted = Request.DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[_MAX_MESSAGE_BYTES, _COMPRESSION]
        )
        answer = self.ask(Request(resources=[wanted]), 4, deadline_s)
        reported = (each for result in answer.results for each in result.configs if not result.error_code)
        found = {each.name: each.value for each in reported if each.value is not None}
        most_bytes, compression = found.get(_MAX_MESSAGE_BYTES), found.get(_COMPRESSION)
        return Taking(None if most_bytes is None else int(most_bytes), None if compression == _AS_SENT else compression)

    def _coordinator(self, kind: int, key: str, deadline_s: float) -> int:
        from fencepost.kafka.kafka_library import FindCoordinatorRequest

        answer = self.ask(FindCoordinatorRequest(key=key, key_type=kind), 3, deadline_s)
        ensure(answer.error_code, f"coordinator of {key}", answer.error_message)
        self._learn([answer])
        return int(answer.node_id)


def known_id(cluster: Cluster, topic: str) -> str:
    """Return a topic's id from the metadata with its leaders; empty if there are none yet."""
    known = cluster._experience.newest.get(topic)
    return "" if known is None else text_of_id(known[0])


def known_partitions(cluster: Cluster, topic: str) -> int:
    """Return how many partitions a topic has, by the same metadata; 0 if there is none yet."""
    return len(cluster._topics.get(topic, (0.0, []))[1])


@lru_cache(_MOST_IDS)  # a ledger asks in every transaction
def text_of_id(id_: UUID | None) -> str:
    """Return a topic's id as librdkafka writes it: stored positions contain it. Kafka has - and _ for + and /.

    Brokers before 2.8 have no ids: then it is empty.
    """
    return "" if id_ is None else b64encode(id_.bytes).decode().rstrip("=")


def retry_on(call: Callable[[], T], codes: frozenset[int], deadline_s: float, pause_s: float) -> T:
    """Call again while the answer is one of `codes`, with pauses that grow to twenty times the first.

    Raises what the last call raised.
    """
    longest_s = 20 * pause_s
    while True:
        try:
            return call()
        except AnswerError as error:
            if error.code not in codes or time.monotonic() + pause_s > deadline_s:
                raise
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, longest_s)
