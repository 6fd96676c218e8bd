"""MirrorCheckpointConnector: writes where groups continue at the target, like Kafka's connector of that name.

Steps of a round of its task, in an order that keeps checkpoints true and monotonic:

1. Read the groups' offsets at the source; only stable ones count.
2. Read all committed offset syncs, which say where the records before those offsets went.
3. Once, read all committed checkpoints: what an older task has written is not taken back.
4. Translate, and write what is further than before.

The offsets of groups at the target are then committed from what was written. Nothing has to be undone after a crash:
another task reaches the same result, or a later one.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from itertools import pairwise
from typing import Any

from fencepost.api import LOW, Batch, ExactlyOnceSupport, SourceConnector, Type, at_least, setting
from fencepost.builtin.mirror.checkpoint.checkpoints import (
    Checkpoints,
    Translation,
    is_within,
    remote_partition,
    steps_of_group,
    translated,
)
from fencepost.builtin.mirror.formats import OFFSET, Checkpoint, FormatError, OffsetSync, check_offsets
from fencepost.builtin.mirror.metric import MeasuredCheckpoints, Rows
from fencepost.builtin.mirror.schedule import IntervalTimer, WarningLog, Watch
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.setting.filters import GroupSelection, TopicSelection
from fencepost.builtin.mirror.setting.mirror_settings import (
    OffsetSyncSettings,
    SourceClusterSettings,
    TargetClusterSettings,
    replicas,
)
from fencepost.hook.mirror import MirrorTask
from fencepost.kafka.admin.client import Admin, existing_ends, existing_starts
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError, MissingTopicError
from fencepost.kafka.group.group_offsets import GroupInUseError, GroupOffsets
from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.kafka.group.subscription import SHARE, GroupSubscription
from fencepost.kafka.read.log import Handler, LogReader, LogRecord
from fencepost.kafka.setting.client_settings import reader_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.setting.translation import Conf
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import Repeated, TopicPartition
from fencepost.record.schema import BYTES

log = logging.getLogger(__name__)
_COMMA = ","
_READ_S = 10.0  # for each call, so that a long topic does not delay a stop


class FollowedTopic:
    """Passes every committed record to `on_record`. If the topic was replaced, calls `on_begin` first.

    It is then read from its beginning: it was deleted and recreated, or its next record has been deleted. One thread.
    Nothing connects before the first `catch_up`.
    """

    def __init__(
        self, conf: Mapping[str, Any], topic: str, *, on_begin: Callable[[], None], on_record: Handler, timeout_s: float
    ) -> None:
        self.topic = topic
        self._conf = conf
        self._on_begin = on_begin
        self._on_record = on_record
        self._timeout_s = timeout_s
        self._reader: LogReader | None = None
        self._id: str | None = None

    def catch_up(self, *, waits: bool = False) -> bool:
        """Pass on new records, up to the first open transaction, or past it if it `waits` for transactions to end.

        Returns False if the topic does not exist.

        Raises KafkaUnavailableError if it is to be retried, KafkaAuthorizationError.
        """
        try:
            reader = self._current()
            if reader is None:
                return False
            reader.read_to_end(self._timeout_s, self._on_record, waits=waits, looks=False)
        except MissingTopicError:
            return False
        except KafkaRequestError as error:
            self.close()
            raise KafkaUnavailableError(f"Topic {self.topic} will be read again from its beginning: {error}") from error
        return True

    def close(self) -> None:
        """Stop reading. Idempotent; another `catch_up` starts from the beginning."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _current(self) -> LogReader | None:
        if self._reader is None:
            self._reader, self._id = LogReader(self._conf, self.topic), None
        found = self._reader.look(self._timeout_s)
        if found is None:
            self.close()
            return None
        if self._id is None:
            self._id = found
            self._on_begin()
        elif found != self._id:
            self.close()
            return self._current()
        return self._reader


