"""Fencepost: exactly-once Kafka pipelines on Spark, with the surface of Kafka Connect."""

__version__ = "0.1.0"
