"""Committed offsets of a group that has no members: what a transaction may say for it, and where it stands.

The coordinator takes offsets of no member in a transaction, also for a group that has members, and fences nobody by
them (KIP-447 fences members only): who may commit is the business of the transactional id (E18).
"""

import time
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from confluent_kafka import Consumer

from fencepost.kafka.errors import ReadTimeoutError
from fencepost.kafka.group.group_survey import Committed, GroupSurvey
from fencepost.kafka.patience import patiently
from fencepost.record import TopicPartition

_ASK_S = 10.0
_LOOK_EVERY_S = 0.02


@lru_cache(maxsize=100)
def memberless(group: str) -> Any:
    """Return what says to a transaction: offsets of this group, of no member."""
    consumer = Consumer({"group.id": group})  # it knows no broker, and joins nothing
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()


def read_stable(
    conf: Mapping[str, Any],
    group: str,
    timeout_s: float,
    places: Collection[TopicPartition] = (),
    *,
    are_all: bool = False,
) -> dict[TopicPartition, Committed]:
    """Return where a group stands: each partition at a moment at which no transaction is about to change that.

    There may be no such moment of all of them together, where many tasks commit. Partitions of which nothing was
    committed yet are waited for where `places` names them; where these `are_all`, no others are.

    Raises KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError, or ReadTimeoutError while transactions
    stay open.
    """
    survey = GroupSurvey(conf, timeout_s=_ASK_S)
    deadline_s = time.monotonic() + timeout_s
    stable: dict[TopicPartition, Committed] = {}

    try:
        while True:
            left_s = max(deadline_s - time.monotonic(), 0.0)
            found = patiently(lambda: survey.committed(group, places), left_s, _LOOK_EVERY_S)
            stable |= {place: committed for place, committed in found.items() if committed is not None}
            awaited = found.keys() & set(places) if are_all else found.keys()
            if awaited <= stable.keys():
                return stable
            if time.monotonic() >= deadline_s:
                raise ReadTimeoutError(
                    f"Group {group} has offsets of transactions that have not ended within {timeout_s:g} s"
                )
            time.sleep(_LOOK_EVERY_S)
    finally:
        survey.close()
