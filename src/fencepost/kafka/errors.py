"""Errors of Kafka requests, and retries while a broker is not ready yet.

Callers get errors that are grouped by what to do. Those between the wire client and a broker (AnswerError, LostError,
UnsupportedError) are converted to them by `request_failure`.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from fencepost.api.errors import FatalError, RetriableError

T = TypeVar("T")
_UNAVAILABLE = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._PARTIAL,  # the metadata of a cluster that is starting
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_CONTROLLER,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)
NOT_AUTHENTICATED = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
_REFUSED = NOT_AUTHENTICATED | {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}

BUSY = frozenset({KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.CONCURRENT_TRANSACTIONS})
"""Codes of a broker that has done nothing yet, because it is busy with an earlier request. The request is retried."""
MOVED = frozenset({KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE})
"""Codes of a broker that does not coordinate a group or transactional id, or not yet."""


class KafkaUnavailableError(RetriableError):
    """No broker answered in time. The request may have been carried out; it is safe to retry."""


class ReadTimeoutError(KafkaUnavailableError):
    """A log was not read to its end in time: a transaction stayed open, or no broker answered."""


class KafkaAuthorizationError(FatalError):
    """The principal lacks a permission, or authentication failed. An operator must fix it."""


class KafkaRequestError(FatalError):
    """Kafka refused the request, and a retry would be refused too. `code` is Kafka's error code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


TOO_LARGE = frozenset(
    {
        KafkaError.INVALID_COMMIT_OFFSET_SIZE,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.UNKNOWN,  # returned by the group coordinator of Kafka 4
    }
)
"""Codes of a `KafkaRequestError` for a commit that may be larger than the broker accepts."""


class MissingTopicError(KafkaRequestError):
    """The topic does not exist."""


class DataLossError(FatalError):
    """Records that should be read no longer exist: they were deleted, or their topic was."""


class TooFewBrokersError(KafkaRequestError):
    """A topic needs more replicas than there are brokers. Brokers may still be starting: retry for a while."""


def kafka_error(cause: Any) -> Any:
    """Return the client library's `KafkaError` inside an exception; None if there is none."""
    if isinstance(cause, KafkaException) and cause.args and isinstance(cause.args[0], KafkaError):
        return cause.args[0]
    return cause if isinstance(cause, KafkaError) else None


def translate(cause: Any, doing: str, bootstrap: str = "") -> Exception:
    """Return the error to raise when `doing` failed with `cause`, an exception or error of the client library."""
    error = kafka_error(cause)
    at = f" (bootstrap.servers={bootstrap})" if bootstrap else ""
    code = None if error is None else error.code()
    is_short = code == KafkaError.INVALID_REPLICATION_FACTOR
    # A cluster that is starting has brokers, and none of them may have replicas yet. One whose brokers have not
    # registered in time looks the same.
    is_starting = is_short and "brokers are fenced" in error.str()
    if isinstance(cause, TimeoutError) or code in _UNAVAILABLE or is_starting:
        reason = error.str() if error is not None else "no answer in time"
        return KafkaUnavailableError(f"Kafka did not answer while {doing}{at}: {reason}")
    if error is None:
        return KafkaRequestError(f"Failed {doing}: {cause}", KafkaError.UNKNOWN)
    if code in _REFUSED:
        return KafkaAuthorizationError(
            f"Not authorized while {doing}{at}: {error.str()} ({error.name()}). Grant the principal this permission "
            "(`fencepost acls` lists what is needed), or correct its credentials."
        )
    kind = TooFewBrokersError if is_short else KafkaRequestError
    return kind(f"Kafka refused {doing}: {error.str()} ({error.name()})", error.code())


def is_unavailable(error: Any) -> bool:
    """Return whether a `KafkaError` means that a broker cannot be reached for now."""
    return error.code() in _UNAVAILABLE


ASK_S = 30.0
"""How long a question to Kafka may take, with its repetitions."""
AGAIN_S = 0.05


def retry(ask: Callable[[], T], timeout_s: float = ASK_S, every_s: float = AGAIN_S) -> T:
    """Call `ask` until it succeeds or the time is up. A broker that is not yet leader or coordinator answers at once.

    Raises the last KafkaUnavailableError.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except KafkaUnavailableError:
            if time.monotonic() + every_s > deadline_s:
                raise
            time.sleep(every_s)


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
    """Convert an error of the wire client, raised while `doing` something, for its caller.

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
