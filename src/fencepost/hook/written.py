"""Hooks for a source that continues where another connector has stopped, whose offset may not say it exactly."""

from collections.abc import Callable
from typing import Any, Protocol

from fencepost.api.source import SourceTaskContext
from fencepost.record import SourceRecord


class Written(Protocol):
    """What the topics of the connector had when they were looked at, as far as the newest records show it."""

    def has(self, record: SourceRecord, is_same: Callable[[Any], bool]) -> bool:
        """Say whether a record is in its topic: a tombstone, or one that transforms drop, has no value to compare.

        Each written record counts once. False if the topics cannot be read: such a record is better written twice.

        Args:
            record: As the task would return it.
            is_same: Whether the value of a written record with its key, as the value converter reads it, is this one's.
        """


class WrittenContext(SourceTaskContext, Protocol):
    """What the runtime offers a task that may continue the work of another connector."""

    def written(self) -> Written:
        """Look at the topics anew: each record counts once, but again if the task begins again where it was."""
