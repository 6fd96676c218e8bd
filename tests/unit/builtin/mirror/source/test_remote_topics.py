"""Which configs of a topic are given to its remote topic."""

from fencepost.builtin.mirror.setting.filters import NameFilter
from fencepost.builtin.mirror.source.remote_topics import ConfigRule
from fencepost.kafka.admin.topics import TopicSetting


def setting(value: str, *, default: bool = False, of_broker: bool = False, fixed: bool = False) -> TopicSetting:
    return TopicSetting(value, is_default=default, is_of_broker=of_broker, is_fixed=fixed)


SETTINGS = {
    "retention.ms": setting("7", default=False),
    "cleanup.policy": setting("delete", default=True),
    "segment.bytes": setting("1000", of_broker=True),
    "secret.config": setting("", fixed=True),
    "min.insync.replicas": setting("2"),
}
FILTER = NameFilter([".*"], ["min.insync.replicas"])


def test_only_topic_configs_set_at_the_source_are_copied() -> None:
    assert ConfigRule(FILTER).changes(SETTINGS) == {"retention.ms": "7", "cleanup.policy": None}


def test_source_defaults_are_copied_when_requested() -> None:
    rule = ConfigRule(FILTER, takes_source_defaults=True)
    assert rule.changes(SETTINGS) == {"retention.ms": "7", "cleanup.policy": "delete"}
