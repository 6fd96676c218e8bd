"""What connectors that process topics in epochs have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fencepost.api.sink import SinkConnector
from fencepost.api.source import ExactlyOnceSupport
from fencepost.config import HIGH, Type, at_least, non_empty, setting
from fencepost.record import TopicPartition


@dataclass(frozen=True, order=True)
class OffsetRange:
    """The records of a partition from `start` up to, but not including, `end`, without aborted ones.

    >>> from fencepost.api import OffsetRange
    >>> str(OffsetRange("orders", 0, start=17, end=20).place)
    'orders-0'
    """

    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class Epoch:
    """A range of offsets for each of some partitions, written as one. A task that takes over keeps its ranges.

    Attributes:
        number: grows with each epoch of a connector's group. It restarts when the group's offsets are deleted, unless
            the sink's `started` returns a higher number; so name files and the like after the ranges.
        ranges: sorted. Row partition `n` of the frame holds the records of range `n`, in order.
        id: unique to this epoch.

    >>> from fencepost.api import Epoch, OffsetRange
    >>> Epoch(7, [OffsetRange("orders", 0, 17, 20), OffsetRange("orders", 1, 4, 9)]).ranges[1].end
    9
    """

    number: int
    ranges: Sequence[OffsetRange]
    id: str = ""


class EpochConnector(SinkConnector):
    """Reads its topics in epochs. Runs on the driver, in one task; Spark's executors read and write the records.

    >>> from fencepost.api import DataFrameSink, DataFrameStream, EpochConnector
    >>> issubclass(DataFrameSink, EpochConnector) and issubclass(DataFrameStream, EpochConnector)
    True
    """

    is_dataframe: ClassVar[bool] = True

    epoch_interval_ms: int = setting(
        "epoch.interval.ms", default=10_000, type=Type.LONG, check=at_least(0),
        doc="The least time between the starts of two epochs while there are fewer new records than `epoch.rows.max`.",
    )  # fmt: skip
    epoch_rows_max: int = setting(
        "epoch.rows.max", default=1_000_000, type=Type.LONG, check=at_least(1),
        doc="The most records of an epoch, counted by offsets. With that many new records an epoch starts at once.",
    )  # fmt: skip
    partition_rows_min: int = setting(
        "epoch.partition.rows.min", default=0, type=Type.LONG, check=at_least(0),
        doc="The least new records, counted by offsets, for which an epoch includes a partition. Fewer records stay in "
        "Kafka until there are more. 0: an epoch takes what there is.",
    )  # fmt: skip
    partition_wait_max_ms: int = setting(
        "epoch.partition.wait.max.ms", default=600_000, type=Type.LONG, check=at_least(0),
        doc="The longest that records wait for `epoch.partition.rows.min`, counted from when the task first sees them. "
        "The count starts again when the task restarts.",
    )  # fmt: skip
    value_schema: str | None = setting(
        "value.schema", default=None,
        doc="The columns of a JSON value, in SQL (`id INT, name STRING`). The value becomes the struct `value`. With "
        "`schemas.enable` each column must fit the schema of its field. Unset: `value` is text, or has the columns of "
        "its schema in a registry.",
    )  # fmt: skip
    value_schema_subject: str | None = setting(
        "value.schema.subject", default=None,
        doc="With a `value.converter` whose schemas are in a registry: the subject whose newest schema defines the "
        "columns of all topics. Unset: of each topic that of its own subject, `TOPIC-value`.",
    )  # fmt: skip
    transforms_sql: str | None = setting(
        "transforms.sql", default=None,
        doc="A query of projections and filters over the table `records`. Its columns are `key`, `value`, `topic`, "
        "`partition`, `offset`, `timestamp` and, if the query names them, `headers`. Unset: the fields of `value` "
        "if it is a struct, else `value` alone.",
    )  # fmt: skip

    def check_together(self) -> list[str]:
        if self.partition_rows_min <= self.epoch_rows_max:
            return []
        least, most = self.key_of("partition_rows_min"), self.key_of("epoch_rows_max")
        return [f"{least}={self.partition_rows_min} is more than an epoch holds: lower it, or raise {most}"]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def refused(self, columns: Mapping[str, str]) -> tuple[str, str] | None:
        """Return a Spark SQL condition for rows that cannot be written, and the reason; None if all rows can be.

        `columns` maps each column name to its expression. Called only if errors are tolerated and rows are the values
        themselves, without a query. Records that meet the condition are left out and become dead letters.
        """
        return None

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        """Return the properties of one task: an epoch covers all partitions, and a Spark task reads each of them."""
        return super().task_configs(1)


class DataFrameStream(EpochConnector):
    """Transforms records with the query `transforms.sql`, in columns from end to end.

    The runtime does all the work. For each range a Spark task writes the rows of the query and commits the end offset
    of the range in one transaction, on behalf of the group's member on the driver. A range that is committed is never
    written again; records of a range that is not committed are planned again.

    >>> from fencepost.api import DataFrameStream
    >>> stream = DataFrameStream({"output.topic": "adults", "transforms.sql": "SELECT value.name FROM records"})
    >>> stream.topic
    'adults'
    """

    epoch_interval_ms: int = setting(
        "epoch.interval.ms", default=500, type=Type.LONG, check=at_least(0),
        doc="The least time between the starts of two epochs while there are fewer new records than `epoch.rows.max`.",
    )  # fmt: skip
    topic: str = setting("output.topic", check=non_empty(), importance=HIGH, doc="The topic to write to.")
    topic_field: str | None = setting(
        "output.topic.field", default=None,
        doc="The column of the query that names the topic of each row; it is not part of the value. A row in which it "
        "is null goes to `output.topic`.",
    )  # fmt: skip
    key_field: str | None = setting(
        "output.key.field", default=None,
        doc="The column of the query that is the key of each row; it stays part of the value. Unset: no key.",
    )  # fmt: skip
