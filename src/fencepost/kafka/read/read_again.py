"""Chooses the reader for headers that librdkafka's Python client could not return."""

from collections.abc import Mapping
from typing import Any

from fencepost.kafka.value.message_headers import ReadAgain


def read_again_by(conf: Mapping[str, Any]) -> ReadAgain:
    """Return a function that reads the headers of records again, with the settings of the client that read them."""
    from fencepost.kafka.read.raw_headers import (
        RawHeaders,
    )  # imports the batch reader, which imports this module's users

    return RawHeaders(conf).read
