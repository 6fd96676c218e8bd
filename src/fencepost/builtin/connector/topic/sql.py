"""TopicSql: topics into a topic through a query, each record exactly once."""

from fencepost.api import DataFrameStream


class TopicSql(DataFrameStream):
    """Writes the output of `transforms.sql` over the records of its topics to `output.topic`, in the same cluster."""
