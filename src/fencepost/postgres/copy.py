"""Rows out of and into Postgres by COPY, as text: the same texts that a stream of logical replication has."""

import re
import select
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from fencepost.postgres.connection import deadline
from fencepost.postgres.error import ConnectionLostError, ProtocolError
from fencepost.postgres.name import quoted

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa
    from psycopg.pq.abc import PGconn

Row = list[str | None]

_BATCH_BYTES = 1 << 19
_NULL = "\\N"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_UNESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_CANCEL_S = 10.0
_READS = 4  # of 8 KiB or more each: TLS may hold a record of 16 KiB that the socket no longer shows


def copy_columns(
    connection: "psycopg.Connection[Any]", query: str, *, silent_s: float = 600.0
) -> "Iterator[list[pa.StringArray]]":
    """Yield the rows of a query in batches of about half a MiB, as one Arrow array of Postgres's texts for each column.

    The query runs in the transaction of the connection, if one is open. An iterator that is closed before its end
    cancels the query; the connection can be used again, in a transaction after its rollback.

    Args:
        connection: Carries out nothing else meanwhile.
        query: A SELECT, with at least one column and without parameters.
        silent_s: A server that sends nothing for so long is taken for dead. A query that sorts sends nothing at first.

    Raises:
        ConnectionLostError: The server is silent. The connection is closed.
        ProtocolError: A value is not UTF-8, as a database with the encoding SQL_ASCII may have.
        psycopg.Error: The query failed, or the connection was lost.
    """
    is_open = False
    try:
        _begin(connection.pgconn, f"COPY ({query}) TO STDOUT", silent_s)
        is_open = True
        for block in _blocks(connection.pgconn, silent_s):
            yield columns_of(block)
        is_open = False
        _end(connection.pgconn, silent_s)
    except ConnectionLostError:
        connection.close()
        raise
    finally:
        if is_open and not connection.closed:
            _cancel(connection)


def copy_rows(connection: "psycopg.Connection[Any]", query: str, *, silent_s: float = 600.0) -> Iterator[list[Row]]:
    """Yield what `copy_columns` yields as rows: each value as Postgres's text, or None for NULL."""
    with closing(copy_columns(connection, query, silent_s=silent_s)) as batches:  # type: ignore[type-var]
        for columns in batches:
            yield [list(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def copy_in(
    connection: "psycopg.Connection[Any]", table: str, columns: Sequence[str], rows: Iterable[Sequence[str | None]]
) -> int:
    """Append rows to a table, each value as Postgres's text, or None for NULL. Returns how many there were.

    They are written together or, after an error, not at all. A transaction that is open contains them.

    Args:
        connection: `deadline` limits how long this may take.
        table: As in SQL, with its schema, and quoted where it needs to be.
        columns: Their names, as they are: they are quoted here.
        rows: Each has as many values as there are columns.

    Raises:
        psycopg.Error: Such as InvalidTextRepresentation, whose `diag.context` has the line and the column.
    """
    names = ", ".join(map(quoted, columns))
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {table} ({names}) FROM STDIN".encode()) as copy:
            lines: list[str] = []
            size = 0
            for row in rows:
                line = _line(row)
                lines.append(line)
                size += len(line)
                if size >= _BATCH_BYTES:
                    copy.write("".join(lines).encode())
                    lines, size = [], 0
            copy.write("".join(lines).encode())
        return cursor.rowcount


def columns_of(block: bytes) -> "list[pa.StringArray]":
    """Return the columns of whole lines. Only texts with a backslash are looked at more closely."""
    import pyarrow as pa
    from pyarrow import csv

    names = [str(number) for number in range(block.count(b"\t", 0, block.index(b"\n")) + 1)]
    if block.startswith(_BYTE_ORDER_MARK):
        block = _BYTE_ORDER_MARK + block  # the parser leaves out the first one
    try:
        read = csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
            csv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[_NULL], strings_can_be_null=True
            ),
        )
    except pa.ArrowInvalid as error:
        raise _no_text(block) from error
    columns = [each.combine_chunks() for each in read.columns]
    is_escaped = block.count(b"\\") > sum(column.null_count for column in columns)  # each null is a backslash and an N
    return list(map(_unescaped, columns)) if is_escaped else columns


