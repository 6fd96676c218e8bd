"""Internal topics are created as they must be and refused where they are not."""

from typing import Any

import pytest

from fencepost.config import ConfigError
from fencepost.config.cluster import InternalTopicConfig
from fencepost.kafka.admin.client import Admin
from fencepost.storage.internal_topics import ReplicationError, ensure_internal_topics


def settings(prefix: str, **more: Any) -> InternalTopicConfig:
    return InternalTopicConfig(
        {
            "config.storage.topic": f"{prefix}-config",
            "offset.storage.topic": f"{prefix}-offset",
            "status.storage.topic": f"{prefix}-status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
    )


def test_internal_topics_are_created_compacted_and_accepted_again(admin: Admin, topic_name: str):
    config = settings(topic_name, config_storage_segment_bytes="1048576", config_storage_cleanup_policy="delete")
    ensure_internal_topics(admin, config)
    ensure_internal_topics(admin, config)
    assert [admin.topics.partitions(f"{topic_name}-{kind}") for kind in ("config", "offset", "status")] == [1, 25, 5]
    for kind in ("config", "offset", "status"):
        assert admin.configs.get(f"{topic_name}-{kind}")["cleanup.policy"] == "compact"
    assert admin.configs.get(f"{topic_name}-config")["segment.bytes"] == "1048576"
    assert admin.configs.get(f"{topic_name}-status")["segment.bytes"] == "16777216", "a start reads all of a segment"


def test_large_segments_of_an_existing_topic_are_kept_and_logged(
    admin: Admin, topic_name: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    name = f"{topic_name}-config"
    admin.topics.create(name, partitions=1, replication=1, configs={"cleanup.policy": "compact"})
    ensure_internal_topics(admin, settings(topic_name))
    assert admin.configs.get(name)["segment.bytes"] == "1073741824"
    (said,) = [each.getMessage() for each in caplog.records if "segment.bytes" in each.getMessage()]
    assert f"{name} has segment.bytes=1073741824" in said


@pytest.mark.parametrize("kind", ["config", "offset", "status"])
@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_an_internal_topic_with_cleanup_policy_delete_is_refused(admin: Admin, topic_name: str, kind: str, policy: str):
    admin.topics.create(f"{topic_name}-{kind}", partitions=1, replication=1, configs={"cleanup.policy": policy})
    with pytest.raises(
        ConfigError, match=f"'{topic_name}-{kind}' supplied via the '{kind}.storage.topic' .*cleanup.policy={policy}"
    ):
        ensure_internal_topics(admin, settings(topic_name))


def test_a_config_topic_with_more_than_one_partition_is_refused(admin: Admin, topic_name: str):
    admin.topics.create(f"{topic_name}-config", partitions=3, replication=1, configs={"cleanup.policy": "compact"})
    with pytest.raises(ConfigError, match=r"'config.storage.topic' .*single partition .*found 3 partitions"):
        ensure_internal_topics(admin, settings(topic_name))


def test_impossible_replication_names_its_setting(admin: Admin, topic_name: str):
    with pytest.raises(ReplicationError, match=r"config.storage.replication.factor=3"):
        ensure_internal_topics(admin, settings(topic_name, config_storage_replication_factor="3"))
