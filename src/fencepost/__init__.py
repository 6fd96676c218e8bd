"""Fencepost: exactly-once Kafka pipelines on Spark, with the surface of Kafka Connect."""

__version__ = "0.1.0"
"""The version of this package; a test compares it with the chart's."""

KAFKA_CONNECT_VERSION = "4.3.1"
"""The version of Kafka Connect whose REST API, formats and texts these are."""