def _no_text(block: bytes) -> ProtocolError:
    """Return the error of a block that cannot be read."""
    try:
        block.decode()
    except UnicodeDecodeError as error:
        near = block[max(error.start - 40, 0) : error.end]
        return ProtocolError(
            f"COPY: a value is not UTF-8 (near {near!r}); set the encoding of the database, or correct the row"
        )
    return ProtocolError(f"COPY: the server sent rows of different lengths (near {block[:40]!r})")


def _unescaped(column: "pa.StringArray") -> "pa.StringArray":
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.any(pc.match_substring(column, "\\")).as_py():
        return column
    texts = [each and (_ESCAPE.sub(_character, each) if "\\" in each else each) for each in column.to_pylist()]
    return pa.array(texts, pa.string())


def _character(found: "re.Match[str]") -> str:
    return _UNESCAPED.get(found[1], found[1])


def _line(row: Sequence[str | None]) -> str:
    if None not in row:
        line = "\t".join(row)  # type: ignore[arg-type]
        if line.count("\t") == len(row) - 1 and not ("\\" in line or "\n" in line or "\r" in line):
            return line + "\n"
    return "\t".join([_NULL if value is None else value.translate(_ESCAPED) for value in row]) + "\n"


def _begin(pgconn: "PGconn", command: str, silent_s: float) -> None:
    from psycopg import errors
    from psycopg.pq import ExecStatus

    pgconn.send_query(command.encode())
    _await_result(pgconn, silent_s)
    result = pgconn.get_result()
    if result is None or result.status != ExecStatus.COPY_OUT:
        _end(pgconn, silent_s)
        raise errors.error_from_result(result) if result else ConnectionLostError("the server did not answer")


def _blocks(pgconn: "PGconn", silent_s: float) -> Iterator[bytes]:
    """Yield whole lines, about `_BATCH_BYTES` at a time."""
    get = pgconn.get_copy_data
    lines: list[Any] = []
    size, reads = 0, _READS
    while True:
        count, data = get(1)
        if count > 0:
            lines.append(data)
            size += count
            if size >= _BATCH_BYTES:
                yield b"".join(lines)
                lines.clear()
                size = 0
        elif count < 0:
            break
        elif reads:
            pgconn.consume_input()
            reads -= 1
        else:
            _await_input(pgconn, silent_s)
            reads = _READS
    if lines:
        yield b"".join(lines)


def _end(pgconn: "PGconn", silent_s: float) -> None:
    """Read what is left of the answer. Raises the error that ended a COPY."""
    from psycopg import errors
    from psycopg.pq import ExecStatus

    failure = None
    while True:
        _await_result(pgconn, silent_s)
        result = pgconn.get_result()
        if result is None:
            break
        if result.status == ExecStatus.FATAL_ERROR:
            failure = failure or errors.error_from_result(result)
    if failure is not None:
        raise failure


def _cancel(connection: "psycopg.Connection[Any]") -> None:
    """End a COPY whose rows are not wanted, or else the connection."""
    import psycopg

    try:
        with deadline(connection, _CANCEL_S, "cancelling a COPY"):
            connection.cancel_safe(timeout=_CANCEL_S)
            for _ in _blocks(connection.pgconn, _CANCEL_S):
                pass
            _end(connection.pgconn, _CANCEL_S)
    except psycopg.errors.QueryCanceled:
        pass
    except (psycopg.Error, ConnectionLostError):
        connection.close()


def _await_result(pgconn: "PGconn", silent_s: float) -> None:
    while pgconn.flush() or pgconn.is_busy():
        _await_input(pgconn, silent_s)
        pgconn.consume_input()


def _await_input(pgconn: "PGconn", silent_s: float) -> None:
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN | (select.POLLOUT if pgconn.flush() else 0))
    if not poll.poll(silent_s * 1000):
        raise ConnectionLostError(f"the server has been silent for {silent_s:g} s")
