"""The start positions of a stream task: offsets that no open transaction may change (KIP-447, E20).

The order is: fence ▸ read stable offsets ▸ while one is pending: fence ▸ read again. A pending offset is never treated
as a missing one.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fencepost.kafka.errors import ASK_S, KafkaAuthorizationError, ReadTimeoutError, retry
from fencepost.kafka.group.group_offsets import Committed, contribution_of
from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.kafka.value.position import MemberGeneration
from fencepost.record import TopicPartition, place_names
from fencepost.transaction.errors import WriterOpenError
from fencepost.transaction.input_fence import Fenced, InputFence

log = logging.getLogger(__name__)

Places = Collection[TopicPartition]
CommittedOffsets = Mapping[TopicPartition, Committed | None]

_LOOK_S, _LONGEST_LOOK_S = 0.02, 0.5
_LONGEST_WAIT_S = 75.0
_BLIND = "producers of pending offsets are known only from metadata"


class StablePositions:
    """Reads the committed offsets of a group once no open transaction may change them. For the thread of one task."""

    def __init__(
        self,
        consumer_conf: Mapping[str, Any],
        producer_conf: Mapping[str, Any],
        own_ids: Collection[str] = (),
        *,
        on_fenced: Callable[[list[Fenced]], None] = lambda fenced: None,
        on_waiting: Callable[[str], None] = lambda why: None,
        is_over: Callable[[], bool] = lambda: False,
        timeout_s: float = _LONGEST_WAIT_S,
        foreign: Collection[str] = (),
    ) -> None:
        """Both confs use librdkafka's names; the consumer's has the group. `own_ids` are the task's transactional ids.

        `on_fenced` receives the producers that were fenced. `on_waiting` receives the reason for waiting, or "" when
        the wait is over. `is_over` returns whether the positions are no longer needed. For a transaction that cannot
        be fenced this waits up to `timeout_s`. `foreign`: prefixes of ids that are never fenced for their name.
        """
        self._group = str(consumer_conf["group.id"])
        self._own_ids = frozenset(own_ids)
        self._survey = GroupSurvey(consumer_conf, timeout_s=ASK_S)
        self._fence = InputFence(producer_conf, foreign=foreign)
        self._is_over = is_over
        self._timeout_s = timeout_s
        self._report = _Report(self._group, on_fenced, on_waiting)

    def read(self, places: Places, membership: MemberGeneration | None = None) -> dict[TopicPartition, Committed]:
        """Return the group's committed offsets. Partitions without one are left out, pending ones never are.

        Raises ReadTimeoutError if offsets stay pending, StaleMemberError if a producer would have to be fenced but the
        generation of `membership` is over, and what `GroupSurvey` and `InputFence` raise.
        """
        try:
            self._clear(places, membership)
            self._clear_holders(places, membership)
            committed_offsets = self._committed_now(places)
            if pending := _pending(committed_offsets, places):
                committed_offsets = self._awaited(places, pending, membership)
        finally:
            self.close()  # it may be hours until they are used again
        return {place: at for place, at in committed_offsets.items() if at is not None and place in places}

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._survey.close()
        self._fence.close()

    def _committed_now(self, places: Places) -> CommittedOffsets:
        return retry(lambda: self._survey.committed(self._group, places))

    def _awaited(self, places: Places, pending: Places, membership: MemberGeneration | None) -> CommittedOffsets:
        """Return the group's offsets once none of `places` is pending, however the transactions end."""
        deadline_s, look_s = time.monotonic() + self._timeout_s, _LOOK_S
        try:
            while True:
                self._report.waiting(
                    f"another producer's transaction has offsets of {place_names(pending)}, and must end first"
                )
                if time.monotonic() >= deadline_s or self._is_over():
                    raise ReadTimeoutError(
                        f"Group {self._group} has offsets of {place_names(pending)} in a transaction that has not "
                        f"ended within {self._timeout_s:g} s, and that could not be fenced"
                    )
                time.sleep(look_s)
                look_s = min(look_s * 2, _LONGEST_LOOK_S)
                self._clear(pending, membership)
                committed_offsets = self._committed_now(places)
                if not (pending := _pending(committed_offsets, places)):
                    return committed_offsets
        finally:
            self._report.waiting("")

    def _clear(self, places: Places, membership: MemberGeneration | None) -> None:
        """Fence the producers with pending offsets of these partitions. `_awaited` waits for those it cannot fence."""
        try:
            self._report.fenced(self._fenced(places, membership))
        except WriterOpenError as error:
            if not error.is_denied:
                raise
            self._report.denied(f"cannot fence producers with pending offsets of {place_names(places)}", error)

    def _fenced(self, places: Places, membership: MemberGeneration | None) -> list[Fenced]:
        is_current = self._is_current(membership)
        try:
            return self._fence.clear(self._group, places, self._own_ids, is_current=is_current)
        except KafkaAuthorizationError as error:
            self._report.denied(_BLIND, error)
        unstable = _pending(self._committed_now(places), places)
        metadata = self._survey.metadata(self._group, unstable) if unstable else {}
        contributors = {
            place: named for place, text in metadata.items() if (named := contribution_of(text)) is not None
        }
        return self._fence.clear_named(self._group, contributors, self._own_ids, is_current=is_current)

    def _clear_holders(self, places: Places, membership: MemberGeneration | None) -> None:
        """Fence the producers of another program that each serve one of these partitions alone."""
        is_current = self._is_current(membership)
        try:
            self._report.fenced(self._fence.clear_holders(self._group, places, self._own_ids, is_current=is_current))
        except KafkaAuthorizationError as error:
            self._report.denied(_BLIND, error)

    def _is_current(self, membership: MemberGeneration | None) -> Callable[[], bool]:
        return lambda: membership is None or self._survey.is_current(self._group, *membership)


class _Report:
    """Says in the log, and to the task, who was fenced and what is waited for."""

    def __init__(
        self, group: str, on_fenced: Callable[[list[Fenced]], None], on_waiting: Callable[[str], None]
    ) -> None:
        self._group, self._on_fenced, self._on_waiting = group, on_fenced, on_waiting
        self._waiting = ""
        self._denied: set[str] = set()

    def waiting(self, why: str) -> None:
        if why != self._waiting:
            self._waiting = why
            if why:
                log.info("group %s: waiting: %s", self._group, why)
            self._on_waiting(why)

    def fenced(self, fenced: list[Fenced]) -> None:
        for each in fenced:
            log.warning("group %s: fenced %s", self._group, each)
        if fenced:
            self._on_fenced(fenced)

    def denied(self, what: str, error: Exception) -> None:
        """Log, once per reason, what a missing permission prevents. It is tried again the next time."""
        if str(error) not in self._denied:
            self._denied.add(str(error))
            log.warning("group %s: %s: %s", self._group, what, error)


def _pending(committed_offsets: CommittedOffsets, places: Places) -> list[TopicPartition]:
    return sorted(place for place in places if place in committed_offsets and committed_offsets[place] is None)
