"""`TransactionalWriter`: one transactional id, one producer, one transaction after another."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from fencepost.kafka.produce.producer import transactional_client
from fencepost.kafka.produce.transactional_client import Failure, ProducerError, TransactionalClient
from fencepost.kafka.setting.client_settings import transaction_timeout_ms
from fencepost.kafka.setting.table import DIGESTS
from fencepost.kafka.value.position import GroupOffset
from fencepost.kafka.value.whole import PlacedBatch, PlacedRecords
from fencepost.kafka.wire.requests import lock_out_by_request
from fencepost.transaction.errors import (
    CommitUnknownError,
    ProduceError,
    StaleMemberError,
    WriterFencedError,
    WriterOpenError,
)

if TYPE_CHECKING:
    from fencepost.kafka.produce.written_runs import WrittenRuns

log = logging.getLogger(__name__)

_OPEN_ATTEMPTS = 3
_CONNECT_S = 1.0


class WriterState(Enum):
    """The state of a writer."""

    NEW = "new"
    OPEN = "open"
    IN_TRANSACTION = "in transaction"
    STRUCK = "struck"
    UNKNOWN = "unknown"
    FENCED = "fenced"
    CLOSED = "closed"


_S = WriterState

LEGAL_MOVES: dict[WriterState, frozenset[WriterState]] = {
    _S.NEW: frozenset({_S.OPEN, _S.FENCED, _S.CLOSED}),
    _S.OPEN: frozenset({_S.IN_TRANSACTION, _S.STRUCK, _S.FENCED, _S.CLOSED}),
    _S.IN_TRANSACTION: frozenset({_S.OPEN, _S.STRUCK, _S.UNKNOWN, _S.FENCED, _S.CLOSED}),
    _S.STRUCK: frozenset({_S.FENCED, _S.CLOSED}),  # E5: a struck handle never begins another transaction
    _S.UNKNOWN: frozenset({_S.CLOSED}),  # E6: neither a second commit nor an abort
    _S.FENCED: frozenset({_S.CLOSED}),
    _S.CLOSED: frozenset(),
}


class IllegalMoveError(RuntimeError):
    """The writer's state does not allow the call, which is a bug in the caller."""


def move(current: WriterState, target: WriterState) -> WriterState:
    """Return `target` if the move is legal. Raises IllegalMoveError."""
    if target not in LEGAL_MOVES[current]:
        raise IllegalMoveError(f"a transactional writer cannot go from '{current.value}' to '{target.value}'")
    return target


@dataclass(frozen=True)
class WriterTimeouts:
    """How long each step may take, in seconds. `commit_s` stays below the client's `socket.timeout.ms`."""

    open_s: float = 60.0
    flush_s: float = 60.0
    commit_s: float = 50.0
    abort_s: float = 10.0


def produce_error(error: ProducerError, *, is_overdue: bool = False) -> ProduceError:
    """Convert a client's refusal of records to a ProduceError. `is_overdue`: their transaction took too long."""
    is_denied, is_batch_too_large = error.failure is Failure.DENIED, error.failure is Failure.REFUSED_BATCH
    is_refused = is_denied or is_batch_too_large or error.failure is Failure.REFUSED_RECORD
    return ProduceError(
        str(error),
        is_refused=is_refused,
        is_denied=is_denied,
        is_batch_too_large=is_batch_too_large,
        has_expired=is_overdue and not is_refused,
    )


def _runs_of(conf: Mapping[str, Any]) -> "WrittenRuns | None":
    left_out = conf.get(DIGESTS)
    if left_out is None:
        return None
    from fencepost.kafka.produce.written_runs import WrittenRuns  # which imports Arrow

    return WrittenRuns(left_out)


class TransactionAge:
    """How old the newest transaction is, and how much of that was not spent waiting for the client."""

    def __init__(self) -> None:
        self._begun_s = self._waited_s = 0.0

    def begin(self) -> None:
        self._begun_s, self._waited_s = time.monotonic(), 0.0

    @property
    def total_s(self) -> float:
        return time.monotonic() - self._begun_s

    @property
    def own_s(self) -> float:
        return self.total_s - self._waited_s

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time spent in the block as the client's. Exceptions propagate."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            self._waited_s += time.monotonic() - began_s


