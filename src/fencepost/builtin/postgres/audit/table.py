"""A table that is compared: its columns in their forms, the hash of a row, and the queries that make the same hash.

Rows are in groups by the hash of their keys, not in ranges of keys: both sides compute a group of a key in the same
way, whatever the type of the key and the order of its collation.
"""

import hashlib
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from fencepost.api import RecordError, SinkBatch
from fencepost.builtin.postgres.source.snapshot import in_blocks
from fencepost.postgres.name import literal, quoted
from fencepost.record import TopicPartition

GROUP_DIGITS = 3
"""Hexadecimal digits of the hash of a key that name its group: 4,096 groups of a table."""
_DIGITS = 15  # of the hash of a row: it fits a signed bigint
_BETWEEN, _NULL = "\x1f", "\x1e"
_UNREADABLE = "\0"  # of a value that does not fit its schema: no text of Postgres is this
Cast = Callable[[str, str, str], str | None]
"""Returns what the database makes of a text: the text, the type that reads it, and the SQL of a column's form."""
_UNFIT = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, struct.error, RecordError)


@dataclass(frozen=True)
class ComparedColumn:
    """A column. `field` is its name in the topic. `text` makes of a topic's value what `sql` makes of the column.

    `stand_in` is the text that both have for null: of a field with a default, which converters write for null.
    `absent` are the values that stand for one that a change does not have. `written` returns, if `text` may be another
    one although the column has the value, the text by which a sink writes it, to a column of `type`.
    """

    name: str
    field: str
    sql: str
    text: Callable[[Any], str | None]
    stand_in: str | None = None
    absent: Sequence[Any] = ()
    written: Callable[[Any], str] | None = None
    type: str = ""

    def text_of(self, value: Any) -> str:
        try:
            found = None if value is None else self.text(value)
        except _UNFIT:
            return _UNREADABLE
        return self.null if found is None else found

    @property
    def null(self) -> str:
        """Return the text of null."""
        return _NULL if self.stand_in is None else self.stand_in

    def is_in(self, row: Mapping[str, Any]) -> bool:
        """Say whether the topic's row has a value, or null."""
        return self.field in row and not (self.absent and row[self.field] in self.absent)

    def is_same(self, text: str, value: Any, cast: Cast) -> bool:
        """Say whether a column whose text is this has what the topic has."""
        if self.text_of(value) == text:
            return True
        if self.written is None or value is None:
            return False
        try:
            found = cast(self.written(value), self.type, self.sql)
        except _UNFIT:
            return False
        return (self.null if found is None else found) == text

    @property
    def expression(self) -> str:
        """Return the SQL that makes the text, without NULL."""
        made = self.sql.format(c=quoted(self.name))
        return f"coalesce({made}, {literal(self.stand_in)})" if self.stand_in is not None else made


class RowDifferenceKind(Enum):
    """In which way a row of the table differs from the topic's."""

    MISSING_IN_TOPIC = "missing in the topic"
    MISSING_IN_TABLE = "missing in the table"
    DIFFERS = "differs"


class Known(IntEnum):
    """Which columns the hash of a topic's row has."""

    ALL = 0
    SURE = 1  # not those that may be absent: in this row, one is
    SOME = 2  # all, but fields that the record does not have count as null, or a text may be another one


class Row(NamedTuple):
    """What a record at an offset makes of the row of a key. `hash` None: it is deleted.

    `lsn` is where the change is in the database's log, and `xid` its transaction; None for a row of a snapshot.
    """

    key: str
    hash: int | None
    known: int
    at: int
    lsn: int = 0
    xid: int | None = None


class Seen(NamedTuple):
    """What one record has of a table: the texts of its key, and the row; `table` reads its values."""

    table: "ComparedTable"
    key: list[str]
    row: Mapping[str, Any]


