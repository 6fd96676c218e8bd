"""Figures of the tasks of all workers, and the description of a connector that its config alone gives."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple, TypeVar
from urllib.parse import quote

import orjson
from pydantic import TypeAdapter, ValidationError

from fencepost.api import ExactlyOnceSupport, SinkConnector
from fencepost.cluster.figures import (
    ANSWER_S,
    MOST_POINTS,
    PERIOD_S,
    ConnectorFigures,
    Delivery,
    FigureColumns,
    PastFigures,
    QueryFigures,
    ReportedTask,
    Sample,
    SlotFigures,
    TaskFigures,
)
from fencepost.config import ConfigError
from fencepost.config.connector import ExactlyOnceDemand, SourceConnectorConfig
from fencepost.config.reference import RawConfig, given_values
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.hook.hosted_task import KnowsSettings
from fencepost.plugin import registry
from fencepost.storage.change import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.channel.message import QUERY_LAGS, RETRYING, STANDS_STILL, TaskReport
from fencepost.worker.membership.peers import Questions
from fencepost.worker.operation.metric.counters import QUERIES_COUNTER, SINKS_COUNTER, STREAMS_COUNTER
from fencepost.worker.plan import kind_of_config, typical_class_of
from fencepost.worker.settings import worker_id
from fencepost.worker.supervision.task_metrics import TaskTotals
from fencepost.worker.validation.validation import config_warnings

_WORKERS = WorkerConfig.key_of("exactly_once_source_support")
_OWN = SourceConnectorConfig.key_of("exactly_once_support")
_DEMAND = f"{_OWN}={ExactlyOnceDemand.REQUIRED.value}"


def delivery_of(config: RawConfig, worker: WorkerConfig) -> Delivery:
    """Return what a connector with this config promises on workers with that one. Never raises."""
    try:
        connector = typical_class_of(config)
    except ConfigError:
        return Delivery(None, "its class is not installed on this worker")
    if issubclass(connector, SinkConnector):
        return _of_sink(_support(connector, config))
    if not worker.is_exactly_once:
        found = f"the workers' file has {_WORKERS}={worker.exactly_once.value}"
        default = "" if worker.originals.get(_WORKERS) else ", which is Kafka Connect's default"
        remedy = f"add {_WORKERS}={ExactlyOnceSource.ENABLED.value} to the file of each worker"
        return Delivery(False, f"{found}{default}", remedy)
    if (config.get(_OWN) or "").strip().lower() == ExactlyOnceDemand.REQUIRED.value:
        return Delivery(True)  # validation has asked the connector
    if hasattr(connector, "java"):  # to ask it takes seconds
        return Delivery(None, "the connector was not asked", f"add {_DEMAND} to its config: it is asked then")
    return _of_source(_support(connector, config))


def _support(connector: type, config: RawConfig) -> ExactlyOnceSupport | None:
    """Ask an instance; it may refer to values that are not looked up here, and its code may raise anything."""
    try:
        found: ExactlyOnceSupport | None = connector(given_values(config)).exactly_once_support()
    except BaseException:
        return None
    return found


def _of_sink(support: ExactlyOnceSupport | None) -> Delivery:
    if support is ExactlyOnceSupport.SUPPORTED:
        return Delivery(True)
    if support is ExactlyOnceSupport.UNSUPPORTED:
        return Delivery(False, "it writes again what was not committed when a task ended")
    why = "its class does not say whether it ignores records that are put again after a task has ended"
    return Delivery(None, why)


def _of_source(support: ExactlyOnceSupport | None) -> Delivery:
    if support is ExactlyOnceSupport.SUPPORTED:
        return Delivery(True)
    if support is ExactlyOnceSupport.UNSUPPORTED:
        return Delivery(False, "the connector says that it cannot be with this config")
    return Delivery(None, "its class does not say whether it reads the same records again from an offset")


class Description(NamedTuple):
    """The fields of `ConnectorFigures` that are not its tasks'; what is not known is None."""

    kind: str | None = None
    delivery: Delivery | None = None
    warnings: Sequence[str] | None = None


