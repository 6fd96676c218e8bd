"""All messages between Python and a host, in one list: `client` sends and reads by it, the Java services answer by it.

Python opens a connection for each thing that it wants of a host: a `Service`. The first request opens it; the others
are its operations, answered in order by one thread of Java's. While a request is under way, the host may ask a question
back. Events go the other way, from the host, on a connection of their own. A message is JSON (`wire`) and buffers.

A test compares this list with the sources of both sides: a name that only one of them knows is an error.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fencepost.builtin.java.port import JavaClass


class Kind(NamedTuple):
    """How a field of a request crosses: `encoded` makes JSON of Python's value, and a method of `Request` reads it."""

    encoded: Callable[[Any], Any]
    java: str


def described(java_class: JavaClass) -> list[Any]:
    """Return a class as both sides write one: name, path and archives."""
    location = java_class.location
    return [java_class.name, None, []] if location is None else [java_class.name, location.path, location.archives]


def _as_it_is(value: Any) -> Any:
    return value


TEXT, NUMBER, FLAG = Kind(_as_it_is, "text"), Kind(_as_it_is, "number"), Kind(_as_it_is, "flag")
TEXTS = Kind(dict, "properties")
LIST, VALUE = Kind(list, "list"), Kind(_as_it_is, "head")
CLASS = Kind(described, "javaClass")
CLASSES = Kind(lambda named: {name: described(each) for name, each in named.items()}, "classes")
SUBJECT = Kind(dict, "head")
OFFSETS = Kind(lambda pairs: [(dict(at), None if offset is None else dict(offset)) for at, offset in pairs], "offsets")
"""Pairs of source partition and source offset."""
PLACES = Kind(lambda places: [(place.topic, place.partition) for place in places], "list")
POSITIONS = Kind(lambda offsets: [(*place, offset) for place, offset in offsets.items()], "positions")
"""Offsets by topic partition."""
STEPS = Kind(lambda steps: [{**step._asdict(), "java_class": described(step.java_class)} for step in steps], "list")
BUFFER = Kind(_as_it_is, "buffer")
"""Not in the JSON. A column of bytes has up to three: its name with `.ends`, `.data` and `.present`."""

Fields = Mapping[str, Kind]


@dataclass(frozen=True)
class Operation:
    """A request: its fields, and the names in the object that answers it, if it is answered by one."""

    fields: Fields = field(default_factory=dict)
    answer: Sequence[str] = ()


@dataclass(frozen=True)
class Service:
    """What a connection is for. `java` has the sources below `jvm` in which nothing but its messages are read."""

    java: tuple[str, ...]
    opening: Operation
    operations: Mapping[str, Operation]
    questions: Mapping[str, Operation] = field(default_factory=dict)
    """What the host asks in the middle of an operation. Its fields are for Python."""


_TASK: Fields = {
    "class": CLASS,
    "connector": TEXT,
    "task": NUMBER,
    "subject": SUBJECT,
    "task_config": TEXTS,
    "connector_config": TEXTS,
    "classes": CLASSES,
    "passes_records": FLAG,
}
_RECORDS: Fields = {"rows": NUMBER, "schemas": BUFFER, "records": BUFFER}
_RAW_RECORDS: Fields = {
    "places": LIST,
    "offsets": BUFFER,
    "timestamps": BUFFER,
    "appended": BUFFER,
    "keys": BUFFER,
    "values": BUFFER,
    "headers": BUFFER,
    "header_counts": BUFFER,
    "header_names": LIST,
}
_AS_READ: Fields = {f"read.{name}": kind for name, kind in _RAW_RECORDS.items() if name != "places"}
_PROCESSING = ("filtered", "failures", "retries")
_EFFECTS = ("rewinds", "timeout_ms", "paused", "resumed", "requests_commit", "errant", *_PROCESSING)
_POLLED = ("number", "is_whole", "mark", "ends", "dropped", "offsets", *_PROCESSING)
_COLUMNS = ("rows", "topics", "sources", "headers", "header_names")
_ASKED_PLACES = Operation(answer=["partitions"])

