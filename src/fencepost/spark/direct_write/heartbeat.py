"""Who of those that write by hand is still there: a transaction that nobody will end blocks its readers for minutes.

A partition whose transaction has been open for some seconds says every few seconds that somebody is at it. Whoever
finds open transactions of others listens for longer than that, and fences those of which nothing is heard. No clocks
are compared. Somebody who lives and is fenced all the same commits nothing, and Spark runs the partition again.
"""

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.producer import ProducerClient
from fencepost.kafka.produce.transactional_client import ProducerError
from fencepost.kafka.read.log import LogReader
from fencepost.kafka.setting.client_settings import Kind
from fencepost.spark.direct_write.marker import OWNER, Journal, pulse_record
from fencepost.spark.direct_write.options import HandOptions
from fencepost.transaction import TransactionalWriter, lock_out

if TYPE_CHECKING:
    from fencepost.kafka.group.transactions import Transaction  # kafka-python: a fifth of a second, rarely needed

log = logging.getLogger(__name__)

_PULSE_S = 5.0
_SILENT_S = 3 * _PULSE_S
_LOOK_EVERY_S = 1.0
_FENCE_S = 10.0
_HEAR_S = 10.0


class Pulse:
    """Says that a partition is being written, from some seconds after its start until it is left."""

    def __init__(self, options: HandOptions, partition: int) -> None:
        self._options = options
        self._record = pulse_record(options.write_id, partition)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fencepost-pulse", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        if self._is_over.wait(_PULSE_S):
            return
        client = ProducerClient(self._options.conf(Kind.PRODUCER))
        try:
            while not self._is_over.is_set():
                self._write(client)
                self._is_over.wait(_PULSE_S)
        finally:
            client.drop()

    def _write(self, client: ProducerClient) -> None:
        key, value = self._record
        try:
            client.produce(self._options.offsets_topic, value, key=key)
            client.flush(_PULSE_S)
        except ProducerError as error:
            log.debug("no pulse: %s", error)


def end_abandoned(
    options: HandOptions, is_suspect: Callable[["Transaction"], bool], reader: LogReader, journal: Journal
) -> None:
    """Fence the open transactions of writes by hand that nobody is at, among those that are suspect.

    `reader` has read the topic of markers, uncommitted, to its end, into `journal`. Takes no time where nothing is
    open. Never raises: who cannot do it leaves it to the broker's `transaction.timeout.ms`.
    """
    try:
        for id_ in sorted(_silent(options, is_suspect, reader, journal)):
            log.warning("transaction %s is open, and nobody is at it: it is ended", id_)
            fence(options, id_)
    except Exception as error:
        log.warning("cannot look for transactions that were left open: %s", error)


def fence(options: HandOptions, transactional_id: str) -> None:
    """Lock out whoever holds the id, and end its transaction. Raises WriterOpenError."""
    lock_out(TransactionalWriter(options.conf(Kind.PRODUCER), transactional_id), _FENCE_S)


def _silent(
    options: HandOptions, is_suspect: Callable[["Transaction"], bool], reader: LogReader, journal: Journal
) -> set[str]:
    """Return the ids of suspect transactions that stay open, and of which nothing is heard for a while."""
    admin = Admin(options.conf(Kind.ADMIN))
    journal.pulses.clear()
    deadline = time.monotonic() + _SILENT_S
    silent = _open(admin, is_suspect)
    while silent and time.monotonic() < deadline:
        reader.poll(journal.take, _LOOK_EVERY_S)
        silent = (silent & _open(admin, is_suspect)) - journal.pulses
    if silent:
        reader.read_to_end(_HEAR_S, journal.take)  # who cannot hear takes nobody for silent
    return silent - journal.pulses


def _open(admin: Admin, is_suspect: Callable[["Transaction"], bool]) -> set[str]:
    found = (t.transactional_id for t in admin.transactions(["Ongoing"]))
    own = [id_ for id_ in found if id_.startswith(f"{OWNER}-")]
    return {t.transactional_id for t in admin.describe_transactions(own).values() if is_suspect(t)} if own else set()
