"""Moves the positions of a flow from the connector of one type to that of the other, while neither runs.

1. The workers' group has no members, or both connectors are stopped.
2. In the config topic the old one is stopped: a worker that starts from here on does not run it.
3. The ids of its tasks are fenced, which ends what they left open (E2).
4. Its positions are read, after open transactions that may change them (E3), with the ends of the remote topics.
5. Its offset syncs are copied to where the other type has them: they hold even if the rest fails.
6. All positions are written to where the other type has them, in one transaction, if 1 still holds.
7. They are read again. The remote topics still have the same ends, so nothing was mirrored in the meantime.
8. The other one may run: if it was stopped before, it is started.

Copies offset syncs when a flow switches to its other type, which has them on another cluster.

They say which record went where, whichever type mirrored it. Without them, positions before the last record of the new
type's first transaction cannot be translated: a group with such a position would keep its old checkpoint.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import typer

from fencepost.builtin.mirror.checkpoint.checkpoints import Translation
from fencepost.builtin.mirror.dedicated import Flow, FlowChoice, MirrorFile
from fencepost.builtin.mirror.formats import FormatError, OffsetSync
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.setting.mirror_settings import ReplicationSettings
from fencepost.builtin.mirror.sink import MirrorOffsets, MirrorSinkConnector
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.builtin.mirror.source.position import is_gap_record, last_of, place_within, position_of
from fencepost.cli.cluster.mirror_run import chosen
from fencepost.cli.output import aligned, waiting
from fencepost.cluster.command import now_ms
from fencepost.config import ConfigError
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.kafka.admin.client import Admin, existing_ends
from fencepost.kafka.errors import MissingTopicError
from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.produce.writer import RecordWriter
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.kafka.setting.client_settings import admin_conf, producer_conf, reader_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.record import TopicPartition
from fencepost.storage import records
from fencepost.storage.change import TargetState
from fencepost.storage.config_topic import ConfigTopic, TopicWriter
from fencepost.storage.internal_topics import READ_S
from fencepost.storage.offset_copies import OffsetCopies
from fencepost.storage.offset_topic import StoredOffset
from fencepost.storage.offset_view import OffsetTopic, OffsetTopics, OffsetView
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.operation.offset.source import OffsetWriter
from fencepost.worker.plan import Client
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.offset import read_offsets

log = logging.getLogger(__name__)

MOST_COPIED = 100_000
_READ_S = 120.0
_WRITE_S = 60.0
_AT_ONCE = 10_000  # fewer than the client's queue holds
_PARTITION = 0


class Extent(NamedTuple):
    """How far a partition is mirrored: the flow's position at the source, and the end of the remote partition."""

    position: int
    remote_end: int

    def has(self, sync: OffsetSync) -> bool:
        return sync.upstream_offset < self.position and sync.downstream_offset < self.remote_end


class SyncsWithin:
    """Syncs of some partitions, in the order of their topic, without those beyond what is mirrored.

    A sync beyond is of another topic of that name, or of records that will be mirrored again, as their task was killed
    before it committed.
    """

    def __init__(self, extents: Mapping[TopicPartition, Extent], most: int = MOST_COPIED) -> None:
        """Keep roughly `most` syncs; if there are more, older ones are thinned out."""
        self._extents = extents
        self._kept = Translation(most)
        self._last: dict[TopicPartition, OffsetSync] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, sync: OffsetSync) -> None:
        extent = self._extents.get(sync.topic_partition)
        if extent is not None and extent.has(sync):
            self._kept.add(sync)
            self._last[sync.topic_partition] = sync

    def missing_in(self, other: "SyncsWithin") -> list[OffsetSync]:
        """Return the syncs after those of `other`; the last one of each partition keeps its headers."""
        found = []
        for place, last in sorted(self._last.items()):
            known = other._last.get(place)
            found += [
                last if sync == last else sync
                for sync in self._kept.syncs(place)
                if known is None
                or (sync.upstream_offset > known.upstream_offset and sync.downstream_offset > known.downstream_offset)
            ]
        return found


