"""Finds the producers, of any program, that commit offsets of a group in transactions (KIP-447, E20).

The map from an input partition to its producer is read from the raw log of the group's offsets, in which each batch
names the producer that wrote it. Kafka has no other way to find which open transaction has offsets of which partition.

The offsets of a group are in one partition of `__consumer_offsets`, chosen by the group's name. Offsets of a
transaction are written there when they are sent, long before the transaction ends. An abort leaves them there, and
compaction keeps the last one of each partition.
"""

import re
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from confluent_kafka import KafkaError

from fencepost.kafka.errors import AGAIN_S, ASK_S, AnswerError, KafkaAuthorizationError, LostError, ensure, retry
from fencepost.kafka.group.group_offsets import Committed, contribution_of
from fencepost.kafka.group.transactions import Transaction, TransactionAdmin
from fencepost.kafka.wire.requests import RequestClient
from fencepost.record import TopicPartition

if TYPE_CHECKING:
    from fencepost.kafka.codec.committed import FetchedBatch


TOPIC = "__consumer_offsets"

_AT_ONCE = 4 * 1024 * 1024
_LATEST, _EARLIEST = -1, -2
_BY_NAME = 12  # of Fetch: newer versions name topics by their ids
_TRANSACTIONAL = 0x10
_OFFSET_KEYS = (0, 1)
_FIRST_FLEXIBLE, _FIRST_WITH_EPOCH = 4, 3
_NUL = "\0"  # librdkafka ends the metadata of offsets with one


class LoggedOffset(NamedTuple):
    """An offset that a producer has added to a transaction; `at` is its position in the log."""

    at: int
    producer_id: int
    producer_epoch: int
    place: TopicPartition
    committed: Committed


class OffsetsPartition(NamedTuple):
    """The partition of the log that holds a group's offsets, the broker that leads it, and the leader's epoch."""

    partition: int
    leader: int
    epoch: int = -1


def partition_of(group: str, count: int) -> int:
    """Return which of `count` partitions holds a group's offsets, from Java's hash of its name."""
    found = 0
    for (unit,) in struct.iter_unpack(">H", group.encode("utf-16-be")):
        found = (31 * found + unit) & 0xFFFFFFFF
    return (found if found < 1 << 31 else (1 << 32) - found) % (1 << 31) % count


def find(client: RequestClient, group: str) -> OffsetsPartition | None:
    """Find the partition of a group's offsets, as two brokers know it; None if no group has any yet.

    Raises KafkaAuthorizationError.
    """
    (topic,) = client.metadata([TOPIC], is_sure=True).topics
    if topic.error_code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        raise denied()
    if topic.error_code == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return None
    ensure(topic.error_code, f"metadata of topic {TOPIC}")
    partition = partition_of(group, len(topic.partitions))
    (found,) = (each for each in topic.partitions if each.partition_index == partition)
    if found.leader_id < 0:
        raise AnswerError(KafkaError.LEADER_NOT_AVAILABLE, f"the leader of {TOPIC}-{partition}")
    return OffsetsPartition(partition, found.leader_id, found.leader_epoch)


def read(
    client: RequestClient, where: OffsetsPartition, group: str, start: int, passed: set[int] | None = None
) -> tuple[list[LoggedOffset], int]:
    """Return a group's transactional offsets from `start` to the present end of the log, and that end.

    With `passed`, producers whose offsets' metadata names them (stream tasks, which may fill most of a long log) are
    skipped: each is read until it is recognized, and is then added to `passed`.

    The end is requested from the leader, which may refuse. The high watermark in a fetch response lags after a
    failover; a reader that stopped there would miss the last producers.
    """
    from fencepost.kafka.codec.committed import Answered, Position, committed_batches  # with Arrow

    found: list[LoggedOffset] = []
    end = _edge(client, where, _LATEST)
    while start < end:
        answer = _fetched(client, where, start)
        if answer is None:
            begin = _edge(client, where, _EARLIEST)
            if begin <= start:
                raise AnswerError(KafkaError.NOT_LEADER_FOR_PARTITION, f"{_name(where)} has nothing at offset {start}")
            start = begin
            continue
        before = start
        sent, position = committed_batches(Answered(memoryview(answer.records or b"")), Position(start))
        start = position.offset
        for batch in sent:
            if passed is None or batch.head.producer not in passed:
                offsets = list(_offsets(batch, group))
                found += offsets
                if passed is not None and any(contribution_of(each.committed.metadata) for each in offsets):
                    passed.add(batch.head.producer)
        if start == before:
            if answer.high_watermark >= end:
                break  # compaction has removed the rest
            time.sleep(AGAIN_S)
    return found, start


def denied() -> KafkaAuthorizationError:
    return KafkaAuthorizationError(
        f"Not authorized to read the topic {TOPIC}, which shows whose transactions have offsets of a group. Grant Read "
        "on it (`fencepost acls` lists what is needed)."
    )


