"""Every pattern of a config that Kafka Connect, or a plug-in of Kafka's, reads as Java's is read as that here."""

import ast
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import fencepost
from fencepost.api import ConfigError, SourceRecord
from fencepost.builtin.mirror.setting.filters import GroupSelection, NameFilter, PropertySelection, TopicSelection
from fencepost.builtin.provider.local import EnvVarConfigProvider
from fencepost.builtin.transform.predicate import TopicNameMatches
from fencepost.builtin.transform.router import RegexRouter
from fencepost.config.cluster import RetentionConfig
from fencepost.config.connector import SinkConnectorConfig
from fencepost.config.topic_creation import topic_creation_groups
from fencepost.task.sink.reader import ReadTopics

PATTERNS = [
    ("[a-z&&[^x]]+", "abc", "axc"),  # an intersection of sets
    (r"\Qa.b\E-\d", "a.b-1", "axb-1"),  # quoted
    (r"(?<kind>[a-z]+)-\k<kind>", "ab-ab", "ab-cd"),  # a named group
    (r"\p{Alpha}+", "abc", "ab1"),  # a class of POSIX
    (r"\p{Lu}\w*+", "Abc", "abc"),  # a property of Unicode, and what gives nothing back
    (r"\d+", "12", "\u0661\u0662"),  # \d is ASCII
    ("(?i:ab)c", "ABc", "ABC"),
]


def topic_creation(key: str, pattern: str, name: str) -> bool:
    given = {
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.g.include": ".*",
        f"topic.creation.g.{key}": pattern,
    }
    group, _ = topic_creation_groups(given, ["g"])
    return group.matches(name) is (key == "include")


def selected(taken: NameFilter, is_exclusion: bool, name: str) -> bool:
    return taken.takes(name) is not is_exclusion


def topics_of_mirror(key: str, pattern: str, name: str) -> bool:
    config = TopicSelection({"topics": ".*", "topics.exclude": "none", key: pattern})
    return selected(NameFilter(config.topics, config.topics_exclude), key == "topics.exclude", name)


def groups_of_mirror(key: str, pattern: str, name: str) -> bool:
    config = GroupSelection({"groups": ".*", "groups.exclude": "none", key: pattern})
    return selected(NameFilter(config.groups, config.groups_exclude), key == "groups.exclude", name)


def configs_of_mirror(key: str, pattern: str, name: str) -> bool:
    return not PropertySelection({key: pattern}).property_filter().takes(name)


def routed(key: str, pattern: str, name: str) -> bool:
    found = RegexRouter({key: pattern, "replacement": "found"}).apply(SourceRecord({}, {}, name, "v"))
    return found is not None and found.topic == "found"


def predicate(key: str, pattern: str, name: str) -> bool:
    return TopicNameMatches({key: pattern}).test(SourceRecord({}, {}, name, "v"))


def read(key: str, pattern: str, name: str) -> bool:
    SinkConnectorConfig.settings()[key].parse(pattern)
    return ReadTopics((), pattern).has(name)


def allowed(key: str, pattern: str, name: str) -> bool:
    try:
        EnvVarConfigProvider({key: pattern}).get("", {name})
    except ConfigError as error:
        return "allowlist.pattern" not in str(error)
    return True


READ: Mapping[str, Callable[[str, str, str], bool]] = {
    "include": topic_creation,
    "exclude": topic_creation,
    "topics.regex": read,
    "topics": topics_of_mirror,
    "topics.exclude": topics_of_mirror,
    "groups": groups_of_mirror,
    "groups.exclude": groups_of_mirror,
    "config.properties.exclude": configs_of_mirror,
    "regex": routed,
    "pattern": predicate,
    "allowlist.pattern": allowed,
}


@pytest.mark.parametrize(("pattern", "name", "other"), PATTERNS)
@pytest.mark.parametrize("key", READ)
def test_pattern_in_a_config_matches_as_in_java(key: str, pattern: str, name: str, other: str) -> None:
    assert READ[key](key, pattern, name)
    assert not READ[key](key, pattern, other)


@pytest.mark.parametrize("key", ["delete.committed.topics", "delete.committed.respect.groups"])
def test_retention_patterns_are_java_patterns(key: str) -> None:
    for pattern, _, _ in PATTERNS:
        RetentionConfig({key: pattern})
    with pytest.raises(ConfigError):
        RetentionConfig({key: "a{x}"})  # Python takes it literally


def test_no_setting_is_checked_as_a_python_pattern() -> None:
    """`matches_regex` is only for authors of plug-ins."""
    package = Path(fencepost.__file__).parent
    found = [
        path.name
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "matches_regex"
    ]
    assert found == []
