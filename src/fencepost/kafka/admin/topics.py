"""The topics of a cluster: which there are, their configs and ACLs, and their creation and deletion.

One request is about many topics. Each topic has its own outcome: a refusal of one does not affect the others.
"""

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation, AclPermissionType, ConfigSource

from fencepost.kafka.admin.log_offsets import LogOffsets
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError, ensure
from fencepost.kafka.wire.cluster import TOPIC_RESOURCE, text_of_id
from fencepost.kafka.wire.requests import FIRST_ANSWER_S, AdminRequests, Refusals

_SET, _DELETE = 0, 1


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


class TopicConfigs:
    """Reads and changes the configs of a cluster's topics."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    def get(self, topic: str) -> dict[str, str | None]:
        """Return the effective configs of `topic`, including the broker's defaults."""
        return self.get_all([topic])[topic]

    def get_all(self, topics: Sequence[str]) -> dict[str, dict[str, str | None]]:
        """Return the effective configs of each of `topics`, all of which must exist."""

        def ask() -> dict[str, dict[str, str | None]]:
            found = {}
            for each in self._described(topics):
                self._requests.ensure(each, f"describing the configs of topic {each.resource_name}")
                found[each.resource_name] = {entry.name: entry.value for entry in each.configs}
            return found

        return self._requests.ask_repeatedly("describing the configs of topics", ask) if topics else {}

    def settings(self, topics: Collection[str]) -> tuple[dict[str, dict[str, TopicSetting]], Refusals]:
        """Return all settings of topics, and the topics whose settings cannot be read."""
        if not topics:
            return {}, {}
        described, refused = self._requests.read_each(
            "describing the configs of topic", lambda: self._described(topics)
        )
        found = {name: {entry.name: _setting(entry) for entry in each.configs} for name, each in described.items()}
        return found, refused

    def _described(self, topics: Iterable[str]) -> Any:
        from fencepost.kafka.kafka_library import DescribeConfigsRequest as Request

        asked = [Request.DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=each) for each in topics]
        return self._requests.client.ask(Request(resources=asked)).results

    def alter(self, changes: Mapping[str, Mapping[str, str | None]]) -> Refusals:
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
        request, doing = Request(resources=asked, validate_only=False), "changing the configs of topic"
        return self._requests.refusals_of(doing, lambda: self._requests.change(request).responses)


def _setting(entry: Any) -> TopicSetting:
    source = ConfigSource(entry.config_source)
    return TopicSetting(
        entry.value,
        is_default=source is ConfigSource.DEFAULT_CONFIG,
        is_of_broker=source is ConfigSource.STATIC_BROKER_CONFIG,
        is_fixed=bool(entry.read_only or entry.is_sensitive),
    )


_LITERAL = 3  # the type of a pattern
_ANY = 1
_SECURITY_DISABLED = 54


@dataclass(frozen=True, slots=True)
class TopicAcl:
    """An ACL on the topic with exactly this name, in Kafka's words (`User:a`, `READ`, `ALLOW`)."""

    topic: str
    principal: str
    host: str
    operation: str
    permission: str


