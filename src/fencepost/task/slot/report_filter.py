"""Which reports of running tasks a slot sends."""

from collections.abc import Sequence

from fencepost.task.channel.message import TaskReport


class ReportFilter:
    """Leaves out unchanged reports of tasks: hundreds of idle tasks would keep slot and worker busy."""

    def __init__(self) -> None:
        self._sent: dict[str, TaskReport] = {}
        self._settled: set[str] = set()

    def changed(self, reports: Sequence[TaskReport]) -> list[TaskReport]:
        """Return the reports that changed since the last call, and those unchanged for the first time (a rate of zero).

        A task that is over is left out: it reports its own end, with the reason.
        """
        reports = [r for r in reports if not r.state.is_over]
        same = {r.incarnation for r in reports if self._sent.get(r.incarnation) == r}
        changed = [r for r in reports if r.incarnation not in same or r.incarnation not in self._settled]
        self._sent = {r.incarnation: r for r in reports}
        self._settled = same
        return changed
