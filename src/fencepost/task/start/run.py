"""The state that the parts of a running task share: its spec and counters, and its current delivery."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fencepost.kafka.setting.client_settings import most_record_bytes
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.delivery.delivery import Delivery, OnDelivered
from fencepost.task.delivery.outgoing import Outgoing, with_its_place
from fencepost.task.start.counters import Counters
from fencepost.task.tracing.tracing import NO_TRACING, Tracing
from fencepost.transaction import ProduceError

C_co = TypeVar("C_co", bound=Counters, covariant=True)


@dataclass(frozen=True)
class TaskRun(Generic[C_co]):
    """One start of a task: its spec, the worker's requests to it, and its reports to the worker."""

    spec: TaskSpec
    control: Control
    counters: C_co
    report_state: Callable[[RunState], None]
    tracing: Tracing = NO_TRACING

    def commit_begun(self, begun_s: float) -> None:
        """Record that a commit has begun: the records sent since the last call are one transaction."""
        self.counters.commit_begun(begun_s)
        self.tracing.commit_begun(begun_s)

    def committed(self, ended_s: float) -> None:
        """Record that the oldest open transaction was committed at `ended_s`, possibly a while ago."""
        self.counters.committed(ended_s)
        self.tracing.committed(ended_s)


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
        while True:
            try:
                ended_s = self.delivery.finished(wait=wait)
            except BaseException as error:
                self.commit_failed(error)
                raise
            for one_s in ended_s:
                self._run.committed(one_s)
                self._on_committed()
            if not ended_s:
                return

    def commit_failed(self, error: BaseException) -> None:
        """Count a failed commit, once: later ones fail with it."""
        if not self._has_failed:
            self._has_failed = True
            self._run.counters.commit_failed()
            self._run.tracing.commit_failed(error)