class TopicAcls:
    """Lists and creates the ACLs on a cluster's topics."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    def list(self) -> set[TopicAcl]:
        """Return the ACLs on single topics. Empty if the cluster has no authorizer."""
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
            answer = self._requests.client.ask(request)
            if answer.error_code == _SECURITY_DISABLED:
                return set()
            ensure(answer.error_code, "the ACLs", answer.error_message)
            return {_acl(of.resource_name, each) for of in answer.resources for each in of.acls}

        return self._requests.client.run("describing the ACLs of topics", ask)

    def create(self, acls: Iterable[TopicAcl]) -> Refusals:
        """Create ACLs on single topics. It is not an error if an ACL exists."""
        from fencepost.kafka.kafka_library import CreateAclsRequest as Request

        wanted = [*acls]
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
        doing, request = "creating an ACL of topic", Request(creations=creations)
        results = self._requests.client.run(doing, lambda: self._requests.change(request)).results
        return self._requests.refused(doing, zip((each.topic for each in wanted), results, strict=True))


def _acl(topic: str, acl: Any) -> TopicAcl:
    operation, permission = AclOperation(acl.operation), AclPermissionType(acl.permission_type)
    return TopicAcl(topic, acl.principal, acl.host, operation.name, permission.name)


LOG = logging.getLogger(__name__)
_PROPAGATION_S = 0.01
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
UNKNOWN_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_BY_NAME = 5  # of DeleteTopics: newer versions also take ids


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the principal sees it. `id` distinguishes it from a deleted topic of the same name.

    `allowed` holds its permitted operations, in Kafka's words; None if they were not asked for, or are unknown.
    """

    partitions: int
    id: str
    is_internal: bool = False
    allowed: frozenset[str] | None = None

    def allows(self, operation: str) -> bool:
        return self.allowed is None or operation in self.allowed


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create. A number of -1 uses the broker's default."""

    partitions: int
    replication: int = -1
    configs: Mapping[str, str] | None = None


