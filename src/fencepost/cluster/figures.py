"""What tasks say of their work, as users see it: the bodies of `/connectors/C/figures`, of `expand=figures`, and of
`/connectors/C/logs`.
"""

import base64
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated, Any

import orjson
from pydantic import ConfigDict, Field, TypeAdapter, WithJsonSchema

from fencepost.cluster.errors import BadRequestError

_PRESENT = ConfigDict(json_schema_serialization_defaults_required=True)


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What is asked for: events of a task, if one is given, of at least a level, after a cursor.

    Without a cursor, these are the newest. `wait_ms` is for how long to wait for the first of them.
    """

    task: int | None = None
    level: int = 0
    after: str | None = None
    wait_ms: int = 0
    limit: int = 500


@dataclass(frozen=True, slots=True)
class LogEvent:
    """An event about a connector or, with a number, about a task of it."""

    time: Annotated[str, Field(description="ISO 8601, UTC.")]
    level: str
    logger: str
    connector: str
    task: int | None
    message: str
    exception: str | None
    worker_id: str


@dataclass(frozen=True, slots=True)
class MissedEvents:
    """Events of a worker that are not in the answer."""

    worker_id: str
    reason: Annotated[
        str,
        WithJsonSchema({"enum": ["dropped", "restarted", "away"], "type": "string"}),
        Field(
            description="dropped: there were too many since the cursor. restarted: those before its end are gone. "
            "away: it did not answer; they come later if it lives."
        ),
    ]
    events: Annotated[int | None, Field(description="How many; null: unknown.")] = None


@dataclass(frozen=True, slots=True)
class LogEvents:
    """Events of all workers, the oldest first."""

    __pydantic_config__ = _PRESENT

    events: Sequence[LogEvent]
    cursor: Annotated[str, Field(description="For `after` of the next request.")]
    missed: Sequence[MissedEvents] = ()


@dataclass(frozen=True, slots=True)
class WorkersEvents:
    """The events of one worker with their numbers, as workers exchange them. `ring` changes when it restarts."""

    worker_id: str
    ring: str
    events: Sequence[tuple[int, LogEvent]]
    next: int
    dropped: int = 0


Position = tuple[str, Annotated[int, Field(ge=0, lt=1 << 63)]]
"""The ring of a worker, and the number of its next event."""

_POSITIONS = TypeAdapter(dict[str, Position])


def to_cursor(positions: Mapping[str, Position]) -> str:
    """Return the text of positions by worker."""
    return base64.urlsafe_b64encode(orjson.dumps(dict(positions))).decode().rstrip("=")


def from_cursor(text: str) -> dict[str, Position]:
    """Return the positions in a cursor. Raises BadRequestError."""
    try:
        return _POSITIONS.validate_json(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        raise BadRequestError("after: this is not the cursor of an earlier answer") from None


ANSWER_S = 2.0
"""The longest time that figures take, however many workers are away."""

_Kind = Annotated[
    str | None,
    WithJsonSchema({"enum": ["source", "sink", "stream", None], "type": ["string", "null"]}),
    Field(description="null: nothing is known; its worker did not answer in time, or it has not reported yet."),
]
PERIOD_S = 10.0
MOST_POINTS = 360
_STEP_S = 30.0


@dataclass(frozen=True, slots=True)
class SlotFigures:
    """The process that a task runs in, with others."""

    __pydantic_config__ = _PRESENT

    id: str
    pid: int | None = None
    resident_bytes: int | None = None
    host_resident_bytes: Annotated[
        int | None, Field(description="Of its JVM with Java plug-ins; null: it has none.")
    ] = None


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """Where a task runs, and what it has moved since its start."""

    __pydantic_config__ = _PRESENT

    id: int
    worker_id: Annotated[str | None, Field(description="The worker that runs it, as host:port; null: none.")] = None
    kind: _Kind = None
    started_ms: int | None = None
    records_read_total: int | None = None
    records_written_total: Annotated[
        int | None,
        Field(description="Handed to Kafka, or accepted by a sink; after transforms, aborted ones included."),
    ] = None
    lag_max: Annotated[
        int | None, Field(description="Records to the end of the partition with the most; null for sources.")
    ] = None
    last_record_ms: Annotated[int | None, Field(description="null: it has had none.")] = None


@dataclass(frozen=True, slots=True)
class TaskTrouble(TaskProgress):
    """What goes wrong in a task."""

    __pydantic_config__ = _PRESENT

    errors_total: int | None = None
    skipped_total: int | None = None
    dead_letters_total: int | None = None
    stands_still: Annotated[
        bool | None, Field(description="It is in a call that has not returned for progress.timeout.ms.")
    ] = None
    retrying: Annotated[
        bool | None, Field(description="It tries again what has failed, and nothing has succeeded since.")
    ] = None


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """A streaming query: its last batch with rows, its state, and what it has not read."""

    __pydantic_config__ = _PRESENT

    batch: Annotated[int | None, Field(description="null: none yet.")] = None
    rows_per_second: float | None = None
    batch_ms: int | None = None
    watermark_ms: Annotated[
        int | None, Field(description="The event time up to which results are final; null: there is none.")
    ] = None
    state_rows: int = 0
    lag: Annotated[Mapping[str, int], Field(description="By topic, of all its partitions.")] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class TaskFigures(TaskTrouble):
    """A task; what is not known is null. Times are milliseconds since 1970, totals begin with `started_ms`."""

    __pydantic_config__ = _PRESENT

    last_commit_ms: Annotated[int | None, Field(description="null: it has committed nothing.")] = None
    open_records: Annotated[int | None, Field(description="Handed to Kafka, and not committed.")] = None
    open_since_ms: Annotated[
        int | None, Field(description="When the oldest of these, or a dead letter, was handed to Kafka.")
    ] = None
    slot: Annotated[SlotFigures | None, Field(description="null: it runs as Spark jobs, or nowhere.")] = None
    query: Annotated[QueryFigures | None, Field(description="null: it is no streaming query.")] = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """How often each record that a connector moves is there for readers of committed records."""

    __pydantic_config__ = _PRESENT

    exactly_once: Annotated[bool | None, Field(description="false: at least once; null: not known.")]
    because: Annotated[str | None, Field(description="Why it is not true; null: it is.")] = None
    remedy: Annotated[str | None, Field(description="The line to add, and where; null: there is none.")] = None


@dataclass(frozen=True, slots=True)
class ConnectorFigures:
    """`tasks` are sorted by number."""

    __pydantic_config__ = _PRESENT

    tasks: Sequence[TaskFigures]
    kind: Annotated[
        str | None,
        WithJsonSchema({"enum": ["source", "sink", "stream", "mirror", None], "type": ["string", "null"]}),
        Field(description="null: its class is not installed on the worker that was asked."),
    ] = None
    delivery: Delivery | None = None
    warnings: Annotated[
        Sequence[str] | None,
        Field(description="Keys of its config that nothing reads, or that look like typos; null: not known here."),
    ] = None


@dataclass(frozen=True, slots=True)
class ReportedTask:
    """A task's figures as workers exchange them."""

    connector: str
    figures: TaskFigures


