"""Reads topics as a member of a consumer group: the assigned partitions, from the group's committed offsets.

The group's coordinator decides who may commit (E10): it refuses a member whose generation is over.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from confluent_kafka import KafkaException

from fencepost.api import RetriableError
from fencepost.kafka.admin.topics import INTERNAL_TOPICS
from fencepost.kafka.errors import ASK_S, KafkaAuthorizationError, KafkaUnavailableError
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.read.assignment import AssignedPartitions, Assignee, Fetcher
from fencepost.kafka.read.client_fetcher import ClientFetcher, ensure_same_topics
from fencepost.kafka.read.known_positions import PositionReader, StartPositions, client_reset
from fencepost.kafka.read.member_client import MemberClient
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition, place_names

log = logging.getLogger(__name__)

_CLOSE_S = 2.0
_REFRESH, _LOOK_EVERY_MS = "topic.metadata.refresh.interval.ms", 30_000
_IDS_EVERY_S, _IDS_S = 10.0, 2.0


class GroupInput:
    """A member of a consumer group. For one thread, except `abandon`."""

    def __init__(
        self,
        conf: Mapping[str, Any],
        topics: Sequence[str] | Callable[[str], object],
        assignee: Assignee,
        *,
        fetcher: Callable[[AssignedPartitions], Fetcher] = ClientFetcher,
        whole: Collection[str] = (),
        positions: PositionReader | None = None,
    ) -> None:
        """`topics` holds names, or is a predicate on names. With a predicate the cluster's topics are checked again
        every `metadata.max.age.ms`, by default 30 s. With `NoFetcher` this is only a member: it owns partitions and
        commits, and another object reads them. Topics in `whole` start at their earliest record, whatever
        `auto.offset.reset` is. If there are such topics, the client also goes to the earliest record of other topics
        when a position is out of range. `positions` reads the group's offsets in place of the client.

        `conf` names the group. Nothing is committed automatically. Raises KafkaRequestError for settings that the
        client refuses.
        """
        self._guard = ForkGuard()
        self._in_client = threading.RLock()  # callbacks run inside client calls, and call the client again
        names = frozenset(filter(None, whole))  # a sink may have no such topic
        self._client = MemberClient(conf, client_reset(conf, names))
        starts = StartPositions(self._client, names, positions)
        self.starts = starts
        """The group's offsets, and what is known of the logs that are read."""
        self._assignment = AssignedPartitions(self._client, starts, assignee, fetcher)
        self._topics = SubscribedTopics(self._assignment, topics)
        self.edges = LogEdges(self._client, self._in_client)
        self.read_ahead = self._read_ahead

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return self._assignment.places

    @property
    def metadata(self) -> Any:
        """Return the group's metadata as captured with the assignment; None before the first."""
        membership = self._assignment.membership
        return None if membership is None else membership.metadata

    @property
    def generation(self) -> int | None:
        """Return the group's generation as captured with the assignment; None before the first."""
        membership = self._assignment.membership
        return None if membership is None else membership.generation

    def poll(self, timeout_s: float, most: int) -> Fetched:
        """Return fetched records, waiting up to `timeout_s` for the first. Rebalances are also handled here.

        Raises the assignee's errors, KafkaAuthorizationError or KafkaRequestError. Waits silently for a broker that is
        down.
        """
        self._guard.check("A member of a consumer group")
        with self._in_client:
            if self._assignment.is_abandoned:
                return Fetched()
            fetched = self._polled(timeout_s, most)
        self._client.raise_kept()
        return fetched

    def _polled(self, timeout_s: float, most: int) -> Fetched:
        self._assignment.revoked.clear()
        due = self._client.due
        if due:
            self._client.seek(dict(due))
        self._topics.maybe_look()
        fetched = Fetched.joined(list(self._assignment.fetcher.chunks(timeout_s, most)))
        if self._assignment.revoked:
            fetched = self._without_revoked(fetched)
        fetched = fetched.without(due) if due else fetched
        self.starts.known.hand_out(fetched)
        return fetched

    def _without_revoked(self, fetched: Fetched) -> Fetched:
        """Leave out records of partitions that were revoked in the meantime (E14).

        Records fetched before and after cannot be distinguished, so a partition that came back is read from its start
        position again.
        """
        revoked, begins = set(self._assignment.revoked), self._assignment.begins
        self._assignment.fetcher.seek({place: begins[place] for place in revoked if place in begins})
        return fetched.without(revoked)

    def _read_ahead(self, most: int) -> None:
        """Read as `AssignedPartitions.read_ahead` does, unless another thread is making this member leave."""
        if self._in_client.acquire(blocking=False):
            try:
                self._assignment.read_ahead(most)
            finally:
                self._in_client.release()

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue at these offsets, in partitions of the assignment, or before where their logs were just cut."""
        own = {place: offset for place, offset in offsets.items() if place in self._assignment.begins}
        own = self.starts.known.within(own)
        self._assignment.begins.update(own)
        with self._in_client:
            if not self._client.is_closed:
                self._assignment.fetcher.seek(own)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching these partitions of the assignment, and resume all others."""
        with self._in_client:
            self._assignment.pause(partitions)

    def commit(self, offsets: Mapping[TopicPartition, int] | Sequence[GroupOffset]) -> dict[TopicPartition, int]:
        """Commit, wait for it, and return what was committed: everything except partitions that no longer exist.

        Plain offsets are committed with their topic ids and leader epochs, as far as these are known. Those of logs
        that were cut below them are left out until something was read from there: the next start has to see the cut.
        Raises FencedError if the membership is over, or a refusal as converted by `translate`.

        A commit without a generation, which a group without members accepts from any client, is never sent (E10).
        """
        with self._in_client:
            self._assignment.ensure_member()
            self._topics.ensure_same()
            if isinstance(offsets, Mapping):
                offsets = self.starts.known.commits(offsets)
            return self._client.commit(offsets)

    def topics_check(self) -> Callable[[], None]:
        """Return a function that says, in any thread, whether what was read up to now may be committed.

        It raises RetriableError if that may be of a topic that was created again since the assignment, and
        KafkaUnavailableError. `commit` checks this by itself.
        """
        return self._topics.check()

    def stored(self, places: Collection[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Return the group's committed offsets, by default those of the assignment.

        Partitions without one are left out. Raises a failure as converted by `translate`.
        """
        asked = sorted(self.assignment if places is None else places)
        with self._in_client:
            try:
                return {} if self._client.is_closed else self._assignment.stored(asked)
            except KafkaException as error:
                raise self._client.failed(error, f"reading offsets of group {self._client.group}") from error

    def partitions(self) -> set[TopicPartition]:
        """Return all partitions of the subscribed topics, whichever member owns them, as the cluster knows them now.

        Raises a failure as converted by `translate`.
        """
        with self._in_client:
            try:
                return self._topics.partitions()
            except KafkaException as error:
                raise self._client.failed(error, f"asking for the topics of group {self._client.group}") from error

    def known_ends(self) -> dict[TopicPartition, int]:
        """Return the end offsets of the assignment's logs that are known without asking a broker."""
        with self._in_client:
            return self._assignment.fetcher.known_ends(self.assignment)

    def close(self) -> None:
        """Leave the group. Assigned partitions are revoked first. Idempotent."""
        with self._in_client:
            self._close()

    def abandon(self) -> None:
        """Leave the group from another thread, if the member's own is not in the client. The assignee is not called."""
        self._assignment.abandon()
        if self._in_client.acquire(timeout=_CLOSE_S):
            try:
                self._close()
            finally:
                self._in_client.release()

    def _close(self) -> None:
        self._client.close(is_subscribed=bool(self._topics.names))
        self._assignment.fetcher.close()


class LogEdges:
    """Asks the leaders of partitions where logs begin and end, and for the ids of topics.

    `in_client` is held while the client is used.
    """

    def __init__(self, client: MemberClient, in_client: AbstractContextManager[Any]) -> None:
        self._client = client
        self._in_client = in_client

    def __call__(self, places: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Return the offsets of the first record, and after the last one that this isolation level lets a reader see.

        Raises a failure as converted by `translate`.
        """
        with self._in_client:
            try:
                return {place: self._client.edges(place, ASK_S) for place in sorted(places)}
            except KafkaException as error:
                raise self._client.failed(error, f"asking where {place_names(places)} begins and ends") from error

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic as two brokers know it now; empty if `MemberClient.topic_ids` says so.

        Raises KafkaAuthorizationError, and KafkaUnavailableError also if the broker knows no such topic.
        """
        found = self._client.topic_ids([topic], ASK_S, is_sure=True)
        if topic not in found:
            raise KafkaUnavailableError(
                f"no broker says what the id of topic {topic} is: it does not exist, or not yet"
            )
        return found[topic]


class SubscribedTopics:
    """Topics with given names, or those of the cluster whose names match, which are looked up periodically."""

    def __init__(self, assignment: AssignedPartitions, topics: Sequence[str] | Callable[[str], object]) -> None:
        """Subscribe the assignment's client to names. If `topics` is a predicate, the first `maybe_look` does that."""
        self._assignment = assignment
        self._client = assignment.client
        self._look_every_s = float(self._client.conf.get(_REFRESH, _LOOK_EVERY_MS)) / 1000
        self._looked_s = float("-inf")
        self._is_meant = None if isinstance(topics, Sequence) else topics
        self._ids: dict[str, str] = {}
        self._ids_s = float("-inf")
        self.names: list[str] = []
        if isinstance(topics, Sequence):
            self._subscribe(list(topics))

    def maybe_look(self) -> None:
        """Subscribe to the topics that exist now. If the cluster does not answer, this is tried again."""
        if time.monotonic() - self._ids_s >= _IDS_EVERY_S:
            self._look_at_ids()
            self._ids_s = time.monotonic()
        if self._is_meant is None or time.monotonic() - self._looked_s < self._look_every_s:
            return
        self._looked_s = time.monotonic()
        try:
            found = self._client.topics()
        except KafkaException as error:
            log.info("the topics of the cluster are not known: %s", error)
            return
        wanted = sorted(name for name in found if self._is_meant(name) and name not in INTERNAL_TOPICS)
        if wanted != self.names and wanted:
            self._subscribe(wanted)

    def ensure_same(self) -> None:
        """Raise RetriableError if what was read since the assignment may be of a topic that was created again since."""
        fetcher = self._assignment.fetcher
        try:
            fetcher.ensure_same(self._ids_of(fetcher.topic_ids()))
        except RetriableError:
            self._ids_s = float("-inf")  # the next poll raises it, too
            raise

    def check(self) -> Callable[[], None]:
        """Do what `GroupInput.topics_check` does."""
        known = self._assignment.fetcher.topic_ids()
        if not all(known.values()):
            self.ensure_same()  # from now on they are known, if the cluster has ids
            return lambda: None
        return lambda: ensure_same_topics(known, self._ids_of(known), self._client.group)

    def _ids_of(self, places: Collection[TopicPartition]) -> dict[str, str]:
        return self._client.topic_ids({place.topic for place in places}, ASK_S, is_sure=False)

    def _look_at_ids(self) -> None:
        """Look whether topics were created again. Raises RetriableError as `Fetcher.ensure_same` does.

        If no partition of such a topic is assigned to this member, it joins the group again: the leader may have
        assigned while the topic did not exist. librdkafka joins again if a topic has another number of partitions than
        when it last looked by itself, which it may have done only before and after that.
        """
        try:
            ids = self._client.topic_ids(self.names, _IDS_S, is_sure=True)
        except (KafkaAuthorizationError, KafkaUnavailableError) as error:
            log.debug("the ids of the topics are not known: %s", error)
            return
        self._assignment.fetcher.ensure_same(ids)
        ids = {name: id_ for name, id_ in ids.items() if id_}
        replaced = {name for name, id_ in ids.items() if self._ids.get(name, id_) != id_}
        self._ids.update(ids)
        if lacking := sorted(replaced - {place.topic for place in self._assignment.places}):
            log.warning(
                "group %s: %s was created again, and this member has no partition of it: it joins again",
                self._client.group, ", ".join(lacking),
            )  # fmt: skip
            self._client.consumer.unsubscribe()
            self._subscribe(self.names)

    def _subscribe(self, names: list[str]) -> None:
        self.names, to = names, self._assignment
        self._client.consumer.subscribe(names, on_assign=to.take, on_revoke=to.revoke, on_lost=to.lose)

    def partitions(self) -> set[TopicPartition]:
        """Return all partitions of the topics, as the cluster knows them now. Raises KafkaException."""
        found = self._client.topics()
        topics = {name: found[name].partitions for name in self.names if name in found}
        return {TopicPartition(name, number) for name, numbers in topics.items() for number in numbers}
