"""Membership of a consumer group over a topic with one partition: its owner learns of it, with proof.

The proof is the group metadata captured in the assignment callback (generation, member id). The coordinator refuses a
transaction that carries it once another member has the assignment (KIP-447, E4). A member counts its rebalances and the
requests of its client.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from fencepost.api.errors import FatalError
from fencepost.kafka.errors import KafkaRequestError, translate
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.wire.library_client import close_consumer, coordinator_node, library_conf, library_log
from fencepost.telemetry.measure import WindowedRates

EVERY_MS = 1000
"""How often the client reports, which is also how exactly the length of a rebalance is known."""
_TOTALS = ("tx", "rx", "tx_bytes", "rx_bytes")
_STEADY = ("steady", "init")  # states of librdkafka's member in which no rebalance is under way


@dataclass(frozen=True)
class MemberFigures:
    """Times are in seconds; `since_last_s` is None before the first rebalance.

    `rates`, a second, are librdkafka's (STATISTICS.md): `tx` and `rx` are requests and responses, `tx_bytes` and
    `rx_bytes` their bytes.
    """

    rebalances: int = 0
    rebalance_mean_s: float = 0.0
    rebalance_max_s: float = 0.0
    since_last_s: float | None = None
    connections: int = 0
    rates: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_TOTALS, 0.0))


@dataclass
class _Rebalances:
    """Times are monotonic; `begun_s` is None while none is under way, as far as is known."""

    begun_s: float | None = None
    ended_s: float | None = None
    count: int = 0
    total_s: float = 0.0
    longest_s: float = 0.0

    def end(self) -> None:
        """Count one that ends now. One that no statistics have seen takes no time."""
        self.ended_s = time.monotonic()
        took_s = 0.0 if self.begun_s is None else self.ended_s - self.begun_s
        self.begun_s = None
        self.count += 1
        self.total_s += took_s
        self.longest_s = max(self.longest_s, took_s)


class MemberMeter:
    """Written by the member's thread, read by any."""

    def __init__(self, rates: WindowedRates | None = None) -> None:
        self._lock = threading.Lock()
        self._rates = rates or WindowedRates()
        self._rebalances = _Rebalances()
        self._connections = 0
        self._before = dict.fromkeys(_TOTALS, 0.0)  # of clients that were replaced
        self._of_client = dict.fromkeys(_TOTALS, 0.0)

    def joins(self) -> None:
        """Note that a new client begins to join."""
        with self._lock:
            self._rebalances.begun_s = time.monotonic()
            self._before = {name: self._before[name] + self._of_client[name] for name in _TOTALS}
            self._of_client = dict.fromkeys(_TOTALS, 0.0)

    def take(self, text: str) -> None:
        """Take a client's statistics, in librdkafka's JSON."""
        found: dict[str, Any] = json.loads(text)
        now_s = time.monotonic()
        with self._lock:
            self._of_client = {name: float(found.get(name, 0)) for name in _TOTALS}
            self._rates.add({name: self._before[name] + self._of_client[name] for name in _TOTALS}, now_s)
            self._connections = sum(each.get("state") == "UP" for each in found.get("brokers", {}).values())
            is_steady = found.get("cgrp", {}).get("join_state", "init") in _STEADY
            if self._rebalances.begun_s is None and not is_steady:
                self._rebalances.begun_s = now_s

    def assigned(self) -> None:
        """Note the end of a rebalance."""
        with self._lock:
            self._rebalances.end()

    def figures(self) -> MemberFigures:
        """Return what is known now."""
        now_s = time.monotonic()
        with self._lock:
            seen = self._rebalances
            return MemberFigures(
                seen.count,
                seen.total_s / seen.count if seen.count else 0.0,
                seen.longest_s,
                None if seen.ended_s is None else now_s - seen.ended_s,
                self._connections,
                self._rates.per_second(now_s) or dict.fromkeys(_TOTALS, 0.0),
            )


log = logging.getLogger(__name__)

