"""What the worker wants of one task, as seen by the task's thread."""

import threading


class Control:
    """Set by the slot's directive thread, heeded by the task's thread."""

    def __init__(self, *, is_paused: bool) -> None:
        self._changed = threading.Condition()
        self._is_paused = is_paused
        self._is_stopping = False
        self._is_woken = False

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def should_yield(self) -> bool:
        """Say whether the task should come back from `poll`."""
        return self._is_stopping or self._is_paused

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def pause(self) -> None:
        with self._changed:
            self._is_paused = True
            self._changed.notify_all()

    def resume(self) -> None:
        with self._changed:
            self._is_paused = False
            self._changed.notify_all()

    def wake(self) -> None:
        """End one `wait`, the present or the next: the loop has something to see to."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Sleep for `timeout_s`, or until the task is to stop or pause. Returns `is_stopping`."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or self._is_paused or self._is_woken, timeout_s)
            self._is_woken = False
            return self._is_stopping

    def back_off(self, timeout_s: float) -> None:
        """Sleep as `wait` does, but `wake` does not end this: what there is to see to is what failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or self._is_paused, timeout_s)
            self._is_woken = False

    def wait_for_stop(self, timeout_s: float) -> bool:
        """Sleep for `timeout_s`, or until the task is to stop, paused or not. Returns `is_stopping`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_stopping, timeout_s)

    def wait_while_paused(self) -> None:
        """Return once the task is resumed or is to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or not self._is_paused)
