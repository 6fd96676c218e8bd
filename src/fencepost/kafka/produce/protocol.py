"""The transaction protocol of one producer: two protocol versions with the same order of steps.

With version 2 (KIP-890) the first batch of a partition adds it to the transaction, and every end gives the producer a
new epoch. With version 1, requests add partitions and groups. In both, when a leader sees a partition of a transaction
for the first time, it asks the coordinator; a broker with two such questions for one producer fails the older. So only
one is asked at a time: there is one connection to each broker, and a broker handles the requests of a connection one
after another.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from fencepost.kafka.codec.columns import Content, Encode, Taken
from fencepost.kafka.codec.encode_header import BatchProducer
from fencepost.kafka.produce import requests
from fencepost.kafka.produce.delivery_report import report_delivered
from fencepost.kafka.produce.requests import ProducerIdentity
from fencepost.kafka.setting.batch_settings import BatchSettings
from fencepost.kafka.value.group_metadata import Committer
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.wire.cluster import GROUP, TRANSACTION, Cluster, patiently
from fencepost.kafka.wire.connection import Connection
from fencepost.kafka.wire.errors import BUSY, AnswerError, TooLargeError, ensure
from fencepost.kafka.wire.frame import Data
from fencepost.record import TopicPartition

IN_FLIGHT = 5
_SEQUENCES = 1 << 31
_ANSWERING_S = 30.0
_ASK_AGAIN_S = 0.0005
_NEWEST_VERSION = 2
_FEATURE = "transaction.version"
_REQUEST_BYTES = 16 << 20
_MOVING_S = 10.0
_MOVED = frozenset({KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE})
_ELSEWHERE = _MOVED | frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
    }
)


class _Versions(NamedTuple):
    """The (oldest, newest) versions of requests that belong to one version of the transaction protocol."""

    produce: tuple[int, int]
    offsets: tuple[int, int]
    end: tuple[int, int]


# TxnOffsetCommit checks the member since version 3. Produce gives the reason of a refusal since version 8.
_VERSIONS = {1: _Versions((8, 11), (3, 4), (0, 4)), 2: _Versions((12, 12), (5, 5), (5, 5))}


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


class Protocol:
    """One incarnation of one transactional id. For one thread at a time.

    Every method raises AnswerError, LostError or UnsupportedError. An AnswerError means that the request was not
    carried out. Any error ends the incarnation, except those that `patiently` retries.
    """

    def __init__(self, cluster: Cluster, settings: BatchSettings, encode: Encode) -> None:
        """Create the protocol without sending anything."""
        from fencepost.kafka.kafka_library import ProduceRequest

        self._produce_request = ProduceRequest
        self.cluster = cluster
        self._settings = settings
        self._encode = encode
        self.version = 1
        self._coordinator = -1
        self._producer = ProducerIdentity(settings.transactional_id, -1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._joined: set[TopicPartition] = set()  # partitions that the coordinator knows
        self._produced: set[TopicPartition] = set()  # partitions whose leaders have asked the coordinator
        self._first: list[ProduceBatch] = []  # first batches of their partitions, not known to be written
        self._asked: tuple[Connection, Failures] | None = None  # where those were sent, and their refusals
        self._refused: Failures = {}  # refusals of batches that no call waited for
        self._groups: dict[str, int] = {}
        self._offsets_answer: Any = None  # the answer to the offsets that were sent ahead
        self._answered_s = float("-inf")  # when a batch was last answered
        self.is_begun = False
        """Whether the coordinator may know of the transaction, so that there is something to end."""

    @property
    def is_answering(self) -> bool:
        """Return whether brokers took records recently. If so, a time-out means that there was too much to send."""
        return time.monotonic() - self._answered_s < _ANSWERING_S

    def open(self, deadline_s: float) -> None:
        """Take over the transactional id, and choose the protocol version: the cluster's, if all brokers support it."""
        answer = patiently(lambda: self._init(deadline_s), BUSY | _MOVED, deadline_s, 20 * _ASK_AGAIN_S)
        self._become(answer)

    def _become(self, answer: Any) -> None:
        """Adopt the producer id and epoch of an answer."""
        self._producer = self._producer._replace(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)
        self._sequences.clear()

    def _init(self, deadline_s: float) -> Any:
        from fencepost.kafka.kafka_library import InitProducerIdRequest

        self._find_coordinator(deadline_s)
        connection = self.cluster.connection(self._coordinator, deadline_s)
        self.version = min(_NEWEST_VERSION, max(1, connection.features.get(_FEATURE, 0)))
        request = InitProducerIdRequest(
            **self._producer._replace(producer_id=-1, producer_epoch=-1)._asdict(),
            transaction_timeout_ms=self._settings.transaction_timeout_ms,
        )
        answer = self._ask_coordinator(request, (0, 4), deadline_s)
        ensure(answer.error_code, f"InitProducerId of {self._settings.transactional_id}")
        return answer

    def join(self, places: Sequence[TopicPartition], deadline_s: float) -> None:
        """Add partitions to the transaction, before anything is sent to them. Version 2 does not need this."""
        new = [place for place in places if place not in self._joined]
        if self.version > 1 or not new:
            return
        self._await_first(deadline_s)
        self._until_added(lambda: self._add_partitions(new, deadline_s), deadline_s)
        self.is_begun = True
        self._joined.update(new)

    def _until_added(self, ask: Callable[[], None], deadline_s: float) -> None:
        """Ask the coordinator to add something. If the coordinator has moved, ask the new one.

        E21: a coordinator that is deposed while it waits for its replicas may have added it. Adding twice is harmless.
        """

        def once() -> None:
            try:
                ask()
            except AnswerError as error:
                if error.code in _MOVED:
                    self._find_coordinator(deadline_s)
                raise

        _until_known(once, deadline_s)

    def _find_coordinator(self, deadline_s: float) -> None:
        self._coordinator = self.cluster.coordinator(TRANSACTION, self._settings.transactional_id, deadline_s)

    def _add_partitions(self, places: Sequence[TopicPartition], deadline_s: float) -> None:
        answer = self._ask_coordinator(requests.add_partitions(self._producer, places), (0, 3), deadline_s)
        codes = {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        # All are added or none. Partitions that are not at fault get the error "not attempted".
        failed = {place: code for place, code in codes.items() if code}
        for place, code in sorted(failed.items(), key=lambda each: each[1] == KafkaError.OPERATION_NOT_ATTEMPTED):
            raise AnswerError(code, f"record for topic {place.topic}")

    def encoded(self, place: TopicPartition, columns: Content) -> ProduceBatch:
        """Return a batch with the next sequence of its partition. It must be the next one sent, and sent once."""
        sequence = self._sequences.get(place, 0)
        data, count = self._data(columns, sequence)
        self._sequences[place] = (sequence + count) % _SEQUENCES
        return ProduceBatch(place, columns, data)

    def _data(self, columns: Content, sequence: int) -> tuple[Data, int]:
        """Return a batch's bytes, with its producer and first sequence, and its number of records."""
        _, producer_id, epoch = self._producer
        if isinstance(columns, Taken):
            stamp = BatchProducer(producer_id, epoch, is_transactional=True)
            return b"".join(columns.batch.stamped(stamp, sequence)), columns.rows
        return self._encode(
            columns,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
            compression=self._settings.compression,
        )

    def produce(self, batches: Sequence[ProduceBatch], deadline_s: float) -> None:
        """Send batches, one per partition, to the leaders of their partitions. `settle` takes the last answers.

        Also raises the refusal of an earlier batch, if it is known by now.
        """
        self._ensure_taken(batches, deadline_s)
        self._await_first(deadline_s)
        first = [batch for batch in batches if batch.place not in self._produced]
        self.is_begun = True
        for node, others in self._by_leader([batch for batch in batches if batch.place in self._produced], deadline_s):
            connection = self.cluster.connection(node, deadline_s)
            connection.take(deadline_s, leave=IN_FLIGHT - 1)
            self._raise_refused()
            self._send(connection, others, deadline_s, self._record_refused)
        if first:
            self._first = first
            _until_known(lambda: self._send_first(deadline_s), deadline_s)  # only the leaders are asked for again

    def _ensure_taken(self, batches: Sequence[ProduceBatch], deadline_s: float) -> None:
        """Refuse a batch that is larger than its topic's limit, before anything is sent."""
        for place, columns, data in batches:
            limit = self.cluster.taking(place.topic, deadline_s).most_bytes
            if limit is not None and len(data) > limit:
                self.cluster.forget(place.topic)  # the limit may have been raised
                limit = self.cluster.taking(place.topic, deadline_s).most_bytes
            if limit is not None and len(data) > limit:
                raise _too_large(place.topic, columns, f"{len(data)} bytes, and the topic takes {limit}")

    def _send_first(self, deadline_s: float) -> None:
        """Send the first batches of partitions, to one leader after another, because each asks the coordinator.

        `_await_first` awaits the last answer, so that the next batch can be encoded in the meantime.
        """
        failures: Failures = {}
        self._asked = None
        for node, of_node in self._by_leader(self._first, deadline_s):
            if self._asked is not None:
                self._asked[0].take(deadline_s)
            self._asked = self.cluster.connection(node, deadline_s), failures
            self._send(self._asked[0], of_node, deadline_s, failures.update)

    def _await_first(self, deadline_s: float) -> None:
        """Take the answer to the first batches of partitions, before anything is sent after them.

        A batch is sent again if its leader refused it because the coordinator is busy, or because the broker does not
        lead the partition (it is just becoming the leader, or another broker is).
        """
        if not self._first:
            return
        places = [batch.place for batch in self._first]
        _until_known(lambda: self._take_first(deadline_s), deadline_s)
        self._produced.update(places)

    def _take_first(self, deadline_s: float) -> None:
        if self._asked is None:
            self._send_first(deadline_s)
        assert self._asked is not None
        (connection, failures), self._asked = self._asked, None
        connection.take(deadline_s)
        self._first = [batch for batch in self._first if batch.place in failures]
        for place, error in failures.items():
            if error.code in _ELSEWHERE:
                self.cluster.forget(place.topic)
        _raise_first({place: error for place, error in failures.items() if error.code not in BUSY | _ELSEWHERE})
        _raise_first(failures)

    def _by_leader(self, batches: Sequence[ProduceBatch], deadline_s: float) -> list[tuple[int, list[ProduceBatch]]]:
        """Divide batches by the leaders of their partitions, and into requests that are not too large for brokers."""
        found: dict[int, list[list[ProduceBatch]]] = {}
        for batch in batches:
            node = self._leader(batch.place, deadline_s)
            requests_of_node = found.setdefault(node, [[]])
            if sum(len(each.data) for each in requests_of_node[-1]) + len(batch.data) > _REQUEST_BYTES:
                requests_of_node.append([])
            requests_of_node[-1].append(batch)
        return [(node, each) for node, of_node in found.items() for each in of_node if each]

    def _leader(self, place: TopicPartition, deadline_s: float) -> int:
        """Return the node that leads a partition. If there is no leader, metadata is fetched again the next time."""
        leaders = self.cluster.leaders(place.topic, deadline_s)
        is_there = place.partition < len(leaders)  # a topic that was created again may have fewer
        if is_there and leaders[place.partition] >= 0:
            return leaders[place.partition]
        self.cluster.forget(place.topic)
        code = KafkaError.LEADER_NOT_AVAILABLE if is_there else KafkaError.UNKNOWN_TOPIC_OR_PART
        raise AnswerError(code, f"record for topic {place.topic}")

    def _send(
        self, connection: Connection, batches: Sequence[ProduceBatch], deadline_s: float, on_failures: OnFailures
    ) -> None:
        by_place = {batch.place: batch for batch in batches}
        if len(by_place) < len(batches):
            raise ValueError("a request may hold one batch per partition: a broker would silently drop the others")
        version = connection.version(self._produce_request, *_VERSIONS[self.version].produce)
        settings = self._settings
        form = requests.produce_form(
            settings.transactional_id, frozenset(by_place), settings.acknowledged_within_ms, version
        )
        body = form.filled({place: batch.data for place, batch in by_place.items()})
        sent = {place: _Sent(batch.columns, len(batch.data)) for place, batch in by_place.items()}
        connection.send(
            self._produce_request, version, lambda answer: on_failures(self._taken(answer, sent)), deadline_s, body
        )

    def _taken(self, answer: Any, sent: Mapping[TopicPartition, _Sent]) -> Failures:
        self._answered_s = time.monotonic()
        return _taken(answer, sent)

    def _ask_coordinator(self, request: Any, versions: tuple[int, int], deadline_s: float) -> Any:
        return self._ask(self._coordinator, request, versions, deadline_s)

    def _ask(self, node: int, request: Any, versions: tuple[int, int], deadline_s: float) -> Any:
        connection = self.cluster.connection(node, deadline_s)
        return connection.ask(request, connection.version(request, *versions), deadline_s)

    def settle(self, deadline_s: float) -> None:
        """Wait for the answers to everything that was sent."""
        self._await_first(deadline_s)
        for connection in self.cluster.connections():
            connection.take(deadline_s)
        self._raise_refused()

    def drain(self, deadline_s: float) -> bool:
        """Wait for every answer. A refused batch is not in the transaction and is not sent again.

        Returns whether any batch was refused. Batches sent after a refused one are out of sequence.
        """
        asked, self._asked, self._first = self._asked, None, []
        for connection in self.cluster.connections():
            connection.take(deadline_s)
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

    def begin_offsets(
        self,
        offsets: Sequence[GroupOffset],
        member: Committer,
        places: Sequence[TopicPartition],
        deadline_s: float,
    ) -> None:
        """Send the request of `offsets` before the records of these partitions, if that delays neither.

        This takes version 2 and a known group coordinator, so that no other broker must be asked. That broker must
        also lead all the partitions: if two brokers asked the transaction coordinator at once, one would have to retry.
        """
        self._await_first(deadline_s)
        node = self._groups.get(member.group_id, -1)
        if self.version == 1 or node < 0 or not self._leads(node, places, deadline_s):
            return
        self.is_begun = True
        request = requests.group_offsets(self._producer, member, offsets)
        connection = self.cluster.connection(node, deadline_s)
        version = connection.version(request, *_VERSIONS[self.version].offsets)
        connection.send(request, version, self._keep_offsets_answer, deadline_s)

    def _leads(self, node: int, places: Sequence[TopicPartition], deadline_s: float) -> bool:
        try:
            return all(self._leader(place, deadline_s) == node for place in places)
        except AnswerError:  # the call that sends to them handles it
            return False

    def _keep_offsets_answer(self, answer: Any) -> None:
        self._offsets_answer = answer

    def offsets(self, offsets: Sequence[GroupOffset], member: Committer, deadline_s: float) -> None:
        """Add offsets of a group to the transaction, or check the answer for those that were sent ahead.

        No request may be in flight.
        """
        if self.version == 1:
            self._until_added(lambda: self._add_group(member.group_id, deadline_s), deadline_s)
        self.is_begun = True
        _until_known(lambda: self._commit_offsets(offsets, member, deadline_s), deadline_s)

    def _add_group(self, group_id: str, deadline_s: float) -> None:
        from fencepost.kafka.kafka_library import AddOffsetsToTxnRequest

        request = AddOffsetsToTxnRequest(**self._producer._asdict(), group_id=group_id)
        answer = self._ask_coordinator(request, (0, 3), deadline_s)
        ensure(answer.error_code, f"offsets of group {group_id}")

    def _commit_offsets(self, offsets: Sequence[GroupOffset], member: Committer, deadline_s: float) -> None:
        group = member.group_id
        if group not in self._groups:
            self._groups[group] = self.cluster.coordinator(GROUP, group, deadline_s)
        answer, self._offsets_answer = self._offsets_answer, None
        if answer is None:
            request = requests.group_offsets(self._producer, member, offsets)
            answer = self._ask(self._groups[group], request, _VERSIONS[self.version].offsets, deadline_s)
        for name, each in ((topic.name, each) for topic in answer.topics for each in topic.partitions):
            if each.error_code in _MOVED:
                del self._groups[group]
            ensure(each.error_code, f"offsets of group {group} for {name}-{each.partition_index}")

    def end(self, *, is_commit: bool, deadline_s: float) -> None:
        """End the transaction. No request may be in flight. If nothing was begun, nothing is sent.

        If a commit raises LostError or any AnswerError, its outcome is unknown (E6).
        """
        if self.is_begun:
            answer = patiently(lambda: self._end(is_commit, deadline_s), BUSY, deadline_s, _ASK_AGAIN_S)
            if self.version > 1:
                self._become(answer)
        self._joined.clear()
        self._produced.clear()
        self._offsets_answer = None
        self.is_begun = False

    def _end(self, is_commit: bool, deadline_s: float) -> Any:
        from fencepost.kafka.kafka_library import EndTxnRequest

        request = EndTxnRequest(**self._producer._asdict(), committed=is_commit)
        answer = self._ask_coordinator(request, _VERSIONS[self.version].end, deadline_s)
        ensure(answer.error_code, f"the end of a transaction of {self._settings.transactional_id}")
        return answer


def _until_known(ask: Callable[[], None], deadline_s: float) -> None:
    """Retry while the coordinator is busy and, for a while, until brokers agree on the leader of a partition.

    Not all brokers learn of a new topic or a new leader at the same time.
    """
    soon_s = min(deadline_s, time.monotonic() + _MOVING_S)
    # E21: brokers send each of these answers before they carry out any of the request, except a leader that is deposed
    # while it waits for replicas. The next leader then recognizes the batch by its sequence and does not append it.
    patiently(lambda: patiently(ask, BUSY, deadline_s, _ASK_AGAIN_S), _ELSEWHERE, soon_s, 20 * _ASK_AGAIN_S)


def _taken(answer: Any, sent: Mapping[TopicPartition, _Sent]) -> Failures:
    """Report the delivery of each batch that was written. Returns the errors of the others, by partition."""
    failures: Failures = {}
    for topic in answer.responses:
        for each in topic.partition_responses:
            place = TopicPartition(topic.name, each.index)
            if each.error_code == KafkaError.MSG_SIZE_TOO_LARGE:
                failures[place] = _too_large(topic.name, sent[place].columns, f"{sent[place].size_bytes} bytes")
            elif each.error_code:
                failures[place] = AnswerError(each.error_code, f"record for topic {topic.name}", each.error_message)
            else:
                report_delivered(place, sent[place].columns, each.base_offset, each.log_append_time_ms)
    return failures


def _too_large(topic: str, columns: Content, size: str) -> AnswerError:
    """Return the refusal of a batch that is too large. For a batch of one record it is final."""
    is_one = columns.rows == 1
    what = f"{'a batch of one record' if is_one else 'a batch of records'} for topic {topic}"
    detail = f"it has {size}: raise the topic's max.message.bytes" + (", or send less" if is_one else "")
    return (TooLargeError if is_one else AnswerError)(KafkaError.MSG_SIZE_TOO_LARGE, what, detail)


def _raise_first(failures: Failures) -> None:
    for error in failures.values():
        raise error
