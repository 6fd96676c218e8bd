"""What a slot has to report of tasks that go on."""

from collections.abc import Sequence

from fencepost.task.spec import TaskReport


class News:
    """Leaves out the reports of tasks that do nothing: hundreds of them would keep slot and worker busy."""

    def __init__(self) -> None:
        self._sent: dict[str, TaskReport] = {}
        self._settled: set[str] = set()

    def of(self, reports: Sequence[TaskReport]) -> list[TaskReport]:
        """Return what differs from the last time, and what does not for the first time: that makes a rate of zero.

        A task that is over is left out: it reports that itself, with the reason.
        """
        reports = [r for r in reports if not r.state.is_over]
        same = {r.incarnation for r in reports if self._sent.get(r.incarnation) == r}
        news = [r for r in reports if r.incarnation not in same or r.incarnation not in self._settled]
        self._sent = {r.incarnation: r for r in reports}
        self._settled = same
        return news
