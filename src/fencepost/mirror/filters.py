"""Which topics, groups and configs of topics are mirrored: lists of names and patterns, and of exceptions.

A pattern is a regular expression of Java's kind, and has to match the whole name; a plain name is one that matches
itself. What stands in both lists is excluded.
"""

import re
from collections.abc import Sequence
from typing import Any

from fencepost.api import HIGH, LOW, Config, Type, setting
from fencepost.config.check import Check, each
from fencepost.transform.java_regex import compiled, java_regex

_JAVA = "org.apache.kafka.connect.mirror."
_PATTERNS = each(java_regex())


class NameFilter:
    """Takes names that one of `included` matches, and none of `excluded`. An empty list matches nothing."""

    def __init__(self, included: Sequence[str], excluded: Sequence[str]) -> None:
        self._included = [compiled(pattern) for pattern in included]
        self._excluded = [compiled(pattern) for pattern in excluded]

    def takes(self, name: str) -> bool:
        """Say whether a name is to be mirrored."""
        return _is_among(name, self._included) and not _is_among(name, self._excluded)


def _is_among(name: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    return any(pattern.fullmatch(name) for pattern in patterns)


def _filter_class(key: str, name: str, instead: str) -> Any:
    """Declare the class of a filter: there is one, a Java class of one's own does not run here."""

    def test(value: str) -> str | None:
        return None if value in (_JAVA + name, name) else f"a filter of your own does not run here; use {instead}"

    return setting(
        key, default=_JAVA + name, type=Type.CLASS, check=Check(test, name), importance=LOW,
        doc=f"The filter that reads {instead}; there is no other.",
    )  # fmt: skip


class TopicSelection(Config):
    """Which topics are mirrored."""

    topics: list[str] = setting(
        "topics", default=[".*"], check=_PATTERNS, importance=HIGH,
        doc="The topics to mirror: names, or regular expressions that match whole names.",
    )  # fmt: skip
    topics_exclude: list[str] = setting(
        "topics.exclude", default=[r"mm2.*\.internal", r".*\.replica", "__.*"], check=_PATTERNS, importance=HIGH,
        doc="Topics that are not mirrored, though `topics` has them. Those of Kafka and of mirroring itself never are.",
    )  # fmt: skip
    topic_filter_class: str = _filter_class("topic.filter.class", "DefaultTopicFilter", "`topics` and `topics.exclude`")

    def topic_filter(self) -> NameFilter:
        return NameFilter(self.topics, self.topics_exclude)


class GroupSelection(Config):
    """The offsets of which consumer groups are mirrored."""

    groups: list[str] = setting(
        "groups", default=[".*"], check=_PATTERNS, importance=HIGH,
        doc="The consumer groups to mirror: names, or regular expressions that match whole names.",
    )  # fmt: skip
    groups_exclude: list[str] = setting(
        "groups.exclude", default=["console-consumer-.*", "connect-.*", "__.*"], check=_PATTERNS, importance=HIGH,
        doc="Groups that are not mirrored, though `groups` has them.",
    )  # fmt: skip
    group_filter_class: str = _filter_class("group.filter.class", "DefaultGroupFilter", "`groups` and `groups.exclude`")

    def group_filter(self) -> NameFilter:
        return NameFilter(self.groups, self.groups_exclude)


class PropertySelection(Config):
    """Which configs of topics are mirrored."""

    config_properties_exclude: list[str] = setting(
        "config.properties.exclude",
        default=[
            "follower.replication.throttled.replicas",
            "leader.replication.throttled.replicas",
            "message.timestamp.difference.max.ms",
            "log.message.timestamp.before.max.ms",
            "log.message.timestamp.after.max.ms",
            "message.timestamp.type",
            "unclean.leader.election.enable",
            "min.insync.replicas",
        ],
        check=_PATTERNS,
        importance=HIGH,
        doc="Configs of topics that are not mirrored: names, or regular expressions that match whole names.",
    )
    use_defaults_from: str = setting(
        "use.defaults.from", default="target",
        doc="`source`: what a topic has by default at the source it has at the target, too; else the target's defaults "
        "go for it.",
    )  # fmt: skip
    property_filter_class: str = _filter_class(
        "config.property.filter.class", "DefaultConfigPropertyFilter", "`config.properties.exclude`"
    )

    def property_filter(self) -> NameFilter:
        return NameFilter([".*"], self.config_properties_exclude)

    @property
    def takes_source_defaults(self) -> bool:
        """Say whether what a source topic has by default is set at the target, as if it had been set at the source."""
        return self.use_defaults_from == "source"
