"""Events of batches and commits, of which `spans` makes spans, and the headers of records that carry a trace.

https://www.w3.org/TR/trace-context/ defines the headers. Spark's executors add them to rows of DataFrame tasks, which
the driver traces, without OpenTelemetry's library.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from fencepost.record import HeaderBytes, Repeated, Runs, runs_of
from fencepost.task.delivery.outgoing import Outgoing, OutgoingColumns

if TYPE_CHECKING:
    from fencepost.kafka.value.fetched import Fetched
    from fencepost.record import HeaderBytes
    from fencepost.task.delivery.outgoing import Outgoing


TRACEPARENT, TRACESTATE = "traceparent", "tracestate"

_Outgoing = TypeVar("_Outgoing", bound=Outgoing)


def with_headers(outgoing: _Outgoing, own: Sequence[HeaderBytes]) -> _Outgoing:
    """Return the records, with these headers added to those that have no `traceparent`.

    Whole batches of a mirror stay as they are.
    """
    if not isinstance(outgoing, OutgoingColumns) or not len(outgoing) or not own:
        return outgoing
    given = outgoing.headers
    if given is None or not any(pairs for pairs, _ in runs_of(given)):
        return replace(outgoing, headers=Repeated(tuple(own), len(outgoing)))
    if isinstance(given, Repeated):
        return replace(outgoing, headers=Repeated(_added(given.value, own), len(outgoing)))
    if isinstance(given, Runs):
        return replace(outgoing, headers=Runs([_added(pairs, own) for pairs in given.values], given.counts))
    return replace(outgoing, headers=[_added(pairs, own) for pairs in given])


def _added(pairs: Sequence[HeaderBytes], own: Sequence[HeaderBytes]) -> Sequence[HeaderBytes]:
    if any(name == TRACEPARENT for name, _ in pairs):
        return pairs
    # A `tracestate` without a `traceparent` means nothing, and would be taken for that of ours.
    return (*(pair for pair in pairs if pair[0] != TRACESTATE), *own)


_NOTHING: AbstractContextManager[None] = nullcontext()


@dataclass(frozen=True)
class FrameWork:
    """The next work of a DataFrame task: `count` splits of a source, or an epoch of `count` offsets.

    `has_commit`: the driver commits it, or knows when it was committed.
    """

    topics: Collection[str]
    count: int
    is_epoch: bool
    has_commit: bool = True


class FrameBatch:
    """Receives a DataFrame task's remarks about the batch that it works on. Does nothing."""

    @property
    def headers(self) -> "Sequence[HeaderBytes]":
        """Return the headers of records that executors write."""
        return ()

    def wrote(self, count: int) -> None:
        """Record how many records executors have written."""

    def cut_short(self) -> None:
        """Record that it is given up without a failure: its partitions are others', or the task stops."""


class Tracing:
    """Receives the batches and commits of one instance of a task, from its thread only. `SpanTracing` makes spans.

    No method raises an error of its own, or waits. Times in seconds are those of `time.monotonic`.
    """

    def sending(self, count: int, poll_s: float) -> AbstractContextManager[None]:
        """Enclose the work on `count` records that `poll` has just returned; `poll` took `poll_s`."""
        return _NOTHING

    def processing(self, fetched: "Fetched") -> AbstractContextManager[None]:
        """Enclose the work on records that were read from topics."""
        return _NOTHING

    def frame(self, work: FrameWork) -> AbstractContextManager[FrameBatch]:
        """Enclose a DataFrame task's work on splits, or on an epoch; yield the object that takes further remarks."""
        return nullcontext(FrameBatch())

    def putting_again(self) -> AbstractContextManager[None]:
        """Enclose another `put` of the newest batch, which was refused."""
        return _NOTHING

    def step(self, name: str) -> AbstractContextManager[None]:
        """Enclose a step of the work on a batch."""
        return _NOTHING

    def refused(self, error: BaseException) -> None:
        """Record that the batch was refused for now, and will be put again."""

    def stamped(self, outgoing: "Outgoing") -> "Outgoing":
        """Add the batch's `traceparent` to the headers of records without one, and return the records."""
        return outgoing

    def commit_begun(self, begun_s: float) -> None:
        """Record that a commit of all batches since the last one has begun."""

    def committed(self, ended_s: float) -> None:
        """Record that the oldest commit that had begun has ended."""

    def commit_failed(self, error: BaseException) -> None:
        """Record that no batch since the last commit, and none of the commits in progress, is committed."""

    def aborted(self) -> None:
        """Record that the batches since the last commit were taken back."""

    def dropped(self) -> None:
        """Record that batches without a commit never get one."""


NO_TRACING = Tracing()
