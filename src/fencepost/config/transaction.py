"""Where the transactions of a source begin and end (KIP-618)."""

from enum import Enum


class TransactionBoundary(Enum):
    """Each batch of `poll`, a time, or what the task says."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


class ExactlyOnceDemand(Enum):
    """Whether a connector that cannot be exactly-once may run."""

    REQUESTED = "requested"
    REQUIRED = "required"
