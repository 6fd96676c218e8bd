"""One run of a split, or of several, as the worker describes it over the channel: the runtime's `PartitionRun`."""

import contextlib
import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from fencepost.api import FatalError, RetriableError
from fencepost.config import ConfigError
from fencepost.record import HeaderBytes
from fencepost.spark.partition.write import PartitionResult, Position, rows_after
from fencepost.task.channel.client import ChannelError, SplitClient
from fencepost.task.delivery.copies import OffsetCopier
from fencepost.task.delivery.finish import OffsetRecords
from fencepost.task.source.processing import split_conf
from fencepost.transaction import (
    CommitUnknownError,
    ProduceError,
    WriterFencedError,
    WriterOpenError,
    is_refusal,
)

TIME_ZONE = "spark.sql.session.timeZone"
"""The setting that gives timestamps without a time zone their meaning."""

_LATER = frozenset({TIME_ZONE})
"""The parts that positions of earlier releases do not record."""

_BEFORE = {"reader.escape": "\\", "reader.multiLine": "false"}
"""The values that applied when earlier releases did not record them."""

READING = "reading"
"""The key in a source offset for the fingerprint of how the counted rows were made."""


class ReadingChangedError(ConfigError):
    """Part of the split is committed, but its rows would now be different: to continue would lose or repeat some."""


def fingerprint(made_of: Mapping[str, str]) -> str:
    """Return a short text that is the same in every process, and from which `changes` finds the differences."""
    return " ".join(f"{name}={_hash(value)}" for name, value in sorted(made_of.items()))


def changes(before: str, now: str) -> list[str]:
    """Return the names of the parts that differ between two fingerprints."""
    old, new = (_parts(before), _parts(now))
    old = {**{name: _hash(value) for name, value in _BEFORE.items() if name in new}, **old}
    unknown = _LATER - (old.keys() & new.keys())
    return sorted(name for name in (old.keys() | new.keys()) - unknown if old.get(name) != new.get(name))


def _parts(text: str) -> dict[str, str]:
    """Return a fingerprint's hashes by name. A text in another format, which users can set, has no part in common."""
    return {name or entry: value for entry in text.split() for name, _, value in [entry.rpartition("=")]}


def ensure_same_reading(partition: Any, position: Mapping[str, Any] | None, reading: str) -> None:
    """Raise ReadingChangedError if rows of another reading are committed. A position without a fingerprint is
    accepted.
    """
    before = (position or {}).get(READING)
    if position is None or position.get("done") or before is None or not changes(str(before), reading):
        return
    rows = position.get("rows", 0)
    raise ReadingChangedError(
        f"{rows} rows of {partition} are committed, but its rows would be made in another way now: "
        f"{', '.join(changes(str(before), reading))} changed. Restore that until the split is done, or set the split's "
        f'offset (PATCH /connectors/NAME/offsets): null to read it from its start, {{"rows": {rows}}} to continue '
        "after that many of the new rows"
    )


