"""Committed offsets of a group that has no members: commits them in a transaction, and reads them.

In a transaction the coordinator accepts offsets that name no member, even for a group that has members, and fences no
one by them: KIP-447 fences members only. Here the transactional id decides which producer may commit (E18).
"""

import time
from collections.abc import Collection, Mapping
from contextlib import closing
from functools import lru_cache
from typing import Any

from confluent_kafka import Consumer

from fencepost.kafka.errors import AGAIN_S, ReadTimeoutError, retry
from fencepost.kafka.group.group_offsets import Committed
from fencepost.kafka.group.group_survey import GroupSurvey
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
