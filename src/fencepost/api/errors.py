"""Errors, grouped by what the runtime does when one is raised. `ConfigError` lives in `fencepost.config`."""


class ConnectError(Exception):
    """Base of the errors that the runtime distinguishes. Any other exception counts as `FatalError`."""


class RetriableError(ConnectError):
    """The same call is tried again: `poll` at once, a transform or converter within `errors.retry.timeout`."""


class RecordError(ConnectError):
    """This record cannot be processed. It is skipped if `errors.tolerance` is `all`; otherwise the task fails."""


class FencedError(ConnectError):
    """A newer owner has taken over this work: the task stops quietly."""


class FatalError(ConnectError):
    """The task fails, with this error as its trace."""
