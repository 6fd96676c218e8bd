"""Reading topics as a member of a consumer group: what a task is assigned, from where the group has committed.

The group's coordinator is the judge of who may commit (E10): a member whose generation is over is refused.
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
from fencepost.kafka.admin.client import INTERNAL_TOPICS
from fencepost.kafka.errors import KafkaRequestError, is_unavailable, new_client, translate
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.group.group_survey import Committed
from fencepost.kafka.library_log import library_log
from fencepost.kafka.read.read_again import read_again_by
from fencepost.kafka.value.fetched import Fetched, is_plain
from fencepost.kafka.value.group_metadata import Membership, generation_of
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

T = TypeVar("T")

_ASK_S = 30.0
_CLOSE_S = 2.0
_ID_S, _LEAVE_POLL_S = 2.0, 0.02
_LOOK_S = 5.0
_LOT = 500
_NOT_YET = frozenset({KafkaError._STATE, KafkaError._PREV_IN_PROGRESS})
_REFRESH, _LOOK_EVERY_MS = "topic.metadata.refresh.interval.ms", 30_000
PASSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


class Assignee(Protocol):
    """Who is told of the assignment: called within `poll` and `close`, in their thread."""

    def assigned(
        self, positions: Mapping[TopicPartition, int], fresh: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Take over partitions that stand at these offsets; of the `fresh` ones the group has committed nothing yet.

        Returns where to begin instead, of those that differ.
        """

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Give up partitions: they may still be committed, and are granted to others when this returns."""

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Take note that partitions are others' already: nothing of them can be committed any more."""


class Positions(Protocol):
    """Where a member begins in what it is assigned, read otherwise than by its client (`StablePositions`)."""

    def read(
        self, places: Collection[TopicPartition], membership: Membership | None
    ) -> Mapping[TopicPartition, Committed]:
        """Return where the group stands, without the partitions of which it has committed nothing.

        Called in the member's thread, within a rebalance. What it raises, `poll` raises.
        """


def nowhere_to_begin(place: TopicPartition, why: str) -> KafkaRequestError:
    """Return the error to raise where a partition has nothing at its position, and no other may be chosen."""
    return KafkaRequestError(
        f"There is no offset to begin at in {place.topic}-{place.partition}: {why}; "
        "auto.offset.reset is none, so that somebody has to say where (PATCH /connectors/<name>/offsets)",
        KafkaError._AUTO_OFFSET_RESET,
    )


