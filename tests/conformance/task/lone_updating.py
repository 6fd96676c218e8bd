"""A task that follows a script, with the real runner, loop and producer, and what it left in the offsets topic."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from fencepost.api import SourceRecord, SourceTask
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.log import LogReader
from fencepost.kafka.setting.client_settings import producer_conf, transactional_conf
from fencepost.plugin import use_plugin_path
from fencepost.record import PartitionKey, partition_key
from fencepost.record.schema import STRING
from fencepost.storage.offset_topic import OffsetReader, stored
from fencepost.task.channel.message import Admission, TaskReport
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.source.runner import SourceRunner
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.task_spec import changed, lone_spec

PLUGINS = str(Path(__file__).parent / "updating")

Offset = dict[str, Any] | None


def at(file: str) -> PartitionKey:
    """The source partition of a file, as `update_offsets` sees it."""
    return partition_key({"file": file})


def record(file: str, line: int | None, **more: Any) -> Callable[[str], SourceRecord]:
    """A record from a line of a file, for a topic still to be said."""
    offset = None if line is None else {"line": line}
    value = more.pop("value", f"{file}{line}")
    return lambda topic: SourceRecord({"file": file}, offset, more.pop("topic", topic), value, STRING, **more)


class UpdatingRun:
    """One start of the task. `polls`: each a list of `record`s, None, or a function of the task that returns one."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        polls: Sequence[Any],
        *,
        update: Callable[[Mapping[Any, Any]], Any] | None = lambda offsets: None,
        via: str | None = None,
        is_exactly_once: bool = True,
        on_start: Callable[["UpdatingRun"], object] = lambda run: None,
        config: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """`update` None: a task that does not override `update_offsets`. `via`: where its producers find the broker."""
        self.topic, self.offsets_topic = topic, f"{topic}-offsets"
        self._bootstrap = bootstrap
        kind = "PlainConnector" if update is None else "UpdatingConnector"
        connector = use_plugin_path([PLUGINS]).find("connector", f"updating_source.{kind}")
        made = [self._poll(poll) for poll in polls]
        self.script = connector.scripts[topic] = _script(connector)(
            made, update or (lambda offsets: None), lambda: on_start(self)
        )
        servers = {"bootstrap.servers": via or bootstrap}
        identity = f"g-{topic}-0"
        conf = transactional_conf(servers, identity) if is_exactly_once else producer_conf(servers)
        usual = lone_spec(
            topic,
            {"connector.class": f"updating_source.{kind}", **(config or {})},
            transactional_id=identity,
            producer_conf=conf.conf,
            offsets_topic=self.offsets_topic,
            plugins=PLUGINS,
        )
        every = {
            "offset_flush_interval_ms": 50,
            "offset_flush_timeout_ms": 60_000,
            "transactional_id": identity if is_exactly_once else None,
        }
        self.spec: TaskSpec = changed(usual, **{**every, **spec})
        self.reports: list[TaskReport] = []
        self._is_abandoned = False
        self._reader = OffsetReader({"bootstrap.servers": bootstrap}, self.offsets_topic)
        self.runner = SourceRunner(self.spec, self._admit, self.reports.append)

    def _poll(self, poll: Any) -> Callable[[SourceTask], list[SourceRecord] | None]:
        def next_batch(task: SourceTask) -> list[SourceRecord] | None:
            found = poll(task) if callable(poll) else poll
            return None if found is None else [one(self.topic) if callable(one) else one for one in found]

        return next_batch

    def _admit(self, spec: TaskSpec, *, wants_offsets: bool = True) -> Admission:
        found = stored(self._reader.read_known(spec.connector, 30))
        return Admission(True, "", tuple((dict(p or {}), dict(o)) for p, o in found))

    def start(self) -> None:
        self.runner.thread.start()

    def stop(self, within_s: float = 60.0) -> None:
        """Cleanly, unless it was abandoned."""
        self.runner.control.stop()
        if not self._is_abandoned:
            self.runner.thread.join(within_s)

    def abandon(self) -> None:
        """As a worker leaves a task behind that hangs."""
        self._is_abandoned = True
        self.runner.abandon()

    def close(self) -> None:
        self._reader.close()

    # what can be seen of it

    @property
    def trace(self) -> str:
        """Return why the task failed; raises AssertionError where it does not."""
        return eventually(lambda: next((r.trace for r in self.reports if r.state == "FAILED"), None)) or ""

    def ensure_runs(self) -> None:
        assert [r.trace for r in self.reports if r.state == "FAILED"] == []

    def await_idle(self, polls: int = 3) -> None:
        """Wait until the script is over, and that many polls have given nothing since."""
        self.await_done(lambda done: not self.script.polls and done[-1:] and done.count("poll nothing") >= polls)

    def await_done(self, is_it: Callable[[list[str]], Any]) -> None:
        eventually(lambda: is_it(list(self.script.done)), every_s=0.01)
        self.ensure_runs()

    def offsets(self) -> dict[str, Offset]:
        """Return what the offsets topic says of each file, tombstones included."""
        return dict(self.history())

    def history(self) -> list[tuple[str, Offset]]:
        """Return every committed record of the offsets topic, in order."""
        found: list[tuple[str, Offset]] = []
        reader = LogReader({"bootstrap.servers": self._bootstrap}, self.offsets_topic)
        reader.read_to_end(
            20, lambda r: found.append((orjson.loads(r.key or b"")[1]["file"], orjson.loads(r.value or b"null")))
        )
        reader.close()
        return found

    def values(self) -> list[str]:
        """Return the committed values of the data topic."""
        return [(o.value or b"").decode() for o in CommittedReader(self._bootstrap, [self.topic]).read_all(20)]

    def log_end(self) -> int:
        """Return how long the log of the offsets topic is, open transactions and their ends included."""
        where = (self.offsets_topic, 0)
        return Admin({"bootstrap.servers": self._bootstrap}).offsets.ends([where], read_committed=False)[where]

    def stored(self) -> dict[str, Offset]:
        """Return what a task that starts now would be given."""
        found = stored(self._reader.read_known(self.spec.connector, 20))
        return {str((p or {})["file"]): dict(o) for p, o in found}


def _script(connector: type[Any]) -> type[Any]:
    import sys

    script: type[Any] = sys.modules[connector.__module__].Script
    return script
