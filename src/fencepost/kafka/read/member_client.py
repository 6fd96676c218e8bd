"""The librdkafka client of a consumer group's member."""

import contextlib
import logging
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaRequestError, is_unavailable, translate
from fencepost.kafka.read.consumer import UNKNOWN_PARTITION
from fencepost.kafka.value.position import GroupOffset, MemberGeneration, generation_of
from fencepost.kafka.wire.library_client import CommitWatch, close_consumer, library_log, new_client
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_LOOK_S = 5.0
_ID_S, _LEAVE_POLL_S = 2.0, 0.02
_NOT_YET = frozenset({KafkaError._STATE, KafkaError._PREV_IN_PROGRESS})
_FIXED = {"enable.auto.commit": False, "enable.auto.offset.store": False, "enable.partition.eof": True}


class MemberIdentity(NamedTuple):
    """A member's identity, as captured with its assignment."""

    metadata: Any
    member_id: str

    @property
    def generation(self) -> int | None:
        return generation_of(self.metadata)

    def in_requests(self) -> MemberGeneration | None:
        """Return the identity for requests; None if the member has not joined."""
        generation = self.generation
        return None if generation is None else MemberGeneration(generation, self.member_id)


class MemberClient:
    """The client, its pending seeks, and the error of a callback. Nothing is committed automatically."""

    def __init__(self, conf: Mapping[str, Any], changes: Mapping[str, str]) -> None:
        """`conf` names the group; `changes` override it. Raises KafkaRequestError for settings that are refused."""
        self.conf = conf
        self.group = str(conf.get("group.id"))
        self.is_leaving = self.is_closed = False
        self.due: dict[TopicPartition, int] = {}
        """Pending seeks of partitions that the client does not fetch yet. It may still return other records of them."""
        self.error: BaseException | None = None
        """The first error of a callback; it cannot be raised inside the client."""
        self._watch = CommitWatch(conf, self.group)
        self.admin = Admin(conf)
        self.consumer: Any = new_client(Consumer, {**conf, **_FIXED, **changes}, logger=library_log(__name__))

    def failed(self, cause: Any, doing: str) -> Exception:
        """Return the error to raise if `doing` failed."""
        return translate(cause, doing, str(self.conf.get("bootstrap.servers", "")))

    @contextlib.contextmanager
    def errors_kept(self) -> Iterator[None]:
        """Keep an error for `raise_kept`."""
        try:
            yield
        except BaseException as error:  # the client would lose its type and skip the rest
            if isinstance(error, KafkaException):
                error = self.failed(error, f"taking over partitions in group {self.group}")
            self.error = self.error or error

    def raise_kept(self) -> None:
        if self.error is not None:
            raised, self.error = self.error, None
            raise raised

    def membership(self) -> MemberIdentity:
        self._watch.assigned()
        return MemberIdentity(self.consumer.consumer_group_metadata(), self.consumer.memberid())

    def topics(self) -> Any:
        """Return the metadata of all topics, by name. Raises KafkaException."""
        return self.consumer.list_topics(timeout=_LOOK_S).topics

    def topic_ids(self, topics: Collection[str], timeout_s: float, *, is_sure: bool) -> dict[str, str]:
        """Return the ids of those of the topics that exist, as one broker knows them, or two if `is_sure`.

        All are empty if brokers do not have ids, or the client has settings that only librdkafka supports. Raises what
        `Admin` raises.
        """
        try:
            found = self.admin.topics.get_all(topics, timeout_s=timeout_s, is_sure=is_sure)
        except KafkaRequestError as error:
            if error.code != KafkaError._INVALID_ARG:
                raise
            return dict.fromkeys(topics, "")
        return {name: each.id for name, each in found.items()}

    def edges(self, place: TopicPartition, timeout_s: float) -> tuple[int, int]:
        """Return the start and end offsets of a partition. Raises KafkaException."""
        begin, end = self.consumer.get_watermark_offsets(ClientPartition(*place), timeout=timeout_s)
        return begin, end

    def assign(self, partitions: list[Any]) -> None:
        """Take over partitions that the group has just assigned."""
        self.consumer.incremental_assign(partitions) if self._is_cooperative else self.consumer.assign(partitions)

    def unassign(self, partitions: list[Any]) -> None:
        self.consumer.incremental_unassign(partitions) if self._is_cooperative else self.consumer.unassign()

    @property
    def _is_cooperative(self) -> bool:
        return "cooperative" in str(self.conf.get("partition.assignment.strategy", ""))

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Seek. If the client is just starting to fetch a partition, the seek is `due`."""
        for place, offset in offsets.items():
            self.due.pop(place, None)
            try:
                self.consumer.seek(ClientPartition(place.topic, place.partition, offset))
            except KafkaException as error:
                if error.args[0].code() not in _NOT_YET:
                    raise translate(error, f"going to offset {offset} of {place.topic}-{place.partition}") from error
                self.due[place] = offset

    def pause(self, places: Collection[TopicPartition]) -> None:
        self.consumer.pause([ClientPartition(*place) for place in places])

    def commit(self, offsets: Collection[GroupOffset]) -> dict[TopicPartition, int]:
        """Commit, and return what was committed: everything except partitions that no longer exist.

        Raises a refusal as converted by `translate`.
        """
        try:
            try:
                return self._committed(offsets)
            except KafkaException as error:
                if is_unavailable(error.args[0]):
                    self._watch.failed()
                if error.args[0].code() not in UNKNOWN_PARTITION:
                    raise
                return self._committed(self._existing(offsets))  # the client does not report which one it was
        except KafkaException as error:
            raise self.failed(error, f"committing offsets of group {self.group}") from error

    def _committed(self, offsets: Collection[GroupOffset]) -> dict[TopicPartition, int]:
        if offsets:
            asked = [ClientPartition(*offset) for offset in offsets]
            for each in self.consumer.commit(offsets=asked, asynchronous=False) or ():
                if each.error is not None:
                    raise KafkaException(each.error)
            self._watch.committed()
        return {TopicPartition(each.topic, each.partition): each.offset for each in offsets}

    def _existing(self, offsets: Collection[GroupOffset]) -> list[GroupOffset]:
        topics = self.topics()
        kept = [each for each in offsets if each.topic in topics and each.partition in topics[each.topic].partitions]
        for gone in sorted(set(offsets).difference(kept)):
            log.warning("no offset is committed for %s-%d: it no longer exists", gone.topic, gone.partition)
        return kept

    def close(self, *, is_subscribed: bool) -> None:
        """Leave the group. Its callbacks are called first. Idempotent."""
        if not self.is_closed:
            with contextlib.suppress(KafkaException, RuntimeError):
                self._await_id(is_subscribed)
            self.is_closed = True
            close_consumer(self.consumer)
            self.admin.close()

    def _await_id(self, is_subscribed: bool) -> None:
        """Wait for the member id if the group is just assigning one, because leaving requires it.

        Otherwise the group keeps an invisible pending member, and every rebalance waits until the session time-out.
        """
        self.is_leaving = True
        deadline_s = time.monotonic() + _ID_S
        while is_subscribed and not self.consumer.memberid() and time.monotonic() < deadline_s:
            self.consumer.poll(_LEAVE_POLL_S)
