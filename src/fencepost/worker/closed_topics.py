"""Which topics a connector's clients may not read or write, and the keys of a config that name one of these.

They are closed in the workers' cluster only, by whatever servers a connector names it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fencepost.api import ConfigError, Connector, SinkConnector
from fencepost.config.cluster import ALL_OPEN, CLOSED, ClosedTopics, closed_fault
from fencepost.config.connector import SinkChoice, SinkConnectorConfig
from fencepost.config.reference import RawConfig, names_in
from fencepost.worker.plan import (
    BOOTSTRAP,
    CONSUMER,
    PRODUCER,
    Client,
    ConnectorPlan,
    class_of,
    is_mirror,
    typical_class_of,
)
from fencepost.worker.settings import WorkerSettings

_TOPICS = SinkConnectorConfig.key_of("topics")
_READ = (_TOPICS, SinkChoice.key_of("resend_topic"))
_NAMES_TOPICS = re.compile(r"(^|[._-])topics?([._-]names?)?$", re.IGNORECASE)


@dataclass(frozen=True)
class Closed:
    """The topics that are closed to a connector, in the cluster that it reads and in the one that it writes to."""

    reads: ClosedTopics = ALL_OPEN
    writes: ClosedTopics = ALL_OPEN

    def faults(self, connector: type[Connector], given: Mapping[str, str]) -> dict[str, str]:
        """Return a fault for each key that names a closed topic.

        Only names are looked at, which the config has; where a record goes is seen when it goes there.
        """
        return dict(self._named(given, is_reader=issubclass(connector, SinkConnector), is_mirror=is_mirror(connector)))

    def _named(self, given: Mapping[str, str], *, is_reader: bool, is_mirror: bool) -> Iterator[tuple[str, str]]:
        for key, value in given.items():
            if _NAMES_TOPICS.search(key) is None or (is_mirror and key == _TOPICS):
                continue  # a mirror's are of its source, which it compares itself
            closed = self.reads if is_reader and key in _READ else self.writes
            topic = next(filter(closed.has, names_in(value)), None)
            if topic is not None:
                yield key, closed_fault(key, topic)


def closed_by_name(plan: ConnectorPlan) -> Closed:
    """Return what is closed by the servers that a config names. No request is made: others may be the same cluster."""

    def closed(servers: object) -> ClosedTopics:
        is_own = not set(plan.worker.bootstrap_servers).isdisjoint(names_in(str(servers)))
        return plan.worker.closed_topics if is_own else ALL_OPEN

    read, written = ({**plan.clients.shared(kind), **plan.clients.own(kind)} for kind in (CONSUMER, PRODUCER))
    return Closed(closed(read[BOOTSTRAP]), closed(written[BOOTSTRAP]))


def closed_in(settings: WorkerSettings, cluster_id: str) -> ClosedTopics:
    """Return what is closed in a cluster. Raises what `ClusterIds.of` raises for the workers' own."""
    return settings.config.closed_topics if _is_workers(settings, cluster_id) else ALL_OPEN


def require_open_topics(settings: WorkerSettings, plan: ConnectorPlan, *, reads: bool, writes: bool) -> Closed:
    """Return what is closed to a connector. The clusters that it names by other servers are asked for their ids.

    A cluster that its task neither reads nor writes is not asked.

    Raises ConfigError if its config names a closed topic; KafkaUnavailableError or KafkaAuthorizationError if such a
    cluster does not answer.
    """
    topics = settings.config.closed_topics
    read, written = plan.clients.consumer_properties, plan.clients.producer_properties

    def closed_to(client: Client, properties: Mapping[str, object]) -> ClosedTopics:
        return topics if _is_own(settings, properties, lambda: plan.clients.conf(client)) else ALL_OPEN

    closed = Closed(
        closed_to(Client.SINK_ADMIN, read) if reads else ALL_OPEN,
        closed_to(Client.TASK_ADMIN, written) if writes else ALL_OPEN,
    )
    try:
        connector = typical_class_of(plan.config)
    except ConfigError:  # it is not installed here, and so the task does not run
        return closed
    if faults := closed.faults(connector, plan.given):
        raise ConfigError(list(faults.values()))
    return closed


def require_open_source(settings: WorkerSettings, plan: ConnectorPlan, task_config: RawConfig) -> None:
    """Check what a mirror's task is to read, if its source is the workers' cluster.

    Its connector leaves such topics out; its config may have named another source then.

    The source is asked for its id only if a topic that is to be read has the name of a closed one. Raises ConfigError,
    and what `require_open_topics` raises.
    """
    from fencepost.builtin.mirror.setting.clients import FlowEnd
    from fencepost.builtin.mirror.setting.filters import TopicSelection
    from fencepost.builtin.mirror.source.connector import MirrorSourceConnector

    assigned = names_in(str(task_config.get(MirrorSourceConnector.key_of("assigned")) or ""))
    topics = sorted({each.rpartition("-")[0] for each in assigned})
    closed = [topic for topic in topics if settings.config.closed_topics.has(topic)]
    if not closed or not is_mirror(class_of(plan.config)):
        return
    mirror = MirrorSourceConnector(plan.values)
    conf = mirror.admin_conf(FlowEnd.SOURCE, "closed-topics")
    if _is_workers(settings, settings.cluster_ids.asked(conf)):
        raise ConfigError(
            f"The source of the mirror is the workers' own cluster, and {CLOSED}: {', '.join(closed)}. Add it to "
            f"{TopicSelection.key_of('topics_exclude')}"
        )


def _is_own(
    settings: WorkerSettings, properties: Mapping[str, object], conf: Callable[[], Mapping[str, object]]
) -> bool:
    servers = str(properties[BOOTSTRAP])
    if set(names_in(servers)) == set(settings.config.bootstrap_servers):
        return True
    return _is_workers(settings, settings.cluster_ids.asked({**conf(), BOOTSTRAP: servers}))


def _is_workers(settings: WorkerSettings, cluster_id: str) -> bool:
    return cluster_id == settings.cluster_ids.of(settings.admin_conf())
