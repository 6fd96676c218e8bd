"""The brokers of a cluster: partition leaders, coordinators, and a connection to each broker that is needed.

Only read requests are sent here by itself: they change nothing and may be repeated. `ask_node` sends a caller's once.
"""

import logging
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from confluent_kafka import KafkaError

from fencepost.kafka.errors import AnswerError, LostError, UnsupportedError, ensure, retry_on
from fencepost.kafka.wire.access import Access, Address
from fencepost.kafka.wire.connection import Connection, connect
from fencepost.kafka.wire.coordinators import AnyBroker, Coordinators, ask_others
from fencepost.kafka.wire.experience import NOT_LED, QUIET_S, TopicView, experience_of, led_of
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

TOPIC_RESOURCE = 2
"""A type of resources, as requests about settings and ACLs name them."""

_MAX_MESSAGE_BYTES, _COMPRESSION = "max.message.bytes", "compression.type"
_AS_SENT = "producer"
_ASK_AGAIN_S = 0.02
NO_TOPICS_AGE_S = 300.0  # for those who look up no topic
_CONNECT_S = 10.0  # a broker that stands still takes connections and never answers: another one may be the right one
_NEW_TOPIC_S = 30.0
_LOOK_S = 3.0
_MOST_IDS = 1024
_NOT_YET = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE})


Places = Callable[[], Collection[TopicPartition]]


class Taking(NamedTuple):
    """The batch size limit and the compression of a topic, as far as its settings are readable.

    A `compression` of None keeps the batch's own. Otherwise the broker recompresses the batch and checks the new size.
    """

    most_bytes: int | None
    compression: str | None


class _Known(NamedTuple):
    """The leaders of a topic that this client uses. `asked_s` is when it asked for them."""

    asked_s: float
    view: TopicView
    leaders: list[int]
    epochs: list[int]


