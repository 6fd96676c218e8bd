"""Which topics, groups and topic configs are mirrored: lists of names and patterns, with exceptions.

A pattern is a Java regular expression that must match the whole name; a plain name matches itself. A name that matches
both lists is excluded.
"""

from collections.abc import Sequence
from typing import Any

from fencepost.api import HIGH, LOW, Config, Type, setting
from fencepost.builtin.transform.java_regex import JavaPattern, compiled
from fencepost.config.check import Check, each
from fencepost.config.java_regex import java_regex

_JAVA = "org.apache.kafka.connect.mirror."
_PATTERNS = each(java_regex())


class NameFilter:
    """Takes names that match one of `included` and none of `excluded`. An empty list matches nothing."""

    def __init__(self, included: Sequence[str], excluded: Sequence[str]) -> None:
        self._included = [compiled(pattern) for pattern in included]
        self._excluded = [compiled(pattern) for pattern in excluded]

    def takes(self, name: str) -> bool:
        """Say whether a name is to be mirrored."""
        return _is_among(name, self._included) and not _is_among(name, self._excluded)


def _is_among(name: str, patterns: Sequence[JavaPattern]) -> bool:
    return any(pattern.fullmatch(name) for pattern in patterns)


def _filter_class(key: str, name: str, instead: str) -> Any:
    """Declare the setting for a filter's class. It has one legal value, as a user's Java class does not run here."""

    def test(value: str) -> str | None:
        return None if value in (_JAVA + name, name) else f"custom filter classes do not run here; use {instead}"

    return setting(
        key, default=_JAVA + name, type=Type.CLASS, check=Check(test, name), importance=LOW,
        doc=f"The filter that reads {instead}; custom classes are not supported.",
    )  # fmt: skip


class TopicSelection(Config):
    """Which topics are mirrored."""

    topics: list[str] = setting(
        "topics", default=[".*"], check=_PATTERNS, importance=HIGH,
        doc="The topics to mirror: names, or regular expressions that match whole names.",
    )  # fmt: skip
    topics_exclude: list[str] = setting(
        "topics.exclude", default=[r"mm2.*\.internal", r".*\.replica", "__.*"], check=_PATTERNS, importance=HIGH,
        doc="Topics to exclude from `topics`. Internal topics of Kafka and of mirroring are always excluded.",
    )  # fmt: skip
    topic_filter_class: str = _filter_class("topic.filter.class", "DefaultTopicFilter", "`topics` and `topics.exclude`")

    def topic_filter(self) -> NameFilter:
        return NameFilter(self.topics, self.topics_exclude)


class GroupSelection(Config):
    """The consumer groups whose offsets are mirrored."""

    groups: list[str] = setting(
        "groups", default=[".*"], check=_PATTERNS, importance=HIGH,
        doc="The consumer groups to mirror: names, or regular expressions that match whole names.",
    )  # fmt: skip
    groups_exclude: list[str] = setting(
        "groups.exclude", default=["console-consumer-.*", "connect-.*", "__.*"], check=_PATTERNS, importance=HIGH,
        doc="Groups to exclude from `groups`.",
    )  # fmt: skip
    group_filter_class: str = _filter_class("group.filter.class", "DefaultGroupFilter", "`groups` and `groups.exclude`")

    def group_filter(self) -> NameFilter:
        return NameFilter(self.groups, self.groups_exclude)


class PropertySelection(Config):
    """Which topic configs are mirrored."""

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
        doc="Topic configs that are not mirrored: names, or regular expressions that match whole names.",
    )
    use_defaults_from: str = setting(
        "use.defaults.from", default="target",
        doc="`source`: a remote topic gets the source topic's default configs as well. Any other value: the target's "
        "defaults apply.",
    )  # fmt: skip
    property_filter_class: str = _filter_class(
        "config.property.filter.class", "DefaultConfigPropertyFilter", "`config.properties.exclude`"
    )

    def property_filter(self) -> NameFilter:
        return NameFilter([".*"], self.config_properties_exclude)

    @property
    def takes_source_defaults(self) -> bool:
        """Say whether a source topic's default configs are set at the target as if they were set at the source."""
        return self.use_defaults_from == "source"
