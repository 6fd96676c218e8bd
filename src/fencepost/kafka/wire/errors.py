"""Errors between the wire client and a broker, and their conversion to errors that say what the caller should do."""

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError

from fencepost.kafka.errors import NOT_AUTHENTICATED, KafkaRequestError, KafkaUnavailableError, translate

T = TypeVar("T")

BUSY = frozenset({KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.CONCURRENT_TRANSACTIONS})
"""Codes of a broker that has done nothing yet, because it is busy with an earlier request. The request is retried."""
MOVED = frozenset({KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE})
"""Codes of a broker that does not coordinate a group or transactional id, or not yet."""


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


def request_failure(error: Exception, doing: str, bootstrap: str) -> Exception:
    """Convert an error of the wire client, raised while `doing` something, to one of `kafka.errors`.

    Errors that Kafka's protocol calls retriable become KafkaUnavailableError, as does a failed authentication: the next
    one may succeed, so it neither ends a task nor means that a permission is missing.
    """
    from fencepost.kafka.kafka_library import for_code

    if isinstance(error, UnsupportedError):
        return KafkaRequestError(
            f"Failed {doing} (bootstrap.servers={bootstrap}): {error}", KafkaError._UNSUPPORTED_FEATURE
        )
    if not isinstance(error, AnswerError) or getattr(for_code(error.code), "retriable", False):
        return KafkaUnavailableError(f"Kafka did not answer while {doing} (bootstrap.servers={bootstrap}): {error}")
    reason = f"{error.what}: {error.detail or KafkaError(error.code).str()}"
    if error.code in NOT_AUTHENTICATED:
        return KafkaUnavailableError(
            f"Kafka refused the credentials while {doing} (bootstrap.servers={bootstrap}): {reason}. If this "
            "persists, correct them"
        )
    return translate(KafkaError(error.code, reason), doing, bootstrap)


def retry_on(call: Callable[[], T], codes: frozenset[int], deadline_s: float, pause_s: float) -> T:
    """Call again while the answer is one of `codes`, with pauses that grow to twenty times the first.

    Raises what the last call raised.
    """
    longest_s = 20 * pause_s
    while True:
        try:
            return call()
        except AnswerError as error:
            if error.code not in codes or time.monotonic() + pause_s > deadline_s:
                raise
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, longest_s)