class Cluster:
    """Metadata and connections for one incarnation. For one thread at a time; `close` is for any thread."""

    def __init__(
        self,
        access: Access,
        metadata_age_s: float,
        *,
        awaits_topics: bool = True,
    ) -> None:
        """`metadata_age_s`: the maximum age of a topic's metadata. Nothing is sent yet.

        `awaits_topics`: whether to create a missing topic, if brokers create topics automatically, and wait for it.
        """
        self._access = access
        self._age_s = metadata_age_s
        self._awaits_topics = awaits_topics
        self._connections: dict[int, Connection] = {}
        self._experience = experience_of(access.servers)
        self._any = AnyBroker(access, self._experience)
        self.coordinators = Coordinators(self._any, self._experience)
        self._topics: dict[str, _Known] = {}
        self._taking: dict[str, Taking] = {}
        self._is_closed = False

    def connections(self) -> list[Connection]:
        """Return the connections to leaders and coordinators."""
        return list(self._connections.values())

    def leaders(self, topic: str, deadline_s: float) -> list[int]:
        """Return the node that leads each partition of a topic; -1 for a partition without a leader.

        Raises AnswerError, LostError.
        """
        known = self._topics.get(topic)
        if known is None or time.monotonic() - known.asked_s > self._age_s:
            until_s = min(deadline_s, time.monotonic() + _NEW_TOPIC_S * self._awaits_topics)
            retry_on(lambda: self._metadata(topic, deadline_s), _NOT_YET, until_s, _ASK_AGAIN_S)
            self._taking.pop(topic, None)
            known = self._adopt(topic, time.monotonic())
        elif known.view is not self._experience.topics[topic]:  # another client of this process has asked
            known = self._adopt(topic, known.asked_s)
        return known.leaders

    def _adopt(self, topic: str, asked_s: float) -> _Known:
        view = self._experience.topics[topic]
        led = [view.led.get(each, NOT_LED) for each in range(max(view.led, default=-1) + 1)]
        found = _Known(asked_s, view, [each.node for each in led], [each.epoch for each in led])
        self._topics[topic] = found
        return found

    def epochs(self, topic: str) -> list[int]:
        """Return the leader epoch of each partition from the same metadata; -1 if the broker is too old."""
        return self._topics[topic].epochs

    def taking(self, topic: str, deadline_s: float) -> Taking:
        """Return the limits of a topic, which are as old as the metadata of its leaders.

        Raises LostError, UnsupportedError.
        """
        if topic not in self._taking:
            self._taking[topic] = self._settings_of(topic, deadline_s)
        return self._taking[topic]

    def forget(self, topic: str) -> None:
        """Discard the metadata of a topic, because a broker's answer contradicts it. Another broker is asked next."""
        known = self._topics.get(topic)
        if known is not None:
            self._topics[topic] = known._replace(asked_s=float("-inf"))
        self._taking.pop(topic, None)
        self._any.move_on()

    def renew(self, topics: Collection[str], deadline_s: float) -> None:
        """Ask another broker than before who leads these topics, because nothing new comes.

        Does nothing if some client of this process has just done so. An answer that does not come is not missed.
        """
        due = self._experience.due(topics)
        try:
            if not self._experience.brokers:
                self.metadata([], deadline_s)
            if due:
                self._any.move_on(at_once=True)
                self.metadata(due, deadline_s)
        except (AnswerError, LostError, UnsupportedError) as error:
            log.debug("the leaders of %s cannot be looked up now: %s", ", ".join(due), error)

    def ask(self, request: Any, newest: int, deadline_s: float, *, oldest: int = 0) -> Any:
        """Ask any broker. Raises AnswerError, LostError, UnsupportedError."""
        return self._any.ask(request, newest, deadline_s, oldest=oldest)

    def metadata(
        self, topics: Collection[str] | None, deadline_s: float, *, has_rights: bool = False, is_sure: bool = False
    ) -> Any:
        """Return the brokers that are up, and these topics (None: all), as one broker sees them. Creates no topic.

        `has_rights`: whether to include what the principal may do with each topic. `is_sure`: ask two brokers, and
        return the newer leaders. A broker that is cut off from the others knows neither newer leaders nor topics.
        Raises LostError, or AnswerError if leaders of `topics` are out of date, or two brokers differ about a topic.
        """
        from fencepost.kafka.kafka_library import MetadataRequest as Request

        wanted = None if topics is None else [Request.MetadataRequestTopic(name=each) for each in topics]
        request = Request(
            topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=has_rights
        )
        answer = self.ask(request, 12, deadline_s)
        self._experience.learn_nodes(answer.brokers, is_all=True)
        answers = [(self._any.address, answer)]
        if is_sure:
            answers += ask_others(self._any, self._experience, request, 12, deadline_s)
            seen = [(address, {topic.name: led_of(topic) for topic in each.topics}) for address, each in answers]
            add_newer(answer, [other for _, other in answers[1:]])
        for topic in answer.topics if topics is not None else ():
            if not topic.error_code:
                self._ensure_fresh(topic)
        if is_sure:
            self._experience.judge(seen)
        return answer

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
        address = self._experience.addresses.get(node)
        if address is None:
            raise AnswerError(KafkaError.BROKER_NOT_AVAILABLE, f"the address of broker {node}")
        made = self._any.give(address) if known is None else None
        soon_s = min(deadline_s, time.monotonic() + _CONNECT_S)
        made = self._connections[node] = made or connect(address, self._access, soon_s)
        if self._is_closed:  # by another thread in the meantime
            made.close()
            raise LostError("the client is closed", is_sent=False)
        return made

    def has_left(self, address: Address, places: Collection[TopicPartition], deadline_s: float) -> bool:
        """Return whether the broker at this address no longer leads one of the `places`, or a coordinator has moved.

        A leader that asks a coordinator that stands still does not answer either.
        """
        self.renew({topic for topic, _ in places}, deadline_s)
        nodes = {node for node, each in self._experience.addresses.items() if each == address}
        return any(self._experience.leader(*place) not in (-1, *nodes) for place in places) or (
            self.coordinators.have_moved(deadline_s)
        )

    def let_go(self, node: int) -> None:
        """Close the connection to a node, even if answers are due."""
        known = self._connections.pop(node, None)
        if known is not None:
            known.close()

    def close(self) -> None:
        """Close all connections at once."""
        self._is_closed = True
        self._any.close()
        for connection in self._connections.copy().values():
            connection.close()

    def _metadata(self, topic: str, deadline_s: float) -> None:
        from fencepost.kafka.kafka_library import MetadataRequest

        wanted = [MetadataRequest.MetadataRequestTopic(name=topic)]
        answer = self.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=self._awaits_topics), 12, deadline_s)
        self._experience.learn_nodes(answer.brokers, is_all=True)
        (found,) = answer.topics
        ensure(found.error_code, f"metadata of topic {topic}")
        self._ensure_fresh(found)
        if all(each.leader_id < 0 for each in found.partitions):
            raise AnswerError(KafkaError.LEADER_NOT_AVAILABLE, f"metadata of topic {topic}")

    def _ensure_fresh(self, topic: Any) -> None:
        """Refuse metadata of a broker that does not know the last elections yet. Another broker is asked the next time.

        A broker that still believes that it leads a partition would report a wrong end of its log. For the same reason
        the metadata of a cluster that was restored from a copy is refused, and a warning says so.
        """
        if not self._experience.learn(topic.name, topic.topic_id, led_of(topic)):
            self._any.distrust()
            raise AnswerError(KafkaError.LEADER_NOT_AVAILABLE, f"metadata of topic {topic.name}, which are out of date")

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


