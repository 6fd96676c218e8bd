"""The last hour of what tasks have moved, kept by each worker for those that it runs."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

from pydantic import TypeAdapter, ValidationError

from fencepost.cluster.figures import ANSWER_S, ReportedTask, TaskFigures
from fencepost.cluster.past_figures import MOST_POINTS, PERIOD_S, FigureColumns, PastFigures, Sample
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.operation.observation.asking import Asking

log = logging.getLogger(__name__)

PATH = "/internal/past"
_MOST_VALUES = 400_000  # of all connectors, in each of four columns: 13 MB
_KEPT = TypeAdapter(list[PastFigures])


class Past:
    """A chore of the housekeeping, and what `ProbeOperations` answer of it. Any thread."""

    def __init__(
        self,
        url: str,
        snapshot: Callable[[], ClusterSnapshot],
        tasks: Callable[[], Sequence[ReportedTask]],
        questions: Asking,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """`url` is this worker's; `tasks` returns what its tasks do now."""
        self._url = url
        self._snapshot = snapshot
        self._tasks = tasks
        self._questions = questions
        self._now_s = now_s
        self._lock = threading.Lock()
        self._of: dict[str, FigureColumns] = {}
        self._next_s = 0.0

    def look(self) -> None:
        """Keep a sample of each connector with tasks here, every ten seconds."""
        now_s = self._now_s()
        if now_s < self._next_s:
            return
        self._next_s = now_s + PERIOD_S
        found: dict[str, list[TaskFigures]] = {}
        for task in self._tasks():
            found.setdefault(task.connector, []).append(task.figures)
        there = self._snapshot().connectors
        with self._lock:
            self._of = {name: columns for name, columns in self._of.items() if name in there}
            most = max(1, min(MOST_POINTS, _MOST_VALUES // max(1, len(self._of | found.keys()))))
            for name, tasks in found.items():
                if (sample := Sample.of(map(asdict, tasks))) is not None:
                    self._of.setdefault(name, FigureColumns()).add(now_s, sample, most)

    def here(self) -> Sequence[PastFigures]:
        with self._lock:
            return [columns.past(name) for name, columns in self._of.items()]

    def read(self) -> Sequence[PastFigures]:
        assignment = self._snapshot().assignment
        others = {worker.url for worker in assignment.workers} - {self._url} if assignment is not None else set()
        answers = self._questions.ask(others, PATH, ANSWER_S)
        return [*self.here(), *(one for url, body in answers.items() for one in _read(url, body))]


def _read(url: str, body: bytes) -> Sequence[PastFigures]:
    try:
        return _KEPT.validate_json(body)
    except ValidationError as error:  # a worker of another version
        log.debug("what %s has kept cannot be read: %s", url, error)
        return ()
