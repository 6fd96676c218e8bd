"""Creates and configures topics, adds partitions to them, and changes their ACLs.

One request changes many topics. Each topic has its own outcome: one that may not be changed does not affect the others.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation, AclPermissionType, ConfigSource

from fencepost.kafka.admin.client import UNKNOWN_TOPIC, Admin, topic_id
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.wire.cluster import TOPIC_RESOURCE
from fencepost.kafka.wire.errors import ensure

Refusals = dict[str, Exception]
"""The errors, by topic. A topic that is not in it was changed."""

_LITERAL = 3  # the type of a pattern
_ANY = 1
_SET, _DELETE = 0, 1
_NO_ACLS = (54, KafkaError.CLUSTER_AUTHORIZATION_FAILED)  # SECURITY_DISABLED


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
        asked = {name: (each.partitions, each.replication, each.configs) for name, each in topics.items()}
        refused = self._each("creating topic", lambda: self._created(asked))
        refused = {name: error for name, error in refused.items() if not _says(error, KafkaError.TOPIC_ALREADY_EXISTS)}
        for name in topics.keys() - refused.keys():
            self._await_topic(name)
        return refused

    def add_partitions(self, counts: Mapping[str, int]) -> Refusals:
        """Raise the number of partitions of topics to these totals."""
        from fencepost.kafka.kafka_library import CreatePartitionsRequest as Request

        if not counts:
            return {}
        asked = [
            Request.CreatePartitionsTopic(name=topic, count=count, assignments=None) for topic, count in counts.items()
        ]
        request = Request(topics=asked, timeout_ms=self._timeout_ms, validate_only=False)
        return self._each("adding partitions to topic", lambda: self._changed(request).results)

    def topic_settings(self, topics: Collection[str]) -> tuple[dict[str, dict[str, TopicSetting]], Refusals]:
        """Return all settings of topics, and the topics whose settings cannot be read."""
        found: dict[str, dict[str, TopicSetting]] = {}
        if not topics:
            return found, {}

        def keep(name: str, described: Any) -> None:
            found[name] = {entry.name: _setting(entry) for entry in described.configs}

        refused = self._each("describing the configs of topic", lambda: self._described_configs(topics), keep)
        return found, refused

    def alter_settings(self, changes: Mapping[str, Mapping[str, str | None]]) -> Refusals:
        """Change settings of topics. None resets a setting to its default. Other settings stay unchanged."""
        from fencepost.kafka.kafka_library import IncrementalAlterConfigsRequest as Request

        of_topic = Request.AlterConfigsResource

        def change(key: str, value: str | None) -> Any:
            return of_topic.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)

        asked = [
            of_topic(
                resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[change(*each) for each in settings.items()]
            )
            for topic, settings in changes.items()
            if settings
        ]
        if not asked:
            return {}
        request = Request(resources=asked, validate_only=False)
        return self._each("changing the configs of topic", lambda: self._changed(request).responses)

    def topic_acls(self) -> set[TopicAcl]:
        """Return the ACLs on single topics. Empty if there is no authorizer, or if the principal may not list them."""
        from fencepost.kafka.kafka_library import DescribeAclsRequest as Request

        request = Request(
            resource_type_filter=TOPIC_RESOURCE,
            resource_name_filter=None,
            pattern_type_filter=_LITERAL,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )

        def ask() -> set[TopicAcl]:
            answer = self._client.ask(request)
            if answer.error_code in _NO_ACLS:
                return set()
            ensure(answer.error_code, "the ACLs", answer.error_message)
            return {_acl(of.resource_name, each) for of in answer.resources for each in of.acls}

        return self._client.run("describing the ACLs of topics", ask)

    def create_acls(self, acls: Iterable[TopicAcl]) -> Refusals:
        """Create ACLs on single topics. It is not an error if an ACL exists."""
        from fencepost.kafka.kafka_library import CreateAclsRequest as Request

        wanted = list(acls)
        if not wanted:
            return {}
        creations = [
            Request.AclCreation(
                resource_type=TOPIC_RESOURCE,
                resource_name=each.topic,
                resource_pattern_type=_LITERAL,
                principal=each.principal,
                host=each.host,
                operation=AclOperation[each.operation].value,
                permission_type=AclPermissionType[each.permission].value,
            )
            for each in wanted
        ]
        doing = "creating an ACL of topic"
        results = self._client.run(doing, lambda: self._changed(Request(creations=creations))).results
        return self._refused(doing, zip((each.topic for each in wanted), results, strict=True))

    def look_at(self, topics: Collection[str]) -> tuple[dict[str, TopicView], Refusals]:
        """Return those of the topics that exist, and the topics that the principal may not describe."""
        seen: dict[str, TopicView] = {}
        if not topics:
            return seen, {}

        def keep(name: str, described: Any) -> None:
            seen[name] = TopicView(len(described.partitions), topic_id(described), _allowed(described))

        refused = self._each("describing topic", lambda: self._client.metadata(topics, has_rights=True).topics, keep)
        return seen, {name: error for name, error in refused.items() if not _says(error, *UNKNOWN_TOPIC)}

    def _each(
        self, doing: str, ask: Callable[[], Iterable[Any]], keep: Callable[[str, Any], None] | None = None
    ) -> Refusals:
        """Send a request, pass each topic's answer to `keep`, and return the refusals. Raises KafkaUnavailableError."""
        answers = self._client.run(doing, ask)
        return self._refused(doing, ((_name(each), each) for each in answers), keep)

    def _refused(
        self, doing: str, answers: Iterable[tuple[str, Any]], keep: Callable[[str, Any], None] | None = None
    ) -> Refusals:
        refused: Refusals = {}
        for name, each in answers:
            if each.error_code:
                refused[name] = self._failure(each, f"{doing} {name}")
                if isinstance(refused[name], KafkaUnavailableError):
                    raise refused[name]
            elif keep is not None:
                keep(name, each)
        return refused


def _name(answer: Any) -> str:
    return str(answer.resource_name if hasattr(answer, "resource_name") else answer.name)


def _says(error: Exception, *codes: int) -> bool:
    return isinstance(error, KafkaRequestError) and error.code in codes


def _allowed(described: Any) -> frozenset[str] | None:
    numbers = described.authorized_operations
    return None if numbers is None else frozenset(AclOperation(number).name for number in numbers)


def _setting(entry: Any) -> TopicSetting:
    source = ConfigSource(entry.config_source)
    return TopicSetting(
        entry.value,
        is_default=source is ConfigSource.DEFAULT_CONFIG,
        is_of_broker=source is ConfigSource.STATIC_BROKER_CONFIG,
        is_fixed=bool(entry.read_only or entry.is_sensitive),
    )


def _acl(topic: str, acl: Any) -> TopicAcl:
    operation, permission = AclOperation(acl.operation), AclPermissionType(acl.permission_type)
    return TopicAcl(topic, acl.principal, acl.host, operation.name, permission.name)