def known_id(cluster: Cluster, topic: str) -> str:
    """Return a topic's id from the metadata with its leaders; empty if there are none yet."""
    known = cluster._topics.get(topic)
    return "" if known is None else text_of_id(known.view.id)


def known_partitions(cluster: Cluster, topic: str) -> int:
    """Return how many partitions a topic has, by the same metadata; 0 if there is none yet."""
    known = cluster._topics.get(topic)
    return 0 if known is None else len(known.leaders)


def known_leader(cluster: Cluster, place: TopicPartition) -> int:
    """Return the node that leads a partition, as any client of this process has learned; -1 if that is not known."""
    return cluster._experience.leader(*place)


def add_newer(first: Any, others: Sequence[Any]) -> None:
    """Change an answer to Metadata: let it have the newest leaders that any other answer has.

    Raises AnswerError if they differ about which topics there are.
    """
    for other in others:
        found = {topic.name: topic for topic in other.topics}
        for topic in first.topics:
            also = found.get(topic.name)
            if also is None or (also.topic_id, also.error_code) != (topic.topic_id, topic.error_code):
                raise AnswerError(KafkaError.LEADER_NOT_AVAILABLE, f"topic {topic.name}, about which brokers differ")
            newest = {each.partition_index: each for each in topic.partitions}
            for each in also.partitions:
                known = newest.get(each.partition_index)
                if known is None or each.leader_epoch > known.leader_epoch:
                    newest[each.partition_index] = each
            topic.partitions = list(newest.values())


@lru_cache(_MOST_IDS)  # a ledger asks in every transaction
def text_of_id(id_: UUID | None) -> str:
    """Return a topic's id as librdkafka writes it: stored positions contain it. Kafka has - and _ for + and /.

    Brokers before 2.8 have no ids: then it is empty. Newer ones of a cluster that has none yet report zeros.
    """
    return b64encode(id_.bytes).decode().rstrip("=") if id_ is not None and id_.int else ""


def ask_node(cluster: Cluster, node: int, request: Any, versions: tuple[int, int], deadline_s: float) -> Any:
    """Return the answer of a coordinator to a request, which is sent once. Raises what `take` raises."""
    found: list[Any] = []
    connection = cluster.connection(node, deadline_s)
    connection.send(request, connection.version(request, *versions), found.append, deadline_s)
    take(cluster, connection, deadline_s)
    return found[0]


def take(cluster: Cluster, connection: Connection, deadline_s: float, leave: int = 0, places: Places = tuple) -> None:
    """Take answers until only `leave` are due. Also raises the errors of their callbacks.

    After some seconds without them, other brokers are asked whether this one still leads the `places`, and whether a
    coordinator has moved. If so, this raises LostError, as it does when the time is up, and when no answer came for
    `socket.timeout.ms`.
    """
    due, since_s = connection.unanswered, time.monotonic()
    while not connection.take_coming(min(deadline_s, time.monotonic() + QUIET_S), leave):
        now_s = time.monotonic()
        if connection.unanswered < due:
            due, since_s = connection.unanswered, now_s
        if now_s >= min(deadline_s, since_s + connection.access.answer_s):
            connection.take(now_s, leave)
        elif cluster.has_left(connection.address, places(), min(deadline_s, time.monotonic() + _LOOK_S)):
            host, port = connection.address
            connection.close()
            why = f"{host}:{port} does not answer, and another broker has taken over as leader or coordinator"
            raise LostError(why, is_sent=True)