def _note_of(committed: Any) -> str:
    """Return what was noted with an offset by a client of this kind.

    The client expects a note to end with a zero, as its own do, and reads past the end of any other: what comes of that
    may be no text. Notes that matter here are our own.
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
        positions: Positions | None = None,
    ) -> None:
        """`topics`: names, or what says of a name whether it is meant; the cluster's are looked through over and over,
        as often as `metadata.max.age.ms` says, each 30 s by default. One that does not fetch is only a member: it has
        partitions, and commits; somebody else reads them. Topics that are read `whole` begin at their earliest record,
        whatever `auto.offset.reset` says; beside such topics the client goes there, too, where a position is out of
        range. `positions` reads where the group stands, instead of the client.

        `conf` names the group; nothing is committed by itself. Raises KafkaRequestError for settings that the client
        does not take.
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
        self._trouble: BaseException | None = None  # of a callback: it cannot be raised in the client
        self._is_abandoned = False
        self._is_leaving = False
        self._member = ""  # the id under which the assignment was given
        self._in_client = threading.RLock()  # callbacks come within, and ask the client again
        self._paused: frozenset[TopicPartition] = frozenset()
        self._due: dict[TopicPartition, int] = {}  # where to go, of what the client does not fetch yet
        self._fetches = fetches
        self._positions = positions
        self.metadata: Any = None
        """The group's metadata as captured with the assignment."""
        self.notes: dict[TopicPartition, str] = {}
        """What was committed with the offsets of the assignment, besides them; as of when it was assigned."""
        self._read_again = read_again_by(conf)
        settings = {
            **conf,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
        }
        if self._whole and self._resets_to == "latest":  # the client has one rule for all, and would skip what is left
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
        """Return what has come, waiting `timeout_s` for the first record; also lives through rebalances.

        Raises what the assignee raised, KafkaAuthorizationError or KafkaRequestError; a broker that is away is waited
        for in silence.
        """
        self._guard.check("A member of a consumer group")
        with self._in_client:
            if self._is_abandoned:
                return Fetched()
            fetched = self._polled(timeout_s, most)
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble
        return fetched

    def _subscribe(self, topics: list[str]) -> None:
        self._subscribed = topics
        self._consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoke, on_lost=self._lose)

    def _look_for_topics(self, is_meant: Callable[[str], object]) -> None:
        """Join for the topics that there are now; a cluster that does not answer is asked again."""
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
        fetched = Fetched.joined(list(self._lots(timeout_s, most)))
        if self._revoked:
            fetched = self._without_revoked(fetched)
        return fetched.without(self._due) if self._due else fetched

    def _lots(self, timeout_s: float, most: int) -> Iterator[Fetched]:
        """Return what has come, in lots: their messages are made columns while the processor's cache has them."""
        try:
            first = self._consumer.poll(timeout_s)
            lot = [] if first is None else [first, *self._more(min(most, _LOT) - 1)]
            while lot and self._trouble is None:
                yield self._sorted(lot)
                most -= len(lot)
                lot = self._more(min(most, _LOT)) if len(lot) == _LOT else []
        except KafkaException as error:
            raise translate(error, f"reading as a member of group {self._group}", self._bootstrap) from error

    def _more(self, most: int) -> list[Any]:
        return list(self._consumer.consume(most, 0)) if most else []

    def _sorted(self, messages: list[Any]) -> Fetched:
        """Return records and ends of partitions, and take note of everything else."""
        if is_plain(messages):
            return Fetched.of(messages, self._read_again)
        ends: dict[TopicPartition, int] = {}
        records = [message for message in messages if not self._is_event(message, ends)]
        fetched = Fetched.of(records, self._read_again)
        fetched.ends = ends
        return fetched

    def _without_revoked(self, fetched: Fetched) -> Fetched:
        """Leave out what is of partitions that were revoked meanwhile (E14).

        What was fetched before and after cannot be told apart: those that came back are read from where they begin.
        """
        revoked = set(self._revoked)
        self._seek({place: self._begins[place] for place in revoked if place in self._begins})
        return fetched.without(revoked)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on at these offsets, in partitions of the assignment."""
        own = {place: offset for place, offset in offsets.items() if place in self._begins}
        self._begins.update(own)
        with self._in_client:
            if self._consumer is not None:
                self._seek(own)

    def _seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go there; a partition that the client is about to fetch is tried again by the next poll, and left out."""
        for place, offset in offsets.items():
            self._due.pop(place, None)
            try:
                self._consumer.seek(ClientPartition(place.topic, place.partition, offset))
            except KafkaException as error:
                if error.args[0].code() not in _NOT_YET:
                    raise translate(error, f"going to offset {offset} of {place.topic}-{place.partition}") from error
                self._due[place] = offset

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Fetch nothing of these partitions of the assignment, and of all others again."""
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
        """Commit, wait for it, and return what is committed: all, but for partitions that are not there any more.

        `notes` are kept with the offsets, all or none of them. Raises FencedError where the membership is over, or what
        `translate` makes of a refusal.

        A commit without a generation, which a group without members takes from anybody, is never sent (E10).
        """
        with self._in_client:
            return self._committed(offsets, notes or {})

    def _committed(
        self, offsets: Mapping[TopicPartition, int], notes: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, int]:
        if self._consumer is None or not self._member or self._consumer.memberid() != self._member:
            raise FencedError(f"this member of group {self._group} is none any more")
        try:
            try:
                return self._sent(offsets, notes)
            except KafkaException as error:
                if error.args[0].code() not in PASSING:
                    raise
                return self._sent(self._existing(offsets), notes)  # the client does not tell which it was
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
        """Return those of partitions that there are."""
        topics = self._consumer.list_topics(timeout=_LOOK_S).topics
        kept = {p: o for p, o in offsets.items() if p.topic in topics and p.partition in topics[p.topic].partitions}
        for topic, partition in sorted(offsets.keys() - kept.keys()):
            log.warning("no offset is committed of %s-%d: it is not there any more", topic, partition)
        return kept

    def stored(self) -> dict[TopicPartition, int]:
        """Return where the group stands now, of the partitions of the assignment that it has committed anything of.

        Raises what `translate` makes of a failure.
        """
        with self._in_client:
            if self._consumer is None:
                return {}
            try:
                return self._stored(self._consumer, sorted(self.assignment))
            except KafkaException as error:
                raise translate(error, f"reading offsets of group {self._group}", self._bootstrap) from error

    def partitions(self) -> set[TopicPartition]:
        """Return the partitions of the topics that it has joined for, whosever they are, as the cluster knows them now.

        Raises what `translate` makes of a failure.
        """
        with self._in_client:
            try:
                found = self._consumer.list_topics(timeout=_LOOK_S).topics
            except KafkaException as error:
                raise translate(error, f"asking for the topics of group {self._group}", self._bootstrap) from error
        topics = {name: found[name].partitions for name in self._subscribed if name in found}
        return {TopicPartition(name, number) for name, numbers in topics.items() for number in numbers}

    def known_ends(self) -> dict[TopicPartition, int]:
        """Return where the logs of the assignment end, as far as the client has heard: nobody is asked."""
        ends = {}
        with self._in_client:
            for place in self.assignment if self._consumer is not None else ():
                _, high = self._consumer.get_watermark_offsets(ClientPartition(*place), cached=True)
                if high >= 0:
                    ends[place] = high
        return ends

    def close(self) -> None:
        """Leave the group. What is still assigned is revoked first. Idempotent."""
        with self._in_client:
            self._close()

    def abandon(self) -> None:
        """Leave the group from another thread, if the member's own is not in the client; its assignee hears no more."""
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
        """Learn one's id where the group is just giving one, for only who knows it can take leave.

        Else the group keeps a place for it, which nobody sees, and every rebalance waits until the session time-out.
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
                "group %s has taken this member's partitions away: its task was not back with a batch within "
                "max.poll.interval.ms (consumer.override.max.poll.interval.ms, or smaller batches by "
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
        with self._noted():
            if self._is_leaving:  # what comes now is given back at once, and nobody hears of it
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
        with self._noted():
            if places and not self._is_abandoned:
                tell(places)
        for place in places:
            self.notes.pop(place, None)
            del self._begins[place]
            self._due.pop(place, None)
        self._revoked |= places
        self._let_go(places)
        with self._noted():
            # The client keeps a partition paused when it is assigned again, which nobody would resume.
            self.pause(self._paused - places)
            consumer.incremental_unassign(partitions) if self._is_cooperative else consumer.unassign()

    def _begin(self, begins: Mapping[TopicPartition, int]) -> None:
        """Have partitions fetched that have just been assigned, or see that they are not."""
        if not self._fetches:
            self._consumer.pause([ClientPartition(*place) for place in begins])

    def _let_go(self, places: Collection[TopicPartition]) -> None:
        """Hand nothing over of partitions that were given up (E14)."""

    @contextlib.contextmanager
    def _noted(self) -> Any:
        """Keep what goes wrong for `poll` to raise; the first counts."""
        try:
            yield
        except BaseException as error:  # the client would lose what it is, and what comes next would be left out
            if isinstance(error, KafkaException):
                error = translate(error, f"taking over partitions in group {self._group}", self._bootstrap)
            self._trouble = self._trouble or error

    def _stored(self, consumer: Any, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where the group stands, of the partitions that it has committed anything of."""
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
                self.notes[TopicPartition(each.topic, each.partition)] = _note_of(each)
        return stored

    def _membership(self) -> Membership | None:
        """Return in whose name it is asked; None for who has not joined."""
        generation = self.generation
        return None if generation is None else Membership(generation, self._member)

    def _reset(self, consumer: Any, place: TopicPartition) -> int:
        """Return where a partition begins that the group has committed nothing of."""
        if self._resets_of(place) == "error":
            raise KafkaRequestError(
                f"Group {self._group} has committed nothing for {place.topic}-{place.partition}, and auto.offset.reset "
                "is none: say where to begin (PATCH /connectors/<name>/offsets)",
                KafkaError._AUTO_OFFSET_RESET,
            )
        return self._edge(consumer, place, _ASK_S)

    def _resets_of(self, place: TopicPartition) -> str:
        return "earliest" if place.topic in self._whole else self._resets_to

    def _edge(self, consumer: Any, place: TopicPartition, timeout_s: float) -> int:
        """Return where a partition begins, or ends, as it is to be read from there. Raises KafkaException."""
        low, high = consumer.get_watermark_offsets(ClientPartition(*place), timeout=timeout_s)
        return int(high if self._resets_of(place) == "latest" else max(low, 0))
