"""Carries out attempts against a real broker, and returns what a reader saw."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation, Verdict, judge
from support.late.attempt import Attempt
from support.late.group_task import GroupTask
from support.late.lateness import Lateness
from support.late.lone_task import LoneTask
from support.proxy import Action, KafkaProxy

_SOCKET_TIMEOUT_MS = 1_500  # where a request is withheld without a reset: how long the client waits


@dataclass(frozen=True)
class Outcome:
    """The result of an attempt. `position` is the committed one."""

    attempt: Attempt
    watched: Verdict
    read_afterwards: Verdict
    position: int
    was_met: bool
    was_late: bool
    producers_retired: int
    failure: str | None

    @property
    def is_exact(self) -> bool:
        is_clean = self.watched.is_clean and self.read_afterwards.is_clean
        return is_clean and self.position == self.attempt.total and self.failure is None

    def __str__(self) -> str:
        met = "late" if self.was_late else "met" if self.was_met else "not met"
        wrong = f"position {self.position}, {self.failure or 'no failure'}; {self.watched}; {self.read_afterwards}"
        verdict = "exact" if self.is_exact else wrong
        return f"{self.attempt}: {met}, {self.producers_retired} replaced, {verdict}"


class Trials:
    """Runs one attempt after another on a broker."""

    def __init__(self, bootstrap: str, name: str, metadata: Any, conf: Mapping[str, Any] | None = None) -> None:
        """`name` begins the names of topics, and is that of a group; `metadata`: of a live member of it.

        `conf`: of the tasks' producers.
        """
        self._bootstrap = bootstrap
        self._name = name
        self._metadata = metadata
        self._conf = dict(conf or {})
        self._admin = Admin({"bootstrap.servers": bootstrap})
        self._count = 0

    def run(self, attempt: Attempt, within_s: float = 240.0) -> Outcome:
        """Run a task to its end through the fault. Raises AssertionError where it does not get there."""
        self._count += 1
        topic = f"{self._name}-{self._count}"
        self._admin.topics.create(topic, partitions=2, replication=1)
        with (
            CommittedReader(self._bootstrap, [topic]) as reader,
            KafkaProxy(self._bootstrap) as proxy,
            self._task(attempt, topic, proxy) as task,
        ):
            lateness = Lateness(proxy, attempt, task.transactional_ids)
            last = str(attempt.total - 1).encode()

            def is_over() -> bool:
                return lateness.maybe_release() or any(seen.value == last for seen in reader.seen())

            eventually(is_over, within_s=within_s, every_s=0.005)
            lateness.deliver()
            return Outcome(
                attempt,
                _verdict(attempt, reader.catch_up()),
                _verdict(attempt, reader.read_all()),
                task.position(),
                lateness.was_met,
                lateness.was_late and attempt.action is not Action.RESET,
                task.producers_retired,
                task.failure,
            )

    def _task(self, attempt: Attempt, topic: str, proxy: KafkaProxy) -> "LoneTask | GroupTask":
        conf = self._conf | ({"socket.timeout.ms": _SOCKET_TIMEOUT_MS} if attempt.action is Action.HOLD else {})
        via = proxy.bootstrap_servers
        if attempt.is_group:
            return GroupTask(self._bootstrap, topic, self._name, self._metadata, attempt.sizes, via=via, conf=conf)
        return LoneTask(
            self._bootstrap, topic, f"{self._name}-offsets", attempt.sizes, via=via, lanes=attempt.lanes, conf=conf
        )


def _verdict(attempt: Attempt, seen: list[Observation]) -> Verdict:
    return judge({"numbers": range(attempt.total)}, seen, sighting=lambda o: ("numbers", int(o.value or b"")))
