"""Finds and ends transactions of direct writes that no process will end: they would block readers for minutes.

While a transaction is open for more than some seconds, its partition writes a heartbeat every few seconds. A process
that finds open transactions of others listens for longer than that, and fences those without a heartbeat. Clocks are
not compared. A living writer that is fenced by mistake commits nothing, and Spark runs its partition again.
"""

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType

from fencepost.kafka.group.transactions import Transaction, TransactionAdmin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.produce.transactional_client import ProducerError
from fencepost.kafka.read.log import LogReader
from fencepost.kafka.retrying import retry
from fencepost.kafka.setting.table import ClientKind
from fencepost.spark.direct_write.marker import OWNER, Journal, heartbeat_record
from fencepost.spark.direct_write.options import DirectWriteOptions
from fencepost.transaction import TransactionalWriter, lock_out

log = logging.getLogger(__name__)

_HEARTBEAT_S = 5.0
_SILENT_S = 3 * _HEARTBEAT_S
_LOOK_EVERY_S = 1.0
_FENCE_S = 10.0
_ASK_S, _AGAIN_S = 30.0, 0.05
_HEAR_S = 10.0


class WriteHeartbeat:
    """Writes heartbeats of a partition, from some seconds after its start until its end."""

    def __init__(self, options: DirectWriteOptions, partition: int) -> None:
        self._options = options
        self._record = heartbeat_record(options.write_id, partition)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fencepost-write-heartbeat", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        if self._is_over.wait(_HEARTBEAT_S):
            return
        client = LibrdkafkaProducer(self._options.conf(ClientKind.PRODUCER))
        try:
            while not self._is_over.is_set():
                self._write(client)
                self._is_over.wait(_HEARTBEAT_S)
        finally:
            client.drop()

    def _write(self, client: LibrdkafkaProducer) -> None:
        key, value = self._record
        try:
            client.produce(self._options.offsets_topic, value, key=key)
            client.flush(_HEARTBEAT_S)
        except ProducerError as error:
            log.debug("the heartbeat was not written: %s", error)


def end_abandoned(
    options: DirectWriteOptions, is_suspect: Callable[[Transaction], bool], reader: LogReader, journal: Journal
) -> None:
    """Fence those suspect transactions of direct writes whose writer is gone.

    `reader` has read the topic of markers, uncommitted, to its end, into `journal`. Takes no time if nothing is open.
    Never raises: if this fails, the broker's `transaction.timeout.ms` ends them later.
    """
    try:
        for id_ in sorted(_silent(options, is_suspect, reader, journal)):
            log.warning("ending transaction %s: it is open, and its writer sends no heartbeats", id_)
            fence(options, id_)
    except Exception as error:
        log.warning("cannot look for abandoned transactions; the broker ends them after their timeout: %s", error)


def fence(options: DirectWriteOptions, transactional_id: str) -> None:
    """Fence the producer that holds the id, and end its transaction. Raises WriterOpenError."""
    lock_out(TransactionalWriter(options.conf(ClientKind.PRODUCER), transactional_id), _FENCE_S)


def _silent(
    options: DirectWriteOptions, is_suspect: Callable[[Transaction], bool], reader: LogReader, journal: Journal
) -> set[str]:
    """Return the ids of suspect transactions that stay open without a heartbeat for a while."""
    admin = TransactionAdmin(options.conf(ClientKind.ADMIN), timeout_s=_ASK_S)
    journal.heartbeats.clear()
    deadline = time.monotonic() + _SILENT_S
    silent = _open(admin, is_suspect)
    while silent and time.monotonic() < deadline:
        reader.poll(journal.take, _LOOK_EVERY_S)
        silent = (silent & _open(admin, is_suspect)) - journal.heartbeats
    if silent:
        reader.read_to_end(_HEAR_S, journal.take)  # if the reader is late, no heartbeat counts as missing
    return silent - journal.heartbeats


def _open(admin: TransactionAdmin, is_suspect: Callable[[Transaction], bool]) -> set[str]:
    listed = retry(lambda: admin.list(["Ongoing"]), _ASK_S, _AGAIN_S)
    own = [each.transactional_id for each in listed if each.transactional_id.startswith(f"{OWNER}-")]
    described = retry(lambda: admin.describe(own), _ASK_S, _AGAIN_S)
    return {each.transactional_id for each in described.values() if is_suspect(each)}
