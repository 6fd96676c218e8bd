"""The partitions that a group has assigned to a member, and what happens to them in rebalances."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol

from confluent_kafka import TopicPartition as ClientPartition

from fencepost.api.errors import FencedError
from fencepost.kafka.read.known_positions import Restart, StartPositions, goes_back
from fencepost.kafka.read.member_client import MemberClient, MemberIdentity
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition


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


class Fetcher(ABC):
    """Fetches the records of an assignment. For the member's thread."""

    @abstractmethod
    def chunks(self, timeout_s: float, most: int) -> Iterator[Fetched]:
        """Yield fetched records, waiting up to `timeout_s` for the first. The group's callbacks run within this."""

    @abstractmethod
    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue at these offsets."""

    @abstractmethod
    def stop(self, places: Collection[TopicPartition]) -> None:
        """Stop fetching partitions until they are resumed."""

    @abstractmethod
    def resume(self, places: Collection[TopicPartition]) -> None:
        """Continue to fetch partitions after their last returned records."""

    @abstractmethod
    def known_ends(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end offsets of logs that are known without asking a broker."""

    def starts(
        self, places: Collection[TopicPartition], committed: Mapping[TopicPartition, GroupOffset]
    ) -> Mapping[TopicPartition, int]:
        """Return where logs were cut below the group's offsets while it did not read (`goes_back`).

        Offsets of topics that were created again are removed from `StartPositions.committed`.
        Called with partitions that the group has just assigned. Raises KafkaRequestError, or that brokers are away.
        """
        return {}

    def topic_ids(self) -> Mapping[TopicPartition, str]:
        """Return the ids that the topics had when their partitions were assigned; empty where it is not known.

        Only of partitions that are fetched by name: records of a topic that is created again are not told apart.
        """
        return {}

    def ensure_same(self, ids: Mapping[str, str]) -> None:
        """Raise RetriableError if a topic does not have the id that it had when its partitions were assigned.

        What was read since then may be of either topic. `ids` are the present ones of existing topics.
        """

    def read_ahead(self, most: int) -> None:
        """Decode what has arrived by now, unless `most` records wait already. The next `chunks` raises a failure."""

    def begin(self, begins: Mapping[TopicPartition, int]) -> None:
        """Start fetching partitions that the client has just taken over."""

    def let_go(self, places: Collection[TopicPartition]) -> None:
        """Return no more records of partitions that were released (E14)."""

    def close(self) -> None:
        """Release connections. Idempotent."""


class AssignedPartitions:
    """A member's partitions. `take`, `revoke` and `lose` are callbacks of its client."""

    def __init__(
        self,
        client: MemberClient,
        starts: StartPositions,
        assignee: Assignee,
        make_fetcher: "Callable[[AssignedPartitions], Fetcher]",
    ) -> None:
        self.client = client
        self.starts = starts
        self._assignee: Assignee | None = assignee
        self.begins: dict[TopicPartition, int] = {}
        """Where each partition of the assignment began."""
        self.paused: frozenset[TopicPartition] = frozenset()
        self.revoked: set[TopicPartition] = set()
        """Partitions that were released since the caller cleared this."""
        self.membership: MemberIdentity | None = None
        self.fetcher = make_fetcher(self)

    @property
    def places(self) -> frozenset[TopicPartition]:
        return frozenset(self.begins)

    @property
    def is_abandoned(self) -> bool:
        return self._assignee is None

    def abandon(self) -> None:
        """Never call the assignee again. For any thread."""
        self._assignee = None

    def ensure_member(self) -> None:
        """Raise FencedError unless the client still has the membership of the assignment."""
        of, client = self.membership, self.client
        if client.is_closed or of is None or not of.member_id or client.consumer.memberid() != of.member_id:
            raise FencedError(f"no longer a member of group {client.group}")

    def stored(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the group's committed offsets of partitions. Those without one are left out. Raises KafkaException."""
        return self.starts.stored(places, self.membership)

    def read_ahead(self, most: int) -> None:
        """Decode what has arrived by now, so that the next `poll`, of `most` records, has less to do. Raises nothing.

        No callback of the group runs. Records of partitions that are taken away before the next `poll` are dropped.
        """
        if not self.is_abandoned and not self.client.is_closed:
            self.fetcher.read_ahead(most)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching these partitions of the assignment, and resume all others."""
        wanted = self.places.intersection(partitions)
        if wanted == self.paused or self.client.is_closed:
            return
        self.fetcher.stop(wanted - self.paused)
        self.fetcher.resume(self.paused - wanted)
        self.paused = wanted

    def take(self, _: Any, partitions: list[Any]) -> None:
        """Notify the assignee of new partitions, and start to fetch them where it says."""
        with self.client.errors_kept():
            if self.client.is_leaving:  # partitions assigned now are released at once, unannounced
                self.client.assign(partitions)
                return
            places = [TopicPartition(p.topic, p.partition) for p in partitions]
            self.membership = self.client.membership()
            stored = self.stored(places)
            committed = {place: self.starts.committed[place] for place in stored}
            cut = self.fetcher.starts(places, committed)
            stored = {place: at for place, at in stored.items() if place in self.starts.committed}
            fresh = frozenset(places) - stored.keys()
            positions = stored | {place: self.starts.reset(place) for place in sorted(fresh)}
            begins, assignee = dict(positions), self._assignee
            if assignee is not None:
                begins.update(assignee.assigned(positions, fresh))
            cut = {p: at for p, at in cut.items() if goes_back(committed[p], begins[p], at)}
            begins.update(cut)
            self.starts.restarts.update((p, Restart(at, is_cut=True)) for p, at in cut.items())
            self.begins.update(begins)
            self.client.assign([ClientPartition(*place, begins[place]) for place in places])
            self.fetcher.begin({place: begins[place] for place in places})

    def revoke(self, _: Any, partitions: list[Any]) -> None:
        self._release(partitions, is_lost=False)

    def lose(self, _: Any, partitions: list[Any]) -> None:
        self._release(partitions, is_lost=True)

    def _release(self, partitions: list[Any], *, is_lost: bool) -> None:
        places = frozenset(TopicPartition(p.topic, p.partition) for p in partitions) & self.places
        with self.client.errors_kept():
            assignee = self._assignee
            if places and assignee is not None:
                (assignee.lost if is_lost else assignee.revoked)(places)
        for place in places:
            del self.begins[place]
            self.client.due.pop(place, None)
        self.starts.forget(places)
        self.revoked |= places
        self.fetcher.let_go(places)
        with self.client.errors_kept():
            # The client keeps a partition paused when it is assigned again, and then it would never be resumed.
            self.pause(self.paused - places)
            self.client.unassign(partitions)
