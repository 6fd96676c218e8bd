"""Changes the offsets of a connector: alter, reset (KIP-875), and the start of a new one (KIP-995). On the leader.

Order: 1 by the newest config topic, it is stopped or does not exist yet ▸ 2 its earlier tasks have ended, or their time
to do so is over, and with exactly-once on they are fenced ▸ 3 its offsets are read (E3) ▸ 4 the connector's class is
asked ▸ 5 they are written, all or none. From 1 to 5 it must have one task generation and one config: tasks of a run in
between are not fenced by 2, and may still commit.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace

from fencepost.api import ConfigError, FatalError, SourceConnector
from fencepost.cluster.command import ConnectorVersion, EnsureAbsent, EnsureStopped, PutConnector
from fencepost.cluster.errors import BadRequestError, ConflictError, NothingToAlterError, OperationError
from fencepost.cluster.fencing import configs_to_fence, task_transactional_id, task_transactional_ids
from fencepost.cluster.info import ConnectorOffset
from fencepost.config.reference import RawConfig
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaUnavailableError, ReadTimeoutError
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.group.memberless import memberless
from fencepost.kafka.produce.writer import RecordWriter
from fencepost.record import is_same, partition_key
from fencepost.storage.internal_topics import READ_S
from fencepost.storage.offset_copies import OffsetCopies, OffsetCopy
from fencepost.storage.offset_topic import OffsetFormatError, encode
from fencepost.storage.offset_view import Change, OffsetTopics, OffsetView
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.delivery.finish import GroupPositions
from fencepost.transaction import (
    CommitUnknownError,
    ProduceError,
    TransactionalWriter,
    WriterFencedError,
    WriterOpenError,
    fence,
    lane_ids,
    open_lanes,
)
from fencepost.worker.operation.offset.alteration import DONE, FRAMEWORK_ONLY, Lead, ask_connector
from fencepost.worker.plan import Client, ledger_topic
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.offset import read_offsets
from fencepost.worker.supervision.task.specs import ensure_own_topic

log = logging.getLogger(__name__)

_WRITE_S = 30.0
_FENCE_S = 60.0


class OffsetWriter:
    """Writes the offsets of a connector that does not run, in one transaction if exactly-once is on.

    Called on threads of the REST server. Order: 1 take both ids of the connector's first task, which fences their
    holders (E2) ▸ 2 send the records ▸ 3 check again that this is allowed ▸ 4 write tombstones to the worker's topic,
    acknowledged (E7) ▸ 5 commit ▸ 6 write the other copies, if possible. A task that starts between 3 and 5 either
    waits for the commit, because it reads to the end that 2 has moved (E3), or takes the id, and nothing is committed.
    """

    def __init__(self, settings: WorkerSettings, copies: OffsetCopies, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._copies = copies
        self._now_ms = now_ms

    def fence(self, connector: str, config: RawConfig, tasks: int) -> None:
        """Fence all ids that tasks of the connector may have, recorded or not. Raises WriterOpenError."""
        conf = self._settings.plan(config).clients.conf(Client.FENCING)
        ids = [i for n in range(max(tasks, 1)) for i in task_transactional_ids(self._settings.group_id, connector, n)]
        fence(ids, lambda _: conf, _FENCE_S)

    def write(
        self, connector: str, config: RawConfig, changes: Sequence[Change], ensure_allowed: Callable[[], None]
    ) -> None:
        """Write all of `changes`, or none. `ensure_allowed` raises if that is not, or is no longer, allowed.

        Raises CommitUnknownError if the outcome has to be read (E6). After any other error nothing was written to the
        connector's topic, if exactly-once is on; if it is off, records are written one by one, and some may be.
        """
        plan = self._settings.plan(config)
        held = plan.offsets_in_group(connector)
        if held is not None:
            self._in_group(connector, config, GroupPositions(held), [c.main for c in changes], ensure_allowed)
            return
        records = [change.main for change in changes]
        if self._settings.is_exactly_once:
            topic = plan.offsets_topic
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
        conf = self._settings.plan(config).clients.conf(Client.TASK_PRODUCER)
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
            _send(writer, self._settings.plan(config).offsets_topic, others)
            if offsets:
                writer.send_group_offsets(offsets, memberless(positions.group))

        if self._settings.is_exactly_once:
            self._in_transaction(connector, config, fill, (), ensure_allowed)
        else:
            self._at_once(config, others, (), ensure_allowed)
            GroupOffsets(self._settings.plan(config).clients.conf(Client.TASK_ADMIN), positions.group).commit(offsets)

    def _at_once(
        self,
        config: RawConfig,
        records: Sequence[tuple[bytes, bytes | None]],
        copied: Sequence[Change],
        ensure_allowed: Callable[[], None],
    ) -> None:
        plan = self._settings.plan(config)
        conf, topic = plan.clients.conf(Client.TASK_PRODUCER), plan.offsets_topic
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


_ROUND_S = 60.0
_NOT_FENCED = "Failed to perform zombie fencing for source connector prior to modifying offsets"


class SourceOffsets:
    """Reads and changes the offsets of sources and mirrors."""

    def __init__(
        self,
        settings: WorkerSettings,
        topics: OffsetTopics,
        writer: OffsetWriter,
        find: Callable[[RawConfig], type[SourceConnector]],
        fencing_round: Callable[[str], "Future[None]"],
        wait_for_stops: Callable[[str, int | None], None],
    ) -> None:
        """`wait_for_stops(connector, generation)` returns when tasks elsewhere have ended, or their time is over."""
        self._wait_for_stops = wait_for_stops
        self._settings = settings
        self._topics = topics
        self._writer = writer
        self._find = find
        self._fencing_round = fencing_round

    def read(self, snapshot: ClusterSnapshot, connector: str) -> list[ConnectorOffset]:
        """Return a connector's offsets. Raises OperationError if they cannot be read in time."""
        try:
            view = self._view(connector, snapshot.connectors[connector])
        except (KafkaUnavailableError, KafkaAuthorizationError, ConfigError) as error:
            raise OperationError(f"Failed to retrieve offsets for source connector {connector}: {error}") from error
        return [ConnectorOffset(partition, offset) for partition, offset in view.offsets]

    def alter(self, connector: str, offsets: Sequence[ConnectorOffset], lead: Lead) -> str:
        """Move the named partitions of a stopped connector; returns a message for the user."""
        ensure_storable(connector, offsets)
        last = _last_of_each(offsets)
        return self._modify(connector, lambda view: last, "altered", lead)

    def reset(self, connector: str, lead: Lead) -> str:
        """Remove every offset of a stopped connector; returns a message for the user."""
        return self._modify(connector, _all_forgotten, "reset", lead)

    def create(
        self, command: PutConnector, offsets: Sequence[ConnectorOffset], lead: Lead
    ) -> tuple[ClusterSnapshot, str]:
        """Create a connector that starts at `offsets`, without offsets left by a deleted connector of the same name.

        In the worker's topic the offsets are in the leader's transaction, with the config. In a topic of its own, or in
        a group, they are committed first, and restored if the connector is then refused.
        """
        connector, config = command.connector, command.config
        ensure_storable(connector, offsets)
        offsets = _last_of_each(offsets)
        snapshot = lead(EnsureAbsent(connector, config))  # 1
        ensure = EnsureAbsent(connector, config, since=ConnectorVersion.of(snapshot, connector))
        command = replace(command, since=ensure.since)
        self._wait_for_stops(connector, None)  # 2
        if self._settings.is_exactly_once:
            self._fence(connector, config, snapshot)
        with _as_operation_error(connector):
            self._ensure_own_topic(config)
            view = self._view(connector, config)  # 3
            is_apart = view.own is not None or self._settings.plan(config).offsets_in_group(connector) is not None
            wanted = _replacing(view, offsets)
            is_external = self._ask_connector(connector, config, wanted)  # 4
            if is_apart:
                self._apply(connector, config, wanted, lambda: _ignore(lead(ensure)))  # 5
        if not is_apart:
            topic = self._settings.config.offset_storage_topic
            command = replace(command, other_records=[(topic, *view.change(*one).main) for one in wanted])  # 5
        try:
            snapshot = lead(command)
        except Exception as error:
            if is_apart:
                self._put_back(ensure, config, view, wanted, lead)
            if isinstance(error.__cause__, ProduceError) and command.other_records:
                raise OperationError(
                    f"Failed to create connector {connector} with initial_offsets: {error.__cause__}. The worker's "
                    f"principal must be allowed to write to topic {self._settings.config.offset_storage_topic}"
                ) from error
            raise
        return snapshot, (DONE if is_external else FRAMEWORK_ONLY).format("altered")

    def _ensure_own_topic(self, config: RawConfig) -> None:
        ensure_own_topic(self._settings, config, ledger_topic(self._settings.plan(config)))

    def _put_back(
        self, ensure: EnsureAbsent, config: RawConfig, view: OffsetView, moved: Sequence[ConnectorOffset], lead: Lead
    ) -> None:
        """Undo what `create` committed, but only if the leader is certain that no connector existed in the meantime."""
        connector = ensure.connector
        before = {partition_key(p or {}): o for p, o in view.offsets}
        try:
            lead(ensure)
            back = [ConnectorOffset(p, before.get(partition_key(p or {}))) for p, _ in moved]
            self._apply(connector, config, back, lambda: None)
        except Exception as error:
            log.warning("connector %s was not created, but its offsets topic or group still contains its initial "
                        "offsets: repeating the same request is safe, but a create without initial_offsets would "
                        "continue from them (%s)",
                        connector, error)  # fmt: skip

    def _modify(
        self, connector: str, wanted: Callable[[OffsetView], Sequence[ConnectorOffset]], done: str, lead: Lead
    ) -> str:
        snapshot = lead(EnsureStopped(connector))  # 1
        ensure = EnsureStopped(connector, since=ConnectorVersion.of(snapshot, connector))
        self._wait_for_stops(connector, snapshot.commit_offsets.get(connector))  # 2
        if self._settings.is_exactly_once:
            self._run_round(connector)
            self._fence(connector, snapshot.connectors[connector], snapshot)
        snapshot = lead(ensure)
        config = snapshot.connectors[connector]
        with _as_operation_error(connector):
            self._ensure_own_topic(config)
            offsets = wanted(self._view(connector, config))  # 3
            is_external = self._ask_connector(connector, config, offsets)  # 4
            self._apply(connector, config, offsets, lambda: _ignore(lead(ensure)))  # 5
        return (DONE if is_external else FRAMEWORK_ONLY).format(done)

    def _run_round(self, connector: str) -> None:
        """Let the leader do a fencing round (KIP-618), which also records that no tasks are left to fence."""
        try:
            self._fencing_round(connector).result(_ROUND_S)
        except ConflictError:
            raise
        except Exception as error:
            raise OperationError(f"{_NOT_FENCED}: {error.__cause__ or error}") from error

    def _fence(self, connector: str, config: RawConfig, snapshot: ClusterSnapshot) -> None:
        """Fence all ids ever recorded, even if no round is due, such as those of a deleted connector's tasks."""
        try:
            for each in configs_to_fence(snapshot, connector, config):
                self._writer.fence(connector, each, snapshot.task_count_records.get(connector, 0))
        except Exception as error:
            raise OperationError(f"{_NOT_FENCED}: {error}") from error

    def _view(self, connector: str, config: RawConfig) -> OffsetView:
        return read_offsets(self._settings, self._topics, connector, config, READ_S, may_be_missing=True)

    def _ask_connector(self, connector: str, config: RawConfig, offsets: Sequence[ConnectorOffset]) -> bool:
        asked = {partition_key(p): o for p, o in offsets if p is not None}
        return ask_connector(self._find, connector, config, asked, self._settings.config)

    def _apply(
        self, connector: str, config: RawConfig, offsets: Sequence[ConnectorOffset], ensure_allowed: Callable[[], None]
    ) -> None:
        if not offsets:
            log.info("connector %s has no offsets to remove", connector)
            return
        view = self._view(connector, config)
        try:
            changes = [view.change(*one) for one in offsets]
            self._writer.write(connector, config, changes, ensure_allowed)
        except CommitUnknownError as error:  # E6
            self._settle(connector, config, offsets, error)

    def _settle(self, connector: str, config: RawConfig, offsets: Sequence[ConnectorOffset], error: Exception) -> None:
        """Find out the outcome of a commit: fence the writer, so that it cannot commit later, and read."""
        self._writer.fence(connector, config, 1)
        found = {partition_key(p or {}): o for p, o in self._view(connector, config).offsets}
        if any(not is_same(found.get(partition_key(p or {})), o) for p, o in offsets):
            raise OperationError(
                f"Failed to modify offsets for source connector {connector}: {error}. Nothing was changed; the "
                "request can be safely retried"
            ) from error


