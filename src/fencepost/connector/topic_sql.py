"""TopicSql: topics into a topic by a query, each record exactly once."""

from fencepost.api import DataFrameStream


class TopicSql(DataFrameStream):
    """Writes what `transforms.sql` makes of the records of its topics to `output.topic`, in the same cluster."""
