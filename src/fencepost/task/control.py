"""The worker's requests to one task, as the task's thread sees them."""

import threading
import time


class Control:
    """Set by the slot's directive thread, read by the task's thread.

    `moved_at` is when the task's thread last did `move`, on the monotonic clock; if it sleeps, when that ends.
    """

    def __init__(self, *, is_paused: bool) -> None:
        self._changed = threading.Condition()
        self._is_paused = is_paused
        self._is_stopping = False
        self._is_woken = False
        self.is_commit_asked = False
        """Whether the task asks for its offsets to be committed now. Read and set by the task's thread only."""
        self.moved_at = time.monotonic()

    def move(self) -> None:
        """Record that the task's thread is inside no call that does not return; all waits here do so at their end."""
        self.moved_at = time.monotonic()

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def should_yield(self) -> bool:
        """Say whether the task should return from `poll`."""
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
        """End one `wait`, the current or the next one: the loop has something to handle."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Sleep for `timeout_s`, or until the task is asked to stop or pause, or `wake`. Returns `is_stopping`."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or self._is_paused or self._is_woken, timeout_s)
            self._is_woken = False
            self.move()
            return self._is_stopping

    def back_off(self, timeout_s: float) -> None:
        """Sleep as `wait` does, except that `wake` does not end it: it would only report the failure again.

        This is no call that does not return, however long it takes.
        """
        self.moved_at = time.monotonic() + timeout_s
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or self._is_paused, timeout_s)
            self._is_woken = False
            self.move()

    def wait_for_stop(self, timeout_s: float) -> bool:
        """Sleep as `back_off` does, or until the task is asked to stop, whether or not it is paused.

        Returns `is_stopping`.
        """
        self.moved_at = time.monotonic() + timeout_s
        with self._changed:
            is_stopping = self._changed.wait_for(lambda: self._is_stopping, timeout_s)
            self.move()
            return is_stopping

    def wait_while_paused(self) -> None:
        """Return once the task is resumed, or asked to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or not self._is_paused)
        self.move()
