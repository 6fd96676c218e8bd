"""What the output plug-in `pgoutput` sends: changes of rows, in the order of their commits.

The formats are those of the chapter "Logical Replication Message Formats" of the Postgres manual, for versions 1 and 2
of the protocol, with values as text. All times are microseconds since 1970.
"""

import struct
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from fencepost.postgres.error import ProtocolError

_U16 = struct.Struct(">H").unpack_from
_U32 = struct.Struct(">I").unpack_from
_BEGIN = struct.Struct(">QqI").unpack_from
_COMMIT = struct.Struct(">BQQq").unpack_from
_COLUMN = struct.Struct(">Ii").unpack_from
_STREAM_COMMIT = struct.Struct(">IBQQq").unpack_from
_2000_US = 946_684_800_000_000
_TEXT, _NULL, _UNCHANGED, _NEW, _KEY = b"tnuNK"


class Unchanged(Enum):
    """The value of a column that an update has not changed, and that the server does not send (TOAST)."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED

Values = list[str | Unchanged | None]
"""A row, in the order of the columns of its relation: Postgres's text of each value, or None for NULL."""


class Begin(NamedTuple):
    """A transaction begins. `final_lsn` is that of its commit record: `Commit.commit_lsn`."""

    final_lsn: int
    commit_time_us: int
    xid: int


class Commit(NamedTuple):
    """A transaction ends. `end_lsn` is what to confirm once it is stored."""

    commit_lsn: int
    end_lsn: int
    commit_time_us: int


class RelationColumn(NamedTuple):
    """A column as it was when the changes that follow were made. `is_key`: it belongs to the replica identity."""

    name: str
    type_oid: int
    type_modifier: int
    is_key: bool


class Relation(NamedTuple):
    """A table, ahead of its first change and of the first one after it was altered.

    `replica_identity` is `d` (the primary key), `n` (none), `f` (all columns) or `i` (an index).
    """

    oid: int
    schema: str
    table: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]


class Insert(NamedTuple):
    """A new row of the table `oid`."""

    oid: int
    new: Values


class Update(NamedTuple):
    """A changed row. `old` is None where the replica identity did not change, or there is nothing of the old row.

    With `old_is_key`, only the columns of the replica identity have values in `old`, and the others are None.
    """

    oid: int
    old: Values | None
    old_is_key: bool
    new: Values


class Delete(NamedTuple):
    """A deleted row; `old` as that of an update."""

    oid: int
    old: Values
    old_is_key: bool


class Truncate(NamedTuple):
    """Tables that were emptied by one statement."""

    oids: tuple[int, ...]
    cascade: bool
    restart: bool


class Message(NamedTuple):
    """What `pg_logical_emit_message` has written."""

    lsn: int
    transactional: bool
    prefix: str
    content: bytes


class Origin(NamedTuple):
    """The transaction comes from another server, by replication."""

    commit_lsn: int
    name: str


class Type(NamedTuple):
    """The name of a type that is not built in."""

    oid: int
    schema: str
    name: str


class StreamStart(NamedTuple):
    """A block of changes of a transaction that is in progress begins; `decode_streamed` decodes them."""

    xid: int
    is_first: bool


class StreamStop(NamedTuple):
    """The block ends."""


class StreamCommit(NamedTuple):
    """A transaction that came in blocks is committed."""

    xid: int
    commit_lsn: int
    end_lsn: int
    commit_time_us: int


class StreamAbort(NamedTuple):
    """What the subtransaction `subxid` did is undone; the whole transaction where it is `xid` itself."""

    xid: int
    subxid: int


PgOutput = (
    Insert
    | Update
    | Delete
    | Begin
    | Commit
    | Relation
    | Truncate
    | Message
    | Origin
    | Type
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
)


def decode(payload: bytes) -> PgOutput:
    """Return the message of a payload that is not within a block of a streamed transaction.

    Raises:
        ProtocolError: It is none; or a value is not UTF-8, as a database with the encoding SQL_ASCII may have.
    """
    return _decode(payload, 1)


def decode_streamed(payload: bytes) -> tuple[int, PgOutput]:
    """Return the transaction (or subtransaction) id and the message of a payload between StreamStart and StreamStop.

    StreamStop itself has the id 0. Raises ProtocolError as `decode` does.
    """
    if payload == b"E":
        return 0, StreamStop()
    if len(payload) < 5:
        raise ProtocolError(f"pgoutput: {payload!r} is cut short")
    return _U32(payload, 1)[0], _decode(payload, 5)


def _decode(payload: bytes, position: int) -> PgOutput:
    try:
        return _DECODERS[payload[0]](payload, position)
    except UnicodeDecodeError as error:
        raise ProtocolError(
            f"pgoutput: a value is not UTF-8 ({error.reason} at byte {error.start} of {error.object[:80]!r}); set the "
            "encoding of the database, or correct the row"
        ) from None
    except (KeyError, IndexError, struct.error, ValueError):
        raise ProtocolError(
            f"pgoutput: a message of {len(payload)} bytes is not understood: {payload[:40]!r}"
        ) from None


