"""The transaction protocol of one producer: two protocol versions with the same order of steps.

With version 2 (KIP-890) the first batch of a partition adds it to the transaction, and every end gives the producer a
new epoch. With version 1, requests add partitions and groups. In both, when a leader sees a partition of a transaction
for the first time, it asks the coordinator; a broker with two such questions for one producer fails the older. So only
one is asked at a time: there is one connection to each broker, and a broker handles the requests of a connection one
after another.

`BatchSending` sends batches to the leaders of their partitions, and takes their answers.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError

from fencepost.kafka.codec.columns import Content, Taken, encode_columns
from fencepost.kafka.codec.encode_header import SEQUENCES, BatchProducer
from fencepost.kafka.errors import BUSY, MOVED, AnswerError, TooLargeError, ensure
from fencepost.kafka.produce import coordinator
from fencepost.kafka.produce.coordinator import (
    ELSEWHERE,
    OpenTransaction,
    TransactionCoordinator,
    produce_form,
    until_known,
)
from fencepost.kafka.setting.batch_settings import BatchSettings
from fencepost.kafka.value.position import Committer, GroupOffset
from fencepost.kafka.wire.cluster import Cluster, ask_node, take
from fencepost.kafka.wire.connection import Connection
from fencepost.kafka.wire.coordinators import GROUP
from fencepost.kafka.wire.frame import Data
from fencepost.record import TopicPartition

IN_FLIGHT = 5
_ANSWERING_S = 30.0
_REQUEST_BYTES = 16 << 20

Failures = dict[TopicPartition, AnswerError]
OnFailures = Callable[[Failures], None]


class ProduceBatch(NamedTuple):
    """A batch to send. `data` contains the producer's id, epoch and sequence."""

    place: TopicPartition
    columns: Content
    data: Data


class _Sent(NamedTuple):
    """What is kept of a batch until its answer comes. Its bytes are not kept, because they are never sent again."""

    columns: Content
    size_bytes: int


