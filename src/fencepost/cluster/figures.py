"""What tasks say of their work, as users see it: the bodies of `/connectors/C/figures` and of `expand=figures`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field, WithJsonSchema

ANSWER_S = 2.0
"""The longest time that figures take, however many workers are away."""

_PRESENT = ConfigDict(json_schema_serialization_defaults_required=True)
_Kind = Annotated[
    str | None,
    WithJsonSchema({"enum": ["source", "sink", "stream", None], "type": ["string", "null"]}),
    Field(description="null: nothing is known; its worker did not answer in time, or it has not reported yet."),
]


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
class TaskFigures(TaskTrouble):
    """A task; what is not known is null. Times are milliseconds since 1970, totals begin with `started_ms`."""

    __pydantic_config__ = _PRESENT

    last_commit_ms: Annotated[int | None, Field(description="null: it has committed nothing.")] = None
    open_records: Annotated[int | None, Field(description="Handed to Kafka, and not committed.")] = None
    open_since_ms: Annotated[
        int | None, Field(description="When the oldest of these, or a dead letter, was handed to Kafka.")
    ] = None
    slot: Annotated[SlotFigures | None, Field(description="null: it runs as Spark jobs, or nowhere.")] = None


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
