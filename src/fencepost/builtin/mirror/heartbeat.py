"""MirrorHeartbeatConnector: says every second that a flow is alive, like Kafka's connector of that name.

Heartbeats are mirrored like any topic. Where they arrive, they show which clusters are upstream, and the delay.
"""

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from fencepost.api import (
    LOW,
    Batch,
    ExactlyOnceSupport,
    SourceConnector,
    SourceTask,
    Type,
    at_least,
    setting,
)
from fencepost.builtin.mirror.formats import OFFSET, Heartbeat, check_offsets
from fencepost.builtin.mirror.schedule import IntervalTimer
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.setting.mirror_settings import (
    MirrorSettings,
    TargetClusterSettings,
    replicas,
)
from fencepost.record.schema import BYTES


class MirrorHeartbeatTask(SourceTask):
    """Sends a heartbeat at once, and then at an interval."""

    config: "MirrorHeartbeatConnector"

    def start(self) -> None:
        self.topic = self.config.policy().heartbeats_topic()
        self.beat = IntervalTimer(self.config.interval_s)

    def poll(self) -> Batch | None:
        if not self.beat.take():
            self.context.wait(self.beat.left_s())
            return None
        now_ms = time.time_ns() // 1_000_000
        beat = Heartbeat(self.config.source_cluster_alias, self.config.target_cluster_alias, now_ms)
        return Batch(
            [self.topic],
            [beat.value()],
            [beat.source_partition],
            [OFFSET],
            value_schema=BYTES,
            keys=[beat.key()],
            key_schema=BYTES,
            kafka_partitions=[0],
            timestamps=[now_ms],
        )


class MirrorHeartbeatConnector(TargetClusterSettings, MirrorSettings, SourceConnector):
    """Sends heartbeats of a flow to the topic `heartbeats` of the target.

    The worker's cluster is the target. One task; the source partition is `{"sourceClusterAlias": alias,
    "targetClusterAlias": alias}`, the source offset always `{"offset": 0}`. In a mirrored topic `west.heartbeats`, they
    show that the flow from `west` is alive, and its delay.
    """

    task = MirrorHeartbeatTask

    emits: bool = setting(
        "emit.heartbeats.enabled", default=True, importance=LOW,
        doc="Whether heartbeats are sent; if not, there is no task.",
    )  # fmt: skip
    interval_s: int = setting(
        "emit.heartbeats.interval.seconds", default=1, type=Type.LONG, check=at_least(1), importance=LOW,
        doc="How often a heartbeat is sent.",
    )  # fmt: skip
    topic_replication: int = replicas("heartbeats.topic.replication.factor", of="heartbeats")

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        """Create the topic if it is missing; a target that does not answer is asked again."""
        if not (self.is_enabled and self.emits):
            return []
        with closing(self.admin(FlowEnd.TARGET, "heartbeats-target-admin")) as admin:
            self.ensure_internal_topic(admin, self.policy().heartbeats_topic(), "topic_replication")
        return super().task_configs(1)

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(self, offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]) -> bool:
        """Accept any offsets that the task could write, and tombstones for anything; they are never read."""
        check_offsets(offsets, texts=tuple(Heartbeat("", "", 0).source_partition))
        return True
