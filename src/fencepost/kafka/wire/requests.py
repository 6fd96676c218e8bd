"""Requests about a cluster, its topics, groups and transactions, each sent to the broker that can answer it.

kafka-python's classes encode the requests and decode the answers.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

from confluent_kafka import KafkaError

from fencepost.kafka.errors import NOT_AUTHENTICATED, KafkaRequestError
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.cluster import Cluster
from fencepost.kafka.wire.errors import AnswerError, LostError, UnsupportedError, request_failure

T = TypeVar("T")

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