def described(config: RawConfig, worker: WorkerConfig) -> Description:
    """Return what is known of a connector with this config. Never raises, and starts no JVM."""
    return Description(kind_of_config(config), delivery_of(config, worker), _warnings(config, worker))


def _warnings(config: RawConfig, worker: WorkerConfig) -> Sequence[str] | None:
    try:
        connector = typical_class_of(config)
        if isinstance(connector, KnowsSettings) and connector.known_settings() is None:
            return None
        return [each.message for each in config_warnings(config, worker=worker, plugins=registry())]
    except ConfigError:
        return None


T = TypeVar("T")

log = logging.getLogger(__name__)

PAST_PATH = "/internal/past"
_MOST_VALUES = 400_000
"""How many past values of all connectors a worker keeps, in each of four columns: 13 MB."""
_KEPT = TypeAdapter(list[PastFigures])


class Past:
    """A chore of the housekeeping, and what `ProbeOperations` answer of it. Any thread."""

    def __init__(
        self,
        url: str,
        snapshot: Callable[[], ClusterSnapshot],
        tasks: Callable[[], Sequence[ReportedTask]],
        questions: Questions,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._url = url
        self._snapshot = snapshot
        self._tasks = tasks
        self._questions = questions
        self._now_s = now_s
        self._lock = threading.Lock()
        self._of: dict[str, FigureColumns] = {}
        self._next_s = 0.0

    def look(self) -> None:
        """Keep a sample of each connector with tasks here, every ten seconds."""
        now_s = self._now_s()
        if now_s < self._next_s:
            return
        self._next_s = now_s + PERIOD_S
        found: dict[str, list[TaskFigures]] = {}
        for task in self._tasks():
            found.setdefault(task.connector, []).append(task.figures)
        there = self._snapshot().connectors
        with self._lock:
            self._of = {name: columns for name, columns in self._of.items() if name in there}
            most = max(1, min(MOST_POINTS, _MOST_VALUES // max(1, len(self._of | found.keys()))))
            for name, tasks in found.items():
                if (sample := Sample.of(map(asdict, tasks))) is not None:
                    self._of.setdefault(name, FigureColumns()).add(now_s, sample, most)

    def here(self) -> Sequence[PastFigures]:
        with self._lock:
            return [columns.past(name) for name, columns in self._of.items()]

    def read(self) -> Sequence[PastFigures]:
        assignment = self._snapshot().assignment
        others = {worker.url for worker in assignment.workers} - {self._url} if assignment is not None else set()
        return [*self.here(), *(one for _, kept in answers(self._questions, others, PAST_PATH, _KEPT) for one in kept)]


def answers(questions: Questions, urls: Collection[str], path: str, of: TypeAdapter[T]) -> Iterator[tuple[str, T]]:
    """Yield what other workers answer in time; what a worker of another version says is left out."""
    for url, body in questions.ask(urls, path, ANSWER_S).items():
        try:
            yield url, of.validate_json(body)
        except ValidationError as error:
            log.debug("what %s answers to %s cannot be read: %s", url, path, error)


PATH = "/internal/figures"
_REPORTED = TypeAdapter(list[ReportedTask])


class Figures:
    """The `FigureOperations` of a worker."""

    def __init__(
        self,
        url: str,
        snapshot: Callable[[], ClusterSnapshot],
        totals: TaskTotals,
        slots: Callable[[], Mapping[str, SlotFigures]],
        questions: Questions,
        describe: Callable[[RawConfig], Description] = lambda _: Description(),
    ) -> None:
        """`url` is this worker's; `slots` returns the slots of starts, by incarnation.

        `describe` returns what is known of a connector with a config, and must not wait.
        """
        self._url = url
        self._snapshot = snapshot
        self._totals = totals
        self._slots = slots
        self._questions = questions
        self._describe = describe
        self._described: dict[str, tuple[RawConfig, Description]] = {}
        self.past = Past(url, snapshot, self.here, questions)

    def read(self, connectors: Collection[str]) -> Mapping[str, ConnectorFigures]:
        snapshot = self._snapshot()
        tasks = {name: snapshot.tasks(name) for name in connectors if name in snapshot.connectors}
        owners = _owners(snapshot)
        others = {owners[task] for found in tasks.values() for task in found if task in owners} - {self._url}
        only = next(iter(connectors)) if len(connectors) == 1 else None
        reported = {self._url: _by_task(self.here(only)), **self._ask(others, only)}

        def figures(task: TaskId) -> TaskFigures:
            owner = owners.get(task)
            if owner is None:
                return TaskFigures(task.task)
            return reported.get(owner, {}).get(task) or TaskFigures(task.task, worker_id(owner))

        return {
            name: ConnectorFigures([figures(task) for task in found], *self._description(name, snapshot))
            for name, found in tasks.items()
        }

    def _description(self, name: str, snapshot: ClusterSnapshot) -> Description:
        """Return what is known of a connector; what is known is found out once for each config."""
        config = snapshot.connectors[name]
        before, known = self._described.get(name, (None, Description()))
        may_be_known_now = known.kind is not None and known.warnings is None  # a JVM was asked for its keys
        if before is not config or may_be_known_now:
            known = self._describe(config)
            self._described[name] = config, known
            for gone in self._described.keys() - snapshot.connectors.keys():
                self._described.pop(gone, None)
        return known

    def here(self, connector: str | None = None) -> Sequence[ReportedTask]:
        slots, own = self._slots(), worker_id(self._url)
        reports = [r for r in self._totals.reports().values() if connector in (None, r.connector)]
        return [ReportedTask(r.connector, figures_of(r, own, slots.get(r.incarnation))) for r in reports]

    def _ask(self, urls: Collection[str], only: str | None) -> dict[str, dict[TaskId, TaskFigures]]:
        path = PATH if only is None else f"{PATH}?connector={quote(only, safe='')}"
        return {url: _by_task(reported) for url, reported in answers(self._questions, urls, path, _REPORTED)}


def figures_of(report: TaskReport, worker: str, slot: SlotFigures | None) -> TaskFigures:
    """Return what a report says of a task."""
    counters = report.counters
    is_running = not report.state.is_over

    def count(name: str) -> int:
        return int(counters.get(name, 0))

    def time_ms(name: str, *, is_known: bool = True) -> int | None:
        seconds = counters.get(name, 0.0)
        return round(1000 * seconds) if seconds and is_known else None

    return TaskFigures(
        report.task,
        worker,
        _kind(counters),
        time_ms("started_s"),
        count("records_polled"),
        count("records_written"),
        count("lag_max") if SINKS_COUNTER in counters else None,
        time_ms("last_record_s", is_known=count("records_polled") > 0),
        count("error_errors"),
        count("error_skipped"),
        count("error_dead_letters"),
        is_running and bool(counters.get(STANDS_STILL)),
        is_running and bool(counters.get(RETRYING)),
        time_ms("last_commit_s", is_known=count("commits") > 0),
        count("active_records") if is_running else 0,
        time_ms("open_since_s", is_known=is_running),
        slot,
        _of_query(report) if QUERIES_COUNTER in counters else None,
    )


def _of_query(report: TaskReport) -> QueryFigures:
    counters, figures = report.counters, orjson.loads(report.figures) if report.figures else {}
    batch = int(counters[QUERIES_COUNTER])
    has_run, watermark_s = batch >= 0, counters.get("query_watermark_s", 0.0)
    return QueryFigures(
        batch if has_run else None,
        counters.get("query_rows_per_s") if has_run else None,
        round(1000 * counters.get("query_batch_time_s", 0.0)) if has_run else None,
        round(1000 * watermark_s) if watermark_s else None,
        int(counters.get("query_state_rows", 0)),
        {topic: int(lag) for topic, lag in figures.get(QUERY_LAGS, ())},
    )


def _kind(counters: Mapping[str, float]) -> str:
    if STREAMS_COUNTER in counters:
        return "stream"
    return "sink" if SINKS_COUNTER in counters else "source"


def _owners(snapshot: ClusterSnapshot) -> Mapping[TaskId, str]:
    workers = snapshot.assignment.workers if snapshot.assignment is not None else ()
    return {task: worker.url for worker in workers for task in worker.tasks}


def _by_task(reported: Sequence[ReportedTask]) -> dict[TaskId, TaskFigures]:
    return {TaskId(each.connector, each.figures.id): each.figures for each in reported}
