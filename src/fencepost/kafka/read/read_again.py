"""Which reader reads headers again that librdkafka's Python client could not return."""

from collections.abc import Mapping
from typing import Any

from fencepost.kafka.value.message_headers import ReadAgain


def read_again_by(conf: Mapping[str, Any]) -> ReadAgain:
    """Return what reads headers again, of records that a client of these settings has read."""
    from fencepost.kafka.read.raw_headers import RawHeaders  # which reads batches, and they import who reads messages

    return RawHeaders(conf).read
