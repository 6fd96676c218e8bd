"""The task of MirrorCheckpointConnector.

Steps of a round, in an order that keeps checkpoints true and monotonic:

1. Read the groups' offsets at the source; only stable ones count.
2. Read all committed offset syncs, which say where the records before those offsets went.
3. Once, read all committed checkpoints: what an older task has written is not taken back.
4. Translate, and write what is further than before.

The offsets of groups at the target are then committed from what was written. Nothing has to be undone after a crash:
another task reaches the same result, or a later one.
"""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost.api import Batch
from fencepost.builtin.mirror.checkpoint.checkpoints import (
    Checkpoints,
    is_within,
    remote_partition,
    steps_of_group,
    translated,
)
from fencepost.builtin.mirror.checkpoint.ends import Ends
from fencepost.builtin.mirror.checkpoint.followed_topic import FollowedTopic
from fencepost.builtin.mirror.checkpoint.translation import Translation
from fencepost.builtin.mirror.formats import OFFSET, Checkpoint, FormatError, OffsetSync
from fencepost.builtin.mirror.metric.measured import MeasuredCheckpoints, Rows
from fencepost.builtin.mirror.schedule.timer import IntervalTimer
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.warning_log import WarningLog
from fencepost.hook.mirror import MirrorTask
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError
from fencepost.kafka.group.group_offsets import GroupInUseError, GroupOffsets
from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.kafka.read.log import Handler, LogRecord
from fencepost.kafka.setting.client_settings import reader_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.setting.translation import Conf
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.record import Repeated, TopicPartition
from fencepost.record.schema import BYTES

if TYPE_CHECKING:
    from fencepost.builtin.mirror.checkpoint.connector import MirrorCheckpointConnector

LOG = logging.getLogger(__name__)
_READ_S = 10.0  # for each call, so that a long topic does not delay a stop


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
            FlowEnd.TARGET, self.topic, "checkpoints", self.written.forget, self._take_written
        )
        self.syncs = self._followed(
            config.offset_syncs_cluster(),
            config.offset_syncs_topic(),
            "offset-syncs",
            self._begin_syncs,
            self._take_sync,
        )
        timeout_s = config.admin_timeout_s
        self.source_groups = GroupSurvey(self._admin_conf(FlowEnd.SOURCE), timeout_s=timeout_s)
        self.target_groups = GroupSurvey(self._admin_conf(FlowEnd.TARGET), timeout_s=timeout_s)
        self.ends = Ends(config.admin(FlowEnd.TARGET, "checkpoint-target-admin"))
        self.emission = IntervalTimer(config.interval_s)
        self.commits = IntervalTimer(config.sync_group_offsets_interval_s)
        self.unread, self.refused = WarningLog(LOG), WarningLog(LOG)

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
            LOG.info("no checkpoints are written until topic %s exists", self.syncs.topic)
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
            LOG.debug("group %s has members at the target, which commit its offsets themselves", group)
        except (KafkaAuthorizationError, KafkaRequestError) as error:
            return error
        return None

    def _remote(self, place: TopicPartition) -> TopicPartition:
        return remote_partition(self.policy, self.config.source_cluster_alias, self.config.target_cluster_alias, place)

    def _admin_conf(self, cluster: FlowEnd) -> Conf:
        return self.config.admin_conf(cluster, f"checkpoint-{cluster}-admin")

    def _followed(
        self, cluster: FlowEnd, topic: str, role: str, on_begin: Callable[[], None], on_record: Handler
    ) -> FollowedTopic:
        client = self.config.client(cluster, ClientKind.CONSUMER, f"{role}-{cluster}-consumer")
        timeout_s = min(_READ_S, self.config.admin_timeout_s)
        return FollowedTopic(
            reader_conf(client).conf, topic, on_begin=on_begin, on_record=on_record, timeout_s=timeout_s
        )

    def _begin_syncs(self) -> None:
        self.translation = Translation()

    def _take_sync(self, record: LogRecord) -> None:
        try:
            self.translation.add(OffsetSync.decode(record.key, record.value))
        except FormatError as error:
            LOG.warning("skipping record %d of topic %s: %s", record.offset, self.syncs.topic, error)

    def _take_written(self, record: LogRecord) -> None:
        try:
            self.written.add(Checkpoint.decode(record.key, record.value))
        except FormatError as error:
            LOG.warning("skipping record %d of topic %s: %s", record.offset, self.topic, error)
