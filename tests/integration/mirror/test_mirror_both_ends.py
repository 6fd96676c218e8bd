"""The topics at both ends of a flow, on real clusters: what is created and updated at the target, what is skipped."""

import logging
import re
from collections.abc import Callable, Iterator

import pytest

from fencepost.api import FatalError
from fencepost.builtin.mirror.setting.filters import NameFilter
from fencepost.builtin.mirror.setting.mirror_settings import DefaultReplicationPolicy, policy_of
from fencepost.builtin.mirror.source.remote_topics import ConfigRule, RemoteTopics, Selection
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.topics import TopicAcl
from fencepost.testing import eventually

Made = Callable[..., RemoteTopics]
ANYBODY = "User:ANONYMOUS"


@pytest.fixture(scope="module")
def source(source_kafka: EmbeddedKafka) -> Iterator[Admin]:
    made = Admin({"bootstrap.servers": source_kafka.bootstrap_servers})
    yield made
    made.close()


@pytest.fixture(scope="module")
def target(kafka: EmbeddedKafka) -> Iterator[Admin]:
    made = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    yield made
    made.close()


@pytest.fixture
def alias(topic_name: str) -> str:
    return topic_name[-6:]


@pytest.fixture
def made(source: Admin, target: Admin, topic_name: str, alias: str) -> Made:
    """Makes the topics of a flow to the target, or to the source, which checks rights: all with the test's name."""

    def make(*, to_itself: bool = False, rule: ConfigRule | None = None) -> RemoteTopics:
        policy = policy_of("k", "DefaultReplicationPolicy", {"source.cluster.alias": alias})
        takes = NameFilter([rf"{re.escape(topic_name)}.*"], []).takes
        selection = Selection(policy, alias, "b", takes, with_heartbeats=False)
        return RemoteTopics(
            source, source if to_itself else target, selection, rule or ConfigRule(NameFilter([".*"], [])), 1
        )

    return make


def places(topic: str, count: int) -> list[tuple[str, int]]:
    return [(topic, number) for number in range(count)]


def test_remote_topics_are_made_with_partitions_and_configs_and_grow(
    source: Admin, target: Admin, topic_name: str, alias: str, made: Made
) -> None:
    source.topics.create(topic_name, partitions=2, replication=1, configs={"retention.ms": "7200000"})
    topics = made()
    assert topics.refresh() == places(topic_name, 2)
    remote = f"{alias}.{topic_name}"
    assert target.topics.partitions(remote) == 2
    assert target.configs.get(remote)["retention.ms"] == "7200000"
    assert source.topics.add_partitions({topic_name: 5}) == {}
    eventually(lambda: topics.refresh() == places(topic_name, 5))
    eventually(lambda: target.topics.partitions(remote) == 5)
    source.topics.delete([topic_name])
    eventually(lambda: topics.refresh() == [])
    assert target.topics.partitions(remote) == 5  # nobody deletes what was mirrored


def test_configs_follow_the_source_except_excluded_configs(
    source: Admin, target: Admin, topic_name: str, alias: str, made: Made
) -> None:
    source.topics.create(topic_name, partitions=1, replication=1, configs={"retention.ms": "7200000"})
    topics = made(rule=ConfigRule(NameFilter([".*"], ["segment.*"])))
    topics.refresh()
    remote = f"{alias}.{topic_name}"
    changed = {"retention.ms": None, "max.message.bytes": "77777", "segment.bytes": "2000000"}
    assert source.configs.alter({topic_name: changed}) == {}

    def is_followed() -> bool:
        topics.sync_configs()
        found = target.configs.settings([remote])[0][remote]
        return found["max.message.bytes"].value == "77777" and found["retention.ms"].is_default

    eventually(is_followed)
    found = target.configs.settings([remote])[0][remote]
    assert found["segment.bytes"].value != "2000000"


