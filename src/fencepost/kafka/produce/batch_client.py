"""`BatchClient`: a transactional producer that sends whole batches and never repeats a request.

An error, a time-out or a lost connection ends the incarnation (`incarnation.py`). After that the client sends nothing
more, except the end of a transaction whose requests were all answered.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.errors import AnswerError
from fencepost.kafka.produce.batch_records import BatchRecords
from fencepost.kafka.produce.incarnation import error_of_answer
from fencepost.kafka.produce.protocol import Protocol
from fencepost.kafka.produce.transactional_client import (
    OFFSETS_REFUSED,
    Failure,
    ProducerError,
    TransactionalClient,
    ensure_checked,
)
from fencepost.kafka.produce.written_runs import WrittenRuns
from fencepost.kafka.value.position import Committer, GroupOffset, committer_of


class BatchClient(BatchRecords, TransactionalClient):
    """A producer; each `init_transactions` starts a new incarnation. For one thread at a time; `drop` is for any."""

    def __init__(self, conf: Mapping[str, Any], runs: WrittenRuns | None = None) -> None:
        """`conf` uses librdkafka's names. Raises ProducerError for settings that this client does not support."""
        super().__init__(conf, runs)
        self._begun_offsets: tuple[Sequence[GroupOffset], Committer, float] | None = None

    @property
    def is_slow(self) -> bool:
        return self._incarnation.is_slow

    def init_transactions(self, timeout_s: float) -> None:
        self._incarnation.fork.check("a producer")
        self._forget()
        self.failed_delivery = None
        self._incarnation.start(timeout_s)

    def _forget(self) -> None:
        self._queue.clear()
        self._begun_offsets = None
        if self._runs is not None:
            self._runs.clear()

    def begin(self) -> None:
        with self._incarnation.sending():
            self._forget()

    def begin_offsets(self, offsets: Sequence[GroupOffset], group_metadata: Any, timeout_s: float) -> None:
        ensure_checked(offsets)  # E10
        with self._incarnation.sending() as protocol:
            committer = committer_of(group_metadata)
            protocol.begin_offsets(offsets, committer, self._queue.filled(), time.monotonic() + timeout_s)
            self._begun_offsets = (offsets, committer, timeout_s)

    def await_offsets(self) -> None:
        self._incarnation.fork.check("a producer")
        begun, self._begun_offsets = self._begun_offsets, None
        if begun is None:
            return
        offsets, committer, timeout_s = begun
        deadline_s = time.monotonic() + timeout_s
        self.flush(timeout_s)
        with self._incarnation.sending() as protocol:
            try:
                protocol.offsets(offsets, committer, deadline_s)
            except AnswerError as error:
                found = error_of_answer(error)
                if error.code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    found = ProducerError(Failure.PASSING, f"{OFFSETS_REFUSED}: {found}")
                elif found.failure is not Failure.MEMBERSHIP:
                    raise
                raise found from None  # E4: the transaction can be aborted, and its producer continues

    def commit(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        self.flush(timeout_s)  # usually done already: the end must not follow a batch that may be refused
        with self._incarnation.sending() as protocol:
            protocol.end(is_commit=True, deadline_s=deadline_s)

    def abort(self, timeout_s: float) -> None:
        """Abort if every request of the transaction was answered. Otherwise the next holder of the id aborts it."""
        self._incarnation.fork.check("a producer")
        self._forget()
        deadline_s = time.monotonic() + timeout_s
        with self._incarnation.aborting() as (protocol, over):
            is_refused = protocol.batches.drain(deadline_s)
            if over is not None and over.failure is Failure.FENCED:
                raise over
            self._end_aborted(protocol, deadline_s, is_refused=is_refused)

    def _end_aborted(self, protocol: Protocol, deadline_s: float, *, is_refused: bool) -> None:
        """Abort the transaction. If a refusal was found only now, the incarnation ends too.

        The transaction may then not have begun: a coordinator that is still ending the previous transaction treats
        the abort as one of an older producer.
        """
        end = self._incarnation.end
        try:
            protocol.end(is_commit=False, deadline_s=deadline_s)
        except AnswerError as error:
            if is_refused:
                raise end(ProducerError(Failure.PASSING, str(error))) from None
            raise
        if is_refused:
            end(ProducerError(Failure.PASSING, "something was refused in a transaction that was aborted"))
