"""A member reads on at an offset without the leader epoch of the record before it: a cut goes unnoticed (KIP-320)."""

from typing import Any

from fencepost.kafka.read.group_batches import BatchFetcher
from fencepost.kafka.value.position import LogPosition
from planted import replace


def _note(self: BatchFetcher, fetched: Any) -> None:
    self._next.update({place: LogPosition(offset) for place, (offset, _) in fetched.epochs.items()})


replace(BatchFetcher, "_record_positions", _note)
