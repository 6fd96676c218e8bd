"""What tasks say of their batches and commits, of which `spans` makes spans."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.kafka.value.fetched import Fetched
    from fencepost.record import HeaderBytes
    from fencepost.task.delivery.outgoing import Outgoing

_NOTHING: AbstractContextManager[None] = nullcontext()


@dataclass(frozen=True)
class FrameWork:
    """What a DataFrame task is about to do: run `count` splits of a source, or an epoch of `count` offsets.

    `has_commit`: the driver commits it, or knows when it was committed.
    """

    topics: Collection[str]
    count: int
    is_epoch: bool
    has_commit: bool = True


class FrameBatch:
    """What a DataFrame task says of a batch while it works on it. Does nothing."""

    @property
    def headers(self) -> "Sequence[HeaderBytes]":
        """Return the headers of records that executors write."""
        return ()

    def wrote(self, count: int) -> None:
        """Record how many records executors have written."""

    def cut_short(self) -> None:
        """Record that it is given up without a failure: its partitions are others', or the task stops."""


class Tracing:
    """Does nothing. `SpanTracing` makes spans. Of one instance of a task, and used by its thread only.

    No method raises an error of its own, or waits. Times in seconds are those of `time.monotonic`.
    """

    def sending(self, count: int, poll_s: float) -> AbstractContextManager[None]:
        """Enclose what is done with `count` records that `poll` has just returned; it took `poll_s`."""
        return _NOTHING

    def processing(self, fetched: "Fetched") -> AbstractContextManager[None]:
        """Enclose what is done with records that were read from topics."""
        return _NOTHING

    def frame(self, work: FrameWork) -> AbstractContextManager[FrameBatch]:
        """Enclose what a DataFrame task does with splits, or with an epoch; yield what more can be said of it."""
        return nullcontext(FrameBatch())

    def putting_again(self) -> AbstractContextManager[None]:
        """Enclose another `put` of the newest batch, which was refused."""
        return _NOTHING

    def step(self, name: str) -> AbstractContextManager[None]:
        """Enclose a part of what is done with a batch."""
        return _NOTHING

    def refused(self, error: BaseException) -> None:
        """Record that the batch was refused for now, and will be put again."""

    def stamped(self, outgoing: "Outgoing") -> "Outgoing":
        """Return the records of a batch, with its `traceparent` in the headers of those that have none."""
        return outgoing

    def commit_begun(self, begun_s: float) -> None:
        """Record that a commit of all batches since the last one has begun."""

    def committed(self, ended_s: float) -> None:
        """Record that the oldest commit that had begun has ended."""

    def commit_failed(self, error: BaseException) -> None:
        """Record that the batches since the last commit, and those of commits that have begun, are not committed."""

    def aborted(self) -> None:
        """Record that the batches since the last commit were taken back."""

    def dropped(self) -> None:
        """Record that what was not committed never will be."""


NO_TRACING = Tracing()
