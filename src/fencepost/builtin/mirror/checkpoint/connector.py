"""MirrorCheckpointConnector: writes where groups continue at the target, like Kafka's connector of that name."""

import logging
from collections.abc import Mapping
from contextlib import closing
from itertools import pairwise
from typing import Any

from fencepost.api import (
    LOW,
    ExactlyOnceSupport,
    SourceConnector,
    Type,
    at_least,
    setting,
)
from fencepost.builtin.mirror.checkpoint.task import MirrorCheckpointTask
from fencepost.builtin.mirror.internal_topic import ensure_internal_topic
from fencepost.builtin.mirror.offsets import check_offsets
from fencepost.builtin.mirror.schedule.watch import Watch
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.setting.filters import GroupSelection, TopicSelection
from fencepost.builtin.mirror.setting.mirror_settings import (
    OffsetSyncSettings,
    SourceClusterSettings,
    TargetClusterSettings,
    replicas,
)
from fencepost.builtin.mirror.warning_log import WarningLog
from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.kafka.group.subscription import SHARE, GroupSubscription

LOG = logging.getLogger(__name__)
_COMMA = ","


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
        self._left_out = WarningLog(LOG)
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
        key = self.key_of("topic_replication")
        with closing(self.admin(FlowEnd.TARGET, "checkpoint-target-admin")) as admin:
            topic = self.policy().checkpoints_topic(self.source_cluster_alias)
            ensure_internal_topic(admin.topics, topic, replication=self.topic_replication, key=key)
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
