"""The offsets at which the logs of partitions start and end, and the deletion of records from their start."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.errors import AnswerError, LostError, UnsupportedError, request_failure, translate
from fencepost.kafka.wire.requests import AdminRequests, Place, by_topic
from fencepost.record import TopicPartition

_LATEST, _EARLIEST = -1, -2
_DELETE_S = 10.0
_OF_CONSUMERS = 3  # of OffsetForLeaderEpoch: older versions are for brokers


class LogOffsets:
    """The offsets of a cluster's logs, as their leaders report them."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests
        self._client = requests.client
        self.epochs: dict[Place, int] = {}
        """The epochs of the leaders that answered last."""

    def ends(
        self, topic_partitions: Iterable[Place], *, read_committed: bool, timeout_s: float | None = None
    ) -> dict[Place, int]:
        """Return the end offset of each log; with `read_committed`, the start of its first open transaction if any.

        The leader answers, and only once it exposes everything that was committed before it became the leader.
        """
        return self._list(dict.fromkeys(topic_partitions, _LATEST), read_committed, timeout_s)

    def starts(self, topic_partitions: Iterable[Place], *, timeout_s: float | None = None) -> dict[Place, int]:
        """Return the start offset of each log."""
        return self._list(dict.fromkeys(topic_partitions, _EARLIEST), False, timeout_s)

    def at_times(
        self, times_ms: Mapping[Place, int], *, read_committed: bool, timeout_s: float | None = None
    ) -> dict[Place, int | None]:
        """Return, for each partition, the offset of its first record of that time or later; None if it has none."""
        found = self._list(times_ms, read_committed, timeout_s)
        return {place: offset if offset >= 0 else None for place, offset in found.items()}

    def ends_of_epochs(
        self, epochs: Mapping[TopicPartition, int], silent: set[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record of a leader epoch or of earlier ones in each log (KIP-320).

        What a leader of that epoch had at lower offsets is still in the log; what it had at others is not. Partitions
        whose leader knows no epoch that is as new are left out, as are those of brokers without such a request. Those
        whose leader does not answer are added to `silent`; without it, this raises KafkaUnavailableError.
        """
        if not epochs:
            return {}
        doing = f"asking for leader epochs of topic {next(iter(epochs))[0]}"

        def ask() -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
            found: dict[TopicPartition, int] = {}
            lost: set[TopicPartition] = set()
            for node, places in self._by_leader(epochs, doing).items():
                asked = {place: (epochs[TopicPartition(*place)], led) for place, led in places.items()}
                try:
                    found |= self._ended(node, asked, doing)
                except UnsupportedError:
                    continue
                except LostError:
                    if silent is None:
                        raise
                    lost.update(TopicPartition(*place) for place in places)
            return found, lost

        ends, unanswered = self._requests.ask_repeatedly(doing, ask)
        if silent is not None:
            silent |= unanswered
        return ends

    def without_leader(self, topic_partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return those of the partitions that have no leader, as two brokers know them."""
        if not topic_partitions:
            return set()
        topics = {topic for topic, _ in topic_partitions}

        def ask() -> set[TopicPartition]:
            found = self._client.metadata(topics, is_sure=True).topics
            led = {(each.name, of.partition_index) for each in found for of in each.partitions if of.leader_id >= 0}
            return {place for place in topic_partitions if place not in led}

        return self._requests.ask_repeatedly(f"asking for leaders of topic {min(topics)}", ask)

    def delete_before(self, offsets: Mapping[Place, int]) -> dict[Place, int | Exception]:
        """Delete the records before an offset in each partition. Returns each log's new start offset, or the error.

        This deletes records of open transactions, too, so the caller must check the last stable offset.
        """
        if not offsets:
            return {}
        wait_s = min(self._requests.timeout_s, _DELETE_S)
        doing = f"deleting records of {len(offsets)} partitions"

        def ask() -> dict[Place, int | Exception]:
            found: dict[Place, int | Exception] = {}
            for node, places in self._by_leader(offsets, doing).items():
                try:
                    found |= self._deleted(node, {place: offsets[place] for place in places}, wait_s)
                except (AnswerError, LostError, UnsupportedError) as error:
                    found |= dict.fromkeys(places, request_failure(error, doing, self._requests.bootstrap))
            return found

        return self._client.run(doing, ask, wait_s)

    def _deleted(self, node: int, offsets: Mapping[Place, int], wait_s: float) -> dict[Place, int | Exception]:
        from fencepost.kafka.kafka_library import DeleteRecordsRequest as Request

        of_topic = Request.DeleteRecordsTopic

        def of(topic: str, number: int) -> Any:
            return of_topic.DeleteRecordsPartition(partition_index=number, offset=offsets[topic, number])

        topics = [of_topic(name=name, partitions=[of(name, at) for at in found]) for name, found in by_topic(offsets)]
        answer = self._client.ask(Request(topics=topics, timeout_ms=int(wait_s * 1000)), node)
        found: dict[Place, int | Exception] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                doing = f"deleting records of {topic.name}-{each.partition_index}"
                failed = self._requests.failure(each, doing) if each.error_code else None
                found[topic.name, each.partition_index] = failed or int(each.low_watermark)
        return found

    def _list(self, times_ms: Mapping[Place, int], read_committed: bool, timeout_s: float | None) -> dict[Place, int]:
        if not times_ms:
            return {}
        doing = f"asking for offsets of topic {next(iter(times_ms))[0]}"

        def ask() -> dict[Place, int]:
            found: dict[Place, int] = {}
            for node, places in self._by_leader(times_ms, doing).items():
                asked = {place: (times_ms[place], epoch) for place, epoch in places.items()}
                found |= self._listed(node, asked, read_committed, doing)
            return {place: found[place] for place in times_ms}

        return self._requests.ask_repeatedly(doing, ask, timeout_s)

    def _listed(
        self, node: int, asked: Mapping[Place, tuple[int, int]], read_committed: bool, doing: str
    ) -> dict[Place, int]:
        """Return offsets by a time and the epoch of the leader, which refuses if it is not the leader of that epoch."""
        from fencepost.kafka.kafka_library import ListOffsetsRequest as Request

        of_topic = Request.ListOffsetsTopic

        def of(topic: str, number: int) -> Any:
            time_ms, epoch = asked[topic, number]
            return of_topic.ListOffsetsPartition(partition_index=number, timestamp=time_ms, current_leader_epoch=epoch)

        topics = [of_topic(name=name, partitions=[of(name, at) for at in found]) for name, found in by_topic(asked)]
        answer = self._client.ask(Request(replica_id=-1, isolation_level=int(read_committed), topics=topics), node)
        found = {}
        for topic in answer.topics:
            for each in topic.partitions:
                self._requests.ensure(each, doing)
                found[topic.name, each.partition_index] = int(each.offset)
        self.epochs |= {place: epoch for place, (_, epoch) in asked.items()}
        return found

    def _ended(self, node: int, asked: Mapping[Place, tuple[int, int]], doing: str) -> dict[TopicPartition, int]:
        """Return ends by an epoch and the epoch of the leader, which refuses if it is not the leader of that epoch."""
        from fencepost.kafka.kafka_library import OffsetForLeaderEpochRequest as Request

        of_topic = Request.OffsetForLeaderTopic

        def of(topic: str, number: int) -> Any:
            epoch, led = asked[topic, number]
            return of_topic.OffsetForLeaderPartition(partition=number, current_leader_epoch=led, leader_epoch=epoch)

        topics = [of_topic(topic=name, partitions=[of(name, at) for at in found]) for name, found in by_topic(asked)]
        answer = self._client.ask(Request(replica_id=-1, topics=topics), node, oldest=_OF_CONSUMERS)
        found = {}
        for topic in answer.topics:
            for each in topic.partitions:
                self._requests.ensure(each, doing)
                if each.end_offset >= 0:
                    found[TopicPartition(topic.topic, each.partition)] = int(each.end_offset)
        self.epochs |= {place: led for place, (_, led) in asked.items()}
        return found

    def _by_leader(self, places: Iterable[Place], doing: str) -> dict[int, dict[Place, int]]:
        """Return the partitions that each node leads, with the epochs of their leaders, as two brokers know them."""
        wanted = list(places)
        found = self._client.metadata({topic for topic, _ in wanted}, is_sure=True)
        known = {each.name: each for each in found.topics}
        led: dict[int, dict[Place, int]] = {}
        for topic in known.values():
            self._requests.ensure(topic, doing)
        of_place = {(name, each.partition_index): each for name, of in known.items() for each in of.partitions}
        for place in wanted:
            if place not in of_place:
                raise translate(KafkaError(KafkaError._UNKNOWN_PARTITION), doing, self._requests.bootstrap)
            partition = of_place[place]
            if partition.leader_id < 0:
                raise AnswerError(KafkaError.LEADER_NOT_AVAILABLE, f"the leader of {place[0]}-{place[1]}")
            led.setdefault(partition.leader_id, {})[place] = partition.leader_epoch
        return led
