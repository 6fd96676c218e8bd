"""How a request to a worker is refused, or fails: one class for each thing that whoever asked can do about it."""

from fencepost.cluster.info import Place


class OperationError(Exception):
    """A request that was refused or failed; `message` is shown to the user as it stands."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotFoundError(OperationError):
    """There is no such connector, task or plugin."""


class AlreadyExistsError(OperationError):
    """A connector of that name exists already."""


class BadRequestError(OperationError):
    """The request can never succeed as it stands: invalid config, wrong state, missing signature."""


class ConflictError(OperationError):
    """A rebalance or a reconfiguration is under way and outlasted the request; ask again."""


class NothingToAlterError(BadRequestError):
    """Offsets are to be altered, and none are named."""

    def __init__(self) -> None:
        super().__init__("Partitions / offsets need to be provided for an alter offsets request")


class ForbiddenError(OperationError):
    """The feature is switched off, or an internal request is signed with another key."""


class NotLeadingError(ConflictError):
    """This worker does not lead, or no more: certainly nothing was changed. Ask whoever leads."""

    TEXT = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."

    def __init__(self) -> None:
        super().__init__(self.TEXT)


class ElsewhereError(OperationError):
    """Another worker has to answer: the one at `url`, which is where `place` was when this was raised.

    The REST layer passes the request on, at most twice.
    """

    TEXT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"

    def __init__(self, place: Place, url: str) -> None:
        super().__init__(self.TEXT)
        self.place = place
        self.url = url


class FencingRefusedError(OperationError):
    """Kafka refuses a round of fencing, for a reason that does not pass: the message is the leader's trace."""


class WriteFailedError(OperationError):
    """What the leader was to write is not, or not certainly, in the config topic; the cause may pass."""

    TEXT = "Failed to write to config topic; this may be due to a transient error and the request can be safely retried"

    def __init__(self) -> None:
        super().__init__(self.TEXT)


class NotReadyError(OperationError):
    """Something is missing that comes by itself: e.g. the session key, which the worker has not read yet."""


class RequestTimeoutError(OperationError):
    """The 90 s of a request are over; the message names the stage that the worker was in."""