def copy_syncs(
    old: ReplicationSettings,
    new: ReplicationSettings,
    extents: Mapping[TopicPartition, Extent],
    target_producer: Mapping[str, object],
) -> int:
    """Copy the syncs of the old type of a flow to the topic of the new type; returns how many were written.

    Neither may run. A repeated call writes only what is missing. `target_producer` has Java's settings of the producers
    that write to the target. Raises ConfigError, or Kafka's errors.
    """
    if not (old.emit_offset_syncs and new.emit_offset_syncs):
        return 0
    at, to = old.offset_syncs_cluster(), new.offset_syncs_cluster()
    if at is to:
        return 0
    there, here = SyncsWithin(extents), SyncsWithin(extents)
    _read(old, there)
    if not there:
        return 0
    topic = new.offset_syncs_topic()
    with closing(new.admin(to, "migration")) as admin:
        new.ensure_internal_topic(admin, topic, "offset_syncs_replication_factor")
    _read(new, here)
    missing = there.missing_in(here)
    own = new.client(to, ClientKind.PRODUCER, "migration") if to is FlowEnd.SOURCE else target_producer
    with closing(RecordWriter(producer_conf(own).conf, topic, partition=_PARTITION)) as writer:
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            writer.write([(sync.key(), sync.value(), 0, sync.headers()) for sync in some], _WRITE_S)
    return len(missing)


def _read(mirror: ReplicationSettings, into: SyncsWithin) -> None:
    """Read the committed syncs of a type's topic, if it exists."""
    conf = reader_conf(mirror.client(mirror.offset_syncs_cluster(), ClientKind.CONSUMER, "migration")).conf
    topic = mirror.offset_syncs_topic()

    def take(record: LogRecord) -> None:
        try:
            into.add(OffsetSync.decode(record.key, record.value, record.headers))
        except FormatError as error:
            log.warning("skipping record %d of topic %s: %s", record.offset, topic, error)

    with suppress(MissingTopicError), closing(LogReader(conf, topic)) as reader:
        if reader.look(_READ_S) is not None:
            reader.read_to_end(_READ_S, take, looks=False)


_LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class TypedFlow:
    """A flow with one of the two types."""

    flow: Flow
    name: str

    @classmethod
    def of(cls, flow: Flow, kind: str, name: str | None) -> "TypedFlow":
        """Return a flow with type `kind`; `name` is that of its connector, unless it is the default of `fencepost
        mirror`.
        """
        as_kind = replace(flow, own={**flow.own, FlowChoice.key_of("connector_type"): kind})
        return cls(as_kind, name or as_kind.record_connector)

    @property
    def kind(self) -> str:
        return self.flow.choice.connector_type

    @cached_property
    def config(self) -> dict[str, str]:
        """Return the connector's config."""
        return {**self.flow.connectors()[self.flow.record_connector], "name": self.name}

    @cached_property
    def connector(self) -> MirrorSourceConnector:
        kind = MirrorSinkConnector if self.flow.choice.is_sink else MirrorSourceConnector
        return kind(self.config)

    @cached_property
    def settings(self) -> WorkerSettings:
        """Return the worker's settings with exactly-once on, as everything is written in one transaction here."""
        support = {WorkerConfig.key_of("exactly_once_source_support"): ExactlyOnceSource.ENABLED.value}
        return WorkerSettings(WorkerConfig({**self.flow.worker_properties(), **support}), "", "migration")

    def has_workers(self) -> bool:
        """Say whether the workers' group has members, of Kafka Connect or of Fencepost."""
        with closing(GroupSurvey(self.settings.admin_conf(), timeout_s=READ_S)) as survey:
            return survey.has_members(self.settings.group_id)

    def place(self) -> str:
        """Return where the positions are kept, in words."""
        plan = self.settings.plan(self.config)
        held = plan.offsets_in_group(self.name)
        where = f"topic {plan.offsets_topic}" if held is None else f"group {held.group}"
        return f"{where} of {self.flow.target}"


@dataclass(frozen=True)
class Move:
    """A position to move. `source_end`: the end of its log; `target_end`: the end of the remote log."""

    place: TopicPartition
    stored: StoredOffset
    remote: TopicPartition
    source_end: int | None
    target_end: int | None

    @property
    def position(self) -> int:
        return last_of(self.stored.offset) + 1


@dataclass(frozen=True)
class MigrationPlan:
    """What is moved, and what cannot be: partitions whose remote topic does not exist."""

    moves: tuple[Move, ...]
    left_out: tuple[TopicPartition, ...]
    gaps: tuple[StoredOffset, ...]


