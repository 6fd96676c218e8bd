"""Reads topics into the last row of each key, for the audit of a database."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

from fencepost.api import FatalError, SinkBatch
from fencepost.builtin.postgres.audit.snapshot import DatabaseSnapshot, Visible
from fencepost.builtin.postgres.audit.table import ComparedTable, Row, RowDifferenceKind, Seen, Topics, Truncated
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.produced import Produced
from fencepost.ledger.fold import Fold
from fencepost.ledger.log import OnPartition, await_committed, read_log
from fencepost.postgres import ConnectionSettings
from fencepost.record import TopicPartition

_SAMPLE = 500  # records by which columns are chosen
_RECENT = 10_000  # transactions of a partition: far more than can be committed and not visible

Decode = Callable[[TopicPartition, Produced], SinkBatch]
"""Returns records as the connector's converters read them."""


class Side(Protocol):
    """What a kind of connector makes of tables and records."""

    @property
    def database(self) -> ConnectionSettings: ...

    def tables(self, snapshot: DatabaseSnapshot, topics: Topics) -> list[ComparedTable]:
        """Return the tables that are compared, as the snapshot has them."""

    def changes(self, table: ComparedTable, place: TopicPartition, batch: SinkBatch) -> Iterator[Row | Truncated]:
        """Yield what records make of a table, in order."""

    def seen(self, table: ComparedTable, batch: SinkBatch) -> Seen:
        """Return what the one record of a batch has of a table."""

    def excuse(self, kind: RowDifferenceKind, table: ComparedTable) -> str:
        """Say why a row that differs so may be right nevertheless; empty if it is a fault."""


class TopicRows:
    """The topics of one connector. `conf` is made by `range_conf`."""

    def __init__(self, conf: Mapping[str, Any], side: Side, decode: Decode, on_read: OnPartition | None = None) -> None:
        self.side = side
        self._conf, self._decode, self._on_read = conf, decode, on_read
        self._admin = Admin(conf, timeout_s=30.0)
        self._recent: dict[TopicPartition, deque[int]] = {}
        self._left_out: dict[TopicPartition, int] = {}
        self.cut: set[str] = set()
        """The topics whose first records are deleted."""

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._admin.close()

    def ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return which topics exist, with their ids."""
        return {name: found.id for name, found in self._admin.topics.get_all(set(topics)).items()}

    def ends(self, tables: Sequence[ComparedTable]) -> dict[TopicPartition, int]:
        """Return up to where records are committed or aborted."""
        return _by_place(self._admin.offsets.ends(self._places(tables), read_committed=True))

    def awaited_ends(self, tables: Sequence[ComparedTable], wait_s: float) -> dict[TopicPartition, int] | None:
        """Return the ends of the topics once all before is committed or aborted; None if it is not so in time."""
        written = self._admin.offsets.ends(self._places(tables), read_committed=False)
        ends = await_committed(self._admin, written, wait_s)
        return None if any(ends[place] < end for place, end in written.items()) else _by_place(ends)

    def read(
        self,
        fold: Fold,
        tables: Sequence[ComparedTable],
        ends: Mapping[TopicPartition, int],
        visible: Visible | None = None,
    ) -> None:
        """Read on up to these offsets. What `visible` transactions have not written is left out.

        The file says that it was read up to the first record that was left out: an audit that goes on needs that one.
        """
        starts = _by_place(self._admin.offsets.starts(ends))
        self.cut.update(place.topic for place, start in starts.items() if start)
        numbers = {topic: (number, table) for number, table in enumerate(tables) if table.key for topic in table.topics}
        for place, end in ends.items():
            if place.topic in numbers:
                number, table = numbers[place.topic]
                start = fold.next_offset(place)
                if start > end:
                    raise FatalError(
                        f"the offset of {place} was set back: repeat the audit, without a file of an old one"
                    )
                for piece in read_log(self._conf, place, max(starts[place], start), end, self._on_read):
                    found = self.side.changes(table, place, self._decode(place, piece))
                    self._add(fold, number, place, self._shown(place, found, visible))
                    fold.add(place, number, self._kept_up_to(place, piece.offset + len(piece)), ())
                fold.add(place, number, self._kept_up_to(place, end), ())

    def are_visible(self, visible: Visible) -> bool:
        """Say whether a snapshot shows the transactions of what was read last."""
        return all(xid in visible for recent in self._recent.values() for xid in set(recent))

    def record(self, place: TopicPartition, offset: int) -> SinkBatch:
        """Return one record."""
        [piece] = [each for each in read_log(self._conf, place, offset, offset + 1) if len(each)]
        return self._decode(place, piece)

    def last(self, place: TopicPartition, end: int) -> Iterator[SinkBatch]:
        """Yield the last records of a partition before an offset: more each time, in the end all."""
        first, start, count = _by_place(self._admin.offsets.starts([place]))[place], end, 1
        while start > first:
            count *= _SAMPLE
            start = max(first, end - count)
            yield SinkBatch.joined([self._decode(place, piece) for piece in read_log(self._conf, place, start, end)])

    def _places(self, tables: Sequence[ComparedTable]) -> list[TopicPartition]:
        known = self._admin.topics.get_all({topic for table in tables for topic in table.topics})
        return [TopicPartition(name, number) for name in sorted(known) for number in range(known[name].partitions)]

    def _shown(
        self, place: TopicPartition, found: Iterator[Row | Truncated], visible: Visible | None
    ) -> Iterator[Row | Truncated]:
        recent, last = self._recent.setdefault(place, deque(maxlen=_RECENT)), None
        for each in found:
            if visible is None and each.xid is not None and each.xid != last:
                recent.append(each.xid)
                last = each.xid
            if visible is None or each.xid is None or each.xid in visible:
                yield each
            else:
                self._left_out.setdefault(place, each.at)

    def _kept_up_to(self, place: TopicPartition, offset: int) -> int:
        return min(offset, self._left_out.get(place, offset))

    def _add(self, fold: Fold, number: int, place: TopicPartition, found: Iterator[Row | Truncated]) -> None:
        for is_truncated, changes in groupby(found, lambda each: isinstance(each, Truncated)):
            kept = list(changes)
            if is_truncated:
                fold.truncate(number, max(each.lsn for each in kept))
            else:
                fold.add(place, number, self._kept_up_to(place, kept[-1].at + 1), kept)  # type: ignore[arg-type]


def _by_place(offsets: Mapping[Any, int]) -> dict[TopicPartition, int]:
    return {TopicPartition(*place): offset for place, offset in offsets.items()}
