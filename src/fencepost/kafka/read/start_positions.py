"""Where a group's member starts to read the partitions that it is assigned."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.errors import KafkaRequestError
from fencepost.kafka.group.committed_offsets import Committed
from fencepost.kafka.read.known_positions import KnownPositions
from fencepost.kafka.read.member_client import MemberClient, MemberIdentity
from fencepost.kafka.retrying import ASK_S
from fencepost.kafka.value.group_metadata import MemberGeneration
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.value.log_gap import NO_EPOCH
from fencepost.record import TopicPartition

_RESET = "auto.offset.reset"


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
        f"There is no offset to start from in {place.topic}-{place.partition}: {why}; auto.offset.reset is none: set "
        "the offset (PATCH /connectors/<name>/offsets)",
        KafkaError._AUTO_OFFSET_RESET,
    )


def client_reset(conf: Mapping[str, Any], whole: Collection[str]) -> dict[str, str]:
    """Return the rule of a client that reads topics in `whole` from their earliest record.

    The client has one rule for all topics. With `latest` it would skip records of these.
    """
    return {_RESET: "earliest"} if whole and conf.get(_RESET) == "latest" else {}


class StartPositions:
    """The committed offsets of a group, and the edges of logs where there are none."""

    def __init__(self, client: MemberClient, whole: Collection[str], reader: PositionReader | None) -> None:
        """Topics in `whole` start at their earliest record. `reader` reads offsets in place of the client."""
        self._client = client
        self._whole = whole
        self._reader = reader
        self._resets_to = str(client.conf.get(_RESET, "earliest"))
        self.committed: dict[TopicPartition, GroupOffset] = {}
        """The assignment's committed offsets, as of the time of the assignment."""
        self.known = KnownPositions()
        """The topics and leader epochs of committed offsets, and of what was read after them."""

    def stored(self, places: Sequence[TopicPartition], membership: MemberIdentity | None) -> dict[TopicPartition, int]:
        """Return the group's committed offsets. Partitions without one are left out. Raises KafkaException."""
        if not places:
            return {}
        if self._reader is not None:
            found = self._reader.read(places, None if membership is None else membership.in_requests())
            self.committed.update((place, committed.to_group(place)) for place, committed in found.items())
            return {place: committed.offset for place, committed in found.items()}
        stored = {}
        asked = [ClientPartition(*place) for place in places]
        for each in self._client.consumer.committed(asked, timeout=ASK_S):
            if each.error is not None:
                raise KafkaException(each.error)
            if each.offset >= 0:
                place, epoch = TopicPartition(each.topic, each.partition), each.leader_epoch
                committed = GroupOffset(*place, each.offset, _metadata_of(each), NO_EPOCH if epoch is None else epoch)
                stored[place] = committed.offset
                self.committed[place] = committed
        return stored

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Forget what is known of partitions that are no longer in the assignment."""
        self.known.forget(places)
        for place in places:
            self.committed.pop(place, None)

    def reset(self, place: TopicPartition) -> int:
        """Return the start offset of a partition without a committed offset. Raises KafkaException."""
        if self.resets_of(place) == "error":
            raise KafkaRequestError(
                f"Group {self._client.group} has committed nothing for {place.topic}-{place.partition}, and "
                "auto.offset.reset is none: set its offset (PATCH /connectors/<name>/offsets)",
                KafkaError._AUTO_OFFSET_RESET,
            )
        return self.edge(place, *self._client.edges(place, ASK_S))

    def edge(self, place: TopicPartition, begin: int, end: int) -> int:
        """Return the edge of a partition's log at which `auto.offset.reset` starts."""
        return end if self.resets_of(place) == "latest" else max(begin, 0)

    def resets_of(self, place: TopicPartition) -> str:
        """Return the value of `auto.offset.reset` for a partition: earliest, latest or error."""
        return "earliest" if place.topic in self._whole else self._resets_to


def _metadata_of(committed: Any) -> str:
    """Return the metadata of an offset that was committed by a client of this kind.

    The client expects metadata to end with a zero byte, as its own does, and reads past the end of any other, so the
    result may not be text. Only our own metadata matters here.
    """
    try:
        return str(committed.metadata or "")
    except UnicodeDecodeError:
        return ""