def ensure_storable(connector: str, offsets: Sequence[ConnectorOffset]) -> None:
    """Raise BadRequestError for offsets that cannot be stored."""
    if not offsets:
        raise NothingToAlterError
    for partition, offset in offsets:
        if partition is None and offset is not None:
            raise BadRequestError("Partition objects cannot be null")
        try:
            encode(connector, partition, offset)
        except OffsetFormatError as error:
            raise BadRequestError(str(error)) from error


def _last_of_each(offsets: Sequence[ConnectorOffset]) -> list[ConnectorOffset]:
    """Return the last entry of each partition, as a map would: tombstones are copied before values."""
    return list({partition_key(one.partition or {}): one for one in offsets}.values())


def _replacing(view: OffsetView, offsets: Sequence[ConnectorOffset]) -> list[ConnectorOffset]:
    named = {partition_key(p or {}) for p, _ in offsets}
    return [*offsets, *(ConnectorOffset(p, None) for p, _ in view.offsets if partition_key(p or {}) not in named)]


def _all_forgotten(view: OffsetView) -> list[ConnectorOffset]:
    return [ConnectorOffset(partition, None) for partition, _ in view.offsets]


def _ignore(_: object) -> None:
    return None


@contextmanager
def _as_operation_error(connector: str) -> Iterator[None]:
    """Turn errors into messages for the user; the connector's own messages pass unchanged."""
    failed = f"Failed to modify offsets for source connector {connector}"
    try:
        yield
    except OperationError:
        raise
    except WriterFencedError as error:
        raise ConflictError(f"{failed}: it was started, or its offsets were modified, at the same time") from error
    except ReadTimeoutError as error:
        raise OperationError(
            "Timed out while trying to read to the end of the offsets topic prior to modifying offsets for source "
            f"connector {connector}: {error}"
        ) from error
    except (WriterOpenError, ProduceError, KafkaUnavailableError, FatalError, ConfigError) as error:
        raise OperationError(f"{failed}: {error}") from error
    except BaseException as error:
        log.exception("%s", failed)
        raise OperationError(failed) from error
