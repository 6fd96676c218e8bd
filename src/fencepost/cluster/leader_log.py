"""The config topic as the leader reads and writes it.

Every logical write is in one transaction of the id `connect-cluster-<group>` that carries the group metadata captured
at the assignment that made this worker leader, so that the coordinator refuses a deposed leader (E4).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from fencepost.cluster.errors import BadRequestError, NotLeadingError, OperationError, WriteFailedError
from fencepost.cluster.fencing import leader_transactional_id
from fencepost.kafka.group.member import Term
from fencepost.kafka.setting.client_settings import most_record_bytes
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.storage import records
from fencepost.storage.config_topic import CONFIG_PARTITION
from fencepost.storage.records import Encoded
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.transaction import ProduceError, TransactionalWriter, WriterOpenError, WriterTimeouts

_READ_S = 30.0


class ConfigLog(Protocol):
    """The part of the config topic's reader that the leader needs."""

    topic: str

    @property
    def snapshot(self) -> ClusterSnapshot: ...

    def read_to_end(self, timeout_s: float) -> ClusterSnapshot: ...

    def read_past(self, offset: int, timeout_s: float) -> ClusterSnapshot: ...


class _Newest:
    """The offset of the last record of a transaction; the topic has one partition."""

    def __init__(self) -> None:
        self.offset = -1

    def __call__(self, error: Any, message: Any) -> None:
        if error is None:
            self.offset = message.offset()


class LeaderLog:
    """Used by the leader's thread. `term` is the one in which the writer was opened."""

    def __init__(self, group_id: str, config_log: ConfigLog, producer_conf: Mapping[str, Any]) -> None:
        self._group_id = group_id
        self._id = leader_transactional_id(group_id)
        self._log = config_log
        self._conf = {**producer_conf, "delivery.report.only.error": False}  # a delivery report has the record's offset
        self.term = Term(0)
        self._writer: TransactionalWriter | None = None
        self._has_read = False  # to the end, since the writer was opened

    def open(self, term: Term) -> bool:
        """Ensure that there is a writer of this term. Returns whether it is a new one.

        After opening a new one, read to the end before anything is decided.
        """
        if not term.is_owner:  # the lead may have been lost since then; without proof nothing is written (E4)
            raise NotLeadingError
        if self._writer is not None and (self._writer.is_struck or self.term is not term):
            self.close()
        if self._writer is not None:
            return False
        writer = TransactionalWriter(self._conf, self._id, WriterTimeouts(open_s=30.0, commit_s=30.0))
        try:
            writer.open(topic=self._log.topic)
        except Exception as error:
            writer.close()
            raise self.failure(error) from error
        self._writer, self.term = writer, term
        return True

    def close(self) -> None:
        writer, self._writer, self._has_read = self._writer, None, False
        if writer is not None:
            writer.close()

    def newest(self) -> ClusterSnapshot:
        """Return everything that was confirmed to callers."""
        snapshot = self._log.read_to_end(_READ_S)
        self._has_read = True
        return snapshot

    def own(self) -> ClusterSnapshot:
        """Return, without a request, everything that leaders wrote. The latest reports of workers may be missing."""
        return self._log.snapshot if self._has_read else self.newest()

    def write(
        self, decided_on: ClusterSnapshot, written: Iterable[Encoded], others: Iterable[tuple[str, bytes, bytes | None]]
    ) -> ClusterSnapshot:
        """Write records to the config topic, and `others` to their topics, in one transaction.

        Returns the snapshot that includes them.
        """
        assert self._writer is not None
        newest = _Newest()
        for key, value in written:
            self._writer.send(self._log.topic, value, key=key, partition=CONFIG_PARTITION, on_delivery=newest)
        for topic, key, value in others:
            self._writer.send(topic, value, key=key)
        offsets = [GroupOffset(self._log.topic, 0, decided_on.offset)]
        self._writer.commit(group_offsets=offsets, group_metadata=self.term.metadata)  # E4, E10
        return self._log.read_past(newest.offset, _READ_S)

    def fitting(self, decision: "Sequence[Encoded] | OperationError") -> "Sequence[Encoded] | OperationError":
        """Return the decision; a refusal if the producer would not send its records. Others are not affected."""
        most = most_record_bytes(self._conf)
        for key, value in () if isinstance(decision, OperationError) else decision:
            if (size := len(key) + len(value or b"")) > most:
                return BadRequestError(
                    f"{key.decode()} takes {size:,} bytes, and a record of topic {self._log.topic} may have {most:,} "
                    f"at most: {_remedy(key)}"
                )
        return decision

    def failure(self, error: Exception) -> OperationError:
        """Return the error for a failed write: a missing permission is not temporary."""
        if isinstance(error, ProduceError) and error.is_batch_too_large:
            return BadRequestError(
                f"The topic {self._log.topic} refuses what is to be written as too large: shorten the config, delete "
                f"connectors, or raise max.message.bytes of the topic"
            )
        if not (isinstance(error, WriterOpenError | ProduceError) and error.is_denied):
            return WriteFailedError()
        return OperationError(
            f"The leader is not authorized to write the config topic: {error}. It takes Read and Write on topic "
            f"{self._log.topic}, Read on group {self._group_id} and Write on transactional id {self._id}: grant the "
            "worker's principal what `fencepost acls` lists"
        )


def _remedy(key: bytes) -> str:
    if key.startswith(records.ASSIGNMENT.encode()):
        return "upgrade the workers of an older version, which read all connectors and tasks in one record"
    if key.startswith(records.PLACEMENT.encode()):
        return "give the connector fewer tasks, or delete it"
    return "shorten the config"
