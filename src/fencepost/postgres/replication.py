"""A stream of logical replication: what a slot sends, and what the reader confirms.

psycopg has no calls for this. The connection's `pgconn` has those of libpq: after START_REPLICATION, both sides send
messages as data of a COPY (the chapter "Streaming Replication Protocol" of the Postgres manual).
"""

import select
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.postgres.connection import deadline
from fencepost.postgres.error import ConnectionLostError, PostgresError, ProtocolError
from fencepost.postgres.lsn import format_lsn, parse_lsn
from fencepost.postgres.name import literal, quoted

if TYPE_CHECKING:
    import psycopg

WalData = tuple[int, int, bytes]
"""Start of the data in the server's log, end of the log when it was sent (both LSNs), and a payload of pgoutput."""

_WAL_DATA, _KEEP_ALIVE = b"wk"
_DATA = struct.Struct(">QQ").unpack_from
_SERVER_KEEP_ALIVE = struct.Struct(">Qq?").unpack_from
_STATUS = struct.Struct(">cQQQq?").pack
_2000_US = 946_684_800_000_000
_STATUS_INTERVAL_S = 10.0  # that of Postgres's own receivers
_READS = 4  # of 8 KiB or more each: TLS may hold a record of 16 KiB that the socket no longer shows


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """The server has sent all that its log has up to `wal_end`.

    A reader that has stored all that it has received may confirm `wal_end`: nothing before it is still to come.
    """

    wal_end: int
    reply_requested: bool


