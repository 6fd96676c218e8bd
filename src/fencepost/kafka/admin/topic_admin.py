"""Creates and configures topics, adds partitions to them, and changes their ACLs.

One request changes many topics. Each topic has its own outcome: one that may not be changed does not affect the others.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from fencepost.kafka.admin.client import UNKNOWN_TOPIC, Admin
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError, translate

Refusals = dict[str, Exception]
"""The errors, by topic. A topic that is not in it was changed."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create. A `replication` of -1 uses the broker's default."""

    partitions: int
    replication: int = -1
    configs: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as the principal sees it. `allowed` holds its permitted operations, in Kafka's words; None if unknown."""

    partitions: int
    id: str
    allowed: frozenset[str] | None = None

    def allows(self, operation: str) -> bool:
        return self.allowed is None or operation in self.allowed


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """A setting of a topic.

    `is_default`: it is set neither on the topic nor on brokers. `is_of_broker`: it is set in a broker's file.
    """

    value: str | None
    is_default: bool
    is_of_broker: bool
    is_fixed: bool
    """Whether the setting cannot be changed, or not be seen."""


@dataclass(frozen=True, slots=True)
class TopicAcl:
    """An ACL on the topic with exactly this name, in Kafka's words (`User:a`, `READ`, `ALLOW`)."""

    topic: str
    principal: str
    host: str
    operation: str
    permission: str


class TopicAdmin(Admin):
    """An `Admin` that can also change topics."""

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> Refusals:
        """Create topics, and wait until brokers know them. It is not an error if a topic exists."""
        if not topics:
            return {}
        asked = [
            NewTopic(name, num_partitions=t.partitions, replication_factor=t.replication, config=dict(t.configs or {}))
            for name, t in topics.items()
        ]
        refused = self._each(
            lambda c: c.create_topics(asked, operation_timeout=self._timeout_s, request_timeout=self._timeout_s),
            "creating topic",
        )
        refused = {name: error for name, error in refused.items() if not _says(error, KafkaError.TOPIC_ALREADY_EXISTS)}
        for name in topics.keys() - refused.keys():
            self._await_topic(name)
        return refused

    def add_partitions(self, counts: Mapping[str, int]) -> Refusals:
        """Raise the number of partitions of topics to these totals."""
        if not counts:
            return {}
        asked = [NewPartitions(topic, count) for topic, count in counts.items()]
        return self._each(
            lambda c: c.create_partitions(asked, operation_timeout=self._timeout_s, request_timeout=self._timeout_s),
            "adding partitions to topic",
        )

    def topic_settings(self, topics: Collection[str]) -> tuple[dict[str, dict[str, TopicSetting]], Refusals]:
        """Return all settings of topics, and the topics whose settings cannot be read."""
        found: dict[str, dict[str, TopicSetting]] = {}
        if not topics:
            return found, {}

        def note(name: str, entries: Mapping[str, Any]) -> None:
            found[name] = {key: _setting(entry) for key, entry in entries.items()}

        asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        refused = self._each(
            lambda c: c.describe_configs(asked, request_timeout=self._timeout_s),
            "describing the configs of topic",
            note,
        )
        return found, refused

    def alter_settings(self, changes: Mapping[str, Mapping[str, str | None]]) -> Refusals:
        """Change settings of topics. None resets a setting to its default. Other settings stay unchanged."""
        asked = [
            ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[_change(*item) for item in settings.items()])
            for topic, settings in changes.items()
            if settings
        ]
        if not asked:
            return {}
        return self._each(
            lambda c: c.incremental_alter_configs(asked, request_timeout=self._timeout_s),
            "changing the configs of topic",
        )

    def topic_acls(self) -> set[TopicAcl]:
        """Return the ACLs on single topics. Empty if the cluster has no authorizer."""
        anything = AclBindingFilter(
            ResourceType.TOPIC, None, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        future = self._ready().describe_acls(anything, request_timeout=self._timeout_s)
        return {_acl(binding) for binding in self._result(future, "describing the ACLs of topics")}

    def create_acls(self, acls: Iterable[TopicAcl]) -> Refusals:
        """Create ACLs on single topics. It is not an error if an ACL exists."""
        asked = [_binding(acl) for acl in acls]
        if not asked:
            return {}
        return self._each(lambda c: c.create_acls(asked, request_timeout=self._timeout_s), "creating an ACL of topic")

    def look_at(self, topics: Collection[str]) -> tuple[dict[str, TopicView], Refusals]:
        """Return those of the topics that exist, and the topics that the principal may not describe."""
        seen: dict[str, TopicView] = {}
        if not topics:
            return seen, {}

        def note(name: str, described: Any) -> None:
            seen[name] = TopicView(len(described.partitions), str(described.topic_id), _allowed(described))

        asked = TopicCollection(list(topics))
        refused = self._each(
            lambda c: c.describe_topics(asked, include_authorized_operations=True, request_timeout=self._timeout_s),
            "describing topic",
            note,
        )
        return seen, {name: error for name, error in refused.items() if not _says(error, *UNKNOWN_TOPIC)}

    def _each(
        self, ask: Callable[[Any], Mapping[Any, Any]], doing: str, note: Callable[[str, Any], None] | None = None
    ) -> Refusals:
        """Send a request, pass each topic's answer to `note`, and return the refusals. Raises KafkaUnavailableError."""
        client = self._ready()
        try:
            futures = ask(client)
        except KafkaException as error:
            raise translate(error, doing, self._bootstrap) from error
        refused: Refusals = {}
        for of, future in futures.items():
            name = of if isinstance(of, str) else str(of.name)
            try:
                answer = self._result(future, f"{doing} {name}")
            except KafkaUnavailableError:
                raise
            except (KafkaAuthorizationError, KafkaRequestError) as error:
                refused[name] = error
            else:
                if note is not None:
                    note(name, answer)
        return refused


def _says(error: Exception, *codes: int) -> bool:
    return isinstance(error, KafkaRequestError) and error.code in codes


def _allowed(described: Any) -> frozenset[str] | None:
    operations = described.authorized_operations
    return None if operations is None else frozenset(operation.name for operation in operations)


def _setting(entry: Any) -> TopicSetting:
    source = ConfigSource(entry.source)
    return TopicSetting(
        entry.value,
        is_default=source is ConfigSource.DEFAULT_CONFIG,
        is_of_broker=source is ConfigSource.STATIC_BROKER_CONFIG,
        is_fixed=bool(entry.is_read_only or entry.is_sensitive),
    )


def _change(key: str, value: str | None) -> ConfigEntry:
    if value is None:
        return ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE)
    return ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)


def _acl(binding: Any) -> TopicAcl:
    return TopicAcl(binding.name, binding.principal, binding.host, binding.operation.name, binding.permission_type.name)


def _binding(acl: TopicAcl) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        acl.topic,
        ResourcePatternType.LITERAL,
        acl.principal,
        acl.host,
        AclOperation[acl.operation],
        AclPermissionType[acl.permission],
    )
