"""Membership of a consumer group over one topic: who owns its only partition is told so, with proof.

The proof is the group metadata captured in the assignment callback (generation, member id): a transaction that carries
it is refused by the coordinator once the assignment has changed hands (KIP-447, E4).
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from fencepost.kafka.errors import KafkaAuthorizationError, translate
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.library_log import library_log

log = logging.getLogger(__name__)

_POLL_S = 0.2
_DENIED = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)


@dataclass(frozen=True)
class Term:
    """One assignment. `metadata` is None for a member that does not own the partition; `number` grows."""

    number: int
    metadata: Any = None

    @property
    def is_owner(self) -> bool:
        return self.metadata is not None


class GroupMembership:
    """A member of a consumer group, kept alive by a thread of its own.

    `on_term(term)` is called in that thread after every assignment, and with an ownerless term when membership is
    lost; it must not block. A member with a `group.instance.id` that is started again within the session time-out takes
    its old place at once, and the process that held it before is refused from then on.

    `on_denied(error)` is called, once, in that thread as well, where the principal may not join the group at all. A
    member that has been one goes on trying and logs the refusal.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        topic: str,
        on_term: Callable[[Term], None],
        on_denied: Callable[[KafkaAuthorizationError], None] = lambda error: None,
    ) -> None:
        self._fork = ForkGuard()
        self._topic = topic
        self._on_term = on_term
        self._on_denied = on_denied
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._doing = f"joining group {conf.get('group.id')}"
        self._is_denied = False
        self._stop = threading.Event()
        self._owns = False
        self._number = 0
        self._consumer = Consumer(
            {**conf, "partition.assignment.strategy": "cooperative-sticky", "enable.auto.commit": False},
            logger=library_log(__name__),
        )
        self._thread = threading.Thread(target=self._run, name="membership", daemon=True)

    def start(self) -> None:
        """Join the group; `on_term` tells the outcome."""
        self._fork.check("a group member")
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop polling and close the consumer."""
        self._stop.set()
        if self._thread.ident is None:
            self._consumer.close()  # it never joined
        else:
            self._thread.join(10.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                message = self._consumer.poll(_POLL_S)
            except (KafkaException, SystemError) as error:
                log.warning("group membership: %s", error)
                self._lose()
                self._stop.wait(1.0)
                continue
            problem = None if message is None else message.error()
            if problem is not None and problem.fatal():
                log.error("this worker lost its membership for good: %s", problem.str())
                self._lose()
                return
            if problem is not None and problem.code() in _DENIED:
                self._deny(problem)
            elif problem is not None and problem.code() not in (KafkaError._PARTITION_EOF, KafkaError._TRANSPORT):
                log.info("group membership: %s", problem.str())
        self._consumer.close()

    def _deny(self, problem: Any) -> None:
        """Tell of a refusal once, until the group is joined again: the client repeats it with every try."""
        if self._is_denied:
            return
        self._is_denied = True
        error = translate(problem, self._doing, self._bootstrap)
        log.error("group membership: %s", error)
        if self._number == 0 and isinstance(error, KafkaAuthorizationError):
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
