"""Hooks for a source with steps that wait for their commit, and which may continue where another connector stopped."""

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
    """What the runtime offers such a task."""

    def request_commit(self) -> None:
        """Ask for the offsets to be committed after this `poll`. Without transactions they are else at an interval."""

    def written(self) -> Written:
        """Look at the topics anew: each record counts once, but again if the task begins again where it was."""
