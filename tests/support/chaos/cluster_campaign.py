"""A campaign on a cluster: measures how long it takes until all connectors have committed something new."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fencepost.testing import eventually
from support.chaos.campaign import RECOVERY_S, Campaign
from support.chaos.evidence import Evidence
from support.chaos.gated_cluster import GatedCluster, ensure_whole
from support.chaos.load import Load
from support.long_form import IS_LONG
from support.worker import Worker

T = TypeVar("T")

_LOOK_S = 0.05
_PATIENCE_S = 180.0  # for the busiest of machines: who is not back by then stands still
_LATE_SHARE = 0.1


@dataclass(frozen=True)
class Recovery:
    """Seconds from the marks on: to a new record of every task of each connector, and to all that `recover` asks."""

    next_record_s: float
    converged_s: float


class ClusterCampaign(Campaign):
    """Keeps loads moving on the workers of a cluster. `worker` is one that nobody hurts just then.

    Marks are watched in a thread, so that times are right whatever the caller does meanwhile.
    """

    def __init__(
        self, gated: GatedCluster, loads: Sequence[Load], bootstrap: str, records_per_s: int, evidence: Evidence
    ) -> None:
        super().__init__(gated.workers[0], loads, bootstrap, records_per_s, evidence)
        self.gated = gated
        self._began = 0.0
        self._recoveries = 0
        self._late: list[str] = []
        self._writes = 0
        self._late_writes: list[str] = []
        self._marking = threading.Lock()
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._watch_marks, name="marks", daemon=True)

    def __enter__(self) -> "ClusterCampaign":
        super().__enter__()
        self._watch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._watch.join()
        super().__exit__(*error)

    def set_marks(self) -> None:
        with self._marking:
            self._began = time.monotonic()
            super().set_marks()

    def recover(
        self,
        among: Sequence[Worker],
        within_s: float,
        *,
        is_even: bool = True,
        but: Callable[[], Collection[str]] = frozenset,
    ) -> Recovery:
        """Wait until every connector, `but` these, is past its marks, and runs on these workers, as all of them say.

        `within_s` counts from the marks. On a machine that others use, too, one in a while may take longer: it is noted
        as late, and `prove` counts them. Raises AssertionError for one that does not recover at all.
        """

        def recovered() -> list[Load]:
            but_these = but()
            loads = [load for load in self.loads if load.name not in but_these]
            waiting = {load.name: str(self.marks[load.name]) for load in loads if not self._is_past(load)}
            assert not waiting, f"no new records of {waiting}"
            tasks = {load.name: int(load.config()["tasks.max"]) for load in loads}
            is_all = len(loads) == len(self.loads)  # all together are spread evenly, and not each by itself
            for worker in among:
                ensure_whole(worker, tasks, list(among), is_even=is_even and is_all)
            return loads

        try:
            deadline = self._began + within_s + _PATIENCE_S
            loads = eventually(recovered, within_s=max(0.1, deadline - time.monotonic()), every_s=0.1)
        except AssertionError as error:
            self.gated.print_stacks()
            said = "\n".join(self.gated.said_of_what_is_not_running())
            held = f"open: {self.open_transactions()}, held back: {self.gated.held_back()}"
            raise AssertionError(f"{error}\n{held}\n{said}") from None
        converged_s = time.monotonic() - self._began
        self._recoveries += 1
        if converged_s > within_s:
            self._late.append(f"{converged_s:.1f} s, wanted {within_s:.1f}")
        times = [took_s for load in loads for took_s in self.marks[load.name].took_s.values()]
        return Recovery(max(times), converged_s)

    def timed(self, what: str, within_s: float, act: Callable[[float], T]) -> T:
        """Return what a write's `act` does, which gets the time that it may take; what takes over `within_s` is late.

        These are counted like recoveries, and apart from them.
        """
        self._writes += 1
        began = time.monotonic()
        done = act(within_s + _PATIENCE_S)
        took_s = time.monotonic() - began
        if took_s > within_s:
            self._late_writes.append(f"{what} after {took_s:.1f} s, wanted {within_s:.1f}")
        return done

    def prove(self, within_s: float = RECOVERY_S) -> None:
        """Check in addition that nothing ever failed, and that the config topic holds whole writes only."""
        super().prove(within_s)
        self.evidence.verdict = "anomaly"
        failures, torn = self.gated.failures(), self.gated.torn_writes()
        print(f"  FAILED was said {len(failures)} times; torn writes: {len(torn)}", flush=True)
        assert not failures, "\n".join(failures)
        assert not torn, "\n".join(torn)
        assert not self.gated.snapshot().inconsistent
        for what, late, count in (
            ("recoveries", self._late, self._recoveries),
            ("writes", self._late_writes, self._writes),
        ):
            print(f"  late {what}: {late} of {count}", flush=True)
            assert len(late) <= max(1, count * _LATE_SHARE) or not IS_LONG, f"late {what}: {late} of {count}"
        self.evidence.verdict = "clean"

    def _log_text(self) -> str:
        return self.gated.log_text()

    def _is_past(self, load: Load) -> bool:
        mark = self.marks[load.name]
        return len(mark.took_s) == len(load.front)

    def _is_past_marks(self) -> bool:
        with self._marking:
            return super()._is_past_marks()

    def _watch_marks(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._is_past_marks()
