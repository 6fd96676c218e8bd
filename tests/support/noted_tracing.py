"""Notes what a loop says of its batches and commits to a tracing system, among what else a test notes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fencepost.task.tracing.tracing import Tracing


class NotedTracing(Tracing):
    """Appends to `log`. Only what loops of sinks and streams call; those of sources are tested with real spans."""

    def __init__(self, log: list[Any]) -> None:
        self._log = log

    @contextmanager
    def _noted(self, name: str) -> Iterator[None]:
        self._log.append(f"{name} begins")
        yield
        self._log.append(f"{name} ends")

    def processing(self, fetched: Any) -> Any:
        return self._noted(f"batch of {len(fetched)}")

    def putting_again(self) -> Any:
        return self._noted("again")

    def step(self, name: str) -> Any:
        return self._noted(name)

    def refused(self, error: BaseException) -> None:
        self._log.append(f"refused: {type(error).__name__}")

    def stamped(self, outgoing: Any) -> Any:
        self._log.append(f"stamped {len(outgoing)}")
        return outgoing

    def commit_begun(self, begun_s: float) -> None:
        self._log.append("commit begins")

    def committed(self, ended_s: float) -> None:
        self._log.append("commit ends")

    def commit_failed(self, error: BaseException) -> None:
        self._log.append(f"commit fails: {type(error).__name__}")

    def dropped(self) -> None:
        self._log.append("over")
