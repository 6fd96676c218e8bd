"""Requests about a cluster, its topics, groups and transactions, each sent to the broker that can answer it.

kafka-python's classes encode the requests and decode the answers.

`lock_out_by_request` takes a transactional id only to fence its holder, with a request of a few bytes instead of a
producer: InitProducerId that names no producer, as Kafka's own admin client does (`fenceProducers`). The coordinator
answers once the newer epoch is in its log and nothing of the older one's transaction is left. A producer asks for the
same, and costs three connections, four threads and five times the processor time.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import KafkaError

from fencepost.kafka.errors import (
    BUSY,
    MOVED,
    NOT_AUTHENTICATED,
    AnswerError,
    KafkaRequestError,
    KafkaUnavailableError,
    LostError,
    UnsupportedError,
    ensure,
    request_failure,
    retry,
    retry_on,
    translate,
)
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.setting.client_settings import transaction_timeout_ms
from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.cluster import NO_TOPICS_AGE_S, Cluster, ask_node, known_id
from fencepost.kafka.wire.coordinators import TRANSACTION

log = logging.getLogger(__name__)

_CLIENT_ID = "fencepost"
_MOST_S = 15.0  # then a producer tries
_ASK_AGAIN_S, _MOVED_AGAIN_S = 0.01, 0.05

_ANSWER_S = 60.0


def lock_out_by_request(conf: Mapping[str, Any], transactional_id: str, timeout_s: float) -> bool:
    """Fence the holder of an id and end its transaction; returns whether that is done, for certain (E2).

    `conf` holds a producer's settings in librdkafka's names. Otherwise a producer has to take the id: it finds out and
    reports what was in the way (a refusal, a broker that does not answer, a way to connect that only librdkafka knows).
    A request that was not answered may be carried out late, and fence the holder that the id has then.
    """
    try:
        _lock_out(conf, transactional_id, time.monotonic() + min(timeout_s, _MOST_S))
    except Exception as error:  # a producer tries then, and reports what is wrong
        log.debug("transactional id %s has to be locked out by a producer: %r", transactional_id, error)
        return False
    return True


def _lock_out(conf: Mapping[str, Any], id_: str, deadline_s: float) -> None:
    from fencepost.kafka.kafka_library import InitProducerIdRequest

    request = InitProducerIdRequest(
        transactional_id=id_, transaction_timeout_ms=transaction_timeout_ms(conf), producer_id=-1, producer_epoch=-1
    )
    with closing(Cluster(replace(Access.of(conf), client_id=_CLIENT_ID), NO_TOPICS_AGE_S)) as cluster:

        def ask(node: int) -> None:
            answer = ask_node(cluster, node, request, (0, 4), deadline_s)
            ensure(answer.error_code, f"InitProducerId of {id_}")

        def find_and_ask() -> None:
            node = cluster.coordinators.find(TRANSACTION, id_, deadline_s)
            retry_on(lambda: ask(node), BUSY, deadline_s, _ASK_AGAIN_S)  # busy: its transaction is being ended

        retry_on(find_and_ask, MOVED, deadline_s, _MOVED_AGAIN_S)


T = TypeVar("T")
Place = tuple[str, int]
Refusals = dict[str, Exception]
"""The errors, by topic. A topic that is not in it was changed."""

FIRST_ANSWER_S = 2.0
_METADATA_AGE_S = 0.0  # leaders are looked up for each question
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5
_REFUSED_S = 1.0  # after refused credentials: callers ask again at once, and too many logins may lock an account
_MOST_IDLE = 4  # sets of connections: brokers close idle ones, and their sockets stay until they are used again
_MOVED = frozenset({KafkaError.NOT_CONTROLLER, KafkaError.BROKER_NOT_AVAILABLE})


class RequestClient:
    """Asks one cluster, as the principal of `conf` (librdkafka's names). Each request has `timeout_s` to be answered.

    Connects at the first request, and again after a failure. Thread-safe: each thread that asks has connections of its
    own meanwhile. The methods that send a request are called within `run`, which converts the AnswerError, LostError or
    UnsupportedError that they raise.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float) -> None:
        self._guard = ForkGuard()
        self._conf = dict(conf)
        self._timeout_s = timeout_s
        self._idle: list[Cluster] = []
        self._closes = 0
        self._running = threading.local()
        self.sent = 0  # requests so far

    def close(self) -> None:
        """Close the connections. Idempotent; another request connects again. For any thread."""
        self._closes += 1
        while (cluster := self._taken()) is not None:
            cluster.close()

    def run(self, doing: str, ask: Callable[[], T], timeout_s: float | None = None) -> T:
        """Return what `ask` returns, a function that sends requests with the methods below.

        If a broker cannot be reached, it is called again until the time is up, since a leader or coordinator may have
        moved to another broker. A request that may have been carried out is not repeated. Raises
        KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError; their texts contain `doing`.
        """
        self._guard.check("The client for requests")
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        until_s, pause_s, closes = time.monotonic() + wait_s, _PAUSE_S, self._closes
        while True:
            cluster = self._taken()
            try:
                cluster = cluster or self._made()
                self._running.cluster, self._running.wait_s = cluster, wait_s
                found = ask()
            except BaseException as error:
                if cluster is not None:
                    cluster.close()  # addresses may be those of brokers that are gone
                if not isinstance(error, AnswerError | LostError | UnsupportedError | OSError):
                    raise
                if isinstance(error, AnswerError) and error.code in NOT_AUTHENTICATED:
                    time.sleep(max(0.0, min(_REFUSED_S, until_s - time.monotonic())))
                has_moved = isinstance(error, AnswerError) and error.code in _MOVED
                is_unsent = isinstance(error, LostError) and not error.is_sent
                if not (has_moved or is_unsent) or time.monotonic() + pause_s > until_s:
                    raise request_failure(error, doing, str(self._conf.get("bootstrap.servers", ""))) from error
            else:
                self._put_back(cluster, closes)
                return found
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)

    def ask(self, request: Any, node: int | None = None, *, oldest: int = 0, newest: int | None = None) -> Any:
        """Return a broker's answer: that of `node`, whose address is known from an earlier answer, or else of any.

        The version is the newest that both sides support, within `oldest` and `newest`.
        """
        last = request.max_version if newest is None else newest

        def ask(cluster: Cluster, deadline_s: float) -> Any:
            if node is None:
                return cluster.ask(request, last, deadline_s, oldest=oldest)
            connection = cluster.connection(node, deadline_s)
            return connection.ask(request, connection.version(request, oldest, last), deadline_s)

        return self._sent(ask)

    def metadata(self, topics: Collection[str] | None, *, has_rights: bool = False, is_sure: bool = False) -> Any:
        """Return the brokers that are up, and these topics (None: all), as `Cluster.metadata` does."""
        return self._sent(
            lambda cluster, deadline_s: cluster.metadata(topics, deadline_s, has_rights=has_rights, is_sure=is_sure)
        )

    def brokers(self) -> list[int]:
        """Return the nodes of all brokers that are up."""
        return [broker.node_id for broker in self.metadata([]).brokers]

    def controller(self) -> int:
        """Return the node that takes changes of topics."""
        return int(self.metadata([]).controller_id)

    def leader(self, topic: str, partition: int) -> int:
        """Return the node that leads a partition."""
        leaders = self.leaders(topic)
        leader = leaders[partition] if partition < len(leaders) else -1
        if leader < 0:
            raise AnswerError(KafkaError.LEADER_NOT_AVAILABLE, f"the leader of {topic}-{partition}")
        return leader

    def leaders(self, topic: str) -> list[int]:
        """Return the node that leads each partition of a topic; -1 for a partition without a leader."""
        return self._sent(lambda cluster, deadline_s: cluster.leaders(topic, deadline_s))

    def coordinator(self, kind: int, key: str) -> int:
        """Return the node that coordinates a group or transactional id."""
        found = self.coordinators(kind, [key])[key]
        if isinstance(found, AnswerError):
            raise found
        return found

    def coordinators(self, kind: int, keys: Collection[str]) -> dict[str, int | AnswerError]:
        """Return the node that coordinates each group or transactional id, or the error for it."""
        return self._sent(lambda cluster, deadline_s: cluster.coordinators.find_all(kind, keys, deadline_s))

    def _sent(self, send: Callable[[Cluster, float], T]) -> T:
        self.sent += 1
        return send(self._running.cluster, time.monotonic() + self._running.wait_s)

    def _made(self) -> Cluster:
        try:
            access = Access.of(self._conf)
        except (ValueError, OSError) as error:
            problem = f"The settings of a client cannot be used: {error}"
            if self.sent:  # they were usable: the file of a certificate may be being replaced
                raise LostError(problem, is_sent=False) from error
            raise KafkaRequestError(problem, KafkaError._INVALID_ARG) from error
        return Cluster(access, _METADATA_AGE_S, awaits_topics=False)

    def _taken(self) -> Cluster | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _put_back(self, cluster: Cluster, closes: int) -> None:
        """Keep the connections for the next who asks, unless the client was closed meanwhile or has enough of them."""
        if closes == self._closes and len(self._idle) < _MOST_IDLE:
            self._idle.append(cluster)
        else:
            cluster.close()


