"""What is reported of a DataFrame task: by its own thread, and by the one that watches whether it moves."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from fencepost.task.channel.message import RunState
from fencepost.task.life.counters import Counters
from fencepost.task.life.remark import Remark


class FrameStatus:
    """Thread-safe. `waits_for` is shown in the task's status while it runs; once `is_silent`, nothing is reported."""

    def __init__(
        self,
        remark: Remark,
        counters: Callable[[], Counters],
        publish: Callable[[str | None, Mapping[str, float]], None],
    ) -> None:
        """`publish` sends the task's report with a trace, and with further counters."""
        self.waits_for: str | None = None
        self.is_silent = False
        self._remark = remark
        self._counters = counters
        self._send = publish
        self._lock = threading.Lock()
        self._said: Any = (None, None)

    def report(self, state: RunState, trace: str | None = None) -> None:
        """Report a state, and its trace. After the last one nothing follows."""
        with self._lock:
            self._counters().state = state
            self._remark.trace = self.waits_for if state is RunState.RUNNING else trace
            self._publish(self._remark.of(state, self._retried))
            if state.is_over:  # `abandon` may set it at the same moment
                self.is_silent = True

    def look(self, spark: str | None) -> None:
        """Report whether the task stands still, and what is said of its Spark, if either has changed."""
        with self._lock:
            state = self._counters().state
            trace, counters = self._remark.of(state, self._retried)
            of_spark = spark if state is RunState.RUNNING else None
            said = "\n\n".join(filter(None, (trace, of_spark))) or None, counters
            if said != self._said:
                self._publish(said)

    @property
    def _retried(self) -> str | None:
        return self._counters().errors.retried.text

    def _publish(self, said: tuple[str | None, dict[str, float]]) -> None:
        self._said = said
        if not self.is_silent:
            self._send(*said)
