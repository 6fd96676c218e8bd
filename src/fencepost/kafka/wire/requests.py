"""Requests about a cluster, its groups and its transactions, each sent to the broker that can answer it.

kafka-python's classes encode the requests and decode the answers.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError

from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.cluster import Cluster
from fencepost.kafka.wire.errors import AnswerError, LostError, UnsupportedError, request_failure

T = TypeVar("T")

_METADATA_AGE_S = 0.0  # leaders are looked up for each question
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5


class RequestClient:
    """Asks one cluster, as the principal of `conf` (librdkafka's names). Each request has `timeout_s` to be answered.

    Connects at the first request, and again after a failure. Thread-safe: threads take turns. The methods that send a
    request raise AnswerError, LostError or UnsupportedError, which `run` converts.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float) -> None:
        self._guard = ForkGuard()
        self._conf = dict(conf)
        self._timeout_s = timeout_s
        self._turn = threading.RLock()
        self._cluster: Cluster | None = None
        self.sent = 0  # requests so far

    def close(self) -> None:
        """Close the connections. Idempotent; another request connects again. For any thread."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    def run(self, doing: str, ask: Callable[[], T]) -> T:
        """Return what `ask` returns, a function that sends requests with the methods below.

        If a broker cannot be reached, it is called again until the time is up, since a leader or coordinator may have
        moved to another broker. A request that may have been carried out is not repeated. Raises
        KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError; their texts contain `doing`.
        """
        self._guard.check("The client for requests")
        with self._turn:
            until_s, pause_s = time.monotonic() + self._timeout_s, _PAUSE_S
            while True:
                try:
                    return ask()
                except (AnswerError, LostError, UnsupportedError, OSError) as error:
                    self.close()  # addresses may be those of brokers that are gone
                    if not _is_unreachable(error) or time.monotonic() + pause_s > until_s:
                        raise request_failure(error, doing, str(self._conf.get("bootstrap.servers", ""))) from error
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

    def brokers(self) -> list[int]:
        """Return the nodes of all brokers that are up."""
        return self._sent(Cluster.brokers)

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
        return self._sent(lambda cluster, deadline_s: cluster.coordinators(kind, keys, deadline_s))

    def _sent(self, send: Callable[[Cluster, float], T]) -> T:
        self.sent += 1
        cluster = self._cluster  # `close` may set it to None at any moment
        if cluster is None:
            cluster = self._cluster = Cluster(Access.of(self._conf), _METADATA_AGE_S, awaits_topics=False)
        return send(cluster, time.monotonic() + self._timeout_s)


def _is_unreachable(error: Exception) -> bool:
    return isinstance(error, LostError) and not error.is_sent
