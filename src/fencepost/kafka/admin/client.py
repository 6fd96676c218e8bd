"""The requests that Fencepost sends to a Kafka cluster besides producing and consuming. Every call has a time-out."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from fencepost.kafka.errors import (
    KafkaAuthorizationError,
    KafkaRequestError,
    KafkaUnavailableError,
    new_client,
    translate,
)
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.group.group_admin import Group, GroupAdmin, GroupMember, can_ask
from fencepost.kafka.group.transactions import Transaction, TransactionAdmin
from fencepost.kafka.library_log import library_log
from fencepost.kafka.patience import patiently

T = TypeVar("T")
LOG = logging.getLogger(__name__)
_BACKOFF_S = 0.05
_FIRST_ANSWER_S = 2.0
_DELETE_S = 10.0
_METADATA_S = 1.0
_PROPAGATION_S = 0.01
_WORDS = {
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.EMPTY: "Empty",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
}
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
UNKNOWN_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_NOT_HEARD_OF = frozenset({KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})  # not known to this client yet


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its number of partitions. `id` distinguishes it from a deleted topic of the same name."""

    partitions: int
    id: str
    is_internal: bool = False


class Admin:
    """One cluster, as the principal of `conf` (librdkafka's names) may see and change it.

    Every method raises KafkaUnavailableError if no broker answers within `timeout_s`, KafkaAuthorizationError if the
    principal lacks a permission, and KafkaRequestError for any other refusal. The constructor never waits. Thread-safe.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float = 30.0) -> None:
        self._guard = ForkGuard()
        self._conf = dict(conf)
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._timeout_s = timeout_s
        self._groups = GroupAdmin(self._conf, timeout_s=timeout_s) if can_ask(self._conf) else None
        self._client = new_client(AdminClient, self._conf, logger=library_log(__name__))

    def close(self) -> None:
        """Close connections that would otherwise log an error when a broker ends later. Idempotent."""
        if self._groups is not None:
            self._groups.close()

    def cluster_id(self) -> str:
        try:
            return str(self._ready().list_topics(timeout=self._timeout_s).cluster_id)
        except KafkaException as error:
            raise translate(error, "asking for the cluster id", self._bootstrap) from error

    def partitions(self, topic: str, *, timeout_s: float | None = None) -> int | None:
        """Return the number of partitions of `topic`; None if it does not exist."""
        found = self.topic(topic, timeout_s=timeout_s)
        return None if found is None else found.partitions

    def topic(self, topic: str, *, timeout_s: float | None = None) -> Topic | None:
        """Return `topic`; None if it does not exist."""
        return self.topics([topic], timeout_s=timeout_s).get(topic)

    def topics(self, names: Collection[str], *, timeout_s: float | None = None) -> dict[str, Topic]:
        """Return those of the topics that exist."""
        if not names:
            return {}
        wait_s = self._timeout_s if timeout_s is None else max(timeout_s, 0.001)
        return self._ask_repeatedly(lambda each_s: self._described(names, each_s), wait_s)

    def _described(self, names: Collection[str], wait_s: float) -> dict[str, Topic]:
        client = self._ready()
        # Not `list_topics`: if a broker creates topics automatically, naming a topic there creates it.
        futures = client.describe_topics(TopicCollection(list(names)), request_timeout=wait_s)
        found = {}
        for name, future in futures.items():
            try:
                described = self._result(future, f"describing topic {name}", wait_s)
            except KafkaRequestError as error:
                if error.code in UNKNOWN_TOPIC:
                    continue
                raise
            found[name] = Topic(len(described.partitions), str(described.topic_id), bool(described.is_internal))
        return found

    def topic_names(self) -> list[str]:
        """Return the sorted names of all topics that the principal may see, without Kafka's internal ones."""
        try:
            return sorted(self._ready().list_topics(timeout=self._timeout_s).topics.keys() - INTERNAL_TOPICS)
        except KafkaException as error:
            raise translate(error, "asking for the topics of the cluster", self._bootstrap) from error

    def topic_config(self, topic: str) -> dict[str, str | None]:
        """Return the effective configs of `topic`, including the broker's defaults."""
        return self.topic_configs([topic])[topic]

    def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str | None]]:
        """Return the effective configs of each of `topics`, all of which must exist."""
        return self._ask_repeatedly(lambda each_s: self._configs(topics, each_s), self._timeout_s) if topics else {}

    def _configs(self, topics: Sequence[str], wait_s: float) -> dict[str, dict[str, str | None]]:
        client = self._ready()
        asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        futures = client.describe_configs(asked, request_timeout=wait_s)
        found = {}
        for resource, future in futures.items():
            entries = self._result(future, f"describing the configs of topic {resource.name}", wait_s)
            found[str(resource.name)] = {name: entry.value for name, entry in entries.items()}
        return found

    def ensure_topic(
        self, topic: str, *, partitions: int, replication: int, configs: Mapping[str, str] | None = None
    ) -> bool:
        """Create `topic` unless it exists. A number of -1 uses the broker's default. Returns whether it was created."""
        if self.partitions(topic) is not None:
            return False
        try:
            self.create_topic(topic, partitions=partitions, replication=replication, configs=configs)
        except KafkaRequestError as error:
            if error.code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            self._await_topic(topic)
            return False
        return True

    def create_topic(
        self, topic: str, *, partitions: int, replication: int, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create `topic`, and wait until the brokers know it. Raises KafkaRequestError if it exists."""
        new = NewTopic(topic, num_partitions=partitions, replication_factor=replication, config=dict(configs or {}))
        client = self._ready()
        futures = client.create_topics([new], operation_timeout=self._timeout_s, request_timeout=self._timeout_s)
        self._result(futures[topic], f"creating topic {topic}")
        self._await_topic(topic)

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Delete those of the topics that exist."""
        if not topics:
            return
        client = self._ready()
        futures = client.delete_topics(list(topics), request_timeout=self._timeout_s)
        for topic, future in futures.items():
            try:
                self._result(future, f"deleting topic {topic}")
            except KafkaRequestError as error:
                if error.code not in UNKNOWN_TOPIC:
                    raise

    def end_offsets(
        self, topic_partitions: Iterable[tuple[str, int]], *, read_committed: bool, timeout_s: float | None = None
    ) -> dict[tuple[str, int], int]:
        """Return the end offset of each log; with `read_committed`, the start of its first open transaction if any.

        The leader answers, and only once it exposes everything that was committed before it became the leader.
        """
        wanted = dict.fromkeys(topic_partitions, OffsetSpec.latest())
        return self._list_offsets(wanted, _level(read_committed), timeout_s)

    def start_offsets(
        self, topic_partitions: Iterable[tuple[str, int]], *, timeout_s: float | None = None
    ) -> dict[tuple[str, int], int]:
        """Return the start offset of each log."""
        wanted = dict.fromkeys(topic_partitions, OffsetSpec.earliest())
        return self._list_offsets(wanted, IsolationLevel.READ_UNCOMMITTED, timeout_s)

    def offsets_at(
        self, times_ms: Mapping[tuple[str, int], int], *, read_committed: bool, timeout_s: float | None = None
    ) -> dict[tuple[str, int], int | None]:
        """Return, for each partition, the offset of its first record of that time or later; None if it has none."""
        wanted = {place: OffsetSpec.for_timestamp(at_ms) for place, at_ms in times_ms.items()}
        found = self._list_offsets(wanted, _level(read_committed), timeout_s)
        return {place: offset if offset >= 0 else None for place, offset in found.items()}

    def delete_records(self, before: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int | Exception]:
        """Delete the records before an offset in each partition. Returns each log's new start offset, or the error.

        This deletes records of open transactions, too, so the caller must check the last stable offset.
        """
        if not before:
            return {}
        client = self._ready()
        asked = [TopicPartition(topic, partition, offset) for (topic, partition), offset in before.items()]
        wait_s = min(self._timeout_s, _DELETE_S)
        futures = client.delete_records(asked, request_timeout=wait_s, operation_timeout=wait_s)
        found: dict[tuple[str, int], int | Exception] = {}
        for place, future in futures.items():
            try:
                answer = self._result(future, f"deleting records of {place.topic}-{place.partition}", wait_s)
                found[place.topic, place.partition] = int(answer.low_watermark)
            except (KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError) as error:
                found[place.topic, place.partition] = error
        if any(isinstance(answer, KafkaUnavailableError) for answer in found.values()):
            self._forget_leaders()
        return found

    def group(self, group_id: str) -> Group:
        """Return the members of a consumer group as its coordinator knows them. Takes 1-6 ms."""
        self._guard.check("The admin client")
        groups = self._groups
        if groups is None:
            return self._patiently(lambda: self._describe_group(group_id))
        return self._patiently(lambda: groups.describe(group_id))

    def transactions(self, states: Sequence[str] = ()) -> list[Transaction]:
        """Return every transactional id that the cluster knows, or only those in `states` (Kafka's names)."""
        return self._ask_transactions(lambda admin: admin.list(states))

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        """Return the details of the given transactional ids. Unknown ids are left out."""
        return self._ask_transactions(lambda admin: admin.describe(transactional_ids))

    def _await_topic(self, topic: str) -> None:
        """Wait until the brokers that matter know the topic. The controller knows it some milliseconds earlier."""
        deadline = time.monotonic() + self._timeout_s
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
            self.end_offsets(places, read_committed=False, timeout_s=_FIRST_ANSWER_S)
        except KafkaRequestError as error:
            return bool(error.code != KafkaError.UNKNOWN_TOPIC_OR_PART)
        except (KafkaUnavailableError, KafkaAuthorizationError) as error:
            LOG.debug("Topic %s was created, but its end offsets are not known yet: %s", topic, error)
        return True

    def _describe_group(self, group_id: str) -> Group:
        """Describe a group with librdkafka, for settings that the wire client cannot connect with.

        See `kafka.group.group_admin` for the risk.
        """
        client = self._ready()
        future = client.describe_consumer_groups([group_id], request_timeout=self._timeout_s)[group_id]
        try:
            described = self._result(future, f"describing group {group_id}")
        except KafkaRequestError as error:
            if error.code == KafkaError.GROUP_ID_NOT_FOUND:
                return Group(group_id, _WORDS[ConsumerGroupState.DEAD], ())
            raise
        return Group(group_id, _WORDS.get(described.state, "Unknown"), tuple(_member(m) for m in described.members))

    def _ask_transactions(self, ask: Callable[[TransactionAdmin], T]) -> T:
        self._guard.check("The admin client")
        admin = TransactionAdmin(self._conf, timeout_s=self._timeout_s)
        try:
            return self._patiently(lambda: ask(admin))
        finally:
            admin.close()

    def _patiently(self, ask: Callable[[], T], timeout_s: float | None = None) -> T:
        return patiently(ask, self._timeout_s if timeout_s is None else timeout_s, _BACKOFF_S)

    def _list_offsets(
        self, specs: Mapping[tuple[str, int], Any], level: Any, timeout_s: float | None
    ) -> dict[tuple[str, int], int]:
        wanted = {TopicPartition(topic, partition): spec for (topic, partition), spec in specs.items()}
        if not wanted:
            return {}
        wait_s = self._timeout_s if timeout_s is None else max(timeout_s, 0.001)
        doing = f"asking for offsets of topic {next(iter(wanted)).topic}"

        def ask(each_s: float, *, is_again: bool = False) -> dict[tuple[str, int], int]:
            client = self._ready()
            futures = client.list_offsets(wanted, isolation_level=level, request_timeout=each_s)
            try:
                found = {(tp.topic, tp.partition): self._result(f, doing, each_s).offset for tp, f in futures.items()}
            except KafkaRequestError as error:
                if is_again or error.code not in _NOT_HEARD_OF:
                    raise
                self._forget_leaders()
                return ask(each_s, is_again=True)
            if OFFSET_INVALID in found.values():  # the client's sign that a leader has not answered
                raise KafkaUnavailableError(f"Kafka did not answer while {doing}: a leader is unavailable")
            return found

        return self._ask_repeatedly(ask, wait_s)

    def _ask_repeatedly(self, ask: Callable[[float], T], timeout_s: float) -> T:
        """Ask with a growing time-out, and refresh the leaders each time.

        Otherwise the client would ask a leader that is gone, without a pause, until the time-out. A broker that is only
        slow has half of the time to answer.
        """
        began_s = time.monotonic()

        def once() -> T:
            gone_s = time.monotonic() - began_s
            try:
                return ask(min(timeout_s, max(_FIRST_ANSWER_S, min(gone_s, timeout_s - gone_s))))
            except KafkaUnavailableError:
                self._forget_leaders(min(timeout_s, _METADATA_S))
                raise

        return self._patiently(once, timeout_s)

    def _forget_leaders(self, timeout_s: float = _METADATA_S) -> None:
        """Make the client refresh its metadata. Until then it uses a leader epoch that a restarted broker refuses, and
        does not know partitions that were added."""
        try:
            self._ready().list_topics(timeout=timeout_s)
        except KafkaException as error:
            LOG.debug("No metadata: %s", error)

    def _ready(self) -> Any:
        """Return the client. The caller must keep it in a variable until its future has resolved."""
        self._guard.check("The admin client")
        self._client.poll(0)
        return self._client

    def _result(self, future: Any, doing: str, timeout_s: float | None = None) -> Any:
        # A second more than the client's time-out, because the client's own error says more than a bare time-out.
        try:
            return future.result(timeout=(self._timeout_s if timeout_s is None else timeout_s) + 1.0)
        except (KafkaException, TimeoutError) as error:
            raise translate(error, doing, self._bootstrap) from error


def _level(read_committed: bool) -> Any:
    return IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED


def _member(member: Any) -> GroupMember:
    assigned = member.assignment.topic_partitions if member.assignment else ()
    return GroupMember(
        member.member_id, member.client_id, member.host, frozenset((tp.topic, tp.partition) for tp in assigned)
    )
