"""Commands that wait for the leader's thread."""

import queue
import time
from concurrent.futures import Future
from dataclasses import dataclass, field

from fencepost.cluster.command import ConnectorCommand, PutTaskConfigs
from fencepost.cluster.errors import NotReadyError, OperationError
from fencepost.storage.snapshot import ClusterSnapshot


@dataclass
class QueuedCommand:
    command: ConnectorCommand
    outcome: "Future[ClusterSnapshot]" = field(default_factory=Future)

    def answer(self, outcome: ClusterSnapshot | Exception) -> None:
        if isinstance(outcome, Exception):
            self.outcome.set_exception(outcome)
        else:
            self.outcome.set_result(outcome)


class CommandQueue:
    """Any thread may `submit`, `wake` and `close`; the leader's thread takes."""

    def __init__(self, *, tick_s: float = 1.0, company_s: float = 0.02) -> None:
        """`company_s` is how long task configs wait for more."""
        self._tick_s, self._company_s = tick_s, company_s
        self._queue: queue.Queue[QueuedCommand | None] = queue.Queue()
        self.is_closed = False

    def submit(self, command: ConnectorCommand) -> "Future[ClusterSnapshot]":
        """Queue a command. It is refused if the queue is closed."""
        queued = QueuedCommand(command)
        if self.is_closed:
            queued.answer(self.refusal())
        else:
            self._queue.put(queued)
        return queued.outcome

    def wake(self) -> None:
        """End a `take` that waits."""
        self._queue.put(None)

    def close(self) -> None:
        self.is_closed = True
        self.wake()

    def is_empty(self) -> bool:
        return self._queue.empty()

    @staticmethod
    def refusal() -> OperationError:
        """Return the answer to commands that are not carried out any more."""
        return NotReadyError("The worker is shutting down")

    def take(self) -> list[QueuedCommand]:
        """Wait for the next command, a wake-up or a tick; return all commands that are queued by then.

        Task configs, for which no user waits, wait a moment for more, because connectors are often created together.
        """
        taken: list[QueuedCommand] = []
        go_at_s = time.monotonic() + self._tick_s
        while True:
            try:
                queued = self._queue.get(timeout=max(0.0, go_at_s - time.monotonic()))
            except queue.Empty:
                return taken
            if queued is not None:
                taken.append(queued)
                is_patient = isinstance(queued.command, PutTaskConfigs)
                go_at_s = min(go_at_s, time.monotonic() + self._company_s if is_patient else 0.0)
            elif not taken:
                go_at_s = 0.0
