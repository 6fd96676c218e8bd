"""The contract of a DataFrame sink: the runtime plans epochs, Spark reads them, the sink says how they are written.

`Session` and `DataFrame` are PySpark's; they are not imported here so that an executor stays light.
"""

from abc import abstractmethod
from collections.abc import Collection
from typing import ClassVar

from fencepost.api.dataframe import DataFrame, Session
from fencepost.api.epoch import Epoch, EpochConnector


class DataFrameSink(EpochConnector):
    """Writes epochs.

    The runtime plans an epoch, makes its plan durable in the group's offsets, and calls `write`; then makes durable
    what `write` returned, calls `publish`, and commits. After a crash the epoch is finished by whoever takes over: with
    `write` again unless its result is durable, with `publish` in any case.
    """

    writes_at_once: ClassVar[bool] = False
    """Whether `write` is one Spark action, which takes each row of the frame. Then the runtime sees on the way whether
    records are left out that are to be dead letters; else each epoch is read once more to find out."""
    owner: str = ""
    """Which group of which cluster the epochs are of: the runtime says so before it calls anything else."""

    def started(self, session: Session, number: int, tokens: Collection[str]) -> int | None:
        """Called when the group's partitions are this task's, before the first epoch: clean up after earlier ones.

        What was written for epochs before `number` is nobody's any more, unless its token is among `tokens`: that is to
        be published still. Others may be writing later ones: this call may come late, of a start that was replaced.

        Returns the newest number that the store knows of, if it knows any: the next epochs have higher ones, also where
        the group's offsets were deleted, and a zombie from before that takes nobody's work for old.
        """
        return None

    @abstractmethod
    def write(self, session: Session, frame: DataFrame, epoch: Epoch) -> str:
        """Write the rows, and return a token (at most 1,000 characters) by which `publish` will find them.

        Called again, for the same ranges, after a failure or a crash. A store in which a repeat overwrites itself may
        do all here and return "". A store that is to show an epoch once and for all writes aside here. After a token of
        more than 64 bytes it may be called again for fewer ranges, where a broker does not take the tokens of all.
        """

    def publish(self, session: Session, epoch: Epoch, token: str) -> None:
        """Show what `write` wrote for the ranges of the epoch; its token is durable now.

        Must be idempotent: it may be called again by others. `epoch` has fewer ranges than `write` was given where
        topics were deleted, or offsets set, since: what was written for others is not to be shown.
        """

    def published(self, session: Session, epoch: Epoch, token: str) -> None:
        """Called after the epoch is committed, but for crashes: clean up."""
