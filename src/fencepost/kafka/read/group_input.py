"""Reads topics as a member of a consumer group: the assigned partitions, from the group's committed offsets.

The group's coordinator decides who may commit (E10): it refuses a member whose generation is over.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.api.errors import FencedError
from fencepost.kafka.admin.topics import INTERNAL_TOPICS
from fencepost.kafka.errors import KafkaRequestError, is_unavailable, new_client, translate
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.group.committed_offsets import Committed
from fencepost.kafka.library_log import library_log
from fencepost.kafka.read.read_again import read_again_by
from fencepost.kafka.value.fetched import Fetched, is_plain
from fencepost.kafka.value.group_metadata import MemberGeneration, generation_of
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

T = TypeVar("T")

_ASK_S = 30.0
_CLOSE_S = 2.0
_ID_S, _LEAVE_POLL_S = 2.0, 0.02
_LOOK_S = 5.0
_CHUNK = 500
_NOT_YET = frozenset({KafkaError._STATE, KafkaError._PREV_IN_PROGRESS})
_REFRESH, _LOOK_EVERY_MS = "topic.metadata.refresh.interval.ms", 30_000
PASSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


class Assignee(Protocol):
    """Is notified of the assignment. Its methods are called within `poll` and `close`, in their thread."""

    def assigned(
        self, positions: Mapping[TopicPartition, int], fresh: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Take over partitions at these offsets. For the `fresh` ones the group has not committed anything yet.

        Returns the start offsets of partitions that should start elsewhere.
        """

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Release partitions. Their offsets may still be committed; when this returns, others may get them."""

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Release partitions that already belong to other members. Their offsets can no longer be committed."""


class PositionReader(Protocol):
    """Reads a member's start positions in place of its client (`StablePositions`)."""

    def read(
        self, places: Collection[TopicPartition], membership: MemberGeneration | None
    ) -> Mapping[TopicPartition, Committed]:
        """Return the group's committed offsets. Partitions without one are left out.

        Called in the member's thread, within a rebalance. `poll` raises its errors.
        """


def nowhere_to_begin(place: TopicPartition, why: str) -> KafkaRequestError:
    """Return the error for a partition without records at its position if no other position may be chosen."""
    return KafkaRequestError(
        f"There is no offset to begin at in {place.topic}-{place.partition}: {why}; "
        "auto.offset.reset is none, so that somebody has to say where (PATCH /connectors/<name>/offsets)",
        KafkaError._AUTO_OFFSET_RESET,
    )


def _metadata_of(committed: Any) -> str:
    """Return the metadata of an offset that was committed by a client of this kind.

    The client expects metadata to end with a zero byte, as its own does, and reads past the end of any other, so the
    result may not be text. Only our own metadata matters here.
    """
    try:
        return str(committed.metadata or "")
    except UnicodeDecodeError:
        return ""


