"""How a direct write checks the topic of its markers before it writes anything."""

import time
from typing import Any

import pytest

from fencepost.config import ConfigError
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.spark.direct_write.options import DirectWriteOptions
from fencepost.spark.direct_write.plan import plan_write
from support.worker import free_port


@pytest.fixture
def options(kafka: EmbeddedKafka, topic_name: str) -> DirectWriteOptions:
    given: dict[str, Any] = {"topic": topic_name, "write.id": topic_name, "write.partitions": "1"}
    given |= {"kafka.bootstrap.servers": kafka.bootstrap_servers, "offsets.topic": f"{topic_name}-markers"}
    return DirectWriteOptions.parse(given)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_marker_topic_with_retention_is_refused(kafka: EmbeddedKafka, options: DirectWriteOptions, policy: str) -> None:
    """Retention would take the markers, and a rerun of the write would write everything again."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(options.offsets_topic, partitions=1, replication=1, configs={"cleanup.policy": policy})
    with pytest.raises(
        ConfigError, match=rf"'offsets.topic' property .*'cleanup.policy={policy}'.*a rerun writes again"
    ):
        plan_write(options, "struct<value:string>")


def test_compacted_marker_topic_is_created_or_used(kafka: EmbeddedKafka, options: DirectWriteOptions) -> None:
    assert plan_write(options, "struct<value:string>").markers == {}
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    assert admin.configs.get(options.offsets_topic)["cleanup.policy"] == "compact"
    assert plan_write(options, "struct<value:string>").markers == {}


def test_unreachable_brokers_are_named_before_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.kafka.admin.client._ANSWER_S", 0.2)
    given = {"topic": "t", "kafka.bootstrap.servers": f"127.0.0.1:{free_port()}"}
    began_s = time.monotonic()
    with pytest.raises(KafkaUnavailableError, match=given["kafka.bootstrap.servers"]):
        plan_write(DirectWriteOptions.parse(given), "struct<value:string>")
    assert time.monotonic() - began_s < 20  # the other requests wait for 30 s
