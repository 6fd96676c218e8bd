"""The client settings of everything on a worker, derived once from its file, and the limit of connectors' files."""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fencepost.config import ConfigError
from fencepost.config.connector_limit import FileLimit, file_limit, keep_from_connectors, use_file_limit
from fencepost.config.reference import RawConfig
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.admin.client import ClusterIds
from fencepost.kafka.setting.client_settings import admin_conf, member_conf, producer_conf, reader_conf
from fencepost.storage.offset_view import OffsetTopic
from fencepost.task.channel.task_spec import without_id
from fencepost.worker.plan import BOOTSTRAP, Client, ConnectorPlan, logged

_BETWEEN_PATHS = re.compile(r"""[\s,;:="']+""")
"""What is between paths in a setting, such as options of a JVM or a login module."""


def limit_files(config: WorkerConfig) -> None:
    """Limit the files of this process's connectors."""
    allowed = config.file_allowed_paths
    use_file_limit(FileLimit(None if allowed is None else tuple(allowed), file_limit().refused))
    keep_from_connectors(own_files(config))


def own_files(config: WorkerConfig) -> Iterator[str]:
    """Yield the directories of plug-ins, and every file that a setting names."""
    yield from config.plugin_path or ()
    for value in config.originals.values():
        yield from filter(os.path.isfile, {str(value), *_BETWEEN_PATHS.split(str(value))})
    with contextlib.suppress(ConfigError):  # which is the fault of another setting
        if (users := config.users()) is not None:
            yield users


_HEARTBEAT_MS = 1000


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of the worker's file, as its parts need them. `url` is the advertised address of REST."""

    config: WorkerConfig
    url: str
    incarnation: str
    cluster_ids: ClusterIds = field(default_factory=ClusterIds, compare=False, repr=False)

    @property
    def group_id(self) -> str:
        return self.config.group_id

    @property
    def is_exactly_once(self) -> bool:
        """Say whether sources on this worker run exactly-once."""
        return self.config.is_exactly_once

    @property
    def worker_id(self) -> str:
        """Return `host:port`, this worker's name in statuses."""
        return worker_id(self.url)

    def reader_conf(self) -> dict[str, Any]:
        return logged(reader_conf(self.config.internal_client_properties))

    def admin_conf(self) -> dict[str, Any]:
        return logged(admin_conf(self.config.internal_client_properties))

    def producer_conf(self) -> dict[str, Any]:
        return logged(producer_conf(self.config.internal_client_properties))

    def leader_conf(self) -> dict[str, Any]:
        return logged(without_id(self.config.internal_client_properties))

    def member_conf(self) -> dict[str, Any]:
        conf = logged(member_conf(self.config.internal_client_properties, self.group_id))
        return {
            **conf,
            "session.timeout.ms": self.config.session_timeout_ms,
            # A member learns of a rebalance at its next heartbeat, and until then a lost leader has no successor.
            "heartbeat.interval.ms": min(self.config.heartbeat_interval_ms, _HEARTBEAT_MS),
            "group.instance.id": self.worker_id,
            "client.id": self.url,
            "auto.offset.reset": "latest",
        }

    def plan(self, connector_config: RawConfig) -> ConnectorPlan:
        """Return what a connector's config says on this worker."""
        return ConnectorPlan(self.config, connector_config)

    def sink_group(self, connector: str, connector_config: RawConfig) -> str:
        return self.plan(connector_config).clients.group(connector)

    def sink_admin_conf(self, connector_config: RawConfig) -> dict[str, Any]:
        return self.plan(connector_config).clients.conf(Client.SINK_ADMIN)

    def has_own_offsets(self, plan: ConnectorPlan) -> bool:
        """Say whether a connector's offsets are outside the worker's topic: in another topic, or another cluster.

        If the brokers are spelled differently, both clusters are asked for their ids. Without that, copies could go to
        the topic of the transactions themselves, and be taken for the last committed offsets.

        Raises KafkaUnavailableError or KafkaAuthorizationError if the connector's cluster does not answer.
        """
        if plan.offsets_topic != self.config.offset_storage_topic:
            return True
        if not plan.may_have_own_offsets:
            return False
        target = admin_conf({BOOTSTRAP: plan.clients.target}).conf
        ids = self.cluster_ids
        return ids.of({**plan.clients.conf(Client.TASK_ADMIN), **target}) != ids.of(self.admin_conf())

    def own_offsets(self, plan: ConnectorPlan) -> OffsetTopic | None:
        """Return the connector's own offsets topic, with the settings to read it as its principal; None if it has none.

        The config names it, or another target cluster implies it, whether or not exactly-once is on (KIP-618). Raises
        what `has_own_offsets` raises.
        """
        if not self.has_own_offsets(plan):
            return None
        return OffsetTopic(plan.offsets_topic, plan.clients.conf(Client.TASK_READER))


def worker_id(url: str) -> str:
    """Return `host:port` of an advertised address: the worker's name in statuses, and its member's in the group."""
    return url.split("//", 1)[-1].rstrip("/")