def by_topic(places: Iterable[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    """Return the partitions of each topic, sorted, as most requests name them."""
    return [(topic, [number for _, number in run]) for topic, run in groupby(sorted(places), key=itemgetter(0))]


class AdminRequests:
    """What the parts of an `Admin` send their requests with: a `RequestClient`, with retries and the errors of answers.

    Connects at the first request. Thread-safe.
    """

    def __init__(self, conf: Mapping[str, Any], timeout_s: float) -> None:
        self.bootstrap = str(conf.get("bootstrap.servers", ""))
        self.timeout_s = timeout_s
        self.client = RequestClient(conf, timeout_s=timeout_s)

    @property
    def timeout_ms(self) -> int:
        return int(self.timeout_s * 1000)

    def ask_repeatedly(self, doing: str, ask: Callable[[], T], timeout_s: float | None = None) -> T:
        """Ask with a growing time-out, so that a leader that stands still is not asked until the time is up.

        A broker that is only slow has half of the time to answer.
        """
        wait_s = self.timeout_s if timeout_s is None else max(timeout_s, 0.001)
        began_s = time.monotonic()

        def once() -> T:
            gone_s = time.monotonic() - began_s
            each_s = min(wait_s, max(FIRST_ANSWER_S, min(gone_s, wait_s - gone_s)))
            return self.client.run(doing, ask, each_s)

        return retry(once, wait_s)

    def change(self, request: Any, newest: int | None = None) -> Any:
        """Send a change to the controller. If it has moved, the change is sent to the next one."""
        answer = self.client.ask(request, self.client.controller(), newest=newest)
        for name in ("topics", "results", "responses"):
            for each in getattr(answer, name, None) or ():
                if each.error_code == KafkaError.NOT_CONTROLLER:
                    raise AnswerError(each.error_code, "the controller has moved")
        return answer

    def refusals_of(self, doing: str, ask: Callable[[], Iterable[Any]]) -> Refusals:
        """Send a change, and return the refusals. Raises KafkaUnavailableError."""
        return self.refused(doing, ((_name(each), each) for each in self.client.run(doing, ask)))

    def read_each(self, doing: str, ask: Callable[[], Iterable[Any]]) -> tuple[dict[str, Any], Refusals]:
        """Read something of topics until none of them is only unavailable. Returns the answers, and the refusals."""

        def once() -> tuple[dict[str, Any], Refusals]:
            answers = {_name(each): each for each in ask()}
            refused = self.refused(doing, answers.items())
            return {name: each for name, each in answers.items() if name not in refused}, refused

        return self.ask_repeatedly(doing, once)

    def refused(self, doing: str, answers: Iterable[tuple[str, Any]]) -> Refusals:
        """Return the refusals among the answers for topics. Raises KafkaUnavailableError."""
        refused: Refusals = {}
        for name, each in answers:
            if each.error_code:
                refused[name] = self.failure(each, f"{doing} {name}")
                if isinstance(refused[name], KafkaUnavailableError):
                    raise refused[name]
        return refused

    def ensure(self, answer: Any, doing: str) -> None:
        """Raise the error that a part of an answer has."""
        if answer.error_code:
            raise self.failure(answer, doing)

    def failure(self, answer: Any, doing: str) -> Exception:
        reason = getattr(answer, "error_message", None) or KafkaError(answer.error_code).str()
        return translate(KafkaError(answer.error_code, reason), doing, self.bootstrap)


def _name(answer: Any) -> str:
    return str(answer.resource_name if hasattr(answer, "resource_name") else answer.name)


class Target(NamedTuple):
    """A topic: its id, its number of partitions, and the largest batch that it takes; None if that is not known."""

    id: str
    partitions: int
    most_bytes: int | None


class Targets:
    """Looks topics up, over connections that stay open. For one thread at a time."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """`conf` uses librdkafka's names. Nothing is sent yet."""
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._cluster = Cluster(Access.of(conf), metadata_age_s=0.0)

    def get(self, topic: str, *, with_limit: bool = True) -> Target:
        """Ask for a topic now, and for its limit, which is another request. Brokers may create a missing topic.

        Raises KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError.
        """
        deadline_s = time.monotonic() + _ANSWER_S
        try:
            partitions = len(self._cluster.leaders(topic, deadline_s))
            most_bytes = self._cluster.taking(topic, deadline_s).most_bytes if with_limit else None
            return Target(known_id(self._cluster, topic), partitions, most_bytes)
        except (AnswerError, LostError, UnsupportedError) as error:
            raise request_failure(error, f"looking up topic {topic}", self._bootstrap) from error

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._cluster.close()
