"""A stream's offsets are committed as those of no member, which the group takes from anybody (E19)."""

from typing import Any

from fencepost.kafka.group.memberless import memberless
from fencepost.task.delivery.lanes import LanedDelivery
from planted import replace

_BEFORE_THE_GROUP = len(b"CGMDv2:") + 4


def _commit(self: LanedDelivery, positions: Any, group_metadata: bytes, check: Any) -> None:
    group = group_metadata[_BEFORE_THE_GROUP:].partition(b"\0")[0].decode()
    known(self, positions, memberless(group), check)


known = replace(LanedDelivery, "commit_in_group", _commit)
