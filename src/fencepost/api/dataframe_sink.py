"""The contract of a DataFrame sink: the runtime plans epochs, Spark reads them, the sink says how they are written.

`Session` and `DataFrame` are PySpark's; they are not imported here so that an executor stays light.
"""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fencepost.api.dataframe import DataFrame, Session
from fencepost.api.sink import SinkConnector
from fencepost.config import Type, at_least, setting
from fencepost.record import TopicPartition


@dataclass(frozen=True, order=True)
class OffsetRange:
    """A piece of a partition: the records from `start` up to, but not including, `end`; aborted ones are left out."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class Epoch:
    """A piece of the topics that is written as one. It is finished with the same ranges, whoever finishes it.

    `number` grows with each epoch of a connector's group, and begins anew when the group's offsets are reset: what is
    named should be named by the ranges. `ranges` are sorted; row partition `n` of the frame holds range `n`, in order.
    `id` is this epoch's alone.
    """

    number: int
    ranges: Sequence[OffsetRange]
    id: str = ""


class DataFrameSink(SinkConnector):
    """Writes epochs. Runs on the driver, in one task; what it writes, Spark's executors write.

    The runtime plans an epoch, makes its plan durable in the group's offsets, and calls `write`; then makes durable
    what `write` returned, calls `publish`, and commits. After a crash the epoch is finished by whoever takes over: with
    `write` again unless its result is durable, with `publish` in any case.
    """

    is_dataframe: ClassVar[bool] = True
    writes_at_once: ClassVar[bool] = False
    """Whether `write` is one Spark action, which takes each row of the frame. Then the runtime sees on the way whether
    records are left out that are to be dead letters; else each epoch is read once more to find out."""
    owner: str = ""
    """Which group of which cluster the epochs are of: the runtime says so before it calls anything else."""

    epoch_interval_ms: int = setting(
        "epoch.interval.ms", default=10_000, type=Type.LONG, check=at_least(0),
        doc="How often an epoch is begun at most, where there are fewer new records than `epoch.rows.max`.",
    )  # fmt: skip
    epoch_rows_max: int = setting(
        "epoch.rows.max", default=1_000_000, type=Type.LONG, check=at_least(1),
        doc="The most records of an epoch, by their offsets; with so many new ones it begins at once.",
    )  # fmt: skip
    partition_rows_min: int = setting(
        "epoch.partition.rows.min", default=0, type=Type.LONG, check=at_least(0),
        doc="The least new records, by their offsets, that an epoch takes of a partition; where there are fewer they "
        "wait for more, in Kafka. 0: whatever there is.",
    )  # fmt: skip
    partition_wait_max_ms: int = setting(
        "epoch.partition.wait.max.ms", default=600_000, type=Type.LONG, check=at_least(0),
        doc="How long records wait for that. Counted from when they are first seen; anew when the task starts.",
    )  # fmt: skip
    value_schema: str | None = setting(
        "value.schema", default=None,
        doc="The columns of a JSON value, as in SQL (`id INT, name STRING`): it becomes the struct `value`. Unset: "
        "`value` is text.",
    )  # fmt: skip
    transforms_sql: str | None = setting(
        "transforms.sql", default=None,
        doc="A query over the records, called `records`: projections and filters. There are `key`, `value`, `topic`, "
        "`partition`, `offset`, `timestamp` and, where the query names them, `headers`. Unset: the fields of `value` "
        "where it is a struct, else `value` alone.",
    )  # fmt: skip

    def check_together(self) -> list[str]:
        if self.partition_rows_min <= self.epoch_rows_max:
            return []
        least, most = self.key_of("partition_rows_min"), self.key_of("epoch_rows_max")
        return [f"{least}={self.partition_rows_min} is more than an epoch holds: lower it, or raise {most}"]

    def started(self, session: Session, number: int, tokens: Collection[str]) -> None:
        """Called when the group's partitions are this task's, before the first epoch: clean up after earlier ones.

        What was written for epochs before `number` is nobody's any more, unless its token is among `tokens`: that is to
        be published still. Others may be writing later ones: this call may come late, of a start that was replaced.
        """

    @abstractmethod
    def write(self, session: Session, frame: DataFrame, epoch: Epoch) -> str:
        """Write the rows, and return a token (at most 1,000 characters) by which `publish` will find them.

        Called again, for the same ranges, after a failure or a crash. A store in which a repeat overwrites itself may
        do all here and return "". A store that is to show an epoch once and for all writes aside here.
        """

    def publish(self, session: Session, epoch: Epoch, token: str) -> None:
        """Show what `write` wrote; its token is durable now. Must be idempotent: it may be called again by others."""

    def published(self, session: Session, epoch: Epoch, token: str) -> None:
        """Called after the epoch is committed, but for crashes: clean up."""

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        """Return the properties of one task: an epoch covers all partitions, each read by a Spark task of its own."""
        return super().task_configs(1)