class Topics(Protocol):
    """The topics of a connector."""

    def ids(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return which topics exist, with their ids."""

    def last(self, place: TopicPartition, end: int) -> Iterator[SinkBatch]:
        """Yield the last records of a partition before an offset: more each time, in the end all."""


class Truncated(NamedTuple):
    """A record that says that a table was emptied."""

    at: int
    lsn: int
    xid: int | None


class Stored(NamedTuple):
    """A table or a partition as it is stored: its name in SQL, and how many blocks it has."""

    oid: int
    sql: str
    filenode: int
    pages: int


@dataclass(frozen=True)
class ComparedTable:
    """A table, as its topics show it. `rows` is a condition in SQL for those that belong to it; None: all."""

    oid: int
    name: str
    topics: tuple[str, ...]
    stored: tuple[Stored, ...]
    key: tuple[ComparedColumn, ...]
    columns: tuple[ComparedColumn, ...]
    rows: str | None = None
    uncompared: tuple[str, ...] = ()

    def key_texts(self, key: Mapping[str, Any]) -> list[str]:
        return [column.text_of(key[column.field]) for column in self.key]

    def hashed(self, key: Sequence[str], row: Mapping[str, Any]) -> tuple[int, Known]:
        """Return the hash of a topic's row, and which columns are in it."""
        if any(row.get(field) in absent for field, absent in self._may_be_absent):
            sure = [c.text_of(row.get(c.field)) for c in self.columns if not c.absent]
            return digest([*key, *sure]), Known.SURE
        try:
            texts = [
                null if (value := row[field]) is None or (made := text(value)) is None else made
                for field, text, null in self._plan
            ]
        except _UNFIT:
            texts = [column.text_of(row.get(column.field)) for column in self.columns]
            has_all = all(column.field in row for column in self.columns)
            return digest([*key, *texts]), self._known if has_all else Known.SOME
        return digest([*key, *texts]), self._known

    @cached_property
    def _known(self) -> Known:
        return Known.SOME if any(column.written for column in self.columns) else Known.ALL

    @cached_property
    def _plan(self) -> list[tuple[str, Callable[[Any], str | None], str]]:
        return [(each.field, each.text, each.null) for each in self.columns]

    @cached_property
    def _may_be_absent(self) -> list[tuple[str, Sequence[Any]]]:
        return [(each.field, each.absent) for each in self.columns if each.absent]

    def digests(self, texts: Sequence[str]) -> tuple[int, int]:
        """Return the hashes of a row of the database, whose key's texts come first: with all columns, and `SURE`."""
        key, own = texts[: len(self.key)], texts[len(self.key) :]
        sure = [text for column, text in zip(self.columns, own, strict=True) if not column.absent]
        return digest(texts), digest([*key, *sure])

    def differing(self, texts: Sequence[str], row: Mapping[str, Any], cast: Cast) -> list[str]:
        """Return the columns that differ: `texts` are those of the database, the key's first; `row` is the topic's."""
        return [
            column.name
            for column, text in zip(self.columns, texts[len(self.key) :], strict=True)
            if column.is_in(row) and not column.is_same(text, row[column.field], cast)
        ]

    def sums_query(self, stored: Stored, first_page: int, end_page: int | None, *, is_utf8: bool) -> str:
        """Return the query for groups, the number of their rows, and the sum of the rows' hashes."""
        key = _hashed([c.expression for c in self.key], is_utf8=is_utf8)
        row = _hashed([c.expression for c in (*self.key, *self.columns)], is_utf8=is_utf8)
        number = f"('x0' || left({row}, {_DIGITS}))::bit(64)::bigint"
        chosen = self._from(stored, first_page, end_page)
        return (
            f"SELECT left(k, {GROUP_DIGITS}), count(*), sum(d) FROM "
            f"(SELECT {key} AS k, {number} AS d {chosen}) AS hashed GROUP BY 1"
        )

    def rows_query(
        self, stored: Stored, first_page: int, end_page: int | None, groups: Collection[str], *, is_utf8: bool
    ) -> str:
        """Return the query for the rows of groups: the hash of the key, and the texts of the key and the columns."""
        key = _hashed([c.expression for c in self.key], is_utf8=is_utf8)
        texts = ", ".join(f"coalesce({c.expression}, chr({ord(_NULL)}))" for c in (*self.key, *self.columns))
        listed = ", ".join(map(literal, sorted(groups)))
        chosen = self._from(stored, first_page, end_page)
        return f"SELECT {key}, {texts} {chosen} AND left({key}, {GROUP_DIGITS}) IN ({listed})"

    def _from(self, stored: Stored, first_page: int, end_page: int | None) -> str:
        own = "" if self.rows is None else f" AND ({self.rows})"
        return f"FROM ONLY {stored.sql} WHERE {in_blocks(first_page, end_page)}{own}"


def key_hash(texts: Sequence[str]) -> str:
    """Return the hash of a key, in hexadecimal digits."""
    return hashlib.md5(_BETWEEN.join(texts).encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def digest(texts: Sequence[str]) -> int:
    """Return the hash of a row: of 60 bits, so that sums of many rows fit two numbers of 64."""
    return int(key_hash(texts)[:_DIGITS], 16)


def _hashed(expressions: Sequence[str], *, is_utf8: bool) -> str:
    joined = f"array_to_string(ARRAY[{', '.join(expressions)}]::text[], chr({ord(_BETWEEN)}), chr({ord(_NULL)}))"
    return f"md5({joined})" if is_utf8 else f"md5(convert_to({joined}, 'UTF8'))"