class Migration:
    """Moves one flow from one type to the other. A context manager. Raises ConfigError for what the user can fix."""

    def __init__(self, old: TypedFlow, new: TypedFlow) -> None:
        self._old, self._new = old, new
        self._opened = ExitStack()
        settings = old.settings
        self._patient_until = time.monotonic() + settings.config.session_timeout_ms / 1000 + _LOOK_EVERY_S
        sink = old if old.flow.choice.is_sink else new
        self._connector = MirrorSinkConnector(sink.config)
        self._held: MirrorOffsets = self._connector.held(sink.name)
        self._target = self._opened.enter_context(closing(Admin(settings.admin_conf())))
        source = self._connector.client(FlowEnd.SOURCE, ClientKind.ADMIN, "migration")
        self._source = self._opened.enter_context(closing(Admin(admin_conf(source).conf)))
        self._topics = OffsetTopics(OffsetTopic(settings.config.offset_storage_topic, settings.reader_conf()))
        self._opened.callback(self._topics.close)

    def __enter__(self) -> "Migration":
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def plan(self) -> MigrationPlan:
        """Read what is to be moved, and change nothing."""
        self.ensure_at_rest()
        found = self._read(self._old).offsets
        gaps = [one for one in found if is_gap_record(one.partition or {})]
        positions = self._positions(found)
        remote = {place: self._held.remote(place) for place in positions}
        there = existing_ends(self._target, set(remote.values()), read_committed=False)
        ends = existing_ends(self._source, positions, read_committed=True)
        moves = (
            Move(place, positions[place], remote[place], ends.get(place), there[remote[place]])
            for place in sorted(positions)
            if remote[place] in there
        )
        left_out = sorted(place for place in positions if remote[place] not in there)
        return MigrationPlan(tuple(moves), tuple(left_out), tuple(gaps))

    def carry_out(self) -> MigrationPlan:
        """Carry it out; returns what was moved, as it was read after the old tasks were fenced.

        Raises as `plan` does; after CommitUnknownError, repeat it.
        """
        old, new = self._old, self._new
        self.ensure_at_rest()  # 1
        tasks = self._task_count(old)
        self._stop_older()  # 2
        with closing(OffsetCopies(new.settings.producer_conf(), new.settings.config.offset_storage_topic)) as copies:
            writer = OffsetWriter(new.settings, copies, now_ms)
            writer.fence(old.name, old.config, tasks)  # 3
            plan = self.plan()  # 4
            self._copy_syncs(plan)  # 5
            view = self._read(new)
            taken = [*(move.stored for move in plan.moves), *plan.gaps]
            changes = [view.change(one.partition, one.offset) for one in taken]
            writer.write(new.name, new.config, changes, self.ensure_at_rest)  # 6
        self._verify(plan)  # 7
        self._free_newer()  # 8
        return plan

    def ensure_at_rest(self) -> None:
        """Raise ConfigError while one of the two connectors may run.

        Waits once for a worker that did not leave the group, which keeps its place for a while.
        """
        while running := self._running():
            if time.monotonic() > self._patient_until:
                group = self._old.settings.group_id
                raise ConfigError(
                    f"{running[0]} may be running: group {group} of {self._old.flow.target} has workers. End all of "
                    f"them, or stop the connector (PUT /connectors/{running[0]}/stop), and run this command again"
                )
            time.sleep(_LOOK_EVERY_S)

    def _running(self) -> list[str]:
        if not self._old.has_workers():
            return []
        snapshot = self._snapshot()
        return [side.name for side in (self._old, self._new) if _may_run(snapshot, side.name)]

    def _positions(self, offsets: Sequence[StoredOffset]) -> dict[TopicPartition, StoredOffset]:
        at = {place_within(one.partition or {}, self._old.flow.source): one for one in offsets}
        return {place: one for place, one in at.items() if place is not None and position_of(one.offset) is not None}

    def _read(self, side: TypedFlow) -> OffsetView:
        try:
            return read_offsets(side.settings, self._topics, side.name, side.config, READ_S)
        except MissingTopicError as error:
            raise ConfigError(
                f"{error}. According to the file it has the offsets of {side.flow.name}: set "
                f"{side.flow.name}.{WorkerConfig.key_of('offset_storage_topic')} to the topic that has them"
            ) from None

    def _snapshot(self) -> ClusterSnapshot:
        settings = self._old.settings
        if self._target.topics.partitions(settings.config.config_storage_topic) is None:
            return ClusterSnapshot()
        topic = ConfigTopic(settings.reader_conf(), settings.config.config_storage_topic)
        try:
            return topic.start(READ_S)
        finally:
            topic.stop()

    def _task_count(self, side: TypedFlow) -> int:
        snapshot = self._snapshot()
        recorded = snapshot.task_count_records.get(side.name, 0)
        return max(recorded, len(snapshot.tasks(side.name)), int(side.config.get("tasks.max", 1)))

    def _copy_syncs(self, plan: MigrationPlan) -> None:
        extents = {m.place: Extent(m.position, m.target_end) for m in plan.moves if m.target_end is not None}
        producer = self._new.settings.plan(self._new.config).clients.producer_properties
        copy_syncs(self._old.connector, self._new.connector, extents, producer)

    def _verify(self, plan: MigrationPlan) -> None:
        self._await_committed(plan)
        found = self._positions(self._read(self._new).offsets)
        ends = existing_ends(self._target, [move.remote for move in plan.moves], read_committed=False)
        for move in plan.moves:
            if move.place not in found or last_of(found[move.place].offset) != last_of(move.stored.offset):
                raise ConfigError(f"{_named(move.place)} is not at {move.position}: run this command again")
            if ends.get(move.remote) != move.target_end:
                raise ConfigError(
                    f"{_named(move.remote)} has received records in the meantime: something still mirrors or writes to "
                    "it. Find and stop that, and run this command again"
                )

    def _await_committed(self, plan: MigrationPlan) -> None:
        """Wait until the group has the transaction's offsets; before that it does not return new ones."""
        conf, held = self._new.settings.plan(self._new.config).clients.conf(Client.TASK_ADMIN), self._held
        if self._new.flow.choice.is_sink and plan.moves:
            read_stable(conf, held.group, READ_S, [move.remote for move in plan.moves])

    def _stop_older(self) -> None:
        name = self._old.name
        if _may_run(self._snapshot(), name):
            self._apply(records.tasks_commit(name, 0), records.target_state(name, TargetState.STOPPED))

    def _free_newer(self) -> None:
        snapshot, name = self._snapshot(), self._new.name
        if name in snapshot.connectors and not _may_run(snapshot, name):
            self._apply(records.target_state(name, TargetState.STARTED))

    def _apply(self, *written: records.Encoded) -> None:
        settings = self._new.settings
        with closing(TopicWriter(settings.producer_conf(), settings.config.config_storage_topic)) as writer:
            writer.write(written, READ_S)


