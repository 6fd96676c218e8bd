"""A mirror leaves out what is closed to connectors, at both ends."""

import logging
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.api import RetriableError
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.config.cluster import ALL_OPEN, CLOSED, ClosedTopics
from fencepost.kafka.admin.topics import Topic, TopicAcl, TopicSetting
from fencepost.testing import eventually

WORKERS = ClosedTopics(("connect-configs", "connect-offsets", "connect-status"))
CONFIG = {
    "name": "m", "connector.class": "MirrorSourceConnector", "topics": ".*", "source.cluster.alias": "connect",
    "target.cluster.alias": "b", "source.cluster.bootstrap.servers": "s:9", "target.cluster.bootstrap.servers": "t:9",
    "refresh.topics.interval.seconds": "1", "sync.topic.configs.interval.seconds": "1",
    "sync.topic.acls.interval.seconds": "1", "offset-syncs.topic.location": "target",
}  # fmt: skip
SEPARATOR = {"replication.policy.separator": "-", "topics": "configs,orders"}
IDENTITY = {"replication.policy.class": "IdentityReplicationPolicy"}


class Cluster:
    """A cluster that records what is changed; each of its topics has partitions."""

    def __init__(self, cluster_id: str, **partitions: int) -> None:
        self.id, self.partitions, self.changed = cluster_id, partitions, set[str]()
        self.looks = 0
        self.topics: Any = self
        self.configs = SimpleNamespace(settings=self.settings, alter=self.create_all)
        self.acls = SimpleNamespace(list=self.list_acls, create=self.create_acls)

    def cluster_id(self) -> str:
        return self.id

    def close(self) -> None:
        pass

    def names(self) -> list[str]:
        self.looks += 1
        return sorted(self.partitions)

    def look_at(self, topics: Any) -> Any:
        return {each: Topic(self.partitions[each], "id") for each in topics if each in self.partitions}, {}

    def ensure(self, topic: str, **spec: Any) -> None:
        self.changed.add(topic)

    def settings(self, topics: Any) -> Any:
        value = f"of-{self.id}"
        return {each: {"retention.ms": TopicSetting(value, False, False, False)} for each in topics}, {}

    def create_all(self, specs: Any) -> dict[str, Exception]:
        self.changed |= set(specs)
        return {}

    add_partitions = create_all

    def list_acls(self) -> list[TopicAcl]:
        return [TopicAcl(each, "User:u", "*", "READ", "ALLOW") for each in self.partitions]

    def create_acls(self, acls: Any) -> dict[str, Exception]:
        self.changed |= {each.topic for each in acls}
        return {}


class Context:
    """What a worker offers whose cluster is `workers`."""

    def __init__(self) -> None:
        self.remarks: list[str | None] = []
        self.remark, self.raise_error = self.remarks.append, self.remarks.append
        self.request_task_reconfiguration = lambda: None

    def closed_topics(self, cluster_id: str) -> ClosedTopics:
        return WORKERS if cluster_id == "workers" else ALL_OPEN


def planned(monkeypatch: pytest.MonkeyPatch, config: dict[str, str], source: Cluster, target: Cluster) -> Any:
    """Return the partitions that a mirror copies after it has looked, and synchronized, several times."""
    ends = {FlowEnd.SOURCE: source, FlowEnd.TARGET: target}
    monkeypatch.setattr(MirrorSourceConnector, "admin", lambda self, end, role: ends[end])
    connector = MirrorSourceConnector({**CONFIG, **config})
    context: Any = Context()
    connector.context = context
    connector.start()
    try:
        eventually(lambda: source.looks > 2, within_s=30)
        with suppress(RetriableError):
            return connector.task_configs(1)[0]["task.assigned.partitions"], context.remarks[-1]
    finally:
        connector.stop()
    return None, context.remarks


@pytest.mark.parametrize("config", [SEPARATOR, IDENTITY], ids=["separator", "identity"])
@pytest.mark.parametrize("target_id", ["workers", "another"])
def test_topic_of_the_workers_is_not_changed_when_a_remote_topic_has_its_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, config: dict[str, str], target_id: str
) -> None:
    topic = "configs" if config is SEPARATOR else "connect-configs"
    source, target = Cluster("s", **{topic: 3, "orders": 1}), Cluster(target_id, **{"connect-configs": 1})
    caplog.set_level(logging.INFO)
    partitions, remark = planned(monkeypatch, config, source, target)
    if target_id == "another":
        assert ("connect-configs" in target.changed, remark) == (True, None)
        return
    assert partitions == "orders-0"
    assert "connect-configs" not in target.changed
    assert remark == f"Topics not mirrored, while the others are (1): {topic}: {CLOSED}"
    assert f"topic {topic} is not mirrored, the others are: {CLOSED}" in caplog.text


def test_mirror_copies_the_other_topics_when_its_source_is_the_workers_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = Cluster("workers", **dict.fromkeys((*WORKERS.names, "orders"), 1)), Cluster("t")
    partitions, remark = planned(monkeypatch, {}, source, target)
    assert partitions == "orders-0"
    assert "connect-offsets" in remark