def _name(where: OffsetsPartition) -> str:
    return f"{TOPIC}-{where.partition}"


def _fetched(client: RequestClient, where: OffsetsPartition, start: int) -> Any:
    """Fetch records from `start`; None if the log starts later.

    A fetch above a quota gets an immediate, empty response. The client waits before it sends another request.
    """
    from fencepost.kafka.kafka_library import FetchRequest as Request

    of_topic = Request.FetchTopic
    asked = of_topic.FetchPartition(
        partition=where.partition,
        current_leader_epoch=where.epoch,
        fetch_offset=start,
        partition_max_bytes=_AT_ONCE,
    )
    request = Request(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_AT_ONCE,
        isolation_level=0,
        topics=[of_topic(topic=TOPIC, partitions=[asked])],
    )
    while not (found := client.ask(request, where.leader, oldest=4, newest=_BY_NAME).responses):
        pass
    answer = found[0].partitions[0]
    if answer.error_code == KafkaError.OFFSET_OUT_OF_RANGE:
        return None
    if answer.error_code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        raise denied()
    if answer.error_code == KafkaError.UNKNOWN:
        raise LostError(f"the broker failed to read {_name(where)}", is_sent=False)
    ensure(answer.error_code, f"reading {_name(where)}")
    return answer


def _edge(client: RequestClient, where: OffsetsPartition, edge: int) -> int:
    """Return the start of the log, or its end including pending records.

    A leader whose high watermark has not caught up yet refuses this with a retriable error, as does a broker that is
    not the leader of that epoch.
    """
    from fencepost.kafka.kafka_library import ListOffsetsRequest as Request

    of_topic = Request.ListOffsetsTopic
    asked = of_topic.ListOffsetsPartition(
        partition_index=where.partition, timestamp=edge, current_leader_epoch=where.epoch
    )
    request = Request(replica_id=-1, isolation_level=0, topics=[of_topic(name=TOPIC, partitions=[asked])])
    found = client.ask(request, where.leader).topics[0].partitions[0]
    ensure(found.error_code, f"the offsets of {_name(where)}")
    return int(found.offset)


def _offsets(batch: "FetchedBatch", group: str) -> Iterator[LoggedOffset]:
    """Yield a group's offsets in a batch.

    Most batches are of other groups, so an uncompressed one is first searched for the group's name.
    """
    from fencepost.kafka.codec.decode import decoded
    from fencepost.kafka.codec.encode_header import HEADER

    if not batch.head.attributes & _TRANSACTIONAL:
        return
    name = group.encode()
    if not batch.head.codec and name not in bytes(batch.view):
        return
    epoch = HEADER.unpack_from(batch.view)[10]
    for record in decoded(batch.view):
        place = None if record.key is None else decode_place(record.key, name)
        if place is not None and record.value is not None:
            yield LoggedOffset(record.offset, batch.head.producer, epoch, place, decode_committed(record.value))


def decode_place(key: bytes, group: bytes) -> TopicPartition | None:
    """Return the partition in an offset's key; None if the key is another group's or is not an offset's."""
    (version,) = struct.unpack_from(">h", key)
    if version not in _OFFSET_KEYS:
        return None
    found, at = _text(key, 2)
    if found != group:
        return None
    topic, at = _text(key, at)
    return TopicPartition(topic.decode(), struct.unpack_from(">i", key, at)[0])


def decode_committed(value: bytes) -> Committed:
    version, offset = struct.unpack_from(">hq", value)
    at = 10 if version < _FIRST_WITH_EPOCH else 14
    metadata, _ = _compact(value, at) if version >= _FIRST_FLEXIBLE else _text(value, at)
    return Committed(offset, metadata.decode().rstrip(_NUL))


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">h", data, at)
    end = at + 2 + max(size, 0)
    return data[at + 2 : end], end


def _compact(data: bytes, at: int) -> tuple[bytes, int]:
    size = shift = 0
    while True:
        byte, at = data[at], at + 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            end = at + max(size - 1, 0)
            return data[at:end], end


T = TypeVar("T")
Places = Collection[TopicPartition]

_ONGOING = "Ongoing"
_NUMBERED = re.compile(r"(.*[^0-9])([0-9]+)")


