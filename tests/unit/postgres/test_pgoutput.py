"""pgoutput's messages, against an encoder that follows the tables of the Postgres manual."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.postgres.error import ProtocolError
from fencepost.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Origin,
    PgOutput,
    Relation,
    RelationColumn,
    StreamAbort,
    StreamCommit,
    StreamStart,
    StreamStop,
    Truncate,
    Type,
    Update,
    Values,
    decode,
    decode_streamed,
)

_2000_US = 946_684_800_000_000


def _tuple(values: Values) -> bytes:
    parts = [struct.pack(">h", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            assert isinstance(value, str)
            parts.append(b"t" + struct.pack(">i", len(value.encode())) + value.encode())
    return b"".join(parts)


def _c(text: str) -> bytes:
    return text.encode() + b"\0"


def encode(message: PgOutput, xid: int | None = None) -> bytes:  # noqa: C901 - a case for each message
    """Encode a message, as one of a block of a streamed transaction where there is an xid."""
    own = b"" if xid is None else struct.pack(">I", xid)
    match message:
        case Begin(lsn, time, number):
            return b"B" + struct.pack(">QqI", lsn, time - _2000_US, number)
        case Commit(commit_lsn, end_lsn, time):
            return b"C" + struct.pack(">bQQq", 0, commit_lsn, end_lsn, time - _2000_US)
        case Relation(oid, schema, table, identity, columns):
            parts = [b"R" + own + struct.pack(">I", oid) + _c(schema) + _c(table) + identity.encode()]
            parts.append(struct.pack(">h", len(columns)))
            parts += [struct.pack(">b", c.is_key) + _c(c.name) + struct.pack(">Ii", c[1], c[2]) for c in columns]
            return b"".join(parts)
        case Insert(oid, new):
            return b"I" + own + struct.pack(">I", oid) + b"N" + _tuple(new)
        case Update(oid, old, old_is_key, new):
            before = b"" if old is None else (b"K" if old_is_key else b"O") + _tuple(old)
            return b"U" + own + struct.pack(">I", oid) + before + b"N" + _tuple(new)
        case Delete(oid, old, old_is_key):
            return b"D" + own + struct.pack(">I", oid) + (b"K" if old_is_key else b"O") + _tuple(old)
        case Truncate(oids, cascade, restart):
            return b"T" + own + struct.pack(f">ib{len(oids)}I", len(oids), cascade | restart << 1, *oids)
        case Message(lsn, transactional, prefix, content):
            head = b"M" + own + struct.pack(">bQ", transactional, lsn) + _c(prefix)
            return head + struct.pack(">i", len(content)) + content
        case Origin(lsn, name):
            return b"O" + struct.pack(">Q", lsn) + _c(name)
        case Type(oid, schema, name):
            return b"Y" + own + struct.pack(">I", oid) + _c(schema) + _c(name)
        case StreamStart(number, is_first):
            return b"S" + struct.pack(">Ib", number, is_first)
        case StreamStop():
            return b"E"
        case StreamCommit(number, commit_lsn, end_lsn, time):
            return b"c" + struct.pack(">IbQQq", number, 0, commit_lsn, end_lsn, time - _2000_US)
        case StreamAbort(number, subxid):
            return b"A" + struct.pack(">II", number, subxid)


u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
times = st.integers(0, 4_000_000_000_000_000)
text = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
rows = st.lists(st.one_of(st.none(), st.just(UNCHANGED), text), max_size=12)
some = text.filter(bool)
columns = st.builds(RelationColumn, text, u32, st.integers(-1, 2**31 - 1), st.booleans())
in_blocks = st.one_of(
    st.builds(Relation, u32, some, text, st.sampled_from("dnfi"), st.lists(columns, max_size=5).map(tuple)),
    st.builds(Insert, u32, rows),
    st.builds(Update, u32, rows, st.booleans(), rows),
    st.builds(Update, u32, st.none(), st.just(False), rows),
    st.builds(Delete, u32, rows, st.booleans()),
    st.builds(Truncate, st.lists(u32, max_size=4).map(tuple), st.booleans(), st.booleans()),
    st.builds(Message, u64, st.booleans(), text, st.binary(max_size=300)),
    st.builds(Type, u32, some, text),
)
others = st.one_of(
    st.builds(Begin, u64, times, u32),
    st.builds(Commit, u64, u64, times),
    st.builds(Origin, u64, text),
    st.builds(StreamStart, u32, st.booleans()),
    st.just(StreamStop()),
    st.builds(StreamCommit, u32, u64, u64, times),
    st.builds(StreamAbort, u32, u32),
)


@given(st.one_of(in_blocks, others))
def test_each_message_is_decoded_as_the_manual_says(message: PgOutput) -> None:
    found = decode(encode(message))

    assert type(found) is type(message)
    assert found == message


@given(u32, in_blocks)
def test_message_of_a_block_is_decoded_with_its_transaction(xid: int, message: PgOutput) -> None:
    number, found = decode_streamed(encode(message, xid))

    assert (number, type(found), found) == (xid, type(message), message)


@given(in_blocks, st.data())
def test_message_that_is_cut_short_is_refused(message: PgOutput, data: st.DataObject) -> None:
    payload = encode(message)
    size = data.draw(st.integers(0, len(payload) - 1))

    with pytest.raises(ProtocolError):
        decode(payload[:size])


def test_end_of_a_block_is_decoded_with_no_transaction() -> None:
    assert decode_streamed(b"E") == (0, StreamStop())


@pytest.mark.parametrize("payload", [b"", b"?123", b"I\0\0\0\1N\0\1b\0\0\0\0", b"P"])
def test_unknown_message_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError, match="is not understood"):
        decode(payload)


def test_value_that_is_not_utf_8_is_refused_with_its_bytes() -> None:
    payload = b"I\0\0\0\1N\0\1t\0\0\0\2\xff\xfe"

    with pytest.raises(ProtocolError, match="is not UTF-8"):
        decode(payload)


def test_schema_of_the_catalog_has_its_name() -> None:
    relation = decode(encode(Relation(1, "", "pg_class", "d", ())))

    assert isinstance(relation, Relation)
    assert relation.schema == "pg_catalog"
