"""The error that bad settings raise."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from fencepost.secret.redaction import redacted

T = TypeVar("T")


class ConfigError(ValueError):
    """One or more settings are wrong. `messages` has one text per fault, each naming its key (E12).

    Passwords in URLs and in JAAS configs are hidden, as a text may show the value that is wrong (E11).

    >>> from fencepost.api import Config, ConfigError, setting
    >>> class FeedConfig(Config):
    ...     retries: int = setting("retries")
    >>> try:
    ...     FeedConfig({"retries": "many"})
    ... except ConfigError as error:
    ...     print(error.messages[0])
    Invalid value many for configuration retries: Not a number of type LONG
    """

    def __init__(self, messages: str | Sequence[str]) -> None:
        given = (messages,) if isinstance(messages, str) else messages
        self.messages: tuple[str, ...] = tuple(map(redacted, given))
        super().__init__("\n".join(self.messages))


def collected(make: Callable[[], T], otherwise: T, faults: list[str]) -> T:
    """Return what `make` returns; if it raises ConfigError, add the faults to `faults`, and return `otherwise`."""
    try:
        return make()
    except ConfigError as error:
        faults += error.messages
        return otherwise
