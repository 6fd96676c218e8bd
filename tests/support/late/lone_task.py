"""One source task in this process: the real runner, loop and producers, and the part of a worker that admits it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.storage.offset_topic import OffsetReader, stored
from fencepost.task.channel.message import Admission, TaskReport
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.source.runner import SourceRunner
from fencepost.transaction import lane_ids
from support.task_spec import lone_spec

PLUGINS = str(Path(__file__).parent / "plugin")


class LoneTask:
    """Delivers the numbers of batches of given sizes. A context manager: the task runs inside."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        offsets_topic: str,
        sizes: tuple[int, ...],
        *,
        via: str | None = None,
        lanes: int = 1,
        conf: dict[str, Any] | None = None,
        batch_bytes: int | None = None,
        width: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """`via`: where its producers find the broker, `topic` also names the connector; `batch_bytes`: the user's;
        `width`: of a number; `properties`: of another connector, in place of the one that delivers numbers."""
        self.transactional_ids = lane_ids(f"late-{topic}-0")
        usual = transactional_conf({"bootstrap.servers": via or bootstrap}, self.transactional_ids[0]).conf
        self.spec = lone_spec(
            topic,
            properties or _numbers(sizes, width),
            transactional_id=self.transactional_ids[0],
            producer_conf={**usual, **(conf or {})},
            offsets_topic=offsets_topic,
            plugins=PLUGINS,
            lanes=lanes,
            batch_bytes=batch_bytes,
        )
        self.is_current = True  # what the worker says when the task asks for admission
        self.reports: list[TaskReport] = []
        self._reader = OffsetReader({"bootstrap.servers": bootstrap}, offsets_topic)
        self.runner = SourceRunner(self.spec, self._admit, self.reports.append)
        self.runner.uses_both_lanes = lanes == 2  # what it would come to by itself under load

    def __enter__(self) -> "LoneTask":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self.runner.thread.start()

    def stop(self, within_s: float = 30.0) -> None:
        """Ask the task to stop, and wait; a task that hangs keeps its thread."""
        self.runner.control.stop()
        if self.runner.thread.ident is not None:
            self.runner.thread.join(within_s)
        self._reader.close()

    @property
    def state(self) -> str:
        """Return what the task has reported last."""
        return self.reports[-1].state if self.reports else ""

    @property
    def producers_retired(self) -> int:
        return int(self.runner.counters.producers_retired)

    @property
    def failure(self) -> str | None:
        """Return the error with which the task failed, if it did."""
        return next((report.trace for report in self.reports if report.state == "FAILED"), None)

    def position(self, name: str = "next") -> int:
        """Return the committed position, which the source calls by that name."""
        found = stored(self._reader.read_known(self.spec.connector, 30))
        return int(found[0].offset[name]) if found else 0

    def _admit(self, spec: TaskSpec, *, wants_offsets: bool = True) -> Admission:
        if not self.is_current:
            return Admission(False, "a newer start")
        if not wants_offsets:
            return Admission(True)
        # Step 7: after the init, to the uncommitted end.
        found = stored(self._reader.read_known(spec.connector, 30))
        return Admission(True, "", tuple((dict(p or {}), dict(o)) for p, o in found))


def _numbers(sizes: tuple[int, ...], width: int) -> Mapping[str, str]:
    return {"connector.class": "batch_source.BatchSource", "sizes": ",".join(map(str, sizes)), "width": str(width)}
