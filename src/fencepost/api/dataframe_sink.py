"""The contract of a DataFrame sink: the runtime plans epochs, Spark reads them, and the sink writes them.

`Session` and `DataFrame` are PySpark types. They are not imported here so that an executor stays light.
"""

from abc import abstractmethod
from collections.abc import Collection
from typing import ClassVar

from fencepost.api.dataframe import DataFrame, Session
from fencepost.api.epoch import Epoch, EpochConnector


class DataFrameSink(EpochConnector):
    """Writes epochs.

    The runtime plans an epoch, makes its plan durable in the group's offsets, and calls `write`. It then makes the
    token that `write` returned durable, calls `publish`, and commits. After a crash the next task finishes the epoch:
    it calls `write` again unless the token is durable, and it always calls `publish`.

    >>> import uuid
    >>> from pathlib import Path
    >>> from fencepost.api import DataFrameSink, Epoch, setting
    >>> class ParquetEpochs(DataFrameSink):
    ...     path: Path = setting("path", doc="A directory that readers look at.")
    ...
    ...     def write(self, session, frame, epoch: Epoch) -> str:
    ...         from pyspark.sql.functions import array, lit, spark_partition_id
    ...         token = f".{uuid.uuid4().hex}"  # readers do not look at names with a dot
    ...         names = array(*(lit(f"{each.place}-{each.start}") for each in epoch.ranges))
    ...         placed = frame.withColumn("range", names[spark_partition_id()])  # row partition n holds range n
    ...         placed.write.partitionBy("range").parquet(str(self.path / token))
    ...         return token
    ...
    ...     def publish(self, session, epoch: Epoch, token: str) -> None:
    ...         for each in epoch.ranges:
    ...             written = self.path / token / f"range={each.place}-{each.start}"
    ...             if written.exists():  # a repeated call finds nothing to rename
    ...                 written.rename(self.path / written.name)
    """

    writes_at_once: ClassVar[bool] = False
    """Whether `write` is one Spark action that takes each row of the frame. If so, the runtime counts during that
    action whether records are left out as dead letters. Otherwise it reads each epoch a second time to find out."""
    owner: str = ""
    """The group and cluster that the epochs belong to. The runtime sets it before it calls any method."""

    def started(self, session: Session, number: int, tokens: Collection[str]) -> int | None:
        """Called when this task owns the group's partitions, before the first epoch. Clean up after earlier epochs.

        Anything written for epochs before `number` is orphaned unless its token is in `tokens`, in which case it will
        still be published. Leave later epochs alone: this call may come late, from a task that was replaced, while
        its successor writes them.

        Returns the newest epoch number that the store knows, or None. The runtime numbers the next epochs above it.
        Numbers then keep growing even if the group's offsets were deleted, and a zombie from before that deletion
        does not mistake current work for orphaned work.
        """
        return None

    @abstractmethod
    def write(self, session: Session, frame: DataFrame, epoch: Epoch) -> str:
        """Write the rows, and return a token (at most 1,000 characters) by which `publish` finds them.

        Called again, for the same ranges, after a failure or a crash. If a repeated write overwrites the first one, the
        sink may do all its work here and return "". Otherwise write the rows where readers do not see them yet, and
        let `publish` show them. If the token has more than 64 bytes, `write` may be called again for fewer ranges,
        because a broker may refuse a commit that holds the token for all of them.
        """

    def publish(self, session: Session, epoch: Epoch, token: str) -> None:
        """Make visible what `write` wrote for the ranges of the epoch. Its token is durable now.

        Must be idempotent: another task may call it again. `epoch` has fewer ranges than `write` received if topics
        were deleted or offsets were set in between. Do not show what was written for the missing ranges.
        """

    def published(self, session: Session, epoch: Epoch, token: str) -> None:
        """Called after the epoch is committed, to clean up. Not called if the process crashes before."""