@dataclass(frozen=True, slots=True)
class Contributor:
    """A producer that has added offsets of a group to a transaction.

    Attributes:
        producer_id: with `producer_epoch` the incarnation, as the log or the coordinator reports it.
        offsets: the last offset that it added for each partition, in the open transaction or in any; -1 for none yet.
        transactional_id: None if no coordinator knows the producer any more, or if the principal may not Describe its
            transactional id.
        is_pending: whether its transaction is open and has offsets of the group.
        timeout_ms: the time after which the coordinator aborts its transaction; None if not known.
        is_ours: whether its metadata is a stream task's. Such a producer commits as a member of the group, and the
            coordinator refuses stale members.
        is_decided: whether the coordinator has already decided how its transaction ends.
        is_guessed: whether only its name, which is of a known family, suggests that it belongs to the group.
    """

    producer_id: int
    producer_epoch: int
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    transactional_id: str | None = None
    is_pending: bool = False
    timeout_ms: int | None = None
    is_ours: bool = False
    is_decided: bool = False
    is_guessed: bool = False

    @property
    def family(self) -> str | None:
        """Return the `<prefix>-` of an id `<prefix>-<partition>` if the producer serves only that partition; else None.

        Such a producer may commit without being a member, so the group's coordinator does not fence it. Only the next
        producer with the same id does.
        """
        named = _NUMBERED.fullmatch(self.transactional_id or "")
        if named is None or self.is_ours or {place.partition for place in self.offsets} != {int(named[2])}:
            return None
        return named[1]


class Contributors:
    """Asks one cluster, as the principal of `conf` (librdkafka's names). Connects at the first call; for one thread.

    It needs Read on the topic `__consumer_offsets` and Describe on transactional ids. Every method raises
    KafkaUnavailableError, KafkaAuthorizationError (which names the missing permission) or KafkaRequestError.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float = ASK_S, foreign: Collection[str] = ()) -> None:
        """`foreign`: prefixes of transactional ids that must not be attributed to a group by their name alone."""
        self._timeout_s = timeout_s
        self._foreign = tuple(filter(None, foreign))
        self._admin = TransactionAdmin(conf, timeout_s=timeout_s)
        self._histories: dict[tuple[str, bool], _History] = {}

    def close(self) -> None:
        """Close the connections. Idempotent; another call connects again."""
        self._admin.close()

    def pending(self, group: str, places: Places | None = None) -> list[Contributor]:
        """Return the producers whose open transactions now have offsets of the group for `places` (None: any).

        A transaction that is ending counts until its marker is in the group's log. `offsets` has only `places`. If no
        transaction is open, this takes two requests.
        """
        return self._retry(lambda: _described(self._admin, _pending(self._admin, group, places)))

    def undecided(self, group: str, places: Places) -> list[Contributor]:
        """Return those of `pending` whose outcome is open, without those that have ended and only await their markers.

        It asks twice, because a producer whose transaction ended in between may now be in its next transaction, which
        is unrelated to these partitions.
        """
        found = [each for each in self.pending(group, places) if not each.is_decided]
        if not found:
            return []
        still = {each.producer_id: each.offsets for each in self.pending(group, places)}
        return [each for each in found if still.get(each.producer_id) == each.offsets]

    def last(self, group: str, places: Places | None = None) -> dict[TopicPartition, Contributor]:
        """Return the last producer that added an offset of each partition (None: of any) to a transaction.

        It does not matter how that transaction ended. Partitions without a producer in the log are left out; offsets
        that an administrator has set do not count. `offsets` of the result has all partitions of the group. This
        continues to read the log of the group's offsets, which other groups share, from where this object stopped.
        """

        def ask() -> dict[TopicPartition, Contributor]:
            history = self._read_on(group, is_whole=True)
            wanted = {place: id_ for place, id_ in history.last.items() if places is None or place in places}
            found = {each.producer_id: each for each in self._of(group, history, set(wanted.values()))}
            return {place: found[id_] for place, id_ in wanted.items()}

        return self._retry(ask)

    def holders(self, group: str, places: Places) -> list[Contributor]:
        """Return the producers that each serve one of these partitions alone, whatever their state (see `family`).

        This includes a producer that has not committed in a transaction yet, if others of its family have done so for
        the same topic (`is_guessed`), unless it is declared foreign or its open transaction has offsets of other
        groups.
        """

        def ask() -> list[Contributor]:
            history = self._read_on(group, is_whole=False)
            known = [each for each in self._of(group, history, history.offsets.keys()) if each.family]
            held = [each for each in known if not each.offsets.keys().isdisjoint(places)]
            silent: dict[str, dict[TopicPartition, int]] = {}
            for id_, place in _named(known, places):
                silent.setdefault(id_, {})[place] = -1
            named = [id_ for id_ in silent if not foreign_length(id_, self._foreign)]
            described = self._admin.describe(set(named) - {each.transactional_id for each in known})
            own = _where(self._admin, group)
            return held + [
                Contributor(t.producer_id, t.producer_epoch, silent[i], i, is_guessed=True)
                for i, t in described.items()
                if not _is_of_other_groups(t, own)
            ]

        return self._retry(ask)

    def described(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        """Describe transactional ids. Unknown ids are left out."""
        ids = list(transactional_ids)
        return self._retry(lambda: self._admin.describe(ids))

    def _read_on(self, group: str, *, is_whole: bool) -> "_History":
        """Read the log up to its end. Without `is_whole`, only the existence of stream tasks is recorded."""
        history = self._histories.setdefault((group, is_whole), _History())
        where = _where(self._admin, group)
        if where is not None:
            logged, history.end = _logged(self._admin, where, group, history.end, None if is_whole else history.ours)
            history.add(logged)
        return history

    def _of(self, group: str, history: "_History", producer_ids: Collection[int]) -> list[Contributor]:
        pending = {each.producer_id: each for each in _pending(self._admin, group, None)}
        return _described(
            self._admin,
            [
                Contributor(
                    id_,
                    history.epochs[id_],
                    history.offsets[id_],
                    is_pending=id_ in pending,
                    is_ours=id_ in history.ours,
                )
                for id_ in producer_ids
            ],
        )

    def _retry(self, ask: Callable[[], T]) -> T:
        return retry(ask, self._timeout_s)


_READING = f"reading {TOPIC}"


class _History:
    """What the log of a group's offsets has shown so far."""

    def __init__(self) -> None:
        self.end = 0
        self.last: dict[TopicPartition, int] = {}
        self.offsets: dict[int, dict[TopicPartition, int]] = {}  # by producer
        self.epochs: dict[int, int] = {}
        self.ours: set[int] = set()

    def add(self, logged: Iterable[LoggedOffset]) -> None:
        for each in logged:
            self.last[each.place] = each.producer_id
            self.offsets.setdefault(each.producer_id, {})[each.place] = each.committed.offset
            self.epochs[each.producer_id] = each.producer_epoch
            if contribution_of(each.committed.metadata) is not None:
                self.ours.add(each.producer_id)


