"""Errors of Kafka requests, grouped by what the caller should do, and retries while a broker is not ready yet."""

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
