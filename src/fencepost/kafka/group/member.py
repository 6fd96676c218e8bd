"""Membership of a consumer group over one topic: who owns its only partition is told so, with proof.

The proof is the group metadata captured in the assignment callback (generation, member id): a transaction that carries
it is refused by the coordinator once the assignment has changed hands (KIP-447, E4).
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from fencepost.api.errors import FatalError
from fencepost.kafka.errors import KafkaRequestError, translate
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.library_log import library_log

log = logging.getLogger(__name__)

_POLL_S = 0.2
_ANEW_S = 1.0
_ANNOUNCED_S = 3.0
_LOOK_S = 0.1
_REPLACED = "group.instance.id"  # what the client's text names where another process took a static member's place
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
    """Another process has joined under this member's name. Who joins again takes its place in turn: end instead."""


class GroupMembership:
    """A member of a consumer group, kept alive by a thread of its own.

    `on_term(term)` is called in that thread after every assignment, and with an ownerless term when membership is
    lost; it must not block. A member with a `group.instance.id` that is started again within the session time-out takes
    its old place at once, and the process that held it before is refused from then on.

    `on_denied(error)` is called, once, in that thread as well, where the principal may not join the group at all, or
    not with this session time-out. A member that has been one goes on trying and logs the refusal.
    `on_replaced(error)` is called where another process took this member's place; nothing follows it. After any other
    fatal error of the client a new one joins. A static member that was cut off from the broker may take its own place:
    what it asked for then arrives behind what it asked for later. `is_taken()` tells the two apart: whether another
    process under this name has made itself known, for which it is given some seconds.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        topic: str,
        on_term: Callable[[Term], None],
        on_denied: Callable[[FatalError], None],
        on_replaced: Callable[[ReplacedError], None],
        is_taken: Callable[[], bool],
    ) -> None:
        self._fork = ForkGuard()
        self._topic = topic
        self._on_term = on_term
        self._on_denied = on_denied
        self._on_replaced = on_replaced
        self._is_taken = is_taken
        self._conf = {**conf, "partition.assignment.strategy": "cooperative-sticky", "enable.auto.commit": False}
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._doing = f"joining group {conf.get('group.id')}"
        self._is_denied = False
        self._stop = threading.Event()
        self._owns = False
        self._number = 0
        self._consumer = Consumer(self._conf, logger=library_log(__name__))
        self._thread = threading.Thread(target=self._run, name="membership", daemon=True)

    def start(self) -> None:
        """Join the group; `on_term` tells the outcome."""
        self._fork.check("a group member")
        self._join()
        self._thread.start()

    def stop(self) -> None:
        """Stop polling and close the consumer."""
        self._stop.set()
        if self._thread.ident is None:
            self._consumer.close()  # it never joined
        else:
            self._thread.join(10.0)

    def _join(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                message = self._consumer.poll(_POLL_S)
                problem = None if message is None else message.error()
                if problem is not None:
                    self._take(problem)
            except (KafkaException, SystemError) as error:
                log.warning("group membership: %s", error)
                self._lose()
                self._stop.wait(1.0)
        self._consumer.close()

    def _take(self, problem: Any) -> None:
        if problem.fatal() or problem.code() == KafkaError._FATAL:
            self._lose()
            self._end(problem)
        elif problem.code() in _REFUSED:
            self._deny(problem)
        elif problem.code() not in (KafkaError._PARTITION_EOF, KafkaError._TRANSPORT):
            log.info("group membership: %s", problem.str())

    def _end(self, problem: Any) -> None:
        """Replace the client, which is of no more use, unless the next would only take the place of who took ours."""
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
        log.error("this worker lost its membership and joins anew: %s", problem.str())
        try:
            self._consumer.close()
        except KafkaException as error:
            log.info("group membership: %s", error)
        self._stop.wait(_ANEW_S)
        self._consumer = Consumer(self._conf, logger=library_log(__name__))
        self._join()

    def _is_taken_soon(self) -> bool:
        deadline = time.monotonic() + _ANNOUNCED_S
        while not (is_taken := self._is_taken()) and time.monotonic() < deadline:
            if self._stop.wait(_LOOK_S):
                break
        return is_taken

    def _deny(self, problem: Any) -> None:
        """Tell of a refusal once, until the group is joined again: the client repeats it with every try."""
        if self._is_denied:
            return
        self._is_denied = True
        error = translate(problem, self._doing, self._bootstrap)
        if problem.code() == KafkaError.INVALID_SESSION_TIMEOUT:
            error = KafkaRequestError(
                f"The broker refuses session.timeout.ms={self._conf.get('session.timeout.ms')}: choose one between its "
                "group.min.session.timeout.ms (6000 by default) and group.max.session.timeout.ms",
                problem.code(),
            )
        log.error("group membership: %s", error)
        if self._number == 0 and isinstance(error, FatalError):
            self._on_denied(error)

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        consumer.incremental_assign(partitions)
        if partitions:
            consumer.pause(partitions)  # the partition stands for leadership; nothing is read through it
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
