"""Topics as an administrator changes them, on a real broker."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError

from fencepost.kafka.admin.topic_admin import TopicAdmin, TopicSpec
from fencepost.kafka.errors import KafkaRequestError
from fencepost.testing import eventually


@pytest.fixture
def topics(conf: dict[str, Any]) -> Iterator[TopicAdmin]:
    made = TopicAdmin(conf)
    yield made
    made.close()


def test_topics_are_created_together_and_one_that_is_refused_holds_up_no_other(
    topics: TopicAdmin, topic_name: str
) -> None:
    good, bad, there = topic_name, f"{topic_name}-bad", f"{topic_name}-there"
    topics.create_topic(there, partitions=1, replication=1)
    refused = topics.create_topics(
        {
            good: TopicSpec(3, configs={"retention.ms": "1234567"}),
            bad: TopicSpec(1, configs={"retention.ms": "of no kind"}),
            there: TopicSpec(5),
        }
    )
    assert refused.keys() == {bad}
    assert "retention.ms" in str(refused[bad])
    assert {name: found.partitions for name, found in topics.topics([good, bad, there]).items()} == {good: 3, there: 1}
    assert topics.topic_config(good)["retention.ms"] == "1234567"


def test_partitions_are_added(topics: TopicAdmin, topic: str) -> None:
    refused = topics.add_partitions({topic: 4, f"{topic}-none": 2})
    assert refused.keys() == {f"{topic}-none"}
    eventually(lambda: topics.partitions(topic) == 4)
    again = topics.add_partitions({topic: 4})[topic]
    assert isinstance(again, KafkaRequestError)
    assert again.code == KafkaError.INVALID_PARTITIONS


def test_settings_are_changed_one_by_one_and_tell_who_has_set_them(topics: TopicAdmin, topic: str) -> None:
    """The topic was created with cleanup.policy=compact."""
    assert topics.alter_settings({topic: {"retention.ms": "7200000", "cleanup.policy": "delete"}}) == {}
    assert topics.alter_settings({topic: {"cleanup.policy": None}, f"{topic}-none": {"retention.ms": "1"}}).keys() == {
        f"{topic}-none"
    }

    def settings() -> Any:
        found, refused = topics.topic_settings([topic, f"{topic}-none"])
        assert refused.keys() == {f"{topic}-none"}
        return found[topic] if found[topic]["cleanup.policy"].is_default else None

    found = eventually(settings)
    assert (found["retention.ms"].value, found["retention.ms"].is_default) == ("7200000", False)
    assert found["cleanup.policy"].value == "delete"
    assert not found["retention.ms"].is_fixed


def test_a_cluster_that_checks_no_rights_has_no_acls_and_allows_all(topics: TopicAdmin, topic: str) -> None:
    assert topics.topic_acls() == set()
    seen, refused = topics.look_at([topic, f"{topic}-none"])
    assert (seen.keys(), refused) == ({topic}, {})
    assert seen[topic].allows("WRITE")
