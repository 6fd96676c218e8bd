"""A librdkafka producer with transactions, and the choice between it and the batch client."""

import contextlib
import logging
import threading
import time
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, TopicPartition

from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer, producer_error
from fencepost.kafka.produce.transactional_client import (
    OFFSETS_REFUSED,
    Failure,
    ProducerError,
    TransactionalClient,
    ensure_checked,
)
from fencepost.kafka.setting.table import BATCH, CLIENT, DIGESTS
from fencepost.kafka.value.position import GroupOffset

if TYPE_CHECKING:
    from fencepost.kafka.produce.written_runs import WrittenRuns


log = logging.getLogger(__name__)

_MOST_REFUSALS = 3
_INIT_S = 2.0
_LOOK_FOR_STRIKES_S = 0.1
_STRUCK_S = 3.0
_LOOK_FOR_TOPICS_S = 2.0


@dataclass(frozen=True)
class _Adding:
    """Offsets of a group that are being added to a transaction."""

    done: Future[None]
    topics: frozenset[str]
    timeout_s: float
    give_up_at: float


class ProducerClient(LibrdkafkaProducer, TransactionalClient):
    """One librdkafka producer with a transactional id."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """`conf` uses librdkafka's names. Raises ProducerError if librdkafka refuses it."""
        super().__init__(conf)
        self._is_in_transaction = False
        self._adding: _Adding | None = None

    def connect(self, topic: str, timeout_s: float) -> None:
        """Wait for a connection: a client without one looks for its coordinator again only half a second later."""
        self._fork.check("a producer")
        with contextlib.suppress(KafkaException):
            self._producer.list_topics(topic, timeout=timeout_s)

    def init_transactions(self, timeout_s: float) -> None:
        """Wrong credentials are not temporary: they are reported once brokers have refused them a few times."""
        self._fork.check("a producer")
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._producer.init_transactions(max(0.1, min(_INIT_S, deadline - time.monotonic())))
                return
            except KafkaException as error:
                wrapped = producer_error(error)
                self.serve(0)
                if len(self._log.refusals) >= _MOST_REFUSALS:
                    raise ProducerError(Failure.DENIED, self._log.refusals[-1]) from None
                if not error.args[0].retriable() or time.monotonic() >= deadline:
                    raise wrapped from None

    def begin(self) -> None:
        self._fork.check("a producer")
        self._call("begin_transaction")
        self._log.has_failed_transaction = False
        self._watched = set()
        self._is_in_transaction = True

    def begin_offsets(self, offsets: Sequence[GroupOffset], group_metadata: Any, timeout_s: float) -> None:
        """Raises ValueError without an offset of 0 or more: librdkafka would then report success without asking the
        coordinator whether the member is current (E4). Raises ProducerError if no thread can be started now.
        """
        self._fork.check("a producer")
        ensure_checked(offsets)  # E10
        positions = [TopicPartition(*each) for each in offsets]
        done: Future[None] = Future()

        def call() -> None:
            try:
                self._call("send_offsets_to_transaction", positions, group_metadata, timeout_s)
                done.set_result(None)
            except Exception as error:  # `await_offsets` raises it in the thread of the writer
                done.set_exception(error)

        try:
            threading.Thread(target=call, name="group offsets", daemon=True).start()
        except RuntimeError as error:
            raise ProducerError(Failure.PASSING, f"the group's offsets are not sent: {error}") from None
        topics = frozenset(each.topic for each in offsets)
        self._adding = _Adding(done, topics, timeout_s, time.monotonic() + timeout_s)

    def await_offsets(self) -> None:
        """Raises ProducerError if the offsets may not be in the transaction.

        A producer that has added offsets before and then loses its broker may wait for the group's coordinator for
        ever, whatever the time-out (librdkafka 2.16). So this stops waiting when the time is over, or `_STRUCK_S` after
        a strike. librdkafka also retries without end if a topic is gone; this then stops waiting, too. The request
        may still be sent later, with an epoch that is fenced by then.
        """
        adding, self._adding = self._adding, None
        if adding is None:
            return
        give_up_at, look_at = adding.give_up_at, time.monotonic() + _LOOK_FOR_TOPICS_S
        while not wait([adding.done], _LOOK_FOR_STRIKES_S).done:
            if self.strikes:
                give_up_at = min(give_up_at, time.monotonic() + _STRUCK_S)
            elif time.monotonic() > look_at:
                self._ensure_topics(adding.topics)
                look_at = time.monotonic() + _LOOK_FOR_TOPICS_S
            if time.monotonic() > give_up_at:
                why = self.last_strike or f"no answer within {adding.timeout_s:g} s"
                raise ProducerError(Failure.PASSING, f"{OFFSETS_REFUSED}: {why}")
        adding.done.result()

    def _ensure_topics(self, topics: Set[str]) -> None:
        """Raise ProducerError if a broker reports that topics no longer exist. Without an answer, do nothing."""
        try:
            found = self._producer.list_topics(timeout=_LOOK_FOR_TOPICS_S).topics  # all: asking for one may create it
        except KafkaException as error:
            log.debug("looking for topics: %s", error)
            return
        if gone := sorted(topics - found.keys()):
            raise ProducerError(Failure.PASSING, f"{OFFSETS_REFUSED}: topic {', '.join(gone)} no longer exists")

    def _leave_offsets(self) -> None:
        """Stop waiting for begun offsets, after a grace time in which the client would refuse the next call."""
        adding, self._adding = self._adding, None
        if adding is not None:
            wait([adding.done], _STRUCK_S)

    def _ensure_whole(self) -> None:
        """Raise ProducerError if records of an open transaction were refused.

        This tries to begin another transaction. While one is open that always fails, with the error for which
        librdkafka requires an abort, if there is such an error. It is tried only when the log shows such an error,
        because the client leaks memory for each error that it raises (confluent-kafka 2.16.1).
        """
        if not self._is_in_transaction:
            return
        self.serve(0)
        if not self._log.has_failed_transaction:
            return
        self._leave_offsets()
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            if error.args[0].txn_requires_abort() or error.args[0].fatal():
                raise producer_error(error) from None

    def commit(self, timeout_s: float) -> None:
        self._fork.check("a producer")
        self._call("commit_transaction", timeout_s)
        self._is_in_transaction = False

    def abort(self, timeout_s: float) -> None:
        self._fork.check("a producer")
        self._leave_offsets()
        self._call("abort_transaction", timeout_s)
        self._is_in_transaction = False

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a method of the producer by name, so that no frame in an error's traceback keeps the producer alive.

        Otherwise librdkafka would keep sending after a caller that handles the error has closed the writer (E6).
        """
        try:
            getattr(self._producer, name)(*arguments)
        except (KafkaException, SystemError) as error:
            raise self._explained(error) from None


def sends_batches(conf: Mapping[str, Any]) -> bool:
    """Return whether `conf` selects the client that sends whole batches, which it makes directly from columns."""
    return conf.get(CLIENT) == BATCH


def batch_client_fault(conf: Mapping[str, Any]) -> str | None:
    """Return why the batch client cannot be created with these producer settings; None if it can."""
    from fencepost.kafka.produce.batch_client import BatchClient

    try:
        BatchClient({"transactional.id": "", **conf})
        return None
    except ProducerError as error:
        return str(error)


def transactional_client(conf: Mapping[str, Any], runs: "WrittenRuns | None" = None) -> TransactionalClient:
    """Create the client that `conf` selects, by default librdkafka. Raises ProducerError for wrong settings.

    The batch client tells `runs` what it queues.
    """
    rest = {key: value for key, value in conf.items() if key not in (CLIENT, DIGESTS)}
    if not sends_batches(conf):
        return ProducerClient(rest)
    from fencepost.kafka.produce.batch_client import BatchClient  # imports Arrow only if needed

    return BatchClient(rest, runs)
