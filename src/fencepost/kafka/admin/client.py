"""The requests that Fencepost sends to a Kafka cluster besides producing and consuming. Every call has a time-out."""

import logging
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError

from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError, translate
from fencepost.kafka.group.group_admin import Group, GroupAdmin
from fencepost.kafka.group.transactions import Transaction, TransactionAdmin
from fencepost.kafka.patience import patiently
from fencepost.kafka.wire.cluster import TOPIC_RESOURCE
from fencepost.kafka.wire.errors import AnswerError, LostError, UnsupportedError, request_failure
from fencepost.kafka.wire.requests import RequestClient, by_topic

T = TypeVar("T")
Place = tuple[str, int]
LOG = logging.getLogger(__name__)
_BACKOFF_S = 0.05
_FIRST_ANSWER_S = 2.0
_DELETE_S = 10.0
_PROPAGATION_S = 0.01
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
UNKNOWN_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_LATEST, _EARLIEST = -1, -2
_BY_NAME = 5  # of DeleteTopics: newer versions also take ids


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
        self._conf = dict(conf)
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._timeout_s = timeout_s
        self._client = RequestClient(self._conf, timeout_s=timeout_s)
        self._groups = GroupAdmin(self._conf, timeout_s=timeout_s)
        self._transactions = TransactionAdmin(self._conf, timeout_s=timeout_s)

    def close(self) -> None:
        """Close the connections. Idempotent; another request connects again."""
        self._client.close()
        self._groups.close()
        self._transactions.close()

    def cluster_id(self) -> str:
        return str(self._ask_repeatedly("asking for the cluster id", lambda: self._client.metadata([])).cluster_id)

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
        doing = f"describing topic {next(iter(names))}" if len(names) == 1 else f"describing {len(names)} topics"

        def ask() -> dict[str, Topic]:
            found = {}
            for each in self._client.metadata(names).topics:
                if each.error_code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    self._ensure(each, f"describing topic {each.name}")
                    found[each.name] = Topic(len(each.partitions), topic_id(each), bool(each.is_internal))
            return found

        return self._ask_repeatedly(doing, ask, timeout_s)

    def topic_names(self) -> list[str]:
        """Return the sorted names of all topics that the principal may see, without Kafka's internal ones."""
        found = self._ask_repeatedly("asking for the topics of the cluster", lambda: self._client.metadata(None))
        return sorted({each.name for each in found.topics} - INTERNAL_TOPICS)

    def topic_config(self, topic: str) -> dict[str, str | None]:
        """Return the effective configs of `topic`, including the broker's defaults."""
        return self.topic_configs([topic])[topic]

    def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str | None]]:
        """Return the effective configs of each of `topics`, all of which must exist."""

        def ask() -> dict[str, dict[str, str | None]]:
            found = {}
            for each in self._described_configs(topics):
                self._ensure(each, f"describing the configs of topic {each.resource_name}")
                found[each.resource_name] = {entry.name: entry.value for entry in each.configs}
            return found

        return self._ask_repeatedly("describing the configs of topics", ask) if topics else {}

    def _described_configs(self, topics: Iterable[str]) -> Any:
        from fencepost.kafka.kafka_library import DescribeConfigsRequest as Request

        asked = [Request.DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=each) for each in topics]
        return self._client.ask(Request(resources=asked)).results

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
        doing = f"creating topic {topic}"
        (answer,) = self._client.run(doing, lambda: self._created({topic: (partitions, replication, configs)}))
        self._ensure(answer, doing)
        self._await_topic(topic)

    def _created(self, topics: Mapping[str, tuple[int, int, Mapping[str, str] | None]]) -> Any:
        from fencepost.kafka.kafka_library import CreateTopicsRequest as Request

        of_topic = Request.CreatableTopic
        new = [
            of_topic(
                name=name,
                num_partitions=partitions,
                replication_factor=replication,
                assignments=[],
                configs=[of_topic.CreatableTopicConfig(name=key, value=text) for key, text in (configs or {}).items()],
            )
            for name, (partitions, replication, configs) in topics.items()
        ]
        return self._changed(Request(topics=new, timeout_ms=self._timeout_ms)).topics

    def _changed(self, request: Any, newest: int | None = None) -> Any:
        """Send a change to the controller. If it has moved, the change is sent to the next one."""
        answer = self._client.ask(request, self._client.controller(), newest=newest)
        for name in ("topics", "results", "responses"):
            for each in getattr(answer, name, None) or ():
                if each.error_code == KafkaError.NOT_CONTROLLER:
                    raise AnswerError(each.error_code, "the controller has moved")
        return answer

    @property
    def _timeout_ms(self) -> int:
        return int(self._timeout_s * 1000)

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Delete those of the topics that exist."""
        from fencepost.kafka.kafka_library import DeleteTopicsRequest

        if not topics:
            return
        request = DeleteTopicsRequest(topic_names=list(topics), timeout_ms=self._timeout_ms)
        for each in self._client.run("deleting topics", lambda: self._changed(request, _BY_NAME)).responses:
            if each.error_code not in UNKNOWN_TOPIC:
                self._ensure(each, f"deleting topic {each.name}")

    def end_offsets(
        self, topic_partitions: Iterable[Place], *, read_committed: bool, timeout_s: float | None = None
    ) -> dict[Place, int]:
        """Return the end offset of each log; with `read_committed`, the start of its first open transaction if any.

        The leader answers, and only once it exposes everything that was committed before it became the leader.
        """
        return self._list_offsets(dict.fromkeys(topic_partitions, _LATEST), read_committed, timeout_s)

    def start_offsets(self, topic_partitions: Iterable[Place], *, timeout_s: float | None = None) -> dict[Place, int]:
        """Return the start offset of each log."""
        return self._list_offsets(dict.fromkeys(topic_partitions, _EARLIEST), False, timeout_s)

    def offsets_at(
        self, times_ms: Mapping[Place, int], *, read_committed: bool, timeout_s: float | None = None
    ) -> dict[Place, int | None]:
        """Return, for each partition, the offset of its first record of that time or later; None if it has none."""
        found = self._list_offsets(times_ms, read_committed, timeout_s)
        return {place: offset if offset >= 0 else None for place, offset in found.items()}

    def delete_records(self, before: Mapping[Place, int]) -> dict[Place, int | Exception]:
        """Delete the records before an offset in each partition. Returns each log's new start offset, or the error.

        This deletes records of open transactions, too, so the caller must check the last stable offset.
        """
        if not before:
            return {}
        wait_s = min(self._timeout_s, _DELETE_S)
        doing = f"deleting records of {len(before)} partitions"

        def ask() -> dict[Place, int | Exception]:
            found: dict[Place, int | Exception] = {}
            for node, places in self._by_leader(before, doing).items():
                try:
                    found |= self._deleted(node, {place: before[place] for place in places}, wait_s)
                except (AnswerError, LostError, UnsupportedError) as error:
                    found |= dict.fromkeys(places, request_failure(error, doing, self._bootstrap))
            return found

        return self._client.run(doing, ask, wait_s)

    def _deleted(self, node: int, before: Mapping[Place, int], wait_s: float) -> dict[Place, int | Exception]:
        from fencepost.kafka.kafka_library import DeleteRecordsRequest as Request

        of_topic = Request.DeleteRecordsTopic
        topics = [
            of_topic(
                name=topic,
                partitions=[
                    of_topic.DeleteRecordsPartition(partition_index=number, offset=before[topic, number])
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(before)
        ]
        answer = self._client.ask(Request(topics=topics, timeout_ms=int(wait_s * 1000)), node)
        found: dict[Place, int | Exception] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                doing = f"deleting records of {topic.name}-{each.partition_index}"
                failed = self._failure(each, doing) if each.error_code else None
                found[topic.name, each.partition_index] = failed or int(each.low_watermark)
        return found

    def group(self, group_id: str) -> Group:
        """Return the members of a consumer group as its coordinator knows them. Takes 1-6 ms."""
        return patiently(lambda: self._groups.describe(group_id), self._timeout_s, _BACKOFF_S)

    def transactions(self, states: Sequence[str] = ()) -> list[Transaction]:
        """Return every transactional id that the cluster knows, or only those in `states` (Kafka's names)."""
        return patiently(lambda: self._transactions.list(states), self._timeout_s, _BACKOFF_S)

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        """Return the details of the given transactional ids. Unknown ids are left out."""
        ids = list(transactional_ids)
        return patiently(lambda: self._transactions.describe(ids), self._timeout_s, _BACKOFF_S)

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

    def _list_offsets(
        self, times_ms: Mapping[Place, int], read_committed: bool, timeout_s: float | None
    ) -> dict[Place, int]:
        if not times_ms:
            return {}
        doing = f"asking for offsets of topic {next(iter(times_ms))[0]}"

        def ask() -> dict[Place, int]:
            found: dict[Place, int] = {}
            for node, places in self._by_leader(times_ms, doing).items():
                asked = {place: (times_ms[place], epoch) for place, epoch in places.items()}
                found |= self._listed(node, asked, read_committed, doing)
            return {place: found[place] for place in times_ms}

        return self._ask_repeatedly(doing, ask, timeout_s)

    def _listed(
        self, node: int, asked: Mapping[Place, tuple[int, int]], read_committed: bool, doing: str
    ) -> dict[Place, int]:
        """Return offsets by a time and the epoch of the leader, which refuses if it is not the leader of that epoch."""
        from fencepost.kafka.kafka_library import ListOffsetsRequest as Request

        of_topic = Request.ListOffsetsTopic
        topics = [
            of_topic(
                name=topic,
                partitions=[
                    of_topic.ListOffsetsPartition(
                        partition_index=number,
                        timestamp=asked[topic, number][0],
                        current_leader_epoch=asked[topic, number][1],
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(asked)
        ]
        answer = self._client.ask(Request(replica_id=-1, isolation_level=int(read_committed), topics=topics), node)
        found = {}
        for topic in answer.topics:
            for each in topic.partitions:
                self._ensure(each, doing)
                found[topic.name, each.partition_index] = int(each.offset)
        return found

    def _by_leader(self, places: Iterable[Place], doing: str) -> dict[int, dict[Place, int]]:
        """Return the partitions that each node leads, with the epochs of their leaders."""
        wanted = list(places)
        known = {each.name: each for each in self._client.metadata({topic for topic, _ in wanted}).topics}
        led: dict[int, dict[Place, int]] = {}
        for topic in known.values():
            self._ensure(topic, doing)
        of_place = {(name, each.partition_index): each for name, of in known.items() for each in of.partitions}
        for place in wanted:
            if place not in of_place:
                raise translate(KafkaError(KafkaError._UNKNOWN_PARTITION), doing, self._bootstrap)
            found = of_place[place]
            if found.leader_id < 0:
                raise AnswerError(KafkaError.LEADER_NOT_AVAILABLE, f"the leader of {place[0]}-{place[1]}")
            led.setdefault(found.leader_id, {})[place] = found.leader_epoch
        return led

    def _ask_repeatedly(self, doing: str, ask: Callable[[], T], timeout_s: float | None = None) -> T:
        """Ask with a growing time-out, so that a leader that stands still is not asked until the time is up.

        A broker that is only slow has half of the time to answer.
        """
        wait_s = self._timeout_s if timeout_s is None else max(timeout_s, 0.001)
        began_s = time.monotonic()

        def once() -> T:
            gone_s = time.monotonic() - began_s
            each_s = min(wait_s, max(_FIRST_ANSWER_S, min(gone_s, wait_s - gone_s)))
            return self._client.run(doing, ask, each_s)

        return patiently(once, wait_s, _BACKOFF_S)

    def _ensure(self, answer: Any, doing: str) -> None:
        """Raise the error that a part of an answer has."""
        if answer.error_code:
            raise self._failure(answer, doing)

    def _failure(self, answer: Any, doing: str) -> Exception:
        reason = getattr(answer, "error_message", None) or KafkaError(answer.error_code).str()
        return translate(KafkaError(answer.error_code, reason), doing, self._bootstrap)


def topic_id(described: Any) -> str:
    """Return the id of a topic, as librdkafka writes it: stored positions contain it. Kafka has - and _ for + and /."""
    return b64encode(described.topic_id.bytes).decode().rstrip("=")
