"""What goes wrong between the batch client and a broker, before anybody has said what it means."""

from confluent_kafka import KafkaError

BUSY = frozenset({KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.CONCURRENT_TRANSACTIONS})
"""What a broker answers that has done nothing yet, since it is still at work on something earlier: asked again."""


class AnswerError(Exception):
    """A broker answered, and the answer is an error. What was asked has not been done."""

    def __init__(self, code: int, what: str, detail: str | None = None) -> None:
        super().__init__(f"{what}: {KafkaError(code).name()}")
        self.code = code
        self.what = what
        self.detail = detail


class TooLargeError(AnswerError):
    """One record makes a batch that its topic does not take: smaller batches are no remedy."""


class LostError(Exception):
    """A connection could not be made, was lost, or an answer did not come in time.

    `is_sent` says that requests were under way: whether they are carried out, and when, nobody knows; `is_late` that
    the connection was there, and time was up.
    """

    def __init__(self, message: str, *, is_sent: bool, is_late: bool = False) -> None:
        super().__init__(message)
        self.is_sent = is_sent
        self.is_late = is_late


class UnsupportedError(Exception):
    """A broker does not speak a version of a request that the client needs."""


def ensure(code: int, what: str, detail: str | None = None) -> None:
    """Raise AnswerError unless the code of an answer is that of success."""
    if code != KafkaError.NO_ERROR:
        raise AnswerError(code, what, detail)
