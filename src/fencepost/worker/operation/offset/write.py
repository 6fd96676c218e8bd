"""Writes the offsets of a connector that does not run, in one transaction if exactly-once is on.

Order: 1 take both ids of the connector's first task, which fences their holders (E2) ▸ 2 send the records ▸ 3 check
again that this is allowed ▸ 4 write tombstones to the worker's topic, acknowledged (E7) ▸ 5 commit ▸ 6 write the other
copies, if possible. A task that starts between 3 and 5 either waits for the commit, because it reads to the end that 2
has moved (E3), or takes the id, and nothing is committed.
"""

import logging
from collections.abc import Callable, Sequence

from fencepost.cluster.fencing import task_transactional_id, task_transactional_ids
from fencepost.config.raw import RawConfig
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.group.memberless import memberless
from fencepost.kafka.produce.writer import RecordWriter
from fencepost.storage.offset_copies import OffsetCopies, OffsetCopy
from fencepost.storage.offset_view import Change
from fencepost.task.delivery.finish import GroupPositions
from fencepost.transaction import TransactionalWriter, fence, lane_ids, open_lanes
from fencepost.worker.settings import WorkerSettings

log = logging.getLogger(__name__)

_WRITE_S = 30.0
_FENCE_S = 60.0


class OffsetWriter:
    """Carries out changes of offsets. Called on threads of the REST server."""

    def __init__(self, settings: WorkerSettings, copies: OffsetCopies, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._copies = copies
        self._now_ms = now_ms

    def fence(self, connector: str, config: RawConfig, tasks: int) -> None:
        """Fence all ids that tasks of the connector may have, recorded or not. Raises WriterOpenError."""
        conf = self._settings.fencing_conf(config)
        ids = [i for n in range(max(tasks, 1)) for i in task_transactional_ids(self._settings.group_id, connector, n)]
        fence(ids, lambda _: conf, _FENCE_S)

    def write(
        self, connector: str, config: RawConfig, changes: Sequence[Change], ensure_allowed: Callable[[], None]
    ) -> None:
        """Write all of `changes`, or none. `ensure_allowed` raises if that is not, or is no longer, allowed.

        Raises CommitUnknownError if the outcome has to be read (E6). After any other error nothing was written to the
        connector's topic, if exactly-once is on; if it is off, records are written one by one, and some may be.
        """
        held = self._settings.offsets_in_group(connector, config)
        if held is not None:
            self._in_group(connector, config, GroupPositions(held), [c.main for c in changes], ensure_allowed)
            return
        records = [change.main for change in changes]
        if self._settings.is_exactly_once:
            topic = self._settings.offsets_topic(config)
            self._in_transaction(connector, config, lambda w: _send(w, topic, records), changes, ensure_allowed)
        else:
            self._at_once(config, records, changes, ensure_allowed)
        self._copy_others(connector, changes)

    def _in_transaction(
        self,
        connector: str,
        config: RawConfig,
        fill: Callable[[TransactionalWriter], None],
        copied: Sequence[Change],
        ensure_allowed: Callable[[], None],
    ) -> None:
        conf = self._settings.task_producer_conf(config)
        ids = lane_ids(task_transactional_id(self._settings.group_id, connector, 0))
        writer, second = (TransactionalWriter(conf, id_) for id_ in ids)
        try:
            open_lanes(writer, second, keeps_second=False)  # 1
            fill(writer)  # 2
            ensure_allowed()  # 3
            self._forget_copies(copied)  # 4, E7
            writer.commit()  # 5
        except BaseException:
            writer.abort()
            raise
        finally:
            writer.close()

    def _in_group(
        self,
        connector: str,
        config: RawConfig,
        positions: GroupPositions,
        records: Sequence[tuple[bytes, bytes | None]],
        ensure_allowed: Callable[[], None],
    ) -> None:
        """Move offsets that a group keeps, and with them those that it cannot keep."""
        offsets, others = positions.parted(records)

        def fill(writer: TransactionalWriter) -> None:
            _send(writer, self._settings.offsets_topic(config), others)
            if offsets:
                writer.send_group_offsets(offsets, memberless(positions.group))

        if self._settings.is_exactly_once:
            self._in_transaction(connector, config, fill, (), ensure_allowed)
        else:
            self._at_once(config, others, (), ensure_allowed)
            GroupOffsets(self._settings.task_admin_conf(config), positions.group).commit(offsets)

    def _at_once(
        self,
        config: RawConfig,
        records: Sequence[tuple[bytes, bytes | None]],
        copied: Sequence[Change],
        ensure_allowed: Callable[[], None],
    ) -> None:
        conf, topic = self._settings.task_producer_conf(config), self._settings.offsets_topic(config)
        ensure_allowed()
        self._forget_copies(copied)
        writer = RecordWriter(conf, topic)
        try:
            writer.write(records, _WRITE_S)
        finally:
            writer.close()

    def _forget_copies(self, changes: Sequence[Change]) -> None:
        self._copies.write(self._copies_of([c for c in changes if c.is_tombstone]), _WRITE_S)

    def _copy_others(self, connector: str, changes: Sequence[Change]) -> None:
        try:
            self._copies.write(self._copies_of([c for c in changes if not c.is_tombstone]), _WRITE_S)
        except Exception as error:
            log.warning("connector %s: its offsets were not copied to the worker's topic: %s", connector, error)

    def _copies_of(self, changes: Sequence[Change]) -> list[OffsetCopy]:
        now_ms = self._now_ms()
        return [OffsetCopy(*change.copy, now_ms) for change in changes if change.copy is not None]


def _send(writer: TransactionalWriter, topic: str, records: Sequence[tuple[bytes, bytes | None]]) -> None:
    for key, value in records:
        writer.send(topic, value, key=key)
    writer.flush()
