"""Writes the rows of one Spark partition exactly once.

Order (E3): 1 `init_transactions` ▸ 2 admission ▸ 3 position, which is part of the admission ▸ 4 produce ▸ 5 check that
all rows have arrived and the source is unchanged ▸ 6 position into the same transaction ▸ 7 commit. A writer that was
struck is replaced through steps 1 to 3, and the position must then be the one that it last committed.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fencepost.api import FatalError, FencedError
from fencepost.task.delivery.copies import OffsetCopier, with_copies
from fencepost.task.delivery.delivery import Delivery
from fencepost.task.delivery.finish import OffsetRecords
from fencepost.task.delivery.lanes import open_delivery
from fencepost.task.delivery.outgoing import OutgoingColumns

FLUSH_S = 60.0
_COMMIT_TRIES = 5

Position = Mapping[str, Any]


class SourceChangedError(FatalError):
    """The source is no longer what was planned; nothing more of it is committed."""


class PartitionRun(Protocol):
    """One attempt at one partition: its target, and what is known about it. `transactional_id` None: at least once."""

    @property
    def producer_conf(self) -> Mapping[str, Any]: ...
    @property
    def transactional_id(self) -> str | None: ...
    @property
    def offsets_topic(self) -> str: ...
    @property
    def rows_per_commit(self) -> int: ...
    @property
    def copier(self) -> OffsetCopier | None:
        """Return the function that copies the position to the worker's topic, if the connector has its own topic."""

    def admit(self) -> Position | None:
        """Return the committed position. Called after every `init_transactions`. Raises FencedError."""

    def is_unchanged(self) -> bool:
        """Return whether the source is still what was planned."""

    def remaining(self, batches: Iterable[Any], committed: Position | None) -> Iterable[Any]:
        """Yield the rows after the committed ones. Raises an error if the committed rows have changed."""

    def offset_records(self, position: Position) -> OffsetRecords:
        """Return the records of a position: `{"rows": n}`, with `"done": true` after the last row."""


@dataclass(frozen=True)
class PartitionResult:
    """`rows` of the partition, in all attempts together; `skipped`: an earlier attempt had written them all.

    `commit_s`: how long the last commit took.
    """

    rows: int
    skipped: bool
    commit_s: float = 0.0


def write_partition(
    run: PartitionRun,
    batches: Iterable[Any],
    outgoing: Callable[[Any], OutgoingColumns],
    ensure_complete: Callable[[], None],
) -> PartitionResult:
    """Write the rows of Arrow `batches` and the position that covers them.

    Raises:
    FencedError: A newer attempt has the id.
    CommitUnknownError: The outcome of a commit is unknown; run the partition again.
    Exception: Nothing of the open transaction is committed.
    """
    writing = _Writing(run)
    try:
        found = writing.start()
        position = found or {}
        if position.get("done"):
            return PartitionResult(int(position.get("rows", 0)), skipped=True)
        writing.rows = int(position.get("rows", 0))
        for piece in _pieces(run.remaining(batches, found), run.rows_per_commit):
            if piece is None:
                writing.commit({"rows": writing.rows})
            else:
                writing.send(outgoing(piece))
        ensure_complete()  # 5
        writing.commit({"done": True, "rows": writing.rows})
        return PartitionResult(writing.rows, skipped=False, commit_s=writing.commit_s)
    except BaseException:
        writing.abort()
        raise
    finally:
        writing.close()
        if run.copier is not None:
            run.copier.close()


def rows_after(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Yield the rows after the first `rows`."""
    for batch in batches:
        skipped = min(rows, batch.num_rows)
        rows -= skipped
        if skipped < batch.num_rows:
            yield batch.slice(skipped)


def _pieces(batches: Iterable[Any], rows_per_commit: int) -> Iterator[Any]:
    """Yield the rows, and None whenever a transaction is full."""
    in_transaction = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            room = rows_per_commit - in_transaction if rows_per_commit else batch.num_rows
            piece = batch.slice(start, min(room, batch.num_rows - start))
            yield piece
            start += piece.num_rows
            in_transaction += piece.num_rows
            if in_transaction == rows_per_commit:
                yield None
                in_transaction = 0


class _Writing:
    """The writer of one attempt; it is replaced if it was struck."""

    def __init__(self, run: PartitionRun) -> None:
        self._run = run
        self._delivery: Delivery | None = None
        self._committed: Position | None = None
        self.rows = 0
        self.commit_s = 0.0  # how long the last commit took

    def start(self) -> Position | None:
        """Carry out steps 1 to 3 for the first time, and return the position."""
        self._committed = self._open()
        return self._committed

    def _open(self) -> Position | None:
        run = self._run
        opened = open_delivery(run.producer_conf, run.transactional_id, run.offsets_topic, FLUSH_S)  # 1
        self._delivery = with_copies(opened, run.copier, run.offsets_topic)
        return run.admit()  # 2, 3 (E3)

    def send(self, records: OutgoingColumns) -> None:
        """Carry out step 4."""
        if self._opened.must_be_replaced:
            self._replace()
        self._opened.send(records)
        self.rows += len(records)

    def commit(self, position: dict[str, Any]) -> None:
        """Carry out steps 5 to 7."""
        if self._opened.must_be_replaced:
            self._replace()
        if not self._run.is_unchanged():  # 5
            raise SourceChangedError("the source changed while it was read; it is planned again in its new state")
        records, began_s = self._run.offset_records(position), time.monotonic()
        for _ in range(_COMMIT_TRIES):
            if self._opened.commit(records):  # 6, 7 (E1)
                self._opened.finished()
                self._committed = position
                self.commit_s = time.monotonic() - began_s
                return
        raise FatalError(f"the position was not acknowledged within {_COMMIT_TRIES * FLUSH_S:g} s")

    def abort(self) -> None:
        if self._delivery is not None:
            with contextlib.suppress(Exception):  # the next owner of the id ends the open transaction
                self._delivery.abort()

    def close(self) -> None:
        if self._delivery is not None:
            self._delivery.close()
            self._delivery = None

    @property
    def _opened(self) -> Delivery:
        assert self._delivery is not None
        return self._delivery

    def _replace(self) -> None:
        """Open a new producer (E5). Between transactions nothing is in flight."""
        self.close()
        found = self._open()
        if _progress(found) != _progress(self._committed):  # E7
            raise FencedError(f"the position is {found}, but this attempt left {self._committed}: a newer one writes")


def _progress(position: Position | None) -> tuple[int, bool]:
    return (0, False) if position is None else (int(position.get("rows", 0)), bool(position.get("done")))
