"""A campaign: faults while a worker is under load, and the proof afterwards that nothing went wrong."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from functools import partial

import httpx

from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Verdict, judge
from support.chaos.evidence import Evidence
from support.chaos.insistence import insisted
from support.chaos.load import Load
from support.chaos.progress import Feeder, Mark
from support.worker import Worker

RECOVERY_S = 240.0  # a limit for the busiest of machines; what it took is in the summary
TRANSACTION_TIMEOUT_S = 900  # the most that a broker allows
TRANSACTIONS = {"producer.transaction.timeout.ms": str(TRANSACTION_TIMEOUT_S * 1000)}
"""Settings of a campaign's workers: no broker ends what a task has left open before the campaign gives up on it."""
_ENDED_S = 30.0  # less than the minute after which the broker ends a leader's transaction
_LAST_WORDS = 6000
_REFUSED = re.compile(r"has been fenced by a newer instance|is not admitted: a newer start")
_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


class Campaign:
    """Keeps loads moving on a worker while somebody hurts it. A context manager: feeder and readers run inside."""

    def __init__(
        self, worker: Worker, loads: Sequence[Load], bootstrap: str, records_per_s: int, evidence: Evidence
    ) -> None:
        assert TRANSACTIONS.items() <= worker.properties.items(), "a transaction that is left open would not be seen"
        self.worker = worker
        self.loads = loads
        self.evidence = evidence
        self.broker_port = int(bootstrap.rpartition(":")[2])
        self._admin = Admin({"bootstrap.servers": bootstrap})
        self._readers = {load.name: CommittedReader(bootstrap, [load.topic]) for load in loads}
        self.marks = {load.name: Mark(load, self._readers[load.name]) for load in loads}
        self._feeder = Feeder(loads, records_per_s)

    def __enter__(self) -> "Campaign":
        for load in self.loads:
            self._admin.topics.create(load.topic, partitions=load.partitions, replication=1)
            insisted(partial(_create, load), self.worker, RECOVERY_S)
        with contextlib.ExitStack() as stack:
            stack.callback(self.evidence.close)
            for reader in self._readers.values():
                stack.enter_context(reader)
            stack.enter_context(self._feeder)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def await_progress(self) -> None:
        """Wait until each load has committed a record that was made after this call."""
        self.set_marks()
        self.await_marks()

    def set_marks(self) -> None:
        for mark in self.marks.values():
            mark.set()

    def await_marks(self) -> None:
        try:
            eventually(self._is_past_marks, within_s=RECOVERY_S)
        except AssertionError:
            self._feeder.check()
            raise AssertionError(f"no progress within {RECOVERY_S:g} s: {self.described()}") from None

    def prove(self, within_s: float = RECOVERY_S) -> None:
        """Stop feeding; print and check the verdicts, that nothing is open, and that everything runs by itself."""
        self._finish(within_s)
        verdicts = {name: verdict for load in self.loads for name, verdict in self._verdicts(load)}
        self.evidence.records = sum(verdict.expected for verdict in verdicts.values()) // 2
        print(f"  times that a zombie was refused: {len(_REFUSED.findall(self._log_text()))}")
        print("\n".join(f"  {name}: {verdict}" for name, verdict in verdicts.items()), flush=True)
        self.evidence.verdict = "anomaly"
        assert all(verdict.is_clean for verdict in verdicts.values()), verdicts
        for load in self.loads:
            self.worker.wait_for_tasks(load.name, *["RUNNING"] * int(load.config()["tasks.max"]))
            assert self.worker.status(load.name)["connector"]["state"] == "RUNNING"
        eventually(self._has_ended_all, within_s=_ENDED_S)
        self.evidence.verdict = "clean"

    def _has_ended_all(self) -> bool:
        left_open = self.open_transactions()
        assert not left_open, f"left open: {left_open}"
        return True

    def _log_text(self) -> str:
        return self.worker.log_text()

    def _finish(self, within_s: float) -> None:
        self._feeder.finish()
        with contextlib.suppress(AssertionError):  # what is missing then is the verdict's to say
            eventually(lambda: all(self._is_through(load) for load in self.loads), within_s=within_s)

    def _is_through(self, load: Load) -> bool:
        return len(self._readers[load.name].seen()) >= sum(map(len, load.expected().values()))

    def _verdicts(self, load: Load) -> Iterator[tuple[str, Verdict]]:
        """Yield the verdict by the reader that watched, and by one that comes now."""
        reader = self._readers[load.name]
        for how, seen in (("watched", reader.catch_up(RECOVERY_S)), ("read afterwards", reader.read_all(RECOVERY_S))):
            yield (
                f"{load.name}, {how}",
                judge(load.expected(), seen, sighting=load.sighting, is_at_home=load.is_at_home),
            )

    def open_transactions(self) -> list[str]:
        """Return the transactional ids of this worker's group that have a transaction open."""
        group = self.worker.properties["group.id"]
        own = (f"{group}-", f"connect-cluster-{group}")
        found = self._admin.transactions.list(_OPEN_STATES)
        return sorted(t.transactional_id for t in found if t.transactional_id.startswith(own))

    def _is_past_marks(self) -> bool:
        passed = [mark.is_passed() for mark in self.marks.values()]  # each is looked at: it keeps its own time
        return all(passed)

    def described(self) -> str:
        """Return what is open, how far each load is, and the end of the worker's log."""
        lines = [f"open transactions: {self.open_transactions()}"]
        for load in self.loads:
            lines.append(f"{load.name}: {self.marks[load.name]}, {self._status(load)}")
        return "\n".join([*lines, "the worker's last words:", self._log_text()[-_LAST_WORDS:]])

    def _status(self, load: Load) -> object:
        try:
            return self.worker.status(load.name)
        except httpx.TransportError as error:
            return repr(error)


def _create(load: Load, via: Worker) -> httpx.Response:
    return via.create(load.name, load.config())