class ReplicationStream:
    """Reads a slot, from one thread. Starting it takes the slot; no other reader can have it at the same time.

    The server ends a stream that it has not heard from for its `wal_sender_timeout`, of 60 s. `read`, `confirm` and
    `keep_alive` answer in time: call one of them every few seconds.

    Args:
        connection: Made with `replication=True`, and used by this stream only: it is closed if the start fails.
        slot: Its name.
        publication: Its name.
        start_lsn: Transactions whose commit ends at or before it are not sent. Nor are those that the slot has
            confirmed: 0 begins there.
        messages: Whether to get what `pg_logical_emit_message` writes.
        streaming: Whether large transactions come in blocks while they are in progress (version 2 of the protocol).
        dead_after_s: A server that sends nothing for so long, though asked to, is taken for dead.

    Raises:
        psycopg.Error: The slot is missing, or in use; `is_retriable` and `explain` say more.
    """

    def __init__(
        self,
        connection: "psycopg.Connection[Any]",
        slot: str,
        publication: str,
        start_lsn: int,
        messages: bool = True,
        *,
        streaming: bool = False,
        dead_after_s: float = 60.0,
    ) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._dead_after_s = dead_after_s
        self._received = 0
        self._has_confirmed = False
        self._failure: Exception | None = None
        self._heard_at = self._sent_at = time.monotonic()
        self._asked_at: float | None = None
        connection.add_notice_handler(self._take_notice)
        try:
            with deadline(connection, dead_after_s, "starting the stream"):
                self._confirmed = self._slot_confirmed(slot)
            self._start(_command(slot, publication, start_lsn, messages, streaming))
        except Exception:
            connection.close()
            raise

    def read(self, timeout_s: float, most: int) -> list[WalData | KeepAlive]:
        """Return up to `most` messages as soon as there are any; none after `timeout_s`.

        Raises:
            ConnectionLostError: The server ended the stream, or is silent.
            PostgresError: There was no publication of this name when changes were made: they are missing.
            psycopg.Error: The server reports an error, or the connection is lost.
        """
        until = time.monotonic() + timeout_s
        while True:
            found = self._receive(most)
            self.keep_alive()
            left_s = until - time.monotonic()
            if found or left_s <= 0:
                return found
            self._wait(min(left_s, 1.0, self._dead_after_s / 4))

    def confirm(self, flush_lsn: int) -> None:
        """Tell the server that all up to a position is stored, so that it needs to keep none of it.

        A position at or before the last one, or the slot's own, is ignored: the slot never moves back.
        """
        if flush_lsn > self._confirmed:
            self._confirmed = flush_lsn
            self._has_confirmed = True
            self._send_status(reply=False)

    @property
    def confirmed_lsn(self) -> int:
        """Return the position that was last confirmed: here, or by the slot's reader before."""
        return self._confirmed

    def keep_alive(self) -> None:
        """Send the status where it is due. Raises ConnectionLostError where the server is silent.

        A server whose messages wait to be read is not.
        """
        if time.monotonic() - self._heard_at >= self._dead_after_s / 2:
            self._wait(0)
        now = time.monotonic()
        if self._asked_at is not None and now - self._asked_at >= self._dead_after_s / 2:
            raise ConnectionLostError(f"the server has been silent for {now - self._heard_at:.0f} s")
        if self._asked_at is None and now - self._heard_at >= self._dead_after_s / 2:
            self._asked_at = now
            self._send_status(reply=True)
        elif now - self._sent_at >= _STATUS_INTERVAL_S:
            self._send_status(reply=False)

    def close(self) -> None:
        """Close the connection; the server frees the slot."""
        self._connection.close()

    def _slot_confirmed(self, slot: str) -> int:
        """Return the slot's own position: a server would move back to a lower one."""
        query = f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = {literal(slot)}"
        row = self._connection.execute(query.encode()).fetchone()
        return parse_lsn(row[0]) if row and row[0] else 0

    def _start(self, command: str) -> None:
        from psycopg import errors
        from psycopg.pq import ExecStatus

        self._pgconn.send_query(command.encode())
        until = time.monotonic() + self._dead_after_s
        while self._pgconn.flush() or self._pgconn.is_busy():
            if time.monotonic() > until:
                raise ConnectionLostError("the server does not start to send the stream")
            self._wait(1.0)
            self._pgconn.consume_input()
        result = self._pgconn.get_result()
        if result is None or result.status != ExecStatus.COPY_BOTH:
            raise errors.error_from_result(result) if result else ConnectionLostError("the server did not answer")

    def _receive(self, most: int) -> list[WalData | KeepAlive]:
        """Return what has arrived. An error is raised once everything before it was returned."""
        if self._failure is not None:
            raise self._failure
        found: list[WalData | KeepAlive] = []
        try:
            self._receive_into(found, most)
        except Exception as error:
            if not found:
                raise
            self._failure = error
        return found

    def _receive_into(self, found: list[WalData | KeepAlive], most: int) -> None:
        get, append = self._pgconn.get_copy_data, found.append
        reads = _READS
        reply = False
        while len(found) < most:
            size, data = get(1)
            if self._failure is not None:
                raise self._failure  # of a notice: changes are missing from what follows
            if size > 0:
                if data[0] == _WAL_DATA:
                    wal_start, wal_end = _DATA(data, 1)
                    append((wal_start, wal_end, bytes(data[25:])))
                    self._received = max(self._received, wal_start)
                elif data[0] == _KEEP_ALIVE:
                    wal_end, _, asked = _SERVER_KEEP_ALIVE(data, 1)
                    append(KeepAlive(wal_end, asked))
                    self._received = max(self._received, wal_end)
                    reply |= asked
                else:
                    raise ProtocolError(f"the server sent an unknown message: {bytes(data[:40])!r}")
            elif size == 0 and reads:
                self._pgconn.consume_input()
                reads -= 1
            elif size == 0:
                break
            else:
                raise self._end()
        if found:
            self._heard_at, self._asked_at = time.monotonic(), None
        if reply:
            self._send_status(reply=False)

    def _take_notice(self, notice: "psycopg.errors.Diagnostic") -> None:
        """Fail where the server leaves out changes: from version 18 on, a missing publication is only a warning."""
        if notice.sqlstate == "55000":
            self._failure = PostgresError(
                f"{notice.message_primary}: the changes that it had published are missing from the stream. Create it "
                "again, and take a new snapshot with a new slot"
            )

    def _end(self) -> Exception:
        from psycopg import errors
        from psycopg.pq import ExecStatus

        result = self._pgconn.get_result()
        if result is not None and result.status == ExecStatus.FATAL_ERROR:
            return errors.error_from_result(result)
        return ConnectionLostError("the server ended the stream; it is probably being shut down")

    def _send_status(self, *, reply: bool) -> None:
        now_us = time.time_ns() // 1000 - _2000_US
        flushed = self._confirmed if self._has_confirmed else 0  # 0 leaves the slot where it is
        written = max(self._received, flushed)
        self._pgconn.put_copy_data(_STATUS(b"r", written, flushed, flushed, now_us, reply))
        self._pgconn.flush()
        self._sent_at = time.monotonic()

    def _wait(self, timeout_s: float) -> None:
        poll = select.poll()
        poll.register(self._pgconn.socket, select.POLLIN | (select.POLLOUT if self._pgconn.flush() else 0))
        if any(event & select.POLLIN for _, event in poll.poll(timeout_s * 1000)):
            self._heard_at, self._asked_at = time.monotonic(), None  # perhaps a part of a message of a gigabyte


def _command(slot: str, publication: str, start_lsn: int, messages: bool, streaming: bool) -> str:
    options = {
        "proto_version": "2" if streaming else "1",
        "publication_names": quoted(publication),
        "messages": "true" if messages else "false",
    }
    if streaming:
        options["streaming"] = "on"
    listed = ", ".join(f"{name} {literal(value)}" for name, value in options.items())
    return f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {format_lsn(start_lsn)} ({listed})"
