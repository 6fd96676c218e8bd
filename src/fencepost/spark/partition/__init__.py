"""The rows of one Spark partition, written exactly once."""
