"""Errors of Java plug-ins and of the host, grouped by what the caller should do."""

from dataclasses import dataclass

from fencepost.api import ConnectError, FatalError, RetriableError


class JavaUnavailableError(ConnectError):
    """No host can be started here: no Java, no jar of ours, or Kafka's jars cannot be fetched.

    The text says what to do. Everything that needs no Java class works without it.
    """


class HostEndedError(ConnectError):
    """The host is gone, and every object in it with it: a new host must be started.

    Of a `ConnectionLostError`, this holds only for what has used the connection.

    The text says how it ended (exit code or signal, or why it was killed) and has the last lines that it printed.
    """


class ConnectionLostError(HostEndedError):
    """A connection is of no use any more, though the host runs, with all else in it.

    That of a task or connector has ended, as when a thread of the plug-in's interrupts another one at the wrong time:
    nothing of that one can be used any more. Or the host has not answered what it was asked about itself.
    """


class HostKilledError(HostEndedError):
    """Somebody else has killed the host (SIGKILL): most often the system, where memory is short.

    That says little about who used the host.
    """


class HostTimeoutError(HostEndedError):
    """A call was not answered in time. The host has been killed, because its thread cannot be ended in another way."""


class JavaPluginError(FatalError):
    """A class cannot be used. The text names the class and the plug-in's location.

    It is not found, its jar is damaged, it has no public constructor without arguments, it is of another kind, or it
    was compiled for a newer Java.
    """


@dataclass(frozen=True)
class Thrown:
    """An exception of Java: class and message as it was thrown, and its whole stack with all causes."""

    class_name: str
    message: str | None
    trace: str


class _ThrownError(ConnectError):
    def __init__(self, text: str, thrown: Thrown) -> None:
        super().__init__(text)
        self.thrown = thrown


class JavaError(_ThrownError, FatalError):
    """A plug-in has thrown. The text begins with Java's first cause; the stack follows."""


class JavaRetriableError(_ThrownError, RetriableError):
    """A plug-in has thrown a `RetriableException` where Kafka Connect makes the same call again.

    From `put`, transforms and converters that is only Connect's own; from `poll`, task configs and config providers
    also that of Kafka's clients. From any other call it is a JavaError.
    """