class BatchSending:
    """The batches of one producer that are being sent, each once. For one thread at a time."""

    def __init__(self, cluster: Cluster, coordinator: TransactionCoordinator, transaction: OpenTransaction) -> None:
        self._cluster, self._coordinator, self._transaction = cluster, coordinator, transaction
        self._first: list[ProduceBatch] = []  # first batches of their partitions, not known to be written
        self._asked: tuple[Connection, Failures] | None = None  # where those were sent, and their refusals
        self._refused: Failures = {}  # refusals of batches that no call waited for
        self._answered_s = float("-inf")  # when a batch was last answered

    @property
    def is_answering(self) -> bool:
        """Return whether brokers took records recently. If so, a time-out means that there was too much to send."""
        return time.monotonic() - self._answered_s < _ANSWERING_S

    def encoded(self, place: TopicPartition, columns: Content) -> ProduceBatch:
        """Return a batch with the next sequence of its partition. It must be the next one sent, and sent once."""
        sequence = self._coordinator.sequences.get(place, 0)
        data, count = self._data(columns, sequence)
        self._coordinator.sequences[place] = (sequence + count) % SEQUENCES
        return ProduceBatch(place, columns, data)

    def _data(self, columns: Content, sequence: int) -> tuple[Data, int]:
        _, producer_id, epoch = self._coordinator.producer
        if isinstance(columns, Taken):
            stamp = BatchProducer(producer_id, epoch, is_transactional=True)
            return b"".join(columns.batch.stamped(stamp, sequence)), columns.rows
        return encode_columns(
            columns,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
            compression=self._coordinator.settings.compression,
        )

    def produce(self, batches: Sequence[ProduceBatch], deadline_s: float) -> None:
        """Send batches, one per partition, to the leaders of their partitions. `settle` takes the last answers.

        Also raises the refusal of an earlier batch, if it is known by now.
        """
        self._ensure_taken(batches, deadline_s)
        self.await_first(deadline_s)
        first = [batch for batch in batches if batch.place not in self._transaction.produced]
        self._transaction.is_begun = True
        others = [batch for batch in batches if batch.place in self._transaction.produced]
        for node, of_node in self._by_leader(others, deadline_s):
            connection = self._cluster.connection(node, deadline_s)
            self._take(connection, deadline_s, leave=IN_FLIGHT - 1)
            self._raise_refused()
            self._send(connection, of_node, deadline_s, self._record_refused)
        if first:
            self._first = first
            until_known(lambda: self._send_first(deadline_s), deadline_s)  # only the leaders are asked for again

    def _ensure_taken(self, batches: Sequence[ProduceBatch], deadline_s: float) -> None:
        """Refuse a batch that is larger than its topic's limit, before anything is sent."""
        for place, columns, data in batches:
            limit = self._cluster.taking(place.topic, deadline_s).most_bytes
            if limit is not None and len(data) > limit:
                self._cluster.forget(place.topic)  # the limit may have been raised
                limit = self._cluster.taking(place.topic, deadline_s).most_bytes
            if limit is not None and len(data) > limit:
                raise _too_large(place.topic, columns, f"{len(data)} bytes, and the topic takes {limit}")

    def _send_first(self, deadline_s: float) -> None:
        """Send the first batches of partitions, to one leader after another, because each asks the coordinator.

        `await_first` awaits the last answer, so that the next batch can be encoded in the meantime.
        """
        failures: Failures = {}
        self._asked = None
        for node, of_node in self._by_leader(self._first, deadline_s):
            if self._asked is not None:
                self._take(self._asked[0], deadline_s)
            self._asked = self._cluster.connection(node, deadline_s), failures
            self._send(self._asked[0], of_node, deadline_s, failures.update)

    def await_first(self, deadline_s: float) -> None:
        """Take the answer to the first batches of partitions, before anything is sent after them.

        A batch is sent again if its leader refused it because the coordinator is busy, or because the broker does not
        lead the partition (it is just becoming the leader, or another broker is).
        """
        if not self._first:
            return
        places = [batch.place for batch in self._first]
        until_known(lambda: self._take_first(deadline_s), deadline_s)
        self._transaction.produced.update(places)

    def _take_first(self, deadline_s: float) -> None:
        if self._asked is None:
            self._send_first(deadline_s)
        assert self._asked is not None
        (connection, failures), self._asked = self._asked, None
        self._take(connection, deadline_s)
        self._first = [batch for batch in self._first if batch.place in failures]
        for place, error in failures.items():
            if error.code in ELSEWHERE:
                self._cluster.forget(place.topic)
        _raise_first({place: error for place, error in failures.items() if error.code not in BUSY | ELSEWHERE})
        _raise_first(failures)

    def _by_leader(self, batches: Sequence[ProduceBatch], deadline_s: float) -> list[tuple[int, list[ProduceBatch]]]:
        """Divide batches by the leaders of their partitions, and into requests that are not too large for brokers."""
        found: dict[int, list[list[ProduceBatch]]] = {}
        for batch in batches:
            node = self.leader(batch.place, deadline_s)
            requests_of_node = found.setdefault(node, [[]])
            if sum(len(each.data) for each in requests_of_node[-1]) + len(batch.data) > _REQUEST_BYTES:
                requests_of_node.append([])
            requests_of_node[-1].append(batch)
        return [(node, each) for node, of_node in found.items() for each in of_node if each]

    def leader(self, place: TopicPartition, deadline_s: float) -> int:
        """Return the node that leads a partition. If there is no leader, metadata is fetched again the next time."""
        leaders = self._cluster.leaders(place.topic, deadline_s)
        is_there = place.partition < len(leaders)  # a topic that was created again may have fewer
        if is_there and leaders[place.partition] >= 0:
            return leaders[place.partition]
        self._cluster.forget(place.topic)
        code = KafkaError.LEADER_NOT_AVAILABLE if is_there else KafkaError.UNKNOWN_TOPIC_OR_PART
        raise AnswerError(code, f"record for topic {place.topic}")

    def _send(
        self, connection: Connection, batches: Sequence[ProduceBatch], deadline_s: float, on_failures: OnFailures
    ) -> None:
        from fencepost.kafka.kafka_library import ProduceRequest

        by_place = {batch.place: batch for batch in batches}
        if len(by_place) < len(batches):
            raise ValueError("a request may hold one batch per partition: a broker would silently drop the others")
        version = connection.version(ProduceRequest, *self._coordinator.versions.produce)
        settings = self._coordinator.settings
        form = produce_form(settings.transactional_id, frozenset(by_place), settings.acknowledged_within_ms, version)
        body = form.filled({place: batch.data for place, batch in by_place.items()})
        sent = {place: _Sent(batch.columns, len(batch.data)) for place, batch in by_place.items()}
        connection.send(
            ProduceRequest, version, lambda answer: on_failures(self._taken(answer, sent)), deadline_s, body
        )
        self._transaction.sent.update(dict.fromkeys(by_place, connection))

    def _take(self, connection: Connection, deadline_s: float, leave: int = 0) -> None:
        """Take answers until only `leave` are due. A leader that was replaced meanwhile is not waited for."""
        sent = self._transaction.sent
        take(self._cluster, connection, deadline_s, leave, lambda: [at for at, by in sent.items() if by is connection])

    def _taken(self, answer: Any, sent: Mapping[TopicPartition, _Sent]) -> Failures:
        self._answered_s = time.monotonic()
        failures: Failures = {}
        for topic in answer.responses:
            for each in topic.partition_responses:
                place = TopicPartition(topic.name, each.index)
                if each.error_code == KafkaError.MSG_SIZE_TOO_LARGE:
                    failures[place] = _too_large(topic.name, sent[place].columns, f"{sent[place].size_bytes} bytes")
                elif each.error_code:
                    failures[place] = AnswerError(each.error_code, f"record for topic {topic.name}", each.error_message)
                else:
                    self._coordinator.offsets[place] = each.base_offset + sent[place].columns.rows - 1
                    report_delivered(place, sent[place].columns, each.base_offset, each.log_append_time_ms)
        return failures

    def settle(self, deadline_s: float) -> None:
        """Wait for the answers to everything that was sent."""
        self.await_first(deadline_s)
        for connection in self._cluster.connections():
            self._take(connection, deadline_s)
        self._raise_refused()

    def drain(self, deadline_s: float) -> bool:
        """Wait for every answer. A refused batch is not in the transaction and is not sent again.

        Returns whether any batch was refused. Batches sent after a refused one are out of sequence.
        """
        asked, self._asked, self._first = self._asked, None, []
        for connection in self._cluster.connections():
            self._take(connection, deadline_s)
        is_refused = bool(self._refused) or (asked is not None and bool(asked[1]))
        self._refused.clear()
        return is_refused

    def _record_refused(self, failures: Failures) -> None:
        """Keep refusals for the next call that sends or settles to raise.

        They are not raised here: a caller that is waiting for another request could take one for its answer and retry
        (E1). Only the first refusal of a partition counts, because it causes the following ones.
        """
        for place, error in failures.items():
            self._refused.setdefault(place, error)

    def _raise_refused(self) -> None:
        refused, self._refused = self._refused, {}
        _raise_first(refused)


