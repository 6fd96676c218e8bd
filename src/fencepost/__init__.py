"""Fencepost: exactly-once Kafka pipelines on Spark, with the surface of Kafka Connect."""

try:
    from fencepost._version import __version__ as __version__
except ImportError:  # a source tree that was not installed
    __version__ = "0.0.0"

KAFKA_CONNECT_VERSION = "4.3.1"
"""The version of Kafka Connect whose REST API, formats and texts these are."""