class Ends:
    """Asks one cluster. A topic that cannot be asked does not affect the others."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._warnings = {what: WarningLog(log) for what in ("end", "start")}

    def of(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of partitions for readers of committed records, without missing or denied ones.

        Raises KafkaUnavailableError.
        """
        return self._asked("end", places, lambda some: existing_ends(self._admin, some, read_committed=True))

    def begins(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the beginnings of partitions, without missing or denied ones. Raises KafkaUnavailableError."""
        return self._asked("start", places, lambda some: existing_starts(self._admin, some))

    def _asked(
        self,
        what: str,
        places: Collection[TopicPartition],
        ask: Callable[[Collection[TopicPartition]], dict[TopicPartition, int]],
    ) -> dict[TopicPartition, int]:
        warnings: dict[str, str] = {}
        try:
            found = ask(places)
        except (KafkaAuthorizationError, KafkaRequestError):
            found = {}
            for topic in sorted({place.topic for place in places}):
                try:
                    found |= ask([place for place in places if place.topic == topic])
                except (KafkaAuthorizationError, KafkaRequestError) as error:
                    warnings[f"topic {topic}"] = f"its {what} offsets cannot be read: {error}"
        self._warnings[what].update(warnings)
        return found

    def close(self) -> None:
        self._admin.close()


class MirrorCheckpointTask(MirrorTask):
    """Writes checkpoints of its groups at an interval, and commits them at the target if configured."""

    config: "MirrorCheckpointConnector"

    def __init__(self) -> None:
        self.measured = MeasuredCheckpoints()

    def start(self) -> None:
        config = self.config
        self.policy = config.policy()
        self.topic = self.policy.checkpoints_topic(config.source_cluster_alias)
        self.takes_topic = config.topic_filter().takes
        self.written = Checkpoints(config.assigned_groups)
        self.has_read_written = False
        self.translation = Translation()
        self.checkpoints = self._followed(
            FlowEnd.TARGET,
            self.topic,
            "checkpoints",
            self.written.forget,
            lambda record: self.written.add(Checkpoint.decode(record.key, record.value)),
        )
        self.syncs = self._followed(
            config.offset_syncs_cluster(),
            config.offset_syncs_topic(),
            "offset-syncs",
            self._begin_syncs,
            lambda record: self.translation.add(OffsetSync.decode(record.key, record.value)),
        )
        timeout_s = config.admin_timeout_s
        self.source_groups = GroupSurvey(self._admin_conf(FlowEnd.SOURCE), timeout_s=timeout_s)
        self.target_groups = GroupSurvey(self._admin_conf(FlowEnd.TARGET), timeout_s=timeout_s)
        self.ends = Ends(config.admin(FlowEnd.TARGET, "checkpoint-target-admin"))
        self.emission = IntervalTimer(config.interval_s)
        self.commits = IntervalTimer(config.sync_group_offsets_interval_s)
        self.unread, self.refused = WarningLog(log), WarningLog(log)

    def commit(self) -> None:
        self.measured.committed()

    def figures(self) -> Rows:
        return self.measured.rows(self.config.source_cluster_alias, self.config.target_cluster_alias)

    def poll(self) -> Batch | None:
        if not self.emission.left_s():
            found = self._round()
            self.emission.take()
            return self._batch(found) if found else None
        if self.config.syncs_group_offsets and not self.commits.left_s():
            self._commit_groups()
            self.commits.take()
        next_s = self.commits.left_s() if self.config.syncs_group_offsets else self.emission.left_s()
        self.context.wait(min(next_s, self.emission.left_s()))
        return None

    def stop(self) -> None:
        for each in (self.checkpoints, self.syncs, self.source_groups, self.target_groups, self.ends):
            each.close()

    def _round(self) -> list[Checkpoint]:
        committed_offsets, denied = self.source_groups.committed_offsets(self.config.assigned_groups)  # 1
        self.unread.update(
            {f"group {g}": f"its offsets at the source cannot be read: {why}" for g, why in denied.items()}
        )
        if not self.syncs.catch_up():  # 2
            log.info("no checkpoints are written until topic %s exists", self.syncs.topic)
            return []
        if not self.has_read_written:  # 3
            self.checkpoints.catch_up(waits=True)
            self.checkpoints.close()
            self.has_read_written = True
        places = {
            place for of_group in committed_offsets.values() for place in of_group if self.takes_topic(place.topic)
        }
        remote = {place: self._remote(place) for place in places}
        begins = self.ends.begins(
            {
                remote[place]
                for of_group in committed_offsets.values()
                for place, committed in of_group.items()
                if place in remote and committed and self.translation.is_before(place, committed.offset)
            }
        )
        found = [
            checkpoint
            for group, of_group in committed_offsets.items()
            for checkpoint in translated(group, of_group, self.translation, remote, begins)
        ]
        fresh = self._fresh(found)  # 4
        for checkpoint in fresh:
            self.written.add(checkpoint)
        self.measured.made((each.group, each.topic_partition) for each in fresh)
        return fresh

    def _fresh(self, found: list[Checkpoint]) -> list[Checkpoint]:
        """Return what is to be written, without offsets beyond the end, which come from syncs of another topic."""
        steps = [each for each in found if self.written.is_step(each) or self.written.is_less(each)]
        ends = self.ends.of({each.topic_partition for each in steps})
        return [each for each in steps if self.written.is_due(each, ends.get(each.topic_partition))]

    def _batch(self, checkpoints: list[Checkpoint]) -> Batch:
        count, now_ms = len(checkpoints), time.time_ns() // 1_000_000
        return Batch(
            Repeated(self.topic, count),
            [each.value() for each in checkpoints],
            [each.source_partition for each in checkpoints],
            Repeated(OFFSET, count),
            value_schema=BYTES,
            keys=[each.key() for each in checkpoints],
            key_schema=BYTES,
            kafka_partitions=Repeated(0, count),
            timestamps=Repeated(now_ms, count),
        )

    def _commit_groups(self) -> None:
        groups = [group for group in self.config.assigned_groups if self.written.of(group)]
        committed_offsets, denied = self.target_groups.committed_offsets(groups)
        refused = {f"group {g}": f"its offsets at the target cannot be read: {why}" for g, why in denied.items()}
        steps = {g: steps_of_group(self.written.of(g), committed_offsets.get(g, {})) for g in groups if g not in denied}
        ends = self.ends.of(
            {TopicPartition(step.topic, step.partition) for of_group in steps.values() for step in of_group}
        )
        for group, of_group in steps.items():
            if self.context.is_stopping:
                return
            refusal = self._commit(group, [step for step in of_group if is_within(step, ends)])
            if refusal is not None:
                refused[f"group {group}"] = f"it cannot be committed at the target: {refusal}"
        self.refused.update(refused)

    def _commit(self, group: str, steps: list[GroupOffset]) -> Exception | None:
        """Commit for a group without members; return the error if it is refused. Without steps it does nothing."""
        conf = self._admin_conf(FlowEnd.TARGET)
        try:
            GroupOffsets(conf, group, timeout_s=self.config.admin_timeout_s).commit(steps)
        except GroupInUseError:
            log.debug("group %s has members at the target, which commit its offsets themselves", group)
        except (KafkaAuthorizationError, KafkaRequestError) as error:
            return error
        return None

    def _remote(self, place: TopicPartition) -> TopicPartition:
        return remote_partition(self.policy, self.config.source_cluster_alias, self.config.target_cluster_alias, place)

    def _admin_conf(self, cluster: FlowEnd) -> Conf:
        return self.config.admin_conf(cluster, f"checkpoint-{cluster}-admin")

    def _followed(
        self, cluster: FlowEnd, topic: str, role: str, on_begin: Callable[[], None], add: Handler
    ) -> FollowedTopic:
        def on_record(record: LogRecord) -> None:
            try:
                add(record)
            except FormatError as error:
                log.warning("skipping record %d of topic %s: %s", record.offset, topic, error)

        client = self.config.client(cluster, ClientKind.CONSUMER, f"{role}-{cluster}-consumer")
        timeout_s = min(_READ_S, self.config.admin_timeout_s)
        return FollowedTopic(
            reader_conf(client).conf, topic, on_begin=on_begin, on_record=on_record, timeout_s=timeout_s
        )

    def _begin_syncs(self) -> None:
        self.translation = Translation()


class MirrorCheckpointConnector(
    SourceClusterSettings, TargetClusterSettings, GroupSelection, TopicSelection, OffsetSyncSettings, SourceConnector
):
    """Writes where consumer groups of the source continue at the target, to a topic of checkpoints there.

    Positions are translated with the topic of offset syncs. Groups are divided among the tasks. The worker's cluster is
    the target. The source partition is `{"group": group, "topic": remote topic, "partition": number}`, the source
    offset always `{"offset": 0}`. A group's checkpoint never goes back, unless the group does.
    """

    task = MirrorCheckpointTask

    emits: bool = setting(
        "emit.checkpoints.enabled", default=True, importance=LOW,
        doc="Whether checkpoints are written. To switch the connector off, use `enabled` instead.",
    )  # fmt: skip
    interval_s: int = setting(
        "emit.checkpoints.interval.seconds", default=60, type=Type.LONG, check=at_least(1), importance=LOW,
        doc="How often checkpoints are written.",
    )  # fmt: skip
    refreshes_groups: bool = setting(
        "refresh.groups.enabled", default=True, importance=LOW, doc="Whether the connector looks for new groups."
    )
    refresh_groups_interval_s: int = setting(
        "refresh.groups.interval.seconds", default=600, type=Type.LONG, check=at_least(1), importance=LOW,
        doc="How often the connector looks for new groups.",
    )  # fmt: skip
    syncs_group_offsets: bool = setting(
        "sync.group.offsets.enabled", default=False, importance=LOW,
        doc="Whether offsets are committed at the target for groups without members there. They never move back.",
    )  # fmt: skip
    sync_group_offsets_interval_s: int = setting(
        "sync.group.offsets.interval.seconds", default=60, type=Type.LONG, check=at_least(1), importance=LOW,
        doc="How often these offsets are committed.",
    )  # fmt: skip
    topic_replication: int = replicas("checkpoints.topic.replication.factor", of="checkpoints")
    assigned_groups: list[str] = setting(
        "task.assigned.groups", default=[], importance=LOW, doc="The groups of a task. Set by the connector."
    )

    def check_together(self) -> list[str]:
        faults = super().check_together()
        for field, is_on in (("emits", self.emits), ("emit_offset_syncs", self.emit_offset_syncs)):
            if self.is_enabled and not is_on:
                faults.append(
                    f"Invalid value false for configuration {self.key_of(field)}: there would be no checkpoints; "
                    f"to switch the connector off, set {self.key_of('is_enabled')}=false"
                )
        return faults

    def start(self) -> None:
        self._left_out = WarningLog(log)
        self._watch = Watch(
            f"the groups of {self.source_cluster_alias}",
            self._groups,
            float(self.refresh_groups_interval_s) if self.refreshes_groups and self.is_enabled else None,
            self.context.request_task_reconfiguration,
        )
        self._watch.start()

    def stop(self) -> None:
        self._watch.stop()

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        """Divide the groups among tasks; clusters that do not answer are asked again."""
        if not self.is_enabled:
            return []
        with closing(self.admin(FlowEnd.TARGET, "checkpoint-target-admin")) as admin:
            topic = self.policy().checkpoints_topic(self.source_cluster_alias)
            self.ensure_internal_topic(admin, topic, "topic_replication")
        [own] = super().task_configs(1)
        groups = self._watch.seen()
        key = self.key_of("assigned_groups")
        return [{**own, key: _COMMA.join(some)} for some in divided(groups, max_tasks)]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(self, offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]) -> bool:
        """Accept any offsets that a task could write, and tombstones for anything; they are never read."""
        check_offsets(offsets, texts=("group", "topic"), has_partition=True)
        return True

    def _groups(self) -> list[str]:
        """Return, in order, the groups of the source that get checkpoints."""
        takes_group, takes_topic = self.group_filter().takes, self.topic_filter().takes
        conf = self.admin_conf(FlowEnd.SOURCE, "checkpoint-source-admin")
        with closing(GroupSurvey(conf, timeout_s=self.admin_timeout_s)) as survey:
            found = [reading for reading in survey.look() if reading.kind != SHARE and takes_group(reading.group)]
        self._left_out.update({f"group {reading.group}": why for reading in found if (why := _no_checkpoints(reading))})
        return sorted(
            reading.group
            for reading in found
            if not _no_checkpoints(reading) and any(takes_topic(place.topic) for place in reading.offsets)
        )


def _no_checkpoints(reading: GroupSubscription) -> str | None:
    """Return why a group gets no checkpoints; None if it does."""
    if _COMMA in reading.group:
        return "it gets no checkpoints: its name contains a comma"
    if reading.doubt and not reading.offsets:
        return f"it gets no checkpoints: {reading.doubt}"
    return None


def divided(groups: list[str], most: int) -> list[list[str]]:
    """Divide groups into at most `most` parts, whose sizes differ by no more than one."""
    count = min(most, len(groups))
    size, larger = divmod(len(groups), count) if count else (0, 0)
    ends = [size * n + min(n, larger) for n in range(count + 1)]
    return [groups[start:end] for start, end in pairwise(ends)]
