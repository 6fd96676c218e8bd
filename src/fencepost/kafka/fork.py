"""Ensures that a Kafka client is used only in the process that created it (E8).

librdkafka's threads do not survive a fork: in the child every call hangs, `flush(2)` and `commit(1)` included.
"""

import os


class ForkedClientError(RuntimeError):
    """A client was used outside the process that created it. Create a new one there."""


class ForkGuard:
    """Remembers the process that a client belongs to.

    `check` costs one system call and comes before every use of the client, so that a forked copy raises at
    once instead of hanging.
    """

    __slots__ = ("pid",)

    def __init__(self) -> None:
        self.pid = os.getpid()

    def check(self, what: str) -> None:
        """Raise ForkedClientError, naming `what`, in any process but the creator's."""
        pid = os.getpid()
        if pid != self.pid:  # E8
            raise ForkedClientError(
                f"{what} was created by process {self.pid} and cannot be used by process {pid}: "
                "Kafka clients do not survive a fork; create one in this process."
            )
