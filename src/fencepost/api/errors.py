"""Errors, grouped by what the runtime does when one is raised. `ConfigError` lives in `fencepost.config`."""


class ConnectError(Exception):
    """Base of the errors that the runtime tells apart. Any other exception counts as `FatalError`."""


class RetriableError(ConnectError):
    """Try the same call again: `poll` at once, a transform or converter within `errors.retry.timeout`."""


class RecordError(ConnectError):
    """This record cannot be handled: skipped where `errors.tolerance` is `all`, else the task fails."""


class FencedError(ConnectError):
    """Someone newer owns this work: stop quietly."""


class FatalError(ConnectError):
    """The task fails, with this error as its trace."""
