"""Reports records that should have been read but are gone."""

import logging

from fencepost.kafka.errors import DataLossError

log = logging.getLogger(__name__)


def report_loss(wanted: object, what: str, *, is_error: bool) -> None:
    """Raise DataLossError, or log an error. `what` says what was lost of the range `wanted`."""
    if is_error:
        raise DataLossError(
            f"{wanted} cannot be read: {what}. Read on from where the log begins now (startingOffsets, or a new "
            "checkpoint), keep records for longer (retention.ms of the topic), or, if the loss is known and accepted, "
            "set option failOnDataLoss to false"
        )
    log.error(
        "%s: %s; what there is of it is read, as failOnDataLoss is false. Find out why records were lost (an unclean "
        "election, too few replicas, retention.ms), and read them again from where they came from",
        wanted, what,
    )  # fmt: skip
