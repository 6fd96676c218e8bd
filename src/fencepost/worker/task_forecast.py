"""What Spark's keeper has to know of a worker's tasks before it makes room for them."""

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
        """Say whether there is a connector that reads or writes DataFrames: its tasks may come here."""
        return has_dataframes(self.topics.snapshot)

    @property
    def began_last_s(self) -> float:
        """Return when a task began last, by the monotonic clock."""
        return self.supervision.supervisor.began_last_s

    def wait_for_offsets(self, timeout_s: float) -> bool:
        """Wait until offsets were read ahead. Returns whether they were."""
        return self.supervision.offsets.wait_until_read(timeout_s)

    def be_ready(self) -> None:
        """Say, soon, that there is somewhere to run tasks."""
        self.attendance.be_ready()
