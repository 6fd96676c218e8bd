"""How far a connector is, as its committed offsets say: nothing, a slot to be made, chunks to be read, or the stream.

Source partitions, all with `"server": topic.prefix`:

- `{"server"}`: the position in the stream, with Debezium's keys. Once it is there, the snapshot is over.
- `{"server", "snapshot": "plan"}`: the plan. Without `id`: only that the slot is going to be made.
- `{"server", "snapshot": "table", "number"}`: one table of the plan.
- `{"server", "snapshot": "part", "part", "of"}`: how far a task is that reads chunk `part`, `part + of`, and so on.
- `{"server", "table"}`: a table, by its oid, whose rows were read; oid 0 only says that such tables are recorded. If
  there are a position and a plan, the plan is that of tables that joined later.
- `{"server", "again"}`: a table, by its oid, whose rows are to be read again: a signal has asked for it, in a
  transaction that was committed at `lsn`, or the table was rewritten before all its rows were read.

Chunks are numbered over all tables of a plan, so a table of a terabyte needs no more offsets than a small one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import Any, NamedTuple

from fencepost.api import partition_key
from fencepost.postgres.lsn import format_lsn, parse_lsn
from fencepost.postgres.slots import NOW, server_identity

Offset = Mapping[str, Any] | None
Offsets = dict[tuple[tuple[str, Any], ...], Offset]
Pairs = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]

_MESSAGE = "MESSAGE"
_PLAN, _TABLE, _PART = "plan", "table", "part"


class Phase(Enum):
    """What is to be done next."""

    BEGIN = auto()  # nothing is committed
    SLOT = auto()  # the slot may have been made, but no plan is committed
    CHUNKS = auto()  # a plan is committed, and chunks are unread
    STREAM = auto()  # there is a position, or every chunk is read


class Server(NamedTuple):
    """Which history of changes LSNs belong to. Debezium's offsets do not say it: then it is unknown, and empty."""

    system_identifier: str = ""
    timeline: int = 0

    @classmethod
    def at(cls, connection: Any) -> "Server":
        """Ask which server this is. The connection is one for replication."""
        identity = server_identity(connection)
        return cls(identity.system_identifier, identity.timeline)


UNKNOWN = Server()


def log_end(connection: Any) -> int:
    """Ask where the server's log ends; on a standby, what it has replayed."""
    (text,) = connection.execute(f"SELECT {NOW}::text".encode()).fetchone()
    return parse_lsn(text)


@dataclass(frozen=True)
class Position:
    """A place in the stream: everything that was committed up to `lsn` is in Kafka, and nothing after it.

    If the transaction after that was split, `index` is how many of its changes are in Kafka, `processed_lsn` the LSN of
    the last of them, which several may share, and `xid` and `time_us` are its own. Without an `index`, `processed_lsn`
    is set if Debezium stopped within transaction `xid`: the changes before that LSN are in Kafka, and of those at it
    `processed_count` rows, and the message before them. The LSN is 0 if there are none.
    """

    lsn: int
    xid: int | None = None
    time_us: int | None = None
    index: int = 0
    processed_lsn: int | None = None
    server: Server = UNKNOWN
    processed_count: int = 1

    @classmethod
    def of_offset(cls, offset: Mapping[str, Any]) -> "Position | None":
        """Return the position of an offset of ours or Debezium's; None if Debezium was still in its snapshot."""
        if offset.get("lsn") is None or _is_in_snapshot(offset):
            return None
        is_message = offset.get("messageType") == _MESSAGE
        commit, processed = offset.get("lsn_commit"), offset.get("lsn" if is_message else "lsn_proc")
        start, index = int(offset["lsn"] if commit is None else commit), int(offset.get("index") or 0)
        has_changes = processed is not None and (index > 0 or _has_change(offset))
        has_begun = offset.get("messageType") == "BEGIN" and "transaction_id" in offset  # with its record about that
        return cls(
            start,
            offset.get("txId"),
            offset.get("ts_usec"),
            index,
            int(processed or 0) if has_changes else 0 if has_begun else None,
            Server(str(offset.get("system_identifier") or ""), int(offset.get("timeline") or 0)),
            0 if is_message and has_changes else max(1, int(offset.get("lsn_events_processed") or 1)),
        )

    def is_within(self, xid: int) -> bool:
        """Say whether something of a transaction is in Kafka, of the first one after `lsn`."""
        return self.processed_lsn is not None and self.xid == xid

    def offset(self) -> dict[str, Any]:
        """Return the offset: what Debezium continues from, and what only we know.

        Without `lsn_proc`, as after its snapshot, Debezium takes all that the server sends from `lsn` on. With it, it
        looks for that LSN first, and up to 3.6 it loses changes of a transaction that has one where a commit ends.
        """
        known: dict[str, Any] = {
            "lsn": self.lsn,
            "txId": self.xid,
            "ts_usec": self.time_us,
            "system_identifier": self.server.system_identifier,
            "timeline": self.server.timeline,
        }
        if self.processed_lsn is not None:
            kind = "INSERT" if self.processed_count else _MESSAGE
            known.update(lsn=self.processed_lsn, lsn_proc=self.processed_lsn, messageType=kind)
            known["lsn_events_processed"] = self.processed_count
            if self.index or self.processed_lsn != self.lsn:  # else Debezium has seen no commit yet
                known["lsn_commit"] = self.lsn
            if self.index:
                known["index"] = self.index
        return {key: value for key, value in known.items() if value is not None}  # Debezium fails at a null


