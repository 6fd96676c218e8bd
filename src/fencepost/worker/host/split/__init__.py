"""Tasks of DataFrame sources: splits, each a Spark job, and their part of the channel."""
