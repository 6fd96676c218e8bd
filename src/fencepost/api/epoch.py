"""Topics in pieces that Spark reads: what connectors that work in epochs have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

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

    `number` grows with each epoch of a connector's group. It begins anew when the group's offsets are deleted, unless
    the sink's `started` knows better: what is named should be named by the ranges.
    `ranges` are sorted; row partition `n` of the frame holds range `n`, in order. `id` is this epoch's alone.
    """

    number: int
    ranges: Sequence[OffsetRange]
    id: str = ""


class EpochConnector(SinkConnector):
    """Reads its topics in epochs. Runs on the driver, in one task; Spark's executors read, and write."""

    is_dataframe: ClassVar[bool] = True

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
        doc="The columns of a JSON value, as in SQL (`id INT, name STRING`): it becomes the struct `value`. With "
        "`schemas.enable` each has to fit the schema of its field. Unset: `value` is text.",
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

    def refused(self, columns: Mapping[str, str]) -> tuple[str, str] | None:
        """Return a condition, in Spark's SQL, of rows that cannot be written, and why they cannot; None: all can be.

        `columns` has the expression of each column, by its name. Asked where errors are tolerated and rows are made of
        values alone, by no query: such records are left out, and are dead letters.
        """
        return None

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        """Return the properties of one task: an epoch covers all partitions, each read by a Spark task of its own."""
        return super().task_configs(1)