CONTROL = "control"
SERVICES: Mapping[str, Service] = {
    CONTROL: Service(
        ("Sessions",),
        Operation(answer=["session"]),
        {
            "interrupt": Operation({"session": NUMBER}),
            "levels": Operation({"levels": TEXTS}),
            "threads": Operation(),
        },
    ),
    "questions": Service(
        ("Questions", "Callbacks"),
        Operation(answer=["session"]),
        {
            "describe": Operation({"class": CLASS}, ["version", "callbacks"]),
            "definitions": Operation({"class": CLASS}),
            "validate": Operation({"class": CLASS, "properties": TEXTS}),
            "look_up": Operation(
                {"class": CLASS, "properties": TEXTS, "path": TEXT, "keys": LIST}, ["values", "ttl_ms"]
            ),
        },
    ),
    "connector": Service(
        ("ConnectorService",),
        Operation({"class": CLASS, "name": TEXT, "subject": SUBJECT}, ["session", "version", "task_class"]),
        {
            "start": Operation({"properties": TEXTS}),
            "task_configs": Operation({"max_tasks": NUMBER}),
            "exactly_once_support": Operation({"properties": TEXTS}),
            "boundaries": Operation({"properties": TEXTS}),
            "alter_source_offsets": Operation({"properties": TEXTS, "offsets": OFFSETS}),
            "alter_sink_offsets": Operation({"properties": TEXTS, "offsets": POSITIONS}),
            "stop": Operation(),
        },
    ),
    "source": Service(
        ("SourceService", "TaskService", "Tolerance", "SourceColumns", "HandedRecords"),
        Operation({**_TASK, "offsets": OFFSETS, "defines_transactions": FLAG}, ["session", "version", "callbacks"]),
        {
            "poll": Operation({"committed": OFFSETS, "max_bytes": NUMBER}, [*_POLLED, *_COLUMNS]),
            "commit_records": Operation({"number": NUMBER, "metadata": VALUE}),
            "commit": Operation({"committed": OFFSETS}),
            "update_offsets": Operation({"offsets": OFFSETS}),
            "stop": Operation(),
        },
    ),
    "sink": Service(
        ("SinkService", "TaskService", "Tolerance", "SinkContext", "SinkRows", "SinkColumns", "Reports", "Membership"),
        Operation({**_TASK, "has_reporter": FLAG}, ["session", "version"]),
        {
            "open": Operation({"partitions": PLACES, "member": VALUE}, _EFFECTS),
            "put": Operation(
                {"again": FLAG, "most_rows": NUMBER, "within_ms": NUMBER, **_RECORDS, **_RAW_RECORDS, **_AS_READ},
                [*_EFFECTS, "puts", "thrown"],
            ),
            "pre_commit": Operation({"offsets": POSITIONS}, [*_EFFECTS, "offsets"]),
            "close": Operation({"partitions": PLACES}, _EFFECTS),
            "stop": Operation(),
        },
        questions={
            "report": Operation(answer=["errant"]),
            "committed": _ASKED_PLACES,
            "positions": _ASKED_PLACES,
            "edges": _ASKED_PLACES,
        },
    ),
    "chain": Service(
        ("ChainService",),
        Operation({"owner": TEXT, "is_source": FLAG, "config": TEXTS, "steps": STEPS, "subject": SUBJECT}, ["session"]),
        {
            "run": Operation({**_RECORDS, "first": NUMBER, "end": NUMBER, "chosen": BUFFER}, ["rows", "failed"]),
            "again": Operation(answer=["rows", "failed"]),
            "skip": Operation(answer=["rows", "failed"]),
        },
    ),
}

EVENTS: Mapping[str, Sequence[str]] = {
    "log": ("level", "logger", "owner", "subject", "message"),
    "figures": ("session", "rows"),
    "reconfigure": ("session",),
    "error": ("session", "error"),
    "offsets": ("session", "id"),
}
"""What a host says, with the names in each event. One that has an `id` is answered."""

CALLBACKS = ("records", "places", "commits", "updates")
STEP = ("role", "java_class", "prefix", "is_negated", "is_conditional")
THROWN = ("kind", "class", "message", "root_class", "root_message", "trace")
ENVELOPE = ("op", "result", "error", "question", "event", "id", "buffers")
"""The names that any message may have."""


def encoded(operation: str, fields: Fields, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request as JSON has it. Raises KeyError for a field that it does not have."""
    return {"op": operation, **{name: fields[name].encoded(value) for name, value in given.items()}}
