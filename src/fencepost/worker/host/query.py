"""The task of a SqlStream: a thread of the driver that starts a streaming query of Spark's, and watches it.

1 the start is admitted ▸ 2 the query is started on its checkpoint ▸ 3 its first commit takes over the transactional id
of the query, which the checkpoint has: an older run, also one of another worker, is fenced, and commits nothing more.
A pause stops the query; a resume begins again with 1.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fencepost.builtin.connector.sql_stream import SqlStream
from fencepost.spark.query.frame import QueryFrames, reading_options, writing_options
from fencepost.spark.query.run import QueryProgress, RunningQuery
from fencepost.spark.session.session import new_session
from fencepost.spark.write.checkpoint import Checkpoint
from fencepost.spark.write.folder import Folder
from fencepost.task.channel.message import QUERY_LAGS, RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.delivery import topics_of
from fencepost.task.start.run import QueryCounters
from fencepost.task.start.runner import NotAdmittedError
from fencepost.worker.host.frame.task import FrameHost, FrameTask
from fencepost.worker.plan import ConnectorPlan, query_owner

if TYPE_CHECKING:
    from fencepost.spark.session.session import SparkRuntime

_LOOK_S = 0.5


class QueryTask(FrameTask):
    """One start of the task of a streaming query."""

    _connector: SqlStream

    def __init__(self, host: FrameHost, spec: TaskSpec, runtime: "SparkRuntime") -> None:
        super().__init__(host, spec, runtime)
        self.counters: QueryCounters = QueryCounters()
        self._frames = QueryFrames(self._connector, self._properties)
        self._query: RunningQuery | None = None
        self._has_moved = False
        self._lags: Mapping[str, int] = {}

    def _turn(self) -> bool:
        """Start the query if it does not run. Return when it has moved, or waits: until then it is inside one call."""
        query = self._query = self._query or self._begin()
        step = None
        while query is not None and not self.control.should_yield:
            self._count(query.progress())
            failure = query.failure()
            if failure is not None:
                self._end()
                raise failure
            before, step = step, query.step
            if not step or before not in (None, step):
                break
            query.wait(_LOOK_S)
        return False

    def _rest(self) -> None:
        self.control.wait(_LOOK_S)

    @property
    def _is_well(self) -> bool:
        return self._has_moved

    def _begin(self) -> RunningQuery | None:
        """Start the query; None if the task is asked to stop or pause."""
        admission = self.admit()  # 1
        if not admission.is_admitted:
            raise NotAdmittedError(admission.reason)
        owner = query_owner(self._host.worker, self.spec.connector)
        Checkpoint(Folder(self._connector.checkpoint)).claim(owner)
        topics_of(self.spec).ensure([self._connector.topic])
        if not self._take_core():
            return None
        self._has_moved = False
        try:
            clients = ConnectorPlan.of_values(self._host.worker, self.spec.connector_config).clients
            records = self._frames.records(new_session(self._runtime), reading_options(clients.consumer_properties))
            writing = writing_options(clients.producer_properties) | self._frames.converter | {"query.id": owner}
            query = RunningQuery.start(records, self._connector, writing)  # 2
        except BaseException:
            self._release_core()
            raise
        self._jobs.group, self._jobs.driver_thread = query.group, query.driver_thread
        return query

    def _end(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            query.stop()
            self._jobs.group = None
            self._release_core()

    def _settle(self) -> None:
        self._end()

    def _topics_used(self) -> Sequence[str]:
        return tuple(sorted(self._lags))

    def _figures(self) -> str:
        return json.dumps({QUERY_LAGS: sorted(self._lags.items())})

    def _close(self) -> None:
        self._end()

    def _count(self, made: Sequence[QueryProgress]) -> None:
        """Report what the query has done."""
        for each in made:
            if each.has_rows:
                took_s = each.duration_ms / 1000
                self.counters.batch_written(each.batch, each.rows_written, each.rows_read, each.rows_per_s, took_s)
        if not made:
            return
        newest = made[-1]
        self._has_moved = True
        self._back_off.passed()
        self.counters.query_state_rows = newest.state_rows
        self.counters.query_watermark_s = (newest.watermark_ms or 0) / 1000
        self.counters.partition_count, self.counters.lag_max = len(newest.lags), max(newest.lags.values(), default=0)
        self._lags = {}
        for place, lag in newest.lags.items():
            self._lags[place.topic] = self._lags.get(place.topic, 0) + lag
        self._report(RunState.RUNNING)
