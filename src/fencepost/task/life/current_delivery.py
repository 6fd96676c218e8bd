"""The delivery of a running loop, which may commit in the background and may have to be replaced."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from fencepost.kafka.setting.client_settings import most_record_bytes
from fencepost.task.delivery.delivery import Delivery, OnDelivered
from fencepost.task.delivery.outgoing import Outgoing
from fencepost.task.delivery.too_large import with_its_place
from fencepost.task.life.counters import Counters
from fencepost.task.life.task_run import TaskRun
from fencepost.transaction import ProduceError

D = TypeVar("D", bound=Delivery)


class CurrentDelivery(Generic[D]):
    """The delivery that one task instance uses now. Used by the task's thread.

    `on_committed` is called for each commit that has succeeded, in order.
    """

    delivery: D

    def __init__(self, run: TaskRun[Counters], replace: Callable[[], D], on_committed: Callable[[], None]) -> None:
        """`replace` retires the delivery and returns its admitted successor (E5)."""
        self._run = run
        self._replace = replace
        self._on_committed = on_committed
        self._has_failed = False

    def ensure_ready(self) -> None:
        """Wait until a transaction can begin, in another delivery if necessary."""
        if not self.delivery.is_ready():
            self.replace()

    def replace(self) -> None:
        self.learn(wait=True)
        self.delivery = self._replace()

    def send(self, outgoing: Outgoing, origin: Callable[[int], str], on_delivered: OnDelivered | None = None) -> None:
        """Send records in order. An error names one that is too large by its `origin`. Raises ProduceError."""
        try:
            self.delivery.send(outgoing, on_delivered)
        except ProduceError as error:
            most_bytes = most_record_bytes(self._run.spec.output.producer_conf)
            raise with_its_place(error, outgoing, most_bytes, origin) from None

    def learn(self, *, wait: bool) -> None:
        """Handle the commits that have ended. Raises the error of a failed one, after all before it are handled."""
        while ended_s := self._finished(wait):
            for one_s in ended_s:
                self._run.committed(one_s)
                self._on_committed()

    def _finished(self, is_waited_for: bool) -> Sequence[float]:
        try:
            return self.delivery.finished(wait=is_waited_for)
        except BaseException as error:
            self.commit_failed(error)
            raise

    def commit_failed(self, error: BaseException) -> None:
        """Count a failed commit, once: later ones fail with it."""
        if not self._has_failed:
            self._has_failed = True
            self._run.counters.commit_failed()
            self._run.tracing.commit_failed(error)
