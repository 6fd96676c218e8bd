"""MirrorSourceConnector: copies topics of one Kafka cluster to another, with the names and rules of MirrorMaker 2."""

import logging
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

from fencepost.api import (
    LOW,
    ConfigError,
    Connector,
    ExactlyOnceSupport,
    FatalError,
    RetriableError,
    setting,
)
from fencepost.builtin.mirror.internal_topic import ensure_internal_topic
from fencepost.builtin.mirror.offsets import Alterations
from fencepost.builtin.mirror.schedule.rounds import Round, Rounds
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.setting.filters import PropertySelection, TopicSelection
from fencepost.builtin.mirror.setting.mirror_settings import (
    ReplicationSettings,
    SourceClusterSettings,
    TargetClusterSettings,
)
from fencepost.builtin.mirror.source.gap import GapSettings
from fencepost.builtin.mirror.source.planning import Selection, as_text, divided
from fencepost.builtin.mirror.source.position import check_altered
from fencepost.builtin.mirror.source.remote_topics import ConfigRule, RemoteTopics
from fencepost.builtin.mirror.source.task import MirrorSourceTask
from fencepost.hook.mirror import MirrorConnector
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import isolation_level
from fencepost.kafka.setting.table import ClientKind
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_ROLE = "replication-admin"


class MirrorSourceConnector(
    TopicSelection,
    PropertySelection,
    GapSettings,
    ReplicationSettings,
    SourceClusterSettings,
    TargetClusterSettings,
    MirrorConnector,
):
    """Copies topics of a source cluster to the cluster that the worker's producers write to.

    The source partition is `{"cluster": alias, "topic": topic, "partition": number}`, the source offset
    `{"offset": the last one copied}` with the id of the topic.
    """

    task = MirrorSourceTask

    assigned: list[str] = setting(
        "task.assigned.partitions", default=[], importance=LOW,
        doc="The partitions of a task, as `topic-0`. Set by the connector.",
    )  # fmt: skip

    def selection(self) -> Selection:
        """Return which topics are mirrored, and their names at the target."""
        return Selection(
            self.policy(),
            self.source_cluster_alias,
            self.target_cluster_alias,
            self.topic_filter().takes,
            with_heartbeats=self.heartbeats_replication_enabled,
        )

    def start(self) -> None:
        self._opened = ExitStack()
        self._plan: list[TopicPartition] | None = None  # None until both clusters have answered
        if not self.is_enabled:
            log.info("%s is disabled (enabled=false): nothing is mirrored", self.flow)
            return
        source, target = self._open(FlowEnd.SOURCE), self._open(FlowEnd.TARGET)
        rule = ConfigRule(self.property_filter(), self.takes_source_defaults)
        self._topics = RemoteTopics(source, target, self.selection(), rule, self.replication_factor)
        self._clusters = (source, target)
        self._opened.enter_context(closing(Rounds(f"mirror {self.flow}", self._rounds()))).start()

    def stop(self) -> None:
        self._opened.close()

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        if not self.is_enabled:
            return []
        if self._plan is None:
            raise RetriableError(f"{self.flow}: the topics of both clusters are not known yet")
        own = super().task_configs(1)[0]
        key = self.key_of("assigned")
        return [{**own, key: as_text(partitions)} for partitions in divided(self._plan, max_tasks)]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        """Say whether the source is read committed; if not, records of aborted transactions would be mirrored, too."""
        is_committed = isolation_level(self.client(FlowEnd.SOURCE, ClientKind.CONSUMER, "")) == "read_committed"
        return ExactlyOnceSupport.SUPPORTED if is_committed else ExactlyOnceSupport.UNSUPPORTED

    @classmethod
    def refusal_to_follow(cls, former: type[Connector]) -> str | None:
        """Refuse the other type of mirror: its positions are elsewhere, and everything would be mirrored again."""
        is_same = not issubclass(former, MirrorSourceConnector) or former.offsets_in_group is cls.offsets_in_group
        if is_same:
            return None
        return (
            f"{cls.__name__} keeps its positions elsewhere than {former.__name__}, and would mirror everything "
            "again. Give it another name, and copy the positions while both are stopped: `fencepost mirror "
            "migrate FILE --connector NAME --into OTHER`"
        )

    def alter_offsets(self, offsets: Alterations) -> bool:
        """Accept positions in partitions of the source, and tombstones for anything."""
        check_altered(offsets, self.source_cluster_alias)
        return True

    def _open(self, cluster: FlowEnd) -> Admin:
        return self._opened.enter_context(closing(self.admin(cluster, _ROLE)))

    def _rounds(self) -> list[Round]:
        def made(what: str, act: Callable[[], None], every_s: int) -> Round:
            return Round(f"{self.flow}: {what}", act, every_s)

        rounds = [made("looking for topics", self._refresh, self.refresh_topics_interval_s)]
        if self.sync_topic_configs_enabled:
            rounds.append(made("mirroring configs", self._topics.sync_configs, self.sync_topic_configs_interval_s))
        if self.sync_topic_acls_enabled:
            rounds.append(made("mirroring ACLs", self._topics.sync_acls, self.sync_topic_acls_interval_s))
        return rounds

    def _refresh(self) -> None:
        """Look for topics, once or at an interval. A permanent error before the first plan fails the connector."""
        if self._plan is not None and not self.refresh_topics_enabled:
            return
        before = self._plan
        try:
            if before is None:
                self._prepare()
            self._plan = self._topics.refresh()
        except (FatalError, ConfigError) as error:
            if before is not None:
                self.context.remark(str(error))
                raise
            self.context.raise_error(error)
            return
        self.context.remark(self._topics.remark())
        if self._plan != before:
            log.info("%s: %d partitions are mirrored now", self.flow, len(self._plan))
            self.context.request_task_reconfiguration()

    def _prepare(self) -> None:
        self._look_at_clusters()
        if self.emit_offset_syncs:
            self._ensure_syncs_topic()

    def _ensure_syncs_topic(self) -> None:
        source, target = self._clusters
        admin = source if self.offset_syncs_cluster() is FlowEnd.SOURCE else target
        replication, key = self.offset_syncs_replication_factor, self.key_of("offset_syncs_replication_factor")
        ensure_internal_topic(admin.topics, self.offset_syncs_topic(), replication=replication, key=key)

    def _look_at_clusters(self) -> None:
        """Ensure that there are two clusters, and leave out what is closed in them."""
        source, target = (admin.cluster_id() for admin in self._clusters)
        if source == target:
            raise ConfigError(
                f"{self.key_of('source_servers')} and {self.key_of('target_servers')} belong to the same cluster, "
                f"{source}: its topics would be mirrored into itself. Set them to brokers of two clusters"
            )
        self._topics.leave_out(self.context.closed_topics(source), self.context.closed_topics(target))
