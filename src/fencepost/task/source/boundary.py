"""When a transaction ends: `transaction.boundary` (KIP-618)."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import ClassVar

from fencepost.api import FatalError
from fencepost.record import SourceRecord

log = logging.getLogger(__name__)

_MOST_WAITING = 10_000


class BoundaryDecision(Enum):
    """What to do at a point of the record stream."""

    GO_ON = "go on"
    COMMIT = "commit"
    ABORT = "abort"


Segment = tuple[int, int, BoundaryDecision]
"""Records `start` to `stop` of a batch, and what follows them."""


class Boundary(ABC):
    """Decides where transactions end. Used by the task's thread only."""

    @abstractmethod
    def segments(self, records: Sequence[SourceRecord] | None, count: int) -> Iterator[Segment]:
        """Cut the result of one `poll` (`count` records, possibly none) into segments, each with a verdict.

        `records` are the author's own objects, or None for a batch of columns. The last segment may be empty.
        """

    @abstractmethod
    def should_commit_at_end(self) -> bool:
        """Say whether a clean stop or a pause commits the open transaction; if not, it is aborted."""

    def committed(self) -> None:
        """Called for every accepted commit."""

    may_end_early: ClassVar[bool] = False
    """Whether a transaction may end after any batch once it is large enough."""


class PollBoundary(Boundary):
    """Each batch that `poll` returns is a transaction, even an empty one."""

    def segments(self, records: Sequence[SourceRecord] | None, count: int) -> Iterator[Segment]:
        yield 0, count, BoundaryDecision.COMMIT

    def should_commit_at_end(self) -> bool:
        return True


class IntervalBoundary(Boundary):
    """A transaction ends with the first batch after `interval_s` have passed since the last commit that was due.

    Commits before that, of a transaction that is large enough, do not put the next one off.
    """

    may_end_early = True

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._last = clock()

    def segments(self, records: Sequence[SourceRecord] | None, count: int) -> Iterator[Segment]:
        yield 0, count, BoundaryDecision.COMMIT if self._is_due() else BoundaryDecision.GO_ON

    def should_commit_at_end(self) -> bool:
        return True

    def committed(self) -> None:
        if self._is_due():
            self._last = self._clock()

    def _is_due(self) -> bool:
        return self._clock() - self._last >= self._interval_s


class ConnectorBoundary(Boundary):
    """The task decides where transactions end; this is also its `TransactionContext`.

    As in Kafka Connect, a request after a record waits until `poll` returns that very object.
    """

    def __init__(self) -> None:
        self._at_end: set[BoundaryDecision] = set()
        self._after: dict[
            int, tuple[SourceRecord, set[BoundaryDecision]]
        ] = {}  # holds the record, so that its id stays unique
        self._has_warned = False

    @property
    def has_waiting_requests(self) -> bool:
        """Say whether a request waits for a record that `poll` has not returned yet."""
        return bool(self._after)

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        self._request(record, BoundaryDecision.COMMIT)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        self._request(record, BoundaryDecision.ABORT)

    def _request(self, record: SourceRecord | None, verdict: BoundaryDecision) -> None:
        if record is None:
            self._at_end.add(verdict)
        else:
            if len(self._after) >= _MOST_WAITING and id(record) not in self._after:
                raise FatalError(
                    f"the task asked for the end of a transaction after each of {len(self._after)} records that poll "
                    "has not returned; pass the same objects that poll returns, before it returns them"
                )
            self._after.setdefault(id(record), (record, set()))[1].add(verdict)

    def segments(self, records: Sequence[SourceRecord] | None, count: int) -> Iterator[Segment]:
        start = 0
        for index, record in enumerate(records or ()):
            _, asked = self._after.pop(id(record), (None, set()))
            if asked:
                yield start, index + 1, _only(asked, f"record {index} of a batch")
                start = index + 1
        self._see_to_what_waits(has_columns=records is None and count > 0, count=count)
        asked, self._at_end = self._at_end, set()
        yield start, count, _only(asked, "the end of a batch") if asked else BoundaryDecision.GO_ON

    def _see_to_what_waits(self, *, has_columns: bool, count: int) -> None:
        """Warn once that requests wait. Raises FatalError for a batch of columns, whose rows are not record objects."""
        if not self._after:
            return
        if has_columns:
            raise FatalError(
                "the task asked for the end of a transaction after a record, but poll returned a batch of columns, "
                "whose rows are not records; call it without a record, for the end of the batch, or return records"
            )
        if count and not self._has_warned:
            self._has_warned = True
            log.warning(
                "the task asked for the end of a transaction after a record that poll did not return this time; the "
                "request is kept until it does (logged once)"
            )

    def should_commit_at_end(self) -> bool:
        """Return False: every commit that the task asked for was made with its batch."""
        return False


def _only(asked: set[BoundaryDecision], where: str) -> BoundaryDecision:
    if len(asked) > 1:
        raise FatalError(f"the task asked for both a commit and an abort of the transaction at {where}")
    return next(iter(asked))


def boundary_of(name: str, interval_ms: int) -> Boundary:
    """Return the boundary with this name: poll, interval or connector."""
    if name == "interval":
        return IntervalBoundary(interval_ms / 1000)
    return ConnectorBoundary() if name == "connector" else PollBoundary()
