"""Errors, grouped by what the runtime does when one is raised. `ConfigError` lives in `fencepost.config`."""


class ConnectError(Exception):
    """Base of the errors that the runtime distinguishes. Any other exception counts as `FatalError`."""


class RetriableError(ConnectError):
    """The same call is tried again: `poll` at once, a transform or converter within `errors.retry.timeout`."""


class UnavailableError(RetriableError):
    """What a converter or transform needs is away, such as a schema registry; no record is to blame.

    The same call is tried again until it succeeds or the task stops. A positive `errors.retry.timeout` limits this: the
    task fails then. No record is skipped, whatever `errors.tolerance` says.
    """


class RecordError(ConnectError):
    """This record cannot be processed. It is skipped if `errors.tolerance` is `all`; otherwise the task fails."""


class FencedError(ConnectError):
    """A newer owner has taken over this work: the task stops quietly."""


class FatalError(ConnectError):
    """The task fails, with this error as its trace, whatever `errors.tolerance` says."""