@dataclass(frozen=True, slots=True)
class Totals:
    """What a task has read and written since it started."""

    started_ms: int
    read: int
    written: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The totals of a connector's tasks by number, and the largest lag; None if no task has one."""

    tasks: Mapping[int, Totals]
    lag_max: float | None

    @classmethod
    def of(cls, tasks: Iterable[Mapping[str, Any]]) -> "Sample | None":
        """Return the sample of tasks' figures; None if there are none."""
        known = {task["id"]: task for task in tasks}
        lags = [task["lag_max"] for task in known.values() if task.get("lag_max") is not None]
        totals = {
            number: Totals(
                task.get("started_ms") or 0, task.get("records_read_total") or 0, task.get("records_written_total") or 0
            )
            for number, task in known.items()
        }
        return cls(totals, max(lags, default=None)) if totals else None


@dataclass(frozen=True, slots=True)
class PastFigures:
    """What a connector's tasks on one worker had moved at each of these moments, from the first on, and its lag."""

    connector: str
    at_s: Sequence[float]
    read: Sequence[float]
    written: Sequence[float]
    lag: Sequence[float | None]


class FigureColumns:
    """A connector's columns: times, records read and written since the first sample, lags."""

    def __init__(self) -> None:
        self.columns = tuple(array("d") for _ in range(4))
        self._seen: dict[int, Totals] = {}
        self._read = self._written = 0.0

    @classmethod
    def of(cls, past: PastFigures) -> "FigureColumns":
        """Return columns that continue these figures, after a gap: what was moved in between is not known."""
        made = cls()
        made._read, made._written = past.read[-1], past.written[-1]
        lag = [math.nan if value is None else value for value in past.lag]
        made.columns = tuple(array("d", column) for column in (past.at_s, past.read, past.written, lag))
        made._append(past.at_s[-1], math.nan, math.nan, math.nan)
        return made

    def past(self, connector: str) -> PastFigures:
        """Return them as they are sent to another worker."""
        at_s, read, written, lag = (list(column) for column in self.columns)
        return PastFigures(connector, at_s, read, written, [None if math.isnan(value) else value for value in lag])

    def add(self, at_s: float, sample: Sample, most: int = MOST_POINTS) -> None:
        """Append a sample, and keep the newest `most`."""
        for number, now in sample.tasks.items():
            before = self._seen.get(number, now)
            if before.started_ms != now.started_ms:
                before = Totals(now.started_ms, 0, 0)
            self._read += max(0, now.read - before.read)
            self._written += max(0, now.written - before.written)
            self._seen[number] = now
        self._append(at_s, self._read, self._written, math.nan if sample.lag_max is None else sample.lag_max)
        for column in self.columns:
            del column[: max(0, len(column) - most)]

    def _append(self, *values: float) -> None:
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)


def merged(parts: Sequence[PastFigures]) -> PastFigures:
    """Return the figures of a connector whose tasks are or were on several workers, each with times of its own.

    They are added up by half minutes, which are longer than the pause between two samples.
    """
    steps: dict[int, list[float]] = {}
    lags: dict[int, float] = {}
    for part in parts:
        for n, at_s in enumerate(part.at_s):
            step = int(at_s // _STEP_S)
            known = steps.setdefault(step, [0.0, 0.0])
            for place, column in enumerate((part.read, part.written)):
                known[place] += column[n] - column[n - 1] if n else 0.0
            if (lag := part.lag[n]) is not None:
                lags[step] = max(lag, lags.get(step, lag))
    order = sorted(steps)[:-1]  # the last one is not over
    read, written = (list(accumulate(steps[step][place] for step in order)) for place in (0, 1))
    return PastFigures(
        parts[0].connector, [(s + 1) * _STEP_S for s in order], read, written, [lags.get(s) for s in order]
    )