_POLL_S = 0.2
_REJOIN_S = 1.0
_ANNOUNCED_S = 3.0
_LOOK_S = 0.1
_CHECK_S = 5.0
_COORDINATOR = "GroupCoordinator"  # in the client's statistics
_UNKNOWN = -1
_REPLACED = "group.instance.id"  # in the client's text when another process has replaced a static member
_REFUSED = (
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.INVALID_SESSION_TIMEOUT,
)


@dataclass(frozen=True)
class Term:
    """One assignment. `metadata` is None for a member that does not own the partition; `number` grows."""

    number: int
    metadata: Any = None

    @property
    def is_owner(self) -> bool:
        return self.metadata is not None


class ReplacedError(FatalError):
    """Another process has joined under this member's name. Do not join again, that would replace it in turn: end."""


class _CoordinatorLine:
    """Checks now and then whether the client talks to the coordinator on which brokers agree.

    One that is cut off from the others would take its heartbeats for as long as that lasts.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        self._conf = conf
        self._used = _UNKNOWN  # a node, as are the others
        self._checked_s = time.monotonic()
        self._wrong = _UNKNOWN  # what was used when the last check found another one

    def take(self, text: str) -> None:
        """Take a client's statistics, in librdkafka's JSON: the coordinator's entry names its broker by address."""
        brokers = json.loads(text).get("brokers", {}).values()
        address = next((each["nodename"] for each in brokers if each["name"] == _COORDINATOR), "")
        nodes = (each["nodeid"] for each in brokers if each["nodename"] == address and each["nodeid"] >= 0)
        self._used = next(nodes, _UNKNOWN)

    def is_wrong(self) -> bool:
        """Return whether two checks in a row have found that the client uses the same wrong coordinator."""
        if time.monotonic() - self._checked_s < _CHECK_S or self._used == _UNKNOWN:
            return False
        right = coordinator_node(self._conf, str(self._conf["group.id"]), _CHECK_S / 2)
        self._checked_s, before = time.monotonic(), self._wrong
        if right is None:
            return False
        self._wrong = _UNKNOWN if right == self._used else self._used
        return self._wrong == before != _UNKNOWN


