"""Errors between the batch client and a broker, before they are classified."""

from confluent_kafka import KafkaError

BUSY = frozenset({KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.CONCURRENT_TRANSACTIONS})
"""Codes of a broker that has done nothing yet, because it is busy with an earlier request. The request is retried."""


class AnswerError(Exception):
    """A broker answered with an error. The request was not carried out."""

    def __init__(self, code: int, what: str, detail: str | None = None) -> None:
        super().__init__(f"{what}: {KafkaError(code).name()}")
        self.code = code
        self.what = what
        self.detail = detail


class TooLargeError(AnswerError):
    """A batch of one record is larger than its topic accepts, so smaller batches do not help."""


class LostError(Exception):
    """A connection could not be made, was lost, or an answer did not come in time.

    `is_sent`: requests were in flight, and it is unknown whether and when they are carried out. `is_late`: the
    connection existed, but the time was up.
    """

    def __init__(self, message: str, *, is_sent: bool, is_late: bool = False) -> None:
        super().__init__(message)
        self.is_sent = is_sent
        self.is_late = is_late


class UnsupportedError(Exception):
    """A broker does not support a version of a request that the client needs."""


def ensure(code: int, what: str, detail: str | None = None) -> None:
    """Raise AnswerError unless the code of an answer means success."""
    if code != KafkaError.NO_ERROR:
        raise AnswerError(code, what, detail)