class TransactionalWriter:
    """Writes all records of a transaction or none. Source offsets are among them (`task/delivery/lanes.py`, E1).

    For one thread. A writer serves many transactions until it is struck (E5), fenced, or its commit has an unknown
    outcome (E6). Then `close` it and open another with the same id, which must be *admitted* before it sends anything
    (step 6 of docs/architecture.md). After a crash only committed transactions remain; the next `open` of the id ends
    an open one.
    """

    def __init__(self, conf: Mapping[str, Any], transactional_id: str, timeouts: WriterTimeouts | None = None) -> None:
        """`conf` uses librdkafka's names. Nothing is sent before `open`."""
        self.transactional_id = transactional_id
        self.state = WriterState.NEW
        self._timeouts = timeouts or WriterTimeouts()
        self.runs = _runs_of(conf)
        """What was sent in this transaction, with digests, if `conf` asks for that."""
        self._conf = {**conf, "transactional.id": transactional_id, "enable.idempotence": True}
        self._made: TransactionalClient | None = None
        self._is_flushed = True
        self._age = TransactionAge()

    @property
    def _client(self) -> TransactionalClient:
        """Create the client at the first use. If a single request fences the id, no client is created."""
        if self._made is None:
            self._made = transactional_client(self._conf, self.runs)
        return self._made

    @property
    def is_struck(self) -> bool:
        """Return whether the writer must be replaced before the next transaction (E5). Check at every boundary."""
        if self.state is WriterState.OPEN and self._client.strikes > 0:
            self._move(WriterState.STRUCK)
        return self.state is WriterState.STRUCK

    @property
    def is_in_transaction(self) -> bool:
        return self.state is WriterState.IN_TRANSACTION

    @property
    def last_strike(self) -> str | None:
        """Return the log line that reported the last strike."""
        return None if self._made is None else self._made.last_strike

    def open(self, timeout_s: float | None = None, *, topic: str = "") -> None:
        """Take the transactional id. This fences its holder and ends the holder's transaction.

        Args:
            topic: One that it may describe, so that it can connect first (`TransactionalClient.connect`).

        Raises:
            WriterFencedError: a newer producer took the id at the same moment.
            WriterOpenError: the broker cannot be reached in time, or refuses.
        """
        self._ensure_state("be opened", WriterState.NEW)
        for _ in range(_OPEN_ATTEMPTS):
            self._initialise(timeout_s if timeout_s is not None else self._timeouts.open_s, topic)
            if self._client.strikes == 0:
                self._move(WriterState.OPEN)
                return
            # A strike up to here cannot harm a transaction, because none has begun. But librdkafka suppresses repeated
            # log lines, so a client that has reported one strike may not report the next (E5).
            last_strike = self._client.last_strike
            self._client.drop()
            self._made = None
        raise WriterOpenError(
            f"cannot initialise transactional id {self.transactional_id} without losing a connection, "
            f"{_OPEN_ATTEMPTS} times: {last_strike}",
            is_passing=True,
        )

    def lock_out(self, timeout_s: float | None = None) -> bool:
        """Fence the holder of the id and end its transaction without opening. False: only `open` can."""
        self._ensure_state("lock out", WriterState.NEW)
        return lock_out_by_request(
            self._conf, self.transactional_id, timeout_s if timeout_s is not None else self._timeouts.open_s
        )

    def _initialise(self, timeout_s: float, topic: str) -> None:
        try:
            if topic:
                self._client.connect(topic, min(timeout_s, _CONNECT_S))
            self._client.init_transactions(timeout_s)  # E2
        except ProducerError as error:
            if error.failure is Failure.FENCED:
                self._move(WriterState.FENCED)
                raise WriterFencedError(f"transactional id {self.transactional_id}: {error}") from None
            raise WriterOpenError(
                f"cannot initialise transactional id {self.transactional_id}: {error}",
                is_passing=error.failure is Failure.PASSING,
                is_denied=error.failure is Failure.DENIED,
            ) from None

    def send(self, topic: str, value: bytes | None, **fields: Any) -> None:
        """Write one record in the transaction, beginning one if none is open.

        `fields`: key, partition, timestamp (ms), headers ([(name, bytes)]), on_delivery(error, message).
        Raises ProduceError.
        """
        self._ensure_sending()
        try:
            self._client.produce(topic, value, **{k: v for k, v in fields.items() if v is not None})
        except ProducerError as error:
            raise self._produce_error(error) from None

    def send_columns(self, topics: Sequence[str], values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> None:
        """Write records with a value and a key, in order. One topic, or no key, for all of them is a Repeated.

        Raises ProduceError.
        """
        self._ensure_sending()
        with self._waiting() as client:
            client.produce_columns(topics, values, keys)

    def send_placed(self, records: PlacedRecords) -> None:
        """Write records that have partitions, timestamps or headers, in order. Raises ProduceError."""
        self._ensure_sending()
        with self._waiting() as client:
            client.produce_placed(records)

    def send_whole(self, batches: Sequence[PlacedBatch]) -> None:
        """Write batches as they are, in order. Raises ProduceError."""
        self._ensure_sending()
        with self._waiting() as client:
            client.produce_whole(batches)

    def flush(self) -> None:
        """Wait until all records sent so far are in the log. Raises ProduceError or WriterFencedError."""
        self._ensure_state("flush", WriterState.OPEN, WriterState.IN_TRANSACTION)
        if not self._is_flushed:
            with self._waiting() as client:
                client.flush(max(self._timeouts.flush_s, self._left_s()))
            self._is_flushed = True

    def _left_s(self) -> float:
        """Return how many seconds the open transaction has left. A longer time-out set by the user is used fully."""
        is_open = self.state is WriterState.IN_TRANSACTION
        return transaction_timeout_ms(self._conf) / 1000 - self._age.total_s if is_open else 0.0

    def send_group_offsets(self, offsets: Sequence[GroupOffset], group_metadata: Any) -> None:
        """Add offsets of a consumer group to the transaction, beginning one if none is open.

        Raises ProduceError, WriterFencedError, StaleMemberError.
        """
        self._ensure_begun()
        self.flush()
        with self._waiting() as client:
            client.begin_offsets(offsets, group_metadata, self._timeouts.commit_s)
            client.await_offsets()

    def begin_group_offsets(self, offsets: Sequence[GroupOffset], group_metadata: Any) -> None:
        """Start adding offsets of a consumer group to the transaction while its records are being flushed.

        `await_group_offsets` waits for the outcome, and so does a commit. Raises ProduceError.
        """
        self._ensure_begun()
        try:
            self._client.begin_offsets(offsets, group_metadata, self._timeouts.commit_s)
        except ProducerError as error:
            raise self._produce_error(error) from None

    def await_group_offsets(self) -> None:
        """Wait for the offsets of `begin_group_offsets`. Raises ProduceError, WriterFencedError, StaleMemberError."""
        self._ensure_state("await offsets", WriterState.OPEN, WriterState.IN_TRANSACTION)
        with self._waiting() as client:
            client.await_offsets()

    def commit(self, *, group_offsets: Sequence[GroupOffset] = (), group_metadata: Any = None) -> None:
        """Commit the records sent, source offsets among them, all together.

        With `group_offsets` and `group_metadata` the coordinator refuses a stale member (E4). Afterwards the writer is
        open, or it is struck: the transaction is committed, but the writer must be replaced.

        Raises:
            ProduceError, WriterFencedError, StaleMemberError: certainly not committed.
            CommitUnknownError: the outcome is unknown (E6).
        """
        if group_metadata is not None:
            self.send_group_offsets(group_offsets, group_metadata)
        else:
            self._ensure_begun()
            self.flush()
        self.await_group_offsets()
        try:
            with self._age.waiting():
                self._client.commit(self._timeouts.commit_s)
        except ProducerError as error:
            self._move(WriterState.UNKNOWN)  # E6
            raise CommitUnknownError(
                f"the outcome of a commit of transactional id {self.transactional_id} is unknown: {error}",
                has_expired=error.failure is Failure.FENCED and self._is_overdue(),
            ) from None
        self._end()

    def abort(self) -> None:
        """Abort the open transaction, if there is one. Leaves the writer open, or struck if the outcome is in doubt.

        It is also in doubt if the broker does not know the transaction yet. While a broker writes the markers of the
        last transaction, it adds no partition to the next, and librdkafka (2.16) may then request the end before it
        retries.
        """
        if self.state is not WriterState.IN_TRANSACTION:
            return
        try:
            self._client.abort(self._timeouts.abort_s)
        except ProducerError as error:
            log.info("abort of %s failed (%s); the next holder of the id ends it", self.transactional_id, error)
            self._move(WriterState.FENCED if error.failure is Failure.FENCED else WriterState.STRUCK)
            return
        self._client.failed_delivery = None
        self._end()

    def close(self) -> None:
        """Drop the producer at once. The next holder of the id ends an open transaction."""
        if self.state is WriterState.CLOSED:
            return
        self._move(WriterState.CLOSED)
        if self._made is not None:
            self._made.drop()

    def _ensure_sending(self) -> None:
        self._ensure_begun()
        self._is_flushed = False

    def _ensure_begun(self) -> None:
        if self.state is WriterState.IN_TRANSACTION:
            return
        self._ensure_state("begin a transaction", WriterState.OPEN)
        try:
            self._client.begin()
        except ProducerError as error:
            raise self._produce_error(error) from None
        self._age.begin()
        self._move(WriterState.IN_TRANSACTION)

    @contextmanager
    def _waiting(self) -> Iterator[TransactionalClient]:
        """Yield the client, count the time spent in the block as its, and convert its errors."""
        try:
            with self._age.waiting():
                yield self._client
        except ProducerError as error:
            raise self._produce_error(error) from None

    def _is_overdue(self) -> bool:
        """Return whether the transaction exceeded its time-out although the brokers were healthy.

        If the caller alone took that long, a lost connection does not count as a broker problem: brokers
        (`connections.max.idle.ms`) and network devices close idle connections.
        """
        age_s, most_s = self._age.total_s, transaction_timeout_ms(self._conf) / 1000
        is_undisturbed = self._client.strikes == 0 or self._client.is_slow
        return age_s >= most_s and (is_undisturbed or self._age.own_s >= most_s)

    def _ensure_state(self, what: str, *allowed: WriterState) -> None:
        if self.state is WriterState.FENCED:  # not a bug: an abort, for example, only discovers this
            raise WriterFencedError(f"transactional id {self.transactional_id} was fenced: the writer cannot {what}")
        if self.state not in allowed:
            raise IllegalMoveError(f"a transactional writer that is '{self.state.value}' cannot {what}")

    def _end(self) -> None:
        struck = self._client.strikes > 0  # E5
        if struck:
            log.info("transactional id %s is struck: %s", self.transactional_id, self._client.last_strike)
        self._move(WriterState.STRUCK if struck else WriterState.OPEN)

    def _produce_error(self, error: ProducerError) -> Exception:
        if error.failure is Failure.FENCED:
            has_expired = self.state is WriterState.IN_TRANSACTION and self._is_overdue()
            if self.state is not WriterState.FENCED:
                self._move(WriterState.FENCED)
            return WriterFencedError(f"transactional id {self.transactional_id}: {error}", has_expired=has_expired)
        if error.failure is Failure.MEMBERSHIP:
            self.abort()
            return StaleMemberError(f"transactional id {self.transactional_id}: {error}")
        is_overdue = self.state is WriterState.IN_TRANSACTION and self._is_overdue()
        if self.state is WriterState.IN_TRANSACTION and self._client.failed_delivery is None:
            self._client.failed_delivery = error  # a later commit must not succeed without this record (E1)
        return produce_error(error, is_overdue=is_overdue)

    def _move(self, target: WriterState) -> None:
        self.state = move(self.state, target)
