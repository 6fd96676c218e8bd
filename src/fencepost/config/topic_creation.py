"""How topics are created for a source connector: the groups below `topic.creation.` (KIP-158)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fencepost.config.check import Check, ConfigError, at_least_or_minus_one
from fencepost.config.java_regex import compiled, java_regex
from fencepost.config.setting import LOW, Setting, Type, validate_settings

PREFIX = "topic.creation."
DEFAULT_GROUP = "default"
_INCLUDE, _EXCLUDE, _REPLICATION_FACTOR, _PARTITIONS = "include", "exclude", "replication.factor", "partitions"


_REGEX = java_regex()


def _patterns(values: list[str]) -> str | None:
    faults = (_REGEX(value) for value in values)
    return next(
        (
            f"Syntax error in regular expression: {each.removeprefix('Invalid regex: ')}"
            for each in faults
            if each is not None
        ),
        None,
    )


_REGEXES = Check(_patterns, "list of regular expressions")
_DECLARED = {
    _INCLUDE: Setting(_INCLUDE, [], _REGEXES, "Topics that belong to this group.", LOW, Type.LIST),
    _EXCLUDE: Setting(_EXCLUDE, [], _REGEXES, "Topics that do not, even if included.", LOW, Type.LIST),
    _REPLICATION_FACTOR: Setting(
        _REPLICATION_FACTOR,
        check=at_least_or_minus_one(
            1,
            "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, "
            "or -1 to use the broker's default",
        ),
        doc="Replicas of a new topic; -1: the broker's default.",
        importance=LOW,
        declared_type=Type.SHORT,
    ),
    _PARTITIONS: Setting(
        _PARTITIONS,
        check=at_least_or_minus_one(1, "Number of partitions must be positive, or -1 to use the broker's default"),
        doc="Partitions of a new topic; -1: the broker's default.",
        importance=LOW,
        declared_type=Type.INT,
    ),
}
GROUP_KEYS = frozenset(_DECLARED)
"""The settings of a group; any other key of a group is a config of its topics."""


@dataclass(frozen=True)
class TopicCreationGroup:
    """Settings for new topics that match. -1 means the broker's default."""

    name: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]

    def matches(self, topic: str) -> bool:
        """Say whether `topic` belongs to the group. Patterns match whole names, and exclusion has precedence."""
        if any(compiled(pattern).fullmatch(topic) for pattern in self.exclude):
            return False
        return any(compiled(pattern).fullmatch(topic) for pattern in self.include)


def is_asked_for(properties: Mapping[str, object]) -> bool:
    """Return whether a config has settings of topic creation."""
    return any(key.startswith(PREFIX) for key in properties)


def topic_creation_faults(properties: Mapping[str, object], names: list[str]) -> dict[str, str]:
    """Return key -> reason for each fault below `topic.creation.`. `names` are the groups other than the default."""
    if not is_asked_for(properties):
        return {}
    filled = _with_defaults(properties, names)
    return {
        answer.setting.key: answer.errors[0]
        for name in (DEFAULT_GROUP, *names)
        for answer in validate_settings(_settings_of(name).values(), filled)
        # Faults in inherited values are reported once, for the default group.
        if answer.errors and (name == DEFAULT_GROUP or answer.setting.key in properties)
    }


def topic_creation_groups(properties: Mapping[str, object], names: list[str]) -> tuple[TopicCreationGroup, ...]:
    """Return the groups in order of precedence; the default group, which matches every topic, is last.

    Empty if the config has no settings of topic creation. Raises ConfigError.
    """
    if not is_asked_for(properties):
        return ()
    if faults := topic_creation_faults(properties, names):
        raise ConfigError(list(faults.values()))
    filled = _with_defaults(properties, names)
    return tuple(_group(name, filled) for name in (*names, DEFAULT_GROUP))


def _settings_of(group: str) -> dict[str, Setting]:
    return {key: replace(one, key=f"{PREFIX}{group}.{key}") for key, one in _DECLARED.items()}


def _with_defaults(properties: Mapping[str, object], names: list[str]) -> dict[str, object]:
    """Let every group inherit numbers from the default group, which matches every topic."""
    filled = dict(properties)
    for number in (_REPLICATION_FACTOR, _PARTITIONS):
        inherited = properties.get(f"{PREFIX}{DEFAULT_GROUP}.{number}")
        if inherited is not None:
            for name in names:
                filled.setdefault(f"{PREFIX}{name}.{number}", inherited)
    filled[f"{PREFIX}{DEFAULT_GROUP}.{_INCLUDE}"] = ".*"
    filled.pop(f"{PREFIX}{DEFAULT_GROUP}.{_EXCLUDE}", None)
    return filled


def _group(name: str, properties: Mapping[str, object]) -> TopicCreationGroup:
    prefix = f"{PREFIX}{name}."
    value: dict[str, Any] = {
        key: one.parse(properties[one.key]) if one.key in properties else one.default
        for key, one in _settings_of(name).items()
    }
    configs = {
        key.removeprefix(prefix): str(given)
        for key, given in properties.items()
        if key.startswith(prefix) and key.removeprefix(prefix) not in _DECLARED
    }
    return TopicCreationGroup(
        name, tuple(value[_INCLUDE]), tuple(value[_EXCLUDE]), value[_PARTITIONS], value[_REPLICATION_FACTOR], configs
    )