class GroupMembership:
    """A member of a consumer group, with its own polling thread. All callbacks run in that thread.

    `on_term(term)` is called after every assignment, and with an ownerless term when membership is lost; it must not
    block. A member with a `group.instance.id` that restarts within the session time-out regains its assignment at once,
    and the coordinator refuses the earlier process from then on.

    `on_denied(error)` is called once if the principal may not join the group, or not with this session time-out. A
    member that has joined before keeps trying and logs the refusal.
    `on_replaced(error)` is called when another process has replaced this member; no callback follows. After any other
    fatal error of the client, a new client joins. A static member that was cut off from the broker may appear to be
    replaced by itself, when an earlier request of its own arrives after a later one. `is_taken()` distinguishes the
    two: it returns whether another process with this name has made itself known. That process gets some seconds to do
    so.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        topic: str,
        on_term: Callable[[Term], None],
        on_denied: Callable[[FatalError], None],
        on_replaced: Callable[[ReplacedError], None],
        is_taken: Callable[[], bool],
        meter: MemberMeter | None = None,
    ) -> None:
        self._fork = ForkGuard()
        self._topic = topic
        self._on_term = on_term
        self._on_denied = on_denied
        self._on_replaced = on_replaced
        self._is_taken = is_taken
        self.meter = meter or MemberMeter()
        self._conf = {
            **conf,
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "statistics.interval.ms": EVERY_MS,
            "stats_cb": self._measured,
        }
        self._line = _CoordinatorLine(self._conf)
        self._is_denied = False
        self._stop = threading.Event()
        self._owns = False
        self._number = 0
        self._has_joined = False  # with this consumer
        self._consumer = self._client()
        self._thread = threading.Thread(target=self._run, name="membership", daemon=True)

    def start(self) -> None:
        """Join the group. `on_term` reports the outcome."""
        self._fork.check("a group member")
        self._join()
        self._thread.start()

    def stop(self) -> None:
        """Stop polling and close the consumer."""
        self._stop.set()
        if self._thread.ident is None:
            close_consumer(self._consumer)  # it never joined
        else:
            self._thread.join(10.0)

    def _client(self) -> Any:
        return Consumer(library_conf(self._conf), logger=library_log(__name__))

    def _join(self) -> None:
        self.meter.joins()
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        self._has_joined = True

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._has_joined:
                    self._consumer = self._client()
                    self._join()
                message = self._consumer.poll(_POLL_S)
                problem = None if message is None else message.error()
                if self._line.is_wrong():
                    self._replace("another broker coordinates its group by now")
                if problem is not None:
                    self._take(problem)
            except (KafkaException, SystemError) as error:
                self._replace(str(error))  # a callback may have failed: the group still counts on this client
        close_consumer(self._consumer)

    def _take(self, problem: Any) -> None:
        if problem.fatal() or problem.code() == KafkaError._FATAL:
            self._lose()
            self._end(problem)
        elif problem.code() in _REFUSED:
            self._deny(problem)
        elif problem.code() not in (KafkaError._PARTITION_EOF, KafkaError._TRANSPORT):
            log.info("group membership: %s", problem.str())

    def _end(self, problem: Any) -> None:
        """Replace the client, which is unusable now, unless a new one would only displace our successor."""
        if _REPLACED in problem.str() and self._is_taken_soon():
            self._stop.set()
            name = self._conf.get("group.instance.id")
            self._on_replaced(
                ReplacedError(
                    f"another process has joined group {self._conf.get('group.id')} as {name} and taken this worker's "
                    "place. Each worker needs an advertised address of its own: `listeners`, or "
                    "`rest.advertised.host.name` and `rest.advertised.port`"
                )
            )
            return
        self._replace(problem.str())

    def _replace(self, why: str) -> None:
        self._lose()
        log.error("this worker has lost its membership and joins again: %s", why)
        self._has_joined = False
        close_consumer(self._consumer)
        self._stop.wait(_REJOIN_S)

    def _is_taken_soon(self) -> bool:
        deadline = time.monotonic() + _ANNOUNCED_S
        while not (is_taken := self._is_taken()) and time.monotonic() < deadline:
            if self._stop.wait(_LOOK_S):
                break
        return is_taken

    def _deny(self, problem: Any) -> None:
        """Report a refusal once until the member has joined again: the client repeats it with every try."""
        if self._is_denied:
            return
        self._is_denied = True
        error = translate(
            problem, f"joining group {self._conf.get('group.id')}", str(self._conf.get("bootstrap.servers", ""))
        )
        if problem.code() == KafkaError.INVALID_SESSION_TIMEOUT:
            error = KafkaRequestError(
                f"The broker refuses session.timeout.ms={self._conf.get('session.timeout.ms')}: choose one between its "
                "group.min.session.timeout.ms (6000 by default) and group.max.session.timeout.ms",
                problem.code(),
            )
        log.error("group membership: %s", error)
        if self._number == 0 and isinstance(error, FatalError):
            self._on_denied(error)

    def _measured(self, text: str) -> None:
        self.meter.take(text)
        self._line.take(text)

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        consumer.incremental_assign(partitions)
        if partitions:
            consumer.pause(partitions)  # the partition only represents leadership; nothing is read from it
        self.meter.assigned()
        self._owns = self._owns or bool(partitions)
        self._tell(consumer.consumer_group_metadata() if self._owns else None)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        if partitions:
            consumer.incremental_unassign(partitions)
            self._lose()

    def _lose(self) -> None:
        if self._owns:
            self._owns = False
            self._tell(None)

    def _tell(self, metadata: Any) -> None:
        self._number += 1
        self._is_denied = False
        self._on_term(Term(self._number, metadata))
