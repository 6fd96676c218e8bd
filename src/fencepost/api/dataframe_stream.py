"""The contract of a stream on Spark: topics become topics by a query, exactly once (KIP-447)."""

from fencepost.api.epoch import EpochConnector
from fencepost.config import HIGH, Type, at_least, non_empty, setting


class DataFrameStream(EpochConnector):
    """Makes records of records by `transforms.sql`, as columns from end to end.

    The runtime does it all: what the query makes of a range is written by a Spark task in one transaction, with the
    offset behind the range, in the name of the group's member on the driver. A range that was written is never written
    again; what was not is planned anew.
    """

    epoch_interval_ms: int = setting(
        "epoch.interval.ms", default=500, type=Type.LONG, check=at_least(0),
        doc="How often an epoch is begun at most, where there are fewer new records than `epoch.rows.max`.",
    )  # fmt: skip
    topic: str = setting("output.topic", check=non_empty(), importance=HIGH, doc="The topic to write to.")
    topic_field: str | None = setting(
        "output.topic.field", default=None,
        doc="The column of the query that names the topic of each row; it is not part of the value. Where it is null "
        "the row goes to `output.topic`.",
    )  # fmt: skip
    key_field: str | None = setting(
        "output.key.field", default=None,
        doc="The column of the query that is the key of each row, and stays part of the value. Unset: no key.",
    )  # fmt: skip
