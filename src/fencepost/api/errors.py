"""Errors, grouped by what the runtime does when one is raised. `ConfigError` lives in `fencepost.config`."""


class ConnectError(Exception):
    """Base of the errors that the runtime distinguishes. Any other exception counts as `FatalError`.

    >>> from fencepost.api import ConnectError, RecordError, RetriableError
    >>> issubclass(RetriableError, ConnectError) and issubclass(RecordError, ConnectError)
    True
    """


class RetriableError(ConnectError):
    """The same call is tried again: `poll` at once, a transform or converter within `errors.retry.timeout`.

    >>> from fencepost.api import RetriableError, SourceTask
    >>> class FeedTask(SourceTask):
    ...     def poll(self) -> None:
    ...         try:
    ...             self.read()
    ...         except ConnectionError as error:
    ...             raise RetriableError(f"the feed is away: {error}") from error
    """


class UnavailableError(RetriableError):
    """What a converter or transform needs is away, such as a schema registry; no record is to blame.

    The same call is tried again until it succeeds or the task stops. A positive `errors.retry.timeout` limits this: the
    task fails then. No record is skipped, whatever `errors.tolerance` says.

    >>> from fencepost.api import Record, Transform, UnavailableError
    >>> class Enrich(Transform):
    ...     def apply(self, record: Record) -> Record | None:
    ...         try:
    ...             return record.replace(value={**record.value, "city": self.look_up(record.key)})
    ...         except ConnectionError as error:
    ...             raise UnavailableError(f"the directory of cities is away: {error}") from error
    """


class LaggingError(UnavailableError):
    """What is asked says that something is not there, and may only not know of it yet: it is asked again for seconds.

    Whoever raises this raises another error once that is over, so no `errors.retry.timeout` limits it.
    """


class RecordError(ConnectError):
    """This record cannot be processed. It is skipped if `errors.tolerance` is `all`; otherwise the task fails.

    >>> from fencepost.api import Record, RecordError, Transform
    >>> class Positive(Transform):
    ...     def apply(self, record: Record) -> Record | None:
    ...         if record.value["total"] < 0:
    ...             raise RecordError(f"total is {record.value['total']}")
    ...         return record
    """


class FencedError(ConnectError):
    """A newer owner has taken over this work: the task stops quietly.

    >>> from fencepost.api import FencedError, SinkTask
    >>> class TableTask(SinkTask):
    ...     def refuse_if_replaced(self, known: tuple[int, int]) -> None:
    ...         if known > tuple(self.context.fencing_token or ()):
    ...             raise FencedError("another task owns these partitions by now")
    """


class FatalError(ConnectError):
    """The task fails, with this error as its trace, whatever `errors.tolerance` says.

    >>> from fencepost.api import FatalError
    >>> raise FatalError("the table has no column id: add it, or set id.column")
    Traceback (most recent call last):
    fencepost.api.errors.FatalError: the table has no column id: add it, or set id.column
    """