def _may_run(snapshot: ClusterSnapshot, name: str) -> bool:
    return name in snapshot.connectors and snapshot.target_state(name) is not TargetState.STOPPED


def _named(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"


_OTHER = {"sink": "source", "source": "sink"}
_HEADINGS = ("partition", "goes on at", "source ends at", "remote", "remote ends at")


def migrate(
    path: Path,
    flow: str | None,
    to: str,
    names: tuple[str | None, str | None],
    *,
    is_dry: bool = False,
    is_confirmed: bool = False,
) -> None:
    """Show the plan and, after the user has agreed, carry it out. Raises ConfigError, or Kafka's errors.

    Args:
        flow: Which of the file's flows; None: the only enabled one.
        to: The new type of the flow.
        names: Of the old connector and of the new one; None: the names that `fencepost mirror` uses.
    """
    if to not in _OTHER:
        raise ConfigError(f"--to {to}: a flow's type is source or sink")
    file = MirrorFile.load(path)
    enabled = [each for each in file.flows() if each.choice.is_enabled]
    found = chosen(enabled, [flow] if flow else [], [])
    if len(found) > 1:
        raise ConfigError(f"--flow is missing: the file runs {', '.join(each.name for each in found)}")
    old, new = TypedFlow.of(found[0], _OTHER[to], names[0]), TypedFlow.of(found[0], to, names[1])
    with Migration(old, new) as migration:
        with waiting("Reading positions"):
            plan = migration.plan()
        for line in shown(old, new, plan):
            typer.echo(line)
        if is_dry or not plan.moves:
            return
        if not is_confirmed:
            typer.confirm("Take them along?", abort=True)
        with waiting(f"Moving {len(plan.moves)} positions"):
            plan = migration.carry_out()
    typer.echo(f"Done and verified: {len(plan.moves)} positions are in {new.place()}.")
    typer.echo(f"Now set {old.flow.name}.connector.type={to} in {path} and start it. The other type is stopped.")
    typer.echo(f"To go back: end it, and `fencepost mirror migrate {path} --flow '{old.flow.name}' --to {old.kind}`.")


def shown(old: TypedFlow, new: TypedFlow, plan: MigrationPlan) -> Iterator[str]:
    """Yield the lines of a plan."""
    yield f"{old.flow.name}: {old.name} ({old.kind}) hands over to {new.name} ({new.kind})"
    yield f"  from  {old.place()}"
    yield f"  to    {new.place()}"
    yield ""
    if plan.moves:
        yield from _table(plan)
    else:
        yield f"{old.name} has no positions: nothing is copied."
    for place in plan.left_out:
        yield f"skipped: {place.topic}-{place.partition}, which has no remote topic; it is mirrored from the start"
    if plan.gaps:
        yield f"and {len(plan.gaps)} recorded gaps"
    yield ""


def _table(plan: MigrationPlan) -> Iterator[str]:
    rows: list[Sequence[str]] = [_HEADINGS]
    for move in plan.moves:
        rows.append(
            (
                f"{move.place.topic}-{move.place.partition}",
                str(move.position),
                "?" if move.source_end is None else str(move.source_end),
                f"{move.remote.topic}-{move.remote.partition}",
                str(move.target_end),
            )
        )
    yield from aligned(rows)