def _has_change(offset: Mapping[str, Any]) -> bool:
    """Say whether an offset of Debezium's is that of a change: with BEGIN it has the first one's LSN, but not it.

    Its last commit may come after the change: transactions overlap in the log.
    """
    kind = str(offset.get("messageType") or "")
    is_change = kind not in ("", "BEGIN", "COMMIT") or (not kind and offset["lsn_proc"] != offset.get("lsn_commit"))
    return is_change and offset.get("txId") is not None


def _is_in_snapshot(offset: Mapping[str, Any]) -> bool:
    running = str(offset.get("snapshot") or "false").lower() not in ("false", "last")
    is_incremental = offset.get("incremental_snapshot_collections") is not None  # asked for by a signal
    return is_incremental or (running and str(offset.get("last_snapshot_record", False)).lower() != "true")


@dataclass(frozen=True)
class TablePlan:
    """A table of a snapshot, and how it is cut. `pages` are blocks of 8 KiB when the snapshot was taken.

    `shown_as` is the table under whose name its rows are written: itself, or the partitioned table that it belongs to.
    """

    oid: int
    shown_as: int
    name: str
    filenode: int
    pages: int
    chunk_pages: int

    @property
    def chunks(self) -> int:
        return max(1, -(-self.pages // self.chunk_pages))


class Chunk(NamedTuple):
    """The rows of a table on the blocks from `first_page` up to before `end_page`; None: up to its end."""

    number: int
    table: TablePlan
    first_page: int
    end_page: int | None


@dataclass(frozen=True)
class Plan:
    """A snapshot: its point in the log, where the stream continues, and who was committed at it.

    `xids` is Postgres' text of the snapshot (`pg_snapshot`). `name` is the one under which it was exported.
    """

    lsn: int
    xids: str
    name: str
    server: Server
    tables: tuple[TablePlan, ...]

    @property
    def chunks(self) -> int:
        return sum(table.chunks for table in self.tables)

    @cached_property
    def shown(self) -> frozenset[int]:
        """Return the oids of the tables under whose names rows are written."""
        return frozenset(table.shown_as for table in self.tables)

    def chunk(self, number: int) -> Chunk:
        """Return a chunk by its number over all tables."""
        left = number
        for table in self.tables:
            if left < table.chunks:
                end = None if left == table.chunks - 1 else (left + 1) * table.chunk_pages
                return Chunk(number, table, left * table.chunk_pages, end)
            left -= table.chunks
        raise IndexError(f"the snapshot has {self.chunks} chunks, and no chunk {number}")

    def offsets(self, prefix: str) -> Offsets:
        """Return the offsets that keep the plan."""
        head = {
            "id": format_lsn(self.lsn),
            "xids": self.xids,
            "name": self.name,
            "tables": len(self.tables),
            "system_identifier": self.server.system_identifier,
            "timeline": self.server.timeline,
        }
        tables = {
            _key(prefix, _TABLE, number=number): {"plan": head["id"], **vars(table)}
            for number, table in enumerate(self.tables)
        }
        return {_key(prefix, _PLAN): head, **tables}

    def table_offsets(self, prefix: str) -> Offsets:
        """Return the offsets that say that the rows of all tables were read."""
        return {k: o for one in self.tables for k, o in table_offset(prefix, one.shown_as, one.name).items()}

    def part_offset(self, prefix: str, part: "Part") -> Offsets:
        """Return the offset that says how far a task is."""
        key = _key(prefix, _PART, part=part.number, of=part.of)
        return {key: {"plan": format_lsn(self.lsn), "next": part.next}}


class Part(NamedTuple):
    """What a task has read of its chunks: all of `number`, `number + of`, ... below `next`."""

    number: int
    of: int
    next: int


@dataclass(frozen=True)
class Progress:
    """Everything that the committed offsets of a connector say."""

    prefix: str
    position: Position | None
    plan: Plan | None
    parts: tuple[Part, ...]
    has_intent: bool
    leftovers: tuple[Mapping[str, Any], ...]
    """The source partitions of the snapshot, which are removed once the stream has begun."""
    is_left_in_snapshot: bool = False
    """Whether Debezium has written the position before its snapshot was complete."""
    tables: frozenset[int] = frozenset()
    """The tables whose rows were read, by oid, and 0. Empty before the stream begins, and if Debezium was the last to
    write the position: it may have captured others."""
    again: Mapping[int, int] = field(default_factory=dict)
    """The tables whose rows are to be read again, by oid: where the transaction that asked was committed, or 0."""

    @classmethod
    def of(cls, prefix: str, offsets: Pairs) -> "Progress":
        """Read the offsets of a connector. Those of other servers are ignored."""
        own = [(partition, offset) for partition, offset in offsets if partition.get("server") == prefix]
        kept = [(partition, offset) for partition, offset in own if "snapshot" in partition]
        plain = next((offset for partition, offset in own if len(partition) == 1), None)
        head = next((offset for partition, offset in kept if partition["snapshot"] == _PLAN), None)
        plan = _plan(head, kept) if head is not None and "id" in head else None
        is_ours = plain is None or "system_identifier" in plain
        return cls(
            prefix,
            None if plain is None else Position.of_offset(plain),
            plan,
            () if plan is None else tuple(_parts(plan, kept)),
            head is not None,
            tuple(partition for partition, _ in kept),
            plain is not None and Position.of_offset(plain) is None,
            frozenset(int(partition["table"]) for partition, _ in own if "table" in partition and is_ours),
            {int(partition["again"]): int(offset["lsn"]) for partition, offset in own if "again" in partition},
        )

    @property
    def phase(self) -> Phase:
        if self.position is not None:
            return Phase.STREAM
        if self.plan is not None:
            return Phase.STREAM if next(self.unread(), None) is None else Phase.CHUNKS
        return Phase.SLOT if self.has_intent else Phase.BEGIN

    @property
    def start(self) -> Position | None:
        """Return where the stream begins: at the position, or at the point of a snapshot that was read."""
        if self.position is not None or self.plan is None:
            return self.position
        return Position(self.plan.lsn, server=self.plan.server)

    def is_read(self, number: int) -> bool:
        return any(number % part.of == part.number and number < part.next for part in self.parts)

    def unread(self, part: int = 0, of: int = 1) -> Iterator[int]:
        """Return the numbers of the chunks of a part that are not read yet, in order."""
        count = 0 if self.plan is None else self.plan.chunks
        return (number for number in range(part, count, of) if not self.is_read(number))


def _plan(head: Mapping[str, Any], kept: Pairs) -> Plan | None:
    """Return the plan if all of it is there: without exactly-once, offsets are written one by one."""
    tables = {
        int(partition["number"]): TablePlan(**{name: value for name, value in offset.items() if name != "plan"})
        for partition, offset in kept
        if partition["snapshot"] == _TABLE and offset.get("plan") == head["id"]
    }
    if sorted(tables) != list(range(int(head["tables"]))):
        return None
    server = Server(str(head["system_identifier"]), int(head["timeline"]))
    found = tuple(tables[number] for number in sorted(tables))
    return Plan(parse_lsn(str(head["id"])), str(head["xids"]), str(head["name"]), server, found)


def _parts(plan: Plan, kept: Pairs) -> Iterator[Part]:
    for partition, offset in kept:
        if partition["snapshot"] == _PART and offset.get("plan") == format_lsn(plan.lsn):
            yield Part(int(partition["part"]), int(partition["of"]), int(offset["next"]))


def intent(prefix: str, slot: str) -> Offsets:
    """Return the offset that is committed before a slot is made: the slot that is found then is this connector's."""
    return {_key(prefix, _PLAN): {"slot": slot}}


def position_offset(prefix: str, position: Position) -> Offsets:
    """Return the offset of a position."""
    return {partition_key({"server": prefix}): position.offset()}


def table_offset(prefix: str, oid: int, name: str) -> Offsets:
    """Return the offset of a table whose rows were read."""
    return {partition_key({"server": prefix, "table": oid}): {"name": name}}


def record_offset(prefix: str) -> Offsets:
    """Return the offset that says that tables are recorded, even if none was read yet."""
    return table_offset(prefix, 0, "")


def again_offset(prefix: str, oid: int, lsn: int | None) -> Offsets:
    """Return the offset that says that a table's rows are to be read again, after `lsn`; None: what removes it."""
    return {partition_key({"server": prefix, "again": oid}): None if lsn is None else {"lsn": lsn}}


def read_again(offsets: Offsets) -> list[int]:
    """Return the tables whose rows are to be read again, as these offsets say."""
    return [int(partition["again"]) for partition in map(dict, offsets) if "again" in partition]


def removal(progress: Progress) -> Offsets:
    """Return what removes the offsets of a snapshot."""
    return {partition_key(partition): None for partition in progress.leftovers}


def _key(prefix: str, kind: str, **more: int) -> tuple[tuple[str, Any], ...]:
    return partition_key({"server": prefix, "snapshot": kind, **more})