class Topics:
    """The topics of a cluster. Where a method changes many topics, each topic has its own outcome."""

    def __init__(self, requests: AdminRequests, offsets: LogOffsets) -> None:
        self._requests = requests
        self._client = requests.client
        self._offsets = offsets

    def partitions(self, topic: str, *, timeout_s: float | None = None) -> int | None:
        """Return the number of partitions of `topic`; None if it does not exist."""
        found = self.get(topic, timeout_s=timeout_s)
        return None if found is None else found.partitions

    def get(self, topic: str, *, timeout_s: float | None = None) -> Topic | None:
        """Return `topic`; None if it does not exist."""
        return self.get_all([topic], timeout_s=timeout_s).get(topic)

    def get_all(
        self, names: Collection[str], *, timeout_s: float | None = None, is_sure: bool = True
    ) -> dict[str, Topic]:
        """Return those of the topics that exist. `is_sure`: as two brokers see them, on two connections."""
        if not names:
            return {}
        doing = f"describing topic {next(iter(names))}" if len(names) == 1 else f"describing {len(names)} topics"

        def ask() -> dict[str, Topic]:
            found = {}
            for each in self._client.metadata(names, is_sure=is_sure).topics:
                if each.error_code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    self._requests.ensure(each, f"describing topic {each.name}")
                    found[each.name] = _topic(each)
            return found

        return self._requests.ask_repeatedly(doing, ask, timeout_s)

    def names(self) -> list[str]:
        """Return the sorted names of all topics that the principal may see, without Kafka's internal ones."""
        doing = "asking for the topics of the cluster"
        found = self._requests.ask_repeatedly(doing, lambda: self._client.metadata(None))
        return sorted({each.name for each in found.topics} - INTERNAL_TOPICS)

    def look_at(self, topics: Collection[str]) -> tuple[dict[str, Topic], Refusals]:
        """Return those of the topics that exist, with permissions, and the topics that may not be described."""
        if not topics:
            return {}, {}
        described, refused = self._requests.read_each(
            "describing topic", lambda: self._client.metadata(topics, has_rights=True).topics
        )
        seen = {name: _topic(each, has_rights=True) for name, each in described.items()}
        return seen, {name: error for name, error in refused.items() if not _says(error, *UNKNOWN_TOPIC)}

    def ensure(
        self, topic: str, *, partitions: int, replication: int, configs: Mapping[str, str] | None = None
    ) -> bool:
        """Create `topic` unless it exists. A number of -1 uses the broker's default. Returns whether it was created."""
        if self.partitions(topic) is not None:
            return False
        try:
            self.create(topic, partitions=partitions, replication=replication, configs=configs)
        except KafkaRequestError as error:
            if not _says(error, KafkaError.TOPIC_ALREADY_EXISTS):
                raise
            self._await(topic)
            return False
        return True

    def create(
        self, topic: str, *, partitions: int, replication: int, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create `topic`, and wait until the brokers know it. Raises KafkaRequestError if it exists."""
        doing = f"creating topic {topic}"
        asked = {topic: TopicSpec(partitions, replication, configs)}
        (answer,) = self._client.run(doing, lambda: self._created(asked))
        self._requests.ensure(answer, doing)
        self._await(topic)

    def create_all(self, topics: Mapping[str, TopicSpec]) -> Refusals:
        """Create topics, and wait until brokers know them. It is not an error if a topic exists."""
        if not topics:
            return {}
        refused = self._requests.refusals_of("creating topic", lambda: self._created(topics))
        refused = {name: error for name, error in refused.items() if not _says(error, KafkaError.TOPIC_ALREADY_EXISTS)}
        for name in topics.keys() - refused.keys():
            self._await(name)
        return refused

    def _created(self, topics: Mapping[str, TopicSpec]) -> Any:
        from fencepost.kafka.kafka_library import CreateTopicsRequest as Request

        of_topic = Request.CreatableTopic
        new = [
            of_topic(
                name=name,
                num_partitions=each.partitions,
                replication_factor=each.replication,
                assignments=[],
                configs=[
                    of_topic.CreatableTopicConfig(name=key, value=text) for key, text in (each.configs or {}).items()
                ],
            )
            for name, each in topics.items()
        ]
        return self._requests.change(Request(topics=new, timeout_ms=self._requests.timeout_ms)).topics

    def add_partitions(self, counts: Mapping[str, int]) -> Refusals:
        """Raise the number of partitions of topics to these totals."""
        from fencepost.kafka.kafka_library import CreatePartitionsRequest as Request

        if not counts:
            return {}
        asked = [
            Request.CreatePartitionsTopic(name=topic, count=count, assignments=None) for topic, count in counts.items()
        ]
        request = Request(topics=asked, timeout_ms=self._requests.timeout_ms, validate_only=False)
        doing = "adding partitions to topic"
        return self._requests.refusals_of(doing, lambda: self._requests.change(request).results)

    def delete(self, topics: Sequence[str]) -> None:
        """Delete those of the topics that exist."""
        from fencepost.kafka.kafka_library import DeleteTopicsRequest

        if not topics:
            return
        request = DeleteTopicsRequest(topic_names=list(topics), timeout_ms=self._requests.timeout_ms)
        for each in self._client.run("deleting topics", lambda: self._requests.change(request, _BY_NAME)).responses:
            if each.error_code not in UNKNOWN_TOPIC:
                self._requests.ensure(each, f"deleting topic {each.name}")

    def _await(self, topic: str) -> None:
        """Wait until the brokers that matter know the topic. The controller knows it some milliseconds earlier."""
        deadline = time.monotonic() + self._requests.timeout_s
        while not self._is_known(topic):
            if time.monotonic() > deadline:
                raise KafkaUnavailableError(f"Topic {topic} was created but brokers do not know it yet")
            time.sleep(_PROPAGATION_S)

    def _is_known(self, topic: str) -> bool:
        """Return whether a broker knows the topic, and so do the leaders of its partitions, as far as they answer."""
        count = self.partitions(topic)
        if count is None:
            return False
        places = [(topic, partition) for partition in range(count)]
        try:
            self._offsets.ends(places, read_committed=False, timeout_s=FIRST_ANSWER_S)
        except KafkaRequestError as error:
            return bool(error.code != KafkaError.UNKNOWN_TOPIC_OR_PART)
        except (KafkaUnavailableError, KafkaAuthorizationError) as error:
            LOG.debug("Topic %s was created, but its end offsets are not known yet: %s", topic, error)
        return True


def _topic(described: Any, *, has_rights: bool = False) -> Topic:
    numbers = described.authorized_operations if has_rights else None
    allowed = None if numbers is None else frozenset(AclOperation(number).name for number in numbers)
    return Topic(len(described.partitions), text_of_id(described.topic_id), bool(described.is_internal), allowed)


def _says(error: Exception, *codes: int) -> bool:
    return isinstance(error, KafkaRequestError) and error.code in codes
