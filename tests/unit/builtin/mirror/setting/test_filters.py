"""Filters: lists of names and patterns, and of exceptions."""

import pytest

from fencepost.api import ConfigError
from fencepost.builtin.mirror.setting.filters import GroupSelection, NameFilter, PropertySelection, TopicSelection


@pytest.mark.parametrize(
    ("included", "excluded", "taken", "left"),
    [
        (["orders"], [], ["orders"], ["orders2", "my-orders", "Orders"]),
        (["orders.*", "stock"], ["orders-old"], ["orders", "orders-new", "stock"], ["orders-old", "stocks"]),
        ([".*"], [], ["", "a", "a.b"], []),
        ([], [], [], ["", "a"]),
        (["a|b"], ["b"], ["a"], ["b", "ab"]),
        ([r"\Qa.b\E"], [], ["a.b"], ["aXb"]),
        ([r"[\p{Lower}]+"], [], ["abc"], ["aBc", "ä"]),
    ],
)
def test_filter_matches_whole_names(
    included: list[str], excluded: list[str], taken: list[str], left: list[str]
) -> None:
    found = NameFilter(included, excluded)
    assert [name for name in (*taken, *left) if found.takes(name)] == taken


def test_topics_of_mirroring_and_of_kafka_are_left_out_by_default() -> None:
    found = TopicSelection({}).topic_filter()
    names = ["orders", "x.internal", "A.orders", "mm2-status.A.internal", "orders.replica", "__consumer_offsets"]
    assert [name for name in names if found.takes(name)] == ["orders", "x.internal", "A.orders"]


def test_groups_of_tools_and_of_connect_are_left_out_by_default() -> None:
    found = GroupSelection({}).group_filter()
    names = ["billing", "console-consumer-7", "connect-sink", "__x"]
    assert [name for name in names if found.takes(name)] == ["billing"]


def test_configs_that_belong_to_a_cluster_are_left_out_by_default() -> None:
    found = PropertySelection({}).property_filter()
    names = ["retention.ms", "min.insync.replicas", "message.timestamp.type", "cleanup.policy"]
    assert [name for name in names if found.takes(name)] == ["retention.ms", "cleanup.policy"]


def test_filter_lists_are_parsed_from_text() -> None:
    found = TopicSelection({"topics": "a, b.* ,c", "topics.exclude": ""}).topic_filter()
    assert [name for name in ("a", "bcd", "c", "__d") if found.takes(name)] == ["a", "bcd", "c"]


@pytest.mark.parametrize(("given", "is_taken"), [("source", True), ("target", False)])
def test_source_defaults_are_taken_only_if_configured(given: str, is_taken: bool) -> None:
    assert PropertySelection({"use.defaults.from": given}).takes_source_defaults is is_taken


def test_invalid_pattern_is_refused_with_its_key() -> None:
    with pytest.raises(ConfigError, match="for configuration topics: Invalid regex"):
        TopicSelection({"topics": "a,b("})


def test_custom_filter_class_is_refused_with_the_alternative_settings() -> None:
    assert TopicSelection({"topic.filter.class": "DefaultTopicFilter"}).topics == [".*"]
    with pytest.raises(ConfigError, match=r"topic\.filter\.class.*use `topics` and `topics\.exclude`"):
        TopicSelection({"topic.filter.class": "com.acme.Filter"})
