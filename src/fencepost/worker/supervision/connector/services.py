"""What connectors on this worker need of it, and the threads in which they are called."""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from fencepost.api import Connector
from fencepost.cluster.threads_by_key import ThreadsByKey
from fencepost.config.closed_topics import ClosedTopics
from fencepost.config.raw import RawConfig
from fencepost.reference import LookedUp
from fencepost.worker.supervision.status import StatusBoard

log = logging.getLogger(__name__)


class StartupCounts(dict[str, int]):
    """How many starts of connectors there were, by outcome. Thread-safe."""

    def __init__(self) -> None:
        super().__init__(attempts=0, successes=0, failures=0, restarts=0)
        self._lock = threading.Lock()

    def add(self, outcome: str) -> None:
        with self._lock:
            self[outcome] += 1


class ConnectorServices:
    """Any thread may call its methods; only `find`, `look_up`, `closed_topics` and `offsets_of` wait."""

    def __init__(
        self,
        find: Callable[[RawConfig], type[Connector]],
        put_task_configs: Callable[[str, Sequence[RawConfig]], "Future[Any]"],
        board: StatusBoard,
        offsets_of: Callable[[str], list[tuple[dict[str, Any], dict[str, Any]]]],
        look_up: Callable[[RawConfig], LookedUp],
        closed_topics: Callable[[str], ClosedTopics],
    ) -> None:
        """`look_up` replaces the references of a config; `closed_topics` is that of `MirrorContext`."""
        self.find = find
        self.look_up = look_up
        self.closed_topics = closed_topics
        self.put_task_configs = put_task_configs
        self.board = board
        self.offsets_of = offsets_of
        self.startups = StartupCounts()
        self._threads = ThreadsByKey(1, "connector")

    def take_turn(self, connector: str, act: Callable[[], None], in_s: float = 0.0) -> "Future[None]":
        """Run `act` in the connector's own thread, after the work that is queued there, or after `in_s` seconds."""
        if in_s == 0:
            return self._threads.submit(connector, _logging_errors, act)
        later = threading.Timer(in_s, self.take_turn, (connector, act))
        later.daemon = True
        later.start()
        return Future()

    def count_startup(self, outcome: str) -> None:
        self.startups.add(outcome)

    def stop(self) -> None:
        """Take no more turns."""
        self._threads.stop()


def _logging_errors(act: Callable[[], None]) -> None:
    try:
        act()
    except BaseException:
        log.exception("the connector host had an unexpected error")