def foreign_length(transactional_id: str, foreign: Iterable[str]) -> int:
    """Return the length of the longest of `foreign` that an id starts with; 0 if none matches.

    A prefix must not cut a number: `app-1` matches `app-1` but not `app-10`.
    """
    ends = [len(each) for each in foreign if transactional_id.startswith(each)]
    cuts = {at for at in ends if transactional_id[at - 1 : at].isdigit() and transactional_id[at : at + 1].isdigit()}
    return max({*ends} - cuts, default=0)


def _named(known: Iterable[Contributor], places: Places) -> Iterator[tuple[str, TopicPartition]]:
    for each in known:
        topics = {place.topic for place in each.offsets}
        yield from ((f"{each.family}{place.partition}", place) for place in places if place.topic in topics)


def _is_of_other_groups(transaction: Transaction, own: OffsetsPartition | None) -> bool:
    """Return whether an open transaction has offsets, but none that can belong to the group whose log is `own`."""
    logs = {partition for topic, partition in transaction.topic_partitions if topic == TOPIC}
    return bool(logs) and (own is None or own.partition not in logs)


def _where(admin: TransactionAdmin, group: str) -> OffsetsPartition | None:
    return admin.client.run(_READING, lambda: find(admin.client, group))


def _logged(
    admin: TransactionAdmin, where: OffsetsPartition, group: str, start: int, passed: set[int] | None = None
) -> tuple[list[LoggedOffset], int]:
    return admin.client.run(_READING, lambda: read(admin.client, where, group, start, passed))


def _pending(admin: TransactionAdmin, group: str, places: Places | None) -> list[Contributor]:
    """Return the producers with offsets of these partitions in an open transaction, without their transactional ids."""
    where = _where(admin, group)
    begun = {} if where is None else admin.producers(TOPIC, where.partition)
    if where is None or not begun:
        return []
    logged, _ = _logged(admin, where, group, min(at for _, at in begun.values()))
    history = _History()
    history.add(
        each
        for each in logged
        if each.producer_id in begun
        and each.at >= begun[each.producer_id][1]
        and (places is None or each.place in places)
    )
    return [
        Contributor(id_, begun[id_][0], offsets, is_pending=True, is_ours=id_ in history.ours)
        for id_, offsets in history.offsets.items()
    ]


def _described(admin: TransactionAdmin, found: list[Contributor]) -> list[Contributor]:
    if not found:
        return []
    ids = {each.producer_id: each.transactional_id for each in admin.list(producer_ids=[f.producer_id for f in found])}
    known = admin.describe(ids.values())
    return [_with_id(each, known.get(ids.get(each.producer_id, ""))) for each in found]


def _with_id(found: Contributor, transaction: Transaction | None) -> Contributor:
    if transaction is None:
        return found
    epoch = max(found.producer_epoch, transaction.producer_epoch)
    id_, timeout_ms = transaction.transactional_id, transaction.timeout_ms
    is_decided = transaction.state != _ONGOING
    return replace(found, transactional_id=id_, producer_epoch=epoch, timeout_ms=timeout_ms, is_decided=is_decided)