def _too_large(topic: str, columns: Content, size: str) -> AnswerError:
    """Return the refusal of a batch that is too large. For a batch of one record it is final."""
    is_one = columns.rows == 1
    what = f"{'a batch of one record' if is_one else 'a batch of records'} for topic {topic}"
    detail = f"it has {size}: raise the topic's max.message.bytes" + (", or send less" if is_one else "")
    return (TooLargeError if is_one else AnswerError)(KafkaError.MSG_SIZE_TOO_LARGE, what, detail)


def _raise_first(failures: Failures) -> None:
    for error in failures.values():
        raise error


class DeliveredMessage(NamedTuple):
    """A written record, with those methods of confluent-kafka's `Message` that return its position."""

    place: TopicPartition
    at: int
    append_time_ms: int
    create_time_ms: int

    def topic(self) -> str:
        return self.place.topic

    def partition(self) -> int:
        return self.place.partition

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of the timestamp, and milliseconds since 1970."""
        if self.append_time_ms >= 0:
            return TIMESTAMP_LOG_APPEND_TIME, self.append_time_ms
        return TIMESTAMP_CREATE_TIME, self.create_time_ms


def report_delivered(place: TopicPartition, columns: Content, base_offset: int, append_time_ms: int) -> None:
    """Call the callbacks of a batch that is in the log. Exceptions of a callback propagate to the caller."""
    for index, call in columns.callbacks.items():
        delivered: Any = DeliveredMessage(place, base_offset + index, append_time_ms, columns.timestamp(index))
        call(None, delivered)


class Protocol:
    """One incarnation of one transactional id. For one thread at a time.

    Every method, and every method of `batches`, raises AnswerError, LostError or UnsupportedError. An AnswerError means
    that the request was not carried out. Any error ends the incarnation, except those that `retry_on` retries.
    """

    def __init__(self, cluster: Cluster, settings: BatchSettings) -> None:
        """Create the protocol without sending anything."""
        self.cluster = cluster
        self.coordinator = TransactionCoordinator(cluster, settings)
        self.transaction = OpenTransaction()
        self.batches = BatchSending(cluster, self.coordinator, self.transaction)
        self._groups: dict[str, int] = {}
        self._offsets_answer: Any = None  # the answer to the offsets that were sent ahead

    def join(self, places: Sequence[TopicPartition], deadline_s: float) -> None:
        """Add partitions to the transaction, before anything is sent to them. Version 2 does not need this."""
        new = [place for place in places if place not in self.transaction.joined]
        if self.coordinator.version > 1 or not new:
            return
        self.batches.await_first(deadline_s)
        self.coordinator.add_partitions(new, deadline_s)
        self.transaction.is_begun = True
        self.transaction.joined.update(new)

    def begin_offsets(
        self, offsets: Sequence[GroupOffset], member: Committer, places: Sequence[TopicPartition], deadline_s: float
    ) -> None:
        """Send the request of `offsets` before the records of these partitions, if that delays neither.

        This takes version 2 and a known group coordinator, so that no other broker must be asked. That broker must
        also lead all the partitions: if two brokers asked the transaction coordinator at once, one would have to retry.
        """
        self.batches.await_first(deadline_s)
        node = self._groups.get(member.group_id, -1)
        if self.coordinator.version == 1 or node < 0 or not self._leads(node, places, deadline_s):
            return
        self.transaction.is_begun = True
        request = coordinator.group_offsets(self.coordinator.producer, member, offsets)
        connection = self.cluster.connection(node, deadline_s)
        version = connection.version(request, *self.coordinator.versions.offsets)
        connection.send(request, version, self._keep_offsets_answer, deadline_s)

    def _leads(self, node: int, places: Sequence[TopicPartition], deadline_s: float) -> bool:
        try:
            return all(self.batches.leader(place, deadline_s) == node for place in places)
        except AnswerError:  # the call that sends to them handles it
            return False

    def _keep_offsets_answer(self, answer: Any) -> None:
        self._offsets_answer = answer

    def offsets(self, offsets: Sequence[GroupOffset], member: Committer, deadline_s: float) -> None:
        """Add offsets of a group to the transaction, or check the answer for those that were sent ahead.

        No request may be in flight.
        """
        if self.coordinator.version == 1:
            self.coordinator.add_group(member.group_id, deadline_s)
        self.transaction.is_begun = True
        until_known(lambda: self._commit_offsets(offsets, member, deadline_s), deadline_s)

    def _commit_offsets(self, offsets: Sequence[GroupOffset], member: Committer, deadline_s: float) -> None:
        group = member.group_id
        if group not in self._groups:
            self._groups[group] = self.cluster.coordinators.find(GROUP, group, deadline_s)
        answer, self._offsets_answer = self._offsets_answer, None
        if answer is None:
            request = coordinator.group_offsets(self.coordinator.producer, member, offsets)
            answer = ask_node(self.cluster, self._groups[group], request, self.coordinator.versions.offsets, deadline_s)
        for name, each in ((topic.name, each) for topic in answer.topics for each in topic.partitions):
            if each.error_code in MOVED:
                del self._groups[group]
            ensure(each.error_code, f"offsets of group {group} for {name}-{each.partition_index}")

    def end(self, *, is_commit: bool, deadline_s: float) -> None:
        """End the transaction. No request may be in flight. If nothing was begun, nothing is sent.

        If a commit raises LostError or any AnswerError, its outcome is unknown (E6).
        """
        if self.transaction.is_begun:
            self.coordinator.end(is_commit=is_commit, deadline_s=deadline_s)
        self.transaction.clear()
        self._offsets_answer = None