def _values(payload: bytes, position: int) -> tuple[Values, int]:
    """Return a row and where it ends."""
    (count,) = _U16(payload, position)
    position += 2
    values: Values = []
    append = values.append
    for _ in range(count):
        kind = payload[position]
        if kind == _TEXT:
            start = position + 5
            position = start + _U32(payload, position + 1)[0]
            append(payload[start:position].decode())
        elif kind == _NULL:
            append(None)
            position += 1
        elif kind == _UNCHANGED:
            append(UNCHANGED)
            position += 1
        else:
            raise ValueError(kind)
    if position > len(payload):
        raise ValueError(position)  # a slice would be short, without an error
    return values, position


def _insert(payload: bytes, position: int) -> Insert:
    return Insert(_U32(payload, position)[0], _values(payload, position + 5)[0])


def _update(payload: bytes, position: int) -> Update:
    oid, kind = _U32(payload, position)[0], payload[position + 4]
    if kind == _NEW:
        return Update(oid, None, False, _values(payload, position + 5)[0])
    old, position = _values(payload, position + 5)
    return Update(oid, old, kind == _KEY, _values(payload, position + 1)[0])


def _delete(payload: bytes, position: int) -> Delete:
    old, _ = _values(payload, position + 5)
    return Delete(_U32(payload, position)[0], old, payload[position + 4] == _KEY)


def _begin(payload: bytes, position: int) -> Begin:
    lsn, time, xid = _BEGIN(payload, position)
    return Begin(lsn, time + _2000_US, xid)


def _commit(payload: bytes, position: int) -> Commit:
    _, commit_lsn, end_lsn, time = _COMMIT(payload, position)
    return Commit(commit_lsn, end_lsn, time + _2000_US)


def _relation(payload: bytes, position: int) -> Relation:
    (oid,) = _U32(payload, position)
    schema, position = _name(payload, position + 4)
    table, position = _name(payload, position)
    identity = chr(payload[position])
    (count,) = _U16(payload, position + 1)
    position += 3
    columns = []
    for _ in range(count):
        is_key = bool(payload[position] & 1)
        name, position = _name(payload, position + 1)
        type_oid, modifier = _COLUMN(payload, position)
        columns.append(RelationColumn(name, type_oid, modifier, is_key))
        position += 8
    return Relation(oid, schema or "pg_catalog", table, identity, tuple(columns))


def _truncate(payload: bytes, position: int) -> Truncate:
    (count,) = _U32(payload, position)
    options = payload[position + 4]
    return Truncate(struct.unpack_from(f">{count}I", payload, position + 5), bool(options & 1), bool(options & 2))


def _message(payload: bytes, position: int) -> Message:
    flags, lsn = struct.unpack_from(">BQ", payload, position)
    prefix, position = _name(payload, position + 9)
    end = position + 4 + _U32(payload, position)[0]
    if end > len(payload):
        raise ValueError(end)
    return Message(lsn, bool(flags & 1), prefix, payload[position + 4 : end])


def _origin(payload: bytes, position: int) -> Origin:
    (lsn,) = struct.unpack_from(">Q", payload, position)
    return Origin(lsn, _name(payload, position + 8)[0])


def _type(payload: bytes, position: int) -> Type:
    schema, end = _name(payload, position + 4)
    return Type(_U32(payload, position)[0], schema or "pg_catalog", _name(payload, end)[0])


def _stream_start(payload: bytes, position: int) -> StreamStart:
    return StreamStart(_U32(payload, position)[0], payload[position + 4] == 1)


def _stream_stop(payload: bytes, position: int) -> StreamStop:
    return StreamStop()


def _stream_commit(payload: bytes, position: int) -> StreamCommit:
    xid, _, commit_lsn, end_lsn, time = _STREAM_COMMIT(payload, position)
    return StreamCommit(xid, commit_lsn, end_lsn, time + _2000_US)


def _stream_abort(payload: bytes, position: int) -> StreamAbort:
    return StreamAbort(_U32(payload, position)[0], _U32(payload, position + 4)[0])


def _name(payload: bytes, position: int) -> tuple[str, int]:
    end = payload.index(0, position)
    return payload[position:end].decode(), end + 1


_DECODERS: dict[int, Callable[[bytes, int], PgOutput]] = {
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("B"): _begin,
    ord("C"): _commit,
    ord("R"): _relation,
    ord("T"): _truncate,
    ord("M"): _message,
    ord("O"): _origin,
    ord("Y"): _type,
    ord("S"): _stream_start,
    ord("E"): _stream_stop,
    ord("c"): _stream_commit,
    ord("A"): _stream_abort,
}