class GroupInput:
    """A member of a consumer group. For one thread, except `abandon`."""

    def __init__(
        self,
        conf: Mapping[str, Any],
        topics: Sequence[str] | Callable[[str], object],
        assignee: Assignee,
        *,
        fetches: bool = True,
        whole: Collection[str] = (),
        positions: PositionReader | None = None,
    ) -> None:
        """`topics` holds names, or is a predicate on names. With a predicate the cluster's topics are checked again
        every `metadata.max.age.ms`, by default 30 s. Without `fetches` this is only a member: it owns partitions and
        commits, and another object reads them. Topics in `whole` start at their earliest record, whatever
        `auto.offset.reset` is. If there are such topics, the client also goes to the earliest record of other topics
        when a position is out of range. `positions` reads the group's offsets in place of the client.

        `conf` names the group. Nothing is committed automatically. Raises KafkaRequestError for settings that the
        client refuses.
        """
        self._guard = ForkGuard()
        self._group = str(conf.get("group.id"))
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._assignee = assignee
        self._begins: dict[TopicPartition, int] = {}  # where each partition of the assignment began
        self._is_cooperative = "cooperative" in str(conf.get("partition.assignment.strategy", ""))
        self._whole = frozenset(filter(None, whole))  # a sink may have no such topic
        self._resets_to = str(conf.get("auto.offset.reset", "earliest"))
        self._revoked: set[TopicPartition] = set()  # since the last look
        self._error: BaseException | None = None  # an error of a callback; it cannot be raised inside the client
        self._is_abandoned = False
        self._is_leaving = False
        self._member = ""  # the id under which the assignment was given
        self._in_client = threading.RLock()  # callbacks run inside client calls, and call the client again
        self._paused: frozenset[TopicPartition] = frozenset()
        self._due: dict[TopicPartition, int] = {}  # pending seeks of partitions that the client does not fetch yet
        self._fetches = fetches
        self._positions = positions
        self.metadata: Any = None
        """The group's metadata as captured with the assignment."""
        self.notes: dict[TopicPartition, str] = {}
        """The metadata of the assignment's committed offsets, as of the time of the assignment."""
        self._read_again = read_again_by(conf)
        settings = {
            **conf,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
        }
        if self._whole and self._resets_to == "latest":  # the client has one rule for all, and would skip records
            settings["auto.offset.reset"] = "earliest"
        self._consumer: Any = new_client(Consumer, settings, logger=library_log(__name__))
        self._look_every_s = float(conf.get(_REFRESH, _LOOK_EVERY_MS)) / 1000
        self._looked_s = float("-inf")
        self._is_meant = None if isinstance(topics, Sequence) else topics
        self._subscribed: list[str] = []
        if isinstance(topics, Sequence):
            self._subscribe(list(topics))

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._begins)

    @property
    def generation(self) -> int | None:
        """Return the group's generation as captured with the assignment; None before the first."""
        return None if self.metadata is None else generation_of(self.metadata)

    def poll(self, timeout_s: float, most: int) -> Fetched:
        """Return fetched records, waiting up to `timeout_s` for the first. Rebalances are also handled here.

        Raises the assignee's errors, KafkaAuthorizationError or KafkaRequestError. Waits silently for a broker that is
        down.
        """
        self._guard.check("A member of a consumer group")
        with self._in_client:
            if self._is_abandoned:
                return Fetched()
            fetched = self._polled(timeout_s, most)
        if self._error is not None:
            raised, self._error = self._error, None
            raise raised
        return fetched

    def _subscribe(self, topics: list[str]) -> None:
        self._subscribed = topics
        self._consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoke, on_lost=self._lose)

    def _look_for_topics(self, is_meant: Callable[[str], object]) -> None:
        """Subscribe to the topics that exist now. If the cluster does not answer, this is tried again."""
        self._looked_s = time.monotonic()
        try:
            found = self._consumer.list_topics(timeout=_LOOK_S).topics
        except KafkaException as error:
            log.info("the topics of the cluster are not known: %s", error)
            return
        wanted = sorted(name for name in found if is_meant(name) and name not in INTERNAL_TOPICS)
        if wanted != self._subscribed and wanted:
            self._subscribe(wanted)

    def _polled(self, timeout_s: float, most: int) -> Fetched:
        self._revoked.clear()
        if self._due:
            self._seek(dict(self._due))
        if self._is_meant is not None and time.monotonic() - self._looked_s >= self._look_every_s:
            self._look_for_topics(self._is_meant)
        fetched = Fetched.joined(list(self._chunks(timeout_s, most)))
        if self._revoked:
            fetched = self._without_revoked(fetched)
        return fetched.without(self._due) if self._due else fetched

    def _chunks(self, timeout_s: float, most: int) -> Iterator[Fetched]:
        """Yield fetched records in chunks, which become columns while their messages are in the processor's cache."""
        try:
            first = self._consumer.poll(timeout_s)
            chunk = [] if first is None else [first, *self._more(min(most, _CHUNK) - 1)]
            while chunk and self._error is None:
                yield self._sorted(chunk)
                most -= len(chunk)
                chunk = self._more(min(most, _CHUNK)) if len(chunk) == _CHUNK else []
        except KafkaException as error:
            raise translate(error, f"reading as a member of group {self._group}", self._bootstrap) from error

    def _more(self, most: int) -> list[Any]:
        return list(self._consumer.consume(most, 0)) if most else []

    def _sorted(self, messages: list[Any]) -> Fetched:
        """Return the records and the ends of partitions, and handle all other events."""
        if is_plain(messages):
            return Fetched.of(messages, self._read_again)
        ends: dict[TopicPartition, int] = {}
        records = [message for message in messages if not self._is_event(message, ends)]
        fetched = Fetched.of(records, self._read_again)
        fetched.ends = ends
        return fetched

    def _without_revoked(self, fetched: Fetched) -> Fetched:
        """Leave out records of partitions that were revoked in the meantime (E14).

        Records fetched before and after cannot be distinguished, so a partition that came back is read from its start
        position again.
        """
        revoked = set(self._revoked)
        self._seek({place: self._begins[place] for place in revoked if place in self._begins})
        return fetched.without(revoked)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue at these offsets, in partitions of the assignment."""
        own = {place: offset for place, offset in offsets.items() if place in self._begins}
        self._begins.update(own)
        with self._in_client:
            if self._consumer is not None:
                self._seek(own)

    def _seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Seek. If the client is just starting to fetch a partition, the next poll retries and skips its records."""
        for place, offset in offsets.items():
            self._due.pop(place, None)
            try:
                self._consumer.seek(ClientPartition(place.topic, place.partition, offset))
            except KafkaException as error:
                if error.args[0].code() not in _NOT_YET:
                    raise translate(error, f"going to offset {offset} of {place.topic}-{place.partition}") from error
                self._due[place] = offset

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching these partitions of the assignment, and resume all others."""
        with self._in_client:
            wanted = self.assignment.intersection(partitions)
            if wanted == self._paused or self._consumer is None:
                return
            self._stop_fetching(wanted - self._paused)
            self._fetch_on(self._paused - wanted)
            self._paused = wanted

    def _stop_fetching(self, places: Collection[TopicPartition]) -> None:
        self._consumer.pause([ClientPartition(*place) for place in places])

    def _fetch_on(self, places: Collection[TopicPartition]) -> None:
        self._consumer.resume([ClientPartition(*place) for place in places])

    def commit(
        self, offsets: Mapping[TopicPartition, int], notes: Mapping[TopicPartition, str] | None = None
    ) -> dict[TopicPartition, int]:
        """Commit, wait for it, and return what was committed: everything except partitions that no longer exist.

        `notes` is the metadata of the offsets, for all or none of them. Raises FencedError if the membership is over,
        or a refusal as converted by `translate`.

        A commit without a generation, which a group without members accepts from any client, is never sent (E10).
        """
        with self._in_client:
            return self._committed(offsets, notes or {})

    def _committed(
        self, offsets: Mapping[TopicPartition, int], notes: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, int]:
        if self._consumer is None or not self._member or self._consumer.memberid() != self._member:
            raise FencedError(f"no longer a member of group {self._group}")
        try:
            try:
                return self._sent(offsets, notes)
            except KafkaException as error:
                if error.args[0].code() not in PASSING:
                    raise
                return self._sent(self._existing(offsets), notes)  # the client does not report which one it was
        except KafkaException as error:
            raise translate(error, f"committing offsets of group {self._group}", self._bootstrap) from error

    def _sent(
        self, offsets: Mapping[TopicPartition, int], notes: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, int]:
        if offsets:
            asked = [ClientPartition(*place, offset, notes.get(place, "")) for place, offset in offsets.items()]
            for each in self._consumer.commit(offsets=asked, asynchronous=False) or ():
                if each.error is not None:
                    raise KafkaException(each.error)
        return dict(offsets)

    def _existing(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offsets of partitions that exist."""
        topics = self._consumer.list_topics(timeout=_LOOK_S).topics
        kept = {p: o for p, o in offsets.items() if p.topic in topics and p.partition in topics[p.topic].partitions}
        for topic, partition in sorted(offsets.keys() - kept.keys()):
            log.warning("no offset is committed for %s-%d: it no longer exists", topic, partition)
        return kept

    def stored(self) -> dict[TopicPartition, int]:
        """Return the group's committed offsets of the assignment. Partitions without one are left out.

        Raises a failure as converted by `translate`.
        """
        with self._in_client:
            if self._consumer is None:
                return {}
            try:
                return self._stored(self._consumer, sorted(self.assignment))
            except KafkaException as error:
                raise translate(error, f"reading offsets of group {self._group}", self._bootstrap) from error

    def partitions(self) -> set[TopicPartition]:
        """Return all partitions of the subscribed topics, whichever member owns them, as the cluster knows them now.

        Raises a failure as converted by `translate`.
        """
        with self._in_client:
            try:
                found = self._consumer.list_topics(timeout=_LOOK_S).topics
            except KafkaException as error:
                raise translate(error, f"asking for the topics of group {self._group}", self._bootstrap) from error
        topics = {name: found[name].partitions for name in self._subscribed if name in found}
        return {TopicPartition(name, number) for name, numbers in topics.items() for number in numbers}

    def known_ends(self) -> dict[TopicPartition, int]:
        """Return the end offsets of the assignment's logs that the client knows, without asking a broker."""
        ends = {}
        with self._in_client:
            for place in self.assignment if self._consumer is not None else ():
                _, high = self._consumer.get_watermark_offsets(ClientPartition(*place), cached=True)
                if high >= 0:
                    ends[place] = high
        return ends

    def close(self) -> None:
        """Leave the group. Assigned partitions are revoked first. Idempotent."""
        with self._in_client:
            self._close()

    def abandon(self) -> None:
        """Leave the group from another thread, if the member's own is not in the client. The assignee is not called."""
        self._is_abandoned = True
        if self._in_client.acquire(timeout=_CLOSE_S):
            try:
                self._close()
            finally:
                self._in_client.release()

    def _close(self) -> None:
        if self._consumer is not None:
            with contextlib.suppress(KafkaException, RuntimeError):
                self._await_id()
            consumer, self._consumer = self._consumer, None
            with contextlib.suppress(KafkaException, RuntimeError):
                consumer.close()

    def _await_id(self) -> None:
        """Wait for the member id if the group is just assigning one, because leaving requires it.

        Otherwise the group keeps an invisible pending member, and every rebalance waits until the session time-out.
        """
        self._is_leaving = True
        deadline_s = time.monotonic() + _ID_S
        while self._subscribed and not self._consumer.memberid() and time.monotonic() < deadline_s:
            self._consumer.poll(_LEAVE_POLL_S)

    def _is_event(self, message: Any, ends: dict[TopicPartition, int]) -> bool:
        error = message.error()
        if error is None:
            return False
        if error.code() == KafkaError._PARTITION_EOF:
            ends[TopicPartition(message.topic(), message.partition())] = message.offset()
        elif error.code() == KafkaError._MAX_POLL_EXCEEDED:
            log.warning(
                "group %s has revoked this member's partitions: its task took longer for a batch than "
                "max.poll.interval.ms (raise consumer.override.max.poll.interval.ms, or make batches smaller with "
                "consumer.override.max.poll.records)",
                self._group,
            )
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise nowhere_to_begin(TopicPartition(message.topic(), message.partition()), error.str())
        elif not (is_unavailable(error) or error.code() in PASSING):
            raise translate(error, f"reading as a member of group {self._group}", self._bootstrap)
        return True

    # callbacks of the client

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        with self._errors_kept():
            if self._is_leaving:  # partitions assigned now are released at once, unannounced
                consumer.incremental_assign(partitions) if self._is_cooperative else consumer.assign(partitions)
                return
            places = [TopicPartition(p.topic, p.partition) for p in partitions]
            self.metadata, self._member = consumer.consumer_group_metadata(), consumer.memberid()
            stored = self._stored(consumer, places)
            fresh = frozenset(places) - stored.keys()
            positions = stored | {place: self._reset(consumer, place) for place in sorted(fresh)}
            begins = dict(positions)
            if not self._is_abandoned:
                begins.update(self._assignee.assigned(positions, fresh))
            self._begins.update(begins)
            taken = [ClientPartition(*place, begins[place]) for place in places]
            consumer.incremental_assign(taken) if self._is_cooperative else consumer.assign(taken)
            self._begin({place: begins[place] for place in places})

    def _revoke(self, consumer: Any, partitions: list[Any]) -> None:
        self._give_up(consumer, partitions, self._assignee.revoked)

    def _lose(self, consumer: Any, partitions: list[Any]) -> None:
        self._give_up(consumer, partitions, self._assignee.lost)

    def _give_up(self, consumer: Any, partitions: list[Any], tell: Any) -> None:
        places = frozenset(TopicPartition(p.topic, p.partition) for p in partitions) & self.assignment
        with self._errors_kept():
            if places and not self._is_abandoned:
                tell(places)
        for place in places:
            self.notes.pop(place, None)
            del self._begins[place]
            self._due.pop(place, None)
        self._revoked |= places
        self._let_go(places)
        with self._errors_kept():
            # The client keeps a partition paused when it is assigned again, and then it would never be resumed.
            self.pause(self._paused - places)
            consumer.incremental_unassign(partitions) if self._is_cooperative else consumer.unassign()

    def _begin(self, begins: Mapping[TopicPartition, int]) -> None:
        """Start fetching partitions that were just assigned, or, without `fetches`, pause them."""
        if not self._fetches:
            self._consumer.pause([ClientPartition(*place) for place in begins])

    def _let_go(self, places: Collection[TopicPartition]) -> None:
        """Return no more records of partitions that were released (E14)."""

    @contextlib.contextmanager
    def _errors_kept(self) -> Any:
        """Keep an error for `poll` to raise. The first one counts."""
        try:
            yield
        except BaseException as error:  # the client would lose its type and skip the rest
            if isinstance(error, KafkaException):
                error = translate(error, f"taking over partitions in group {self._group}", self._bootstrap)
            self._error = self._error or error

    def _stored(self, consumer: Any, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the group's committed offsets of these partitions. Those without one are left out."""
        if not places:
            return {}
        if self._positions is not None:
            found = self._positions.read(places, self._membership())
            self.notes.update((place, committed.note) for place, committed in found.items())
            return {place: committed.offset for place, committed in found.items()}
        stored = {}
        for each in consumer.committed([ClientPartition(*place) for place in places], timeout=_ASK_S):
            if each.error is not None:
                raise KafkaException(each.error)
            if each.offset >= 0:
                stored[TopicPartition(each.topic, each.partition)] = each.offset
                self.notes[TopicPartition(each.topic, each.partition)] = _metadata_of(each)
        return stored

    def _membership(self) -> MemberGeneration | None:
        """Return the membership for requests; None if the member has not joined."""
        generation = self.generation
        return None if generation is None else MemberGeneration(generation, self._member)

    def _reset(self, consumer: Any, place: TopicPartition) -> int:
        """Return the start offset of a partition without a committed offset."""
        if self._resets_of(place) == "error":
            raise KafkaRequestError(
                f"Group {self._group} has committed nothing for {place.topic}-{place.partition}, and auto.offset.reset "
                "is none: set its offset (PATCH /connectors/<name>/offsets)",
                KafkaError._AUTO_OFFSET_RESET,
            )
        return self._edge(consumer, place, _ASK_S)

    def _resets_of(self, place: TopicPartition) -> str:
        return "earliest" if place.topic in self._whole else self._resets_to

    def _edge(self, consumer: Any, place: TopicPartition, timeout_s: float) -> int:
        """Return the start or end offset of a partition, whichever reading starts from. Raises KafkaException."""
        low, high = consumer.get_watermark_offsets(ClientPartition(*place), timeout=timeout_s)
        return int(high if self._resets_of(place) == "latest" else max(low, 0))
