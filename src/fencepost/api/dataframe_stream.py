"""The contract of a stream on Spark: a query turns records of topics into records of topics, exactly once (KIP-447)."""

from fencepost.api.epoch import EpochConnector
from fencepost.config import HIGH, Type, at_least, non_empty, setting


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
