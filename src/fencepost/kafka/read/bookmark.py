"""A position in a topic that is stored as the offsets of a consumer group without members.

The position is moved in a transaction, and the transactional id fences other writers. Group membership does not protect
it: in a transaction, a coordinator accepts offsets without a generation even if the group has members (seen on Kafka
4.3.1). So members are looked up first (E10).
"""

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

from fencepost.api.errors import FatalError
from fencepost.kafka.errors import ASK_S
from fencepost.kafka.group.group_admin import GroupAdmin
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.group.memberless import memberless, read_stable
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition


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
