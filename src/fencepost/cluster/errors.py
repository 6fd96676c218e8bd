"""Errors of requests to a worker, with one class for each way in which the caller can react."""

from typing import Any, Protocol

from fencepost.cluster.info import Place


class OperationError(Exception):
    """A request was refused or failed. `message` is shown to the user unchanged."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotFoundError(OperationError):
    """There is no such connector, task or plugin."""


class AlreadyExistsError(OperationError):
    """A connector with that name already exists."""


class BadRequestError(OperationError):
    """The same request can never succeed: invalid config, wrong state, missing signature."""


class ConflictError(OperationError):
    """A rebalance or a reconfiguration took longer than the request may. Try again."""


class NothingToAlterError(BadRequestError):
    """A request to alter offsets names none."""

    def __init__(self) -> None:
        super().__init__("Partitions / offsets need to be provided for an alter offsets request")


class ForbiddenError(OperationError):
    """The feature is switched off, or an internal request is signed with another key."""


class NotLeadingError(ConflictError):
    """This worker is not the leader, or no longer. Nothing was changed. Ask the leader."""

    TEXT = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."

    def __init__(self) -> None:
        super().__init__(self.TEXT)


class ElsewhereError(OperationError):
    """Another worker has to answer: the one at `url`, which was responsible for `place` when this was raised.

    The REST layer forwards the request, at most twice.
    """

    TEXT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"

    def __init__(self, place: Place, url: str) -> None:
        super().__init__(self.TEXT)
        self.place = place
        self.url = url


class FencingRefusedError(OperationError):
    """Kafka refuses a round of fencing, for a permanent reason. The message is the leader's trace."""


class WriteFailedError(OperationError):
    """The leader's write is not, or not certainly, in the config topic. The cause may be temporary."""

    TEXT = "Failed to write to config topic; this may be due to a transient error and the request can be safely retried"

    def __init__(self) -> None:
        super().__init__(self.TEXT)


class NotReadyError(OperationError):
    """The worker is still waiting for something, such as the session key, which it has not read yet."""


class RequestTimeoutError(OperationError):
    """The request took longer than 90 s. The message names the stage that the worker had reached."""


class HttpAnswer(Protocol):
    """What an answer of httpx has."""

    status_code: int

    def json(self) -> Any: ...


def error_message(answer: HttpAnswer) -> str:
    """Return the field `message` of an answer's body, or its status if it has none."""
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"
