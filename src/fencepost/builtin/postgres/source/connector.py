"""The connector: how many tasks there are in each phase, and whose connection keeps the snapshot meanwhile."""

import logging
import threading
from typing import Any, ClassVar

from fencepost.api import ExactlyOnceSupport, SourceConnector, SourceTask
from fencepost.builtin.postgres.source.progress import Phase, Plan, Progress
from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.builtin.postgres.source.slot_watch import Rows, SlotWatch
from fencepost.builtin.postgres.source.snapshot import import_snapshot
from fencepost.builtin.postgres.source.task import PostgresSourceTask
from fencepost.postgres.connection import connect

log = logging.getLogger(__name__)

_LOOK_S = 1.0


class PostgresSource(SourceSettings, SourceConnector):
    """Writes the rows of a Postgres database, then its changes, as Debezium writes them. It takes Debezium's settings.

    Each transaction of the database is one transaction of Kafka, over all its topics. A snapshot is read by up to
    `tasks.max` tasks, each row once, also if tasks or workers are killed; changes are streamed by one task.
    """

    task: ClassVar[type[SourceTask]] = PostgresSourceTask
    defines_transactions = True

    def exactly_once_support(self) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED

    def start(self) -> None:
        self._watch: SnapshotWatch | None = SnapshotWatch(self)
        self._watch.start()
        self._slot_watch = SlotWatch(self, self.context.remark)
        self._slot_watch.start()

    def stop(self) -> None:
        watch = getattr(self, "_watch", None)
        if watch is not None:
            watch.stop()
            self._slot_watch.stop()

    def figures(self) -> Rows:
        """Return what the slot costs its server, as `HostedConnector.figures` does."""
        watch = getattr(self, "_slot_watch", None)
        return () if watch is None else watch.figures

    def end_calls(self) -> None:
        """Do nothing: no call of this connector takes long."""

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        own = super().task_configs(1)[0]
        watch = getattr(self, "_watch", None)
        if watch is None:
            return [own]
        count = watch.wanted(max_tasks)
        keys = [type(self).key_of(name) for name in ("part", "parts", "snapshot_name")]
        return [own | dict(zip(keys, (part, count, watch.name), strict=True)) for part in range(count)]


class SnapshotWatch:
    """Follows the committed offsets of a connector: asks for other tasks in another phase, and keeps the snapshot.

    The task that exports the snapshot is replaced once there is a plan. So this imports the snapshot before, and
    exports it again; if it cannot, tasks read their chunks without.
    """

    def __init__(self, connector: PostgresSource) -> None:
        self._connector = connector
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="postgres-snapshot", daemon=True)
        self._given: int | None = None
        self._most = 1
        self._is_asked = False
        self._holder: Any = None
        self.name = ""
        """The name under which this exports the snapshot; empty if it does not."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(30)
        self._release()

    def wanted(self, most: int) -> int:
        """Return how many tasks there should be."""
        progress = self._progress()
        unread = sum(1 for _ in progress.unread()) if progress.phase is Phase.CHUNKS else 1
        self._given = min(most, max(unread, 1))
        self._most = most
        return self._given

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_S):
            try:
                if self._is_settled():
                    return
            except Exception as error:
                log.warning("%s: the progress of the snapshot is looked at again: %s", self._connector.prefix, error)

    def _is_settled(self) -> bool:
        """Ask for other tasks if the phase asks for it. Returns whether there is nothing more to follow."""
        if self._given is None:
            return False
        progress = self._progress()
        if progress.phase is Phase.CHUNKS:
            assert progress.plan is not None
            if self._given == 1 and self._most > 1 and progress.plan.chunks > 1 and not self._is_asked:
                self._hold(progress.plan)
                self._is_asked = True
                self._connector.context.request_task_reconfiguration()
            return False
        if progress.phase is not Phase.STREAM:
            return False
        self._release()
        if self._given > 1:
            self._given = None  # until the tasks are planned again
            self._connector.context.request_task_reconfiguration()
            return False
        return True

    def _hold(self, plan: Plan) -> None:
        """Import the snapshot and export it again, in a transaction that stays open."""
        self._release()
        connection = connect(self._connector.connection_settings())
        try:
            import_snapshot(connection, plan.name)
            row = connection.execute("SELECT pg_export_snapshot()").fetchone()
            assert row is not None
        except Exception as error:
            connection.close()
            log.warning("%s: nobody keeps the snapshot any more: %s", self._connector.prefix, error)
            return
        self._holder, self.name = connection, str(row[0])

    def _release(self) -> None:
        if self._holder is not None:
            self._holder.close()
        self._holder, self.name = None, ""

    def _progress(self) -> Progress:
        return Progress.of(self._connector.prefix, self._connector.context.offsets())
