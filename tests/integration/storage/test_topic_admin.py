"""Topics as an administrator changes them, on a real broker."""

from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.topics import TopicSpec
from fencepost.kafka.errors import KafkaRequestError
from fencepost.testing import eventually


def test_a_refused_topic_does_not_prevent_the_creation_of_other_topics(admin: Admin, topic_name: str) -> None:
    good, bad, there = topic_name, f"{topic_name}-bad", f"{topic_name}-there"
    admin.topics.create(there, partitions=1, replication=1)
    refused = admin.topics.create_all(
        {
            good: TopicSpec(3, configs={"retention.ms": "1234567"}),
            bad: TopicSpec(1, configs={"retention.ms": "of no kind"}),
            there: TopicSpec(5),
        }
    )
    assert refused.keys() == {bad}
    assert "retention.ms" in str(refused[bad])
    assert {name: found.partitions for name, found in admin.topics.get_all([good, bad, there]).items()} == {
        good: 3,
        there: 1,
    }
    assert admin.configs.get(good)["retention.ms"] == "1234567"


def test_partitions_are_added(admin: Admin, topic: str) -> None:
    refused = admin.topics.add_partitions({topic: 4, f"{topic}-none": 2})
    assert refused.keys() == {f"{topic}-none"}
    eventually(lambda: admin.topics.partitions(topic) == 4)
    again = admin.topics.add_partitions({topic: 4})[topic]
    assert isinstance(again, KafkaRequestError)
    assert again.code == KafkaError.INVALID_PARTITIONS


def test_settings_are_changed_one_by_one_and_show_whether_they_are_defaults(admin: Admin, topic: str) -> None:
    """The topic was created with cleanup.policy=compact."""
    assert admin.configs.alter({topic: {"retention.ms": "7200000", "cleanup.policy": "delete"}}) == {}
    assert admin.configs.alter({topic: {"cleanup.policy": None}, f"{topic}-none": {"retention.ms": "1"}}).keys() == {
        f"{topic}-none"
    }

    def settings() -> Any:
        found, refused = admin.configs.settings([topic, f"{topic}-none"])
        assert refused.keys() == {f"{topic}-none"}
        return found[topic] if found[topic]["cleanup.policy"].is_default else None

    found = eventually(settings)
    assert (found["retention.ms"].value, found["retention.ms"].is_default) == ("7200000", False)
    assert found["cleanup.policy"].value == "delete"
    assert not found["retention.ms"].is_fixed


def test_a_cluster_that_checks_no_rights_has_no_acls_and_allows_all(admin: Admin, topic: str) -> None:
    assert admin.acls.list() == set()
    seen, refused = admin.topics.look_at([topic, f"{topic}-none"])
    assert (seen.keys(), refused) == ({topic}, {})
    assert seen[topic].allows("WRITE")
