"""When the next epoch is due, and which offsets it has."""

from collections.abc import Mapping

from fencepost.api import EpochConnector
from fencepost.record import TopicPartition
from fencepost.task.sink.epoch_plan import EpochOffsets, OpenEpoch, planned
from fencepost.task.sink.ripeness import Ripeness

_LOOK_S = 0.5


class EpochPlanner:
    """`metadata_max_bytes`: of the metadata in one commit; None if plans need not be durable.

    `known` is the newest number of an epoch that is known elsewhere, such as in the store.
    """

    def __init__(self, connector: EpochConnector, metadata_max_bytes: int | None) -> None:
        self.metadata_max_bytes = metadata_max_bytes
        self.known = 0
        self._rows_max = connector.epoch_rows_max
        self._interval_s = connector.epoch_interval_ms / 1000
        self._ripeness = Ripeness(connector.partition_rows_min, connector.partition_wait_max_ms / 1000)
        self._next_epoch_s = 0.0
        self._look_s = 0.0

    def begins_look(self, now: float) -> bool:
        """Say whether to look now for new records; if so, the next look is due later."""
        if now < min(self._look_s, self._next_epoch_s):
            return False
        self._look_s = now + _LOOK_S
        return True

    def retry(self) -> None:
        """Make the next plan due at once: the last one is not carried out."""
        self._next_epoch_s = 0.0

    def plan(self, offsets: EpochOffsets, ends: Mapping[TopicPartition, int], now: float) -> OpenEpoch | None:
        """Return the next epoch, if it is due."""
        ripe = self._ripeness.ripe({p: s.offset for p, s in offsets.items()}, ends, now)
        if sum(ripe.values()) < self._rows_max and now < self._next_epoch_s:
            return None
        taken = self._ripeness.taken(ripe, self._rows_max)
        ends_taken = {p: offsets[p].offset + count for p, count in taken.items()}
        plan = planned(offsets, ends_taken, self._rows_max, self.known, self.metadata_max_bytes)
        if plan is not None:
            is_all = len(plan.epoch.ranges) == len(ends_taken)  # else the others' epoch follows at once
            self._next_epoch_s = now + (self._interval_s if is_all else 0.0)
        return plan
