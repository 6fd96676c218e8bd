"""Committed offsets of a group that has no members: commits them in a transaction, and reads them.

In a transaction the coordinator accepts offsets that name no member, even for a group that has members, and fences no
one by them: KIP-447 fences members only. Here the transactional id decides which producer may commit (E18).
"""

import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from functools import lru_cache
from typing import Any

from confluent_kafka import Consumer

from fencepost.api.errors import FatalError
from fencepost.kafka.errors import AGAIN_S, ASK_S, ReadTimeoutError, retry
from fencepost.kafka.group.group_admin import GroupAdmin
from fencepost.kafka.group.group_offsets import Committed, GroupOffsets
from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition

_ASK_S = 10.0


@lru_cache(maxsize=100)
def memberless(group: str) -> Any:
    """Return group metadata for a transaction that commits offsets of this group without a member."""
    with closing(Consumer({"group.id": group})) as consumer:  # it connects to no broker and joins nothing
        return consumer.consumer_group_metadata()


def read_stable(
    conf: Mapping[str, Any],
    group: str,
    timeout_s: float,
    places: Collection[TopicPartition] = (),
    *,
    are_all: bool = False,
) -> dict[TopicPartition, Committed]:
    """Return the committed offsets of a group, each read while no open transaction may change it.

    They may be read at different moments: when many tasks commit, there may be no moment without an open transaction.
    For partitions in `places` this also waits if a transaction holds their first offset. With `are_all`, it reads
    and waits for no other partitions.

    Raises KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError, or ReadTimeoutError if transactions stay
    open.
    """
    deadline_s = time.monotonic() + timeout_s
    stable: dict[TopicPartition, Committed] = {}
    with closing(GroupSurvey(conf, timeout_s=_ASK_S)) as survey:
        while True:
            left_s = max(deadline_s - time.monotonic(), 0.0)
            found = retry(lambda: survey.committed(group, places), left_s)
            stable |= {place: committed for place, committed in found.items() if committed is not None}
            awaited = found.keys() & set(places) if are_all else found.keys()
            if awaited <= stable.keys():
                return stable
            if time.monotonic() >= deadline_s:
                raise ReadTimeoutError(
                    f"Group {group} has offsets of transactions that have not ended within {timeout_s:g} s"
                )
            time.sleep(AGAIN_S)


class Bookmark:
    """The position in one topic that is stored under a name."""

    def __init__(self, conf: Mapping[str, Any], group: str, topic: str, *, timeout_s: float = ASK_S) -> None:
        """`conf` has a reader's settings, with librdkafka's names. `group` is the name."""
        self.group = group
        self._topic = topic
        self._conf = conf
        self._timeout_s = timeout_s

    def ensure_no_members(self) -> None:
        """Raise FatalError if the group has members: the offsets then belong to them (E10)."""
        with closing(GroupAdmin(self._conf, timeout_s=self._timeout_s)) as admin:
            members = admin.describe(self.group).members
        if members:
            who = ", ".join(sorted(member.host for member in members))
            raise FatalError(f"Group {self.group} is for positions alone, and has members (at {who}): end them first")

    @property
    def metadata(self) -> Any:
        """Return the group metadata for a transaction."""
        return memberless(self.group)

    def read(self, partitions: Iterable[int]) -> dict[int, GroupOffset]:
        """Return the offset of each partition that has one, with its metadata.

        Waits for the end of a transaction that may change them. Raises what `read_stable` raises.
        """
        places = {TopicPartition(self._topic, partition) for partition in partitions}
        found = read_stable(self._conf, self.group, self._timeout_s, places, are_all=True) if places else {}
        return {place.partition: found[place].to_group(place) for place in places & found.keys()}

    def peek(self, partitions: Iterable[int]) -> dict[int, GroupOffset]:
        """Return what was committed last, without waiting: to show it, as it may change at any moment."""
        asked = set(partitions)
        found = GroupOffsets(self._conf, self.group, timeout_s=self._timeout_s).read_with_metadata()
        return {each.partition: each for each in found if each.topic == self._topic and each.partition in asked}