def _hash(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()[:8]


SPLIT_COLUMN = "split"
"""The column that says which of several splits a row belongs to: its index among them, as text."""

_PASSING = (RetriableError, CommitUnknownError, WriterOpenError, ProduceError)


class PartlyDoneError(FatalError):
    """Some of the splits are done and others are not: they have to be planned again."""


class ChannelRun:
    """Asks the worker for everything it needs to know, and keeps what the run consists of."""

    def __init__(self, client: SplitClient, reading: str = "") -> None:
        """Store `reading`, which describes how the rows of a split are made, if there is only one."""
        self._client = client
        self._reading = reading
        self._spec = client.spec()
        self._conf = split_conf(self._spec)
        self._rows = [0] * len(self._spec.offset_keys)
        self._began_s: float | None = None
        self.headers: Sequence[HeaderBytes] = ()  # for each record that has no `traceparent`; known once it is admitted
        self._copier = OffsetCopier(client.copy, self._spec.run) if self._spec.copies_offsets else None

    @property
    def topic(self) -> str | None:
        """Return the topic of all rows; None if each row names its own."""
        return self._spec.topic or None

    @property
    def producer_conf(self) -> Mapping[str, Any]:
        return self._conf

    @property
    def transactional_id(self) -> str | None:
        return self._spec.transactional_id

    @property
    def offsets_topic(self) -> str:
        return self._spec.offsets_topic

    @property
    def copier(self) -> OffsetCopier | None:
        return self._copier

    @property
    def rows_per_commit(self) -> int:
        return self._spec.rows_per_commit

    def admit(self) -> Position | None:
        """Return the position of the splits. If there are several, all are done or none has begun.

        Raises ReadingChangedError if part of a split is committed whose rows are now made differently.
        """
        admission = self._client.admit()
        positions, self.headers = admission.positions, admission.headers
        if len(positions) == 1:
            ensure_same_reading(self._spec.offset_keys[0].decode(), positions[0], self._reading)
            return positions[0]
        if not any(positions):
            return None
        if not all(position and position.get("done") for position in positions):
            raise PartlyDoneError("some splits of one commit are done already: all are planned again")
        self._rows = [int(position.get("rows", 0)) for position in positions if position]
        return {"done": True, "rows": sum(self._rows)}

    def without_split(self, batch: Any) -> Any:
        """Count the rows of each split, and return the batch without the column that names it.

        Called for each batch right before it is sent.
        """
        self._began_s = self._began_s or time.monotonic()
        if SPLIT_COLUMN in batch.schema.names:
            for count in batch.column(SPLIT_COLUMN).value_counts().to_pylist():
                self._rows[int(count["values"])] += count["counts"]
            return batch.drop_columns([SPLIT_COLUMN])
        return batch

    def is_unchanged(self) -> bool:
        return self._client.is_unchanged()

    def remaining(self, batches: Iterable[Any], committed: Position | None) -> Iterable[Any]:
        """Yield the rows after the committed ones. The reading guarantees that these have not changed."""
        return rows_after(batches, int((committed or {}).get("rows", 0)))

    def offset_records(self, position: Position) -> OffsetRecords:
        """Return the position of each split; with the last one, tombstones for the offsets that are to be forgotten.

        The position of a part contains how its rows were made.
        """
        is_done = bool(position.get("done"))
        if self._spec.offset is not None:
            (key,) = self._spec.offset_keys
            return [(key, orjson.dumps(self._spec.offset)), *((key, None) for key in self._spec.forget)]
        whole = position if is_done or not self._reading else {**position, READING: self._reading}
        rows = self._rows_of_each(position["rows"])
        own = [(key, orjson.dumps({**whole, "rows": n})) for key, n in zip(self._spec.offset_keys, rows, strict=True)]
        forgotten = [(key, None) for key in self._spec.forget] if is_done else []
        return [*own, *forgotten]

    def report(self, written: PartitionResult) -> None:
        rows = self._rows_of_each(written.rows)
        self._client.report(rows, skipped=written.skipped, commit_s=written.commit_s)

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Report to the worker an error that it must distinguish from others: Spark only reports that there was an
        error.

        If a transaction was open for too long, the broker has ended it and fenced the producer. A newer producer fences
        it too, but seldom so late. An error that a new producer may not meet is temporary, however late it comes:
        unreachable brokers are noticed after a minute. Nothing is reported for at-least-once, where every retry writes
        everything again.
        """
        try:
            yield
        except Exception as error:
            with contextlib.suppress(ChannelError):
                if isinstance(error, WriterFencedError | CommitUnknownError | ProduceError) and error.has_expired:
                    self._client.expired(0.0 if self._began_s is None else time.monotonic() - self._began_s)
                elif self._passes(error):
                    self._client.temporary_failure(f"{type(error).__name__}: {error}")
            raise

    def _passes(self, error: Exception) -> bool:
        """Return whether a new producer may succeed: only in a transaction, of which nothing remains then."""
        is_exact = self._spec.transactional_id is not None
        return is_exact and isinstance(error, _PASSING) and not is_refusal(error)

    def _rows_of_each(self, all_rows: int) -> list[int]:
        return [all_rows] if len(self._rows) == 1 else self._rows


def split_run(channel_url: str, run: str, reading: str = "") -> ChannelRun:
    """Return the run `run` of the worker at `channel_url`. Raises ChannelError."""
    return ChannelRun(SplitClient(channel_url, run), reading)