def test_a_topic_that_cannot_be_created_is_skipped_and_logged_once(
    source: Admin, topic_name: str, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    long = f"{topic_name}-{'x' * (249 - len(topic_name) - 1)}"  # its remote topic's name would be too long
    source.topics.create(long, partitions=1, replication=1)
    source.topics.create(topic_name, partitions=1, replication=1)
    topics = made()
    with caplog.at_level(logging.ERROR):
        assert topics.refresh() == places(topic_name, 1)
        assert topics.refresh() == places(topic_name, 1)
    told = [
        record.getMessage() for record in caplog.records if "is not mirrored, the others are" in record.getMessage()
    ]
    assert len(told) == 1
    assert long in told[0]
    assert (topics.remark() or "").startswith(f"Topics not mirrored, while the others are (1): {long}: ")


def test_acls_of_a_topic_grant_reads_but_no_writes_of_its_remote_topic(
    source: Admin, topic_name: str, alias: str, made: Made
) -> None:
    remote = f"{alias}.{topic_name}"
    source.topics.create(topic_name, partitions=1, replication=1)
    topics = made(to_itself=True)
    topics.refresh()
    given = {
        TopicAcl(topic_name, ANYBODY, "*", "ALL", "ALLOW"),
        TopicAcl(topic_name, "User:reader", "*", "READ", "ALLOW"),
        TopicAcl(topic_name, "User:writer", "*", "WRITE", "ALLOW"),
        TopicAcl(topic_name, "User:nobody", "*", "WRITE", "DENY"),
        TopicAcl(f"{topic_name}-unknown", "User:reader", "*", "READ", "ALLOW"),
    }
    assert source.acls.create(given) == {}
    expected = {
        TopicAcl(remote, ANYBODY, "*", "READ", "ALLOW"),
        TopicAcl(remote, "User:reader", "*", "READ", "ALLOW"),
        TopicAcl(remote, "User:nobody", "*", "WRITE", "DENY"),
    }

    def is_followed() -> bool:
        topics.sync_acls()
        return {acl for acl in source.acls.list() if acl.topic == remote} == expected

    eventually(is_followed)


def test_a_remote_topic_without_the_right_to_write_is_skipped(
    source: Admin, topic_name: str, alias: str, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    closed = f"{topic_name}-closed"
    for topic in (topic_name, closed):
        source.topics.create(topic, partitions=1, replication=1)
    topics = made(to_itself=True)
    assert len(topics.refresh()) == 2
    rights = [
        TopicAcl(f"{alias}.{closed}", ANYBODY, "*", "WRITE", "DENY"),
        TopicAcl(f"{alias}.{closed}", ANYBODY, "*", "DESCRIBE", "ALLOW"),
    ]
    assert source.acls.create(rights) == {}
    eventually(lambda: topics.refresh() == places(topic_name, 1))
    assert f"topic {closed} is not mirrored, the others are: WRITE on {alias}.{closed} is not granted" in caplog.text


class OneName(DefaultReplicationPolicy):
    """Calls every topic the same."""

    def format_remote_topic(self, source_cluster_alias: str, topic: str) -> str:
        return f"{source_cluster_alias}-all"


def test_topics_that_would_be_mixed_at_the_target_are_refused_by_name(
    source: Admin, target: Admin, topic_name: str, alias: str
) -> None:
    for suffix in ("b", "a"):
        source.topics.create(f"{topic_name}-{suffix}", partitions=1, replication=1)
    takes = NameFilter([rf"{re.escape(topic_name)}.*"], []).takes
    selection = Selection(OneName({}), alias, "b", takes, with_heartbeats=False)
    topics = RemoteTopics(source, target, selection, ConfigRule(NameFilter([".*"], [])), 1)
    with pytest.raises(FatalError) as refused:
        topics.refresh()
    assert f"The topics {topic_name}-a, {topic_name}-b of {alias} would all be named {alias}-all at b" in str(
        refused.value
    )
    assert target.topics.get_all([f"{alias}-all"]) == {}
