"""Where the transactions of a source begin and end (KIP-618)."""

from enum import Enum


class TransactionBoundary(Enum):
    """Each batch of `poll`, a time, or what the task says."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


def interval_of(given_ms: int | None, flush_interval_ms: int, timeout_ms: int) -> int:
    """Return after how many milliseconds a transaction with `transaction.boundary=interval` ends.

    Where nobody set it that is `offset.flush.interval.ms`, as in Kafka Connect, but at most half of
    `transaction.timeout.ms`: both are a minute by default, and the broker would end each transaction first.
    """
    return given_ms if given_ms is not None else min(flush_interval_ms, timeout_ms // 2)


class ExactlyOnceDemand(Enum):
    """Whether a connector that cannot be exactly-once may run."""

    REQUESTED = "requested"
    REQUIRED = "required"
