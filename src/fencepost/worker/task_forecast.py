"""What Spark's keeper needs to know about a worker's upcoming tasks."""

from dataclasses import dataclass

from fencepost.worker.connector_classes import has_dataframes
from fencepost.worker.membership.attendance import Attendance
from fencepost.worker.supervision.supervision import Supervision
from fencepost.worker.topics import WorkerTopics


@dataclass(frozen=True)
class TaskForecast:
    """The `Forecast` of a worker."""

    url: str
    topics: WorkerTopics
    supervision: Supervision
    attendance: Attendance

    @property
    def takes_over(self) -> bool:
        """Say whether tasks may come that run elsewhere now."""
        assignment = self.topics.snapshot.assignment
        return any(w.tasks and w.url != self.url for w in (assignment.workers if assignment else ()))

    @property
    def awaits_frames(self) -> bool:
        """Say whether there is a connector that reads or writes DataFrames, whose tasks may come here."""
        return has_dataframes(self.topics.snapshot)

    @property
    def began_last_s(self) -> float:
        """Return the monotonic time of the newest start of a task."""
        return self.supervision.totals.began_last_s

    def wait_for_offsets(self, timeout_s: float) -> bool:
        """Wait until offsets were read ahead. Returns whether they were."""
        return self.supervision.offsets.wait_until_read(timeout_s)

    def be_ready(self) -> None:
        """Announce soon that this worker can run tasks."""
        self.attendance.be_ready()
