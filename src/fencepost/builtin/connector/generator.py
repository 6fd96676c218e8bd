"""Connectors for trials and tests, at a steady rate: Datagen, VerifiableSource and VerifiableSink.

Datagen generates rows, always the same ones. The other two are like Kafka's connectors of these names: numbered
records, and a sink that prints its records as lines of JSON.
"""

import datetime as dt
import re
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import orjson

from fencepost.api import (
    HIGH,
    LOW,
    Batch,
    ConfigError,
    ExactlyOnceSupport,
    Schema,
    SinkBatch,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    TopicPartition,
    at_least,
    non_empty,
    setting,
)
from fencepost.config import Type
from fencepost.config.check import Check
from fencepost.record import PositionColumn, Repeated
from fencepost.record.schema import BOOLEAN, FLOAT64, INT32, INT64, STRING, TIMESTAMP


class Pace:
    """Says how many records may be sent now without exceeding `per_second`; 0 or less means no limit.

    Unused capacity is kept for only a tenth of a second, so there is no burst after a start or a pause.
    """

    MOST_SAVED_S = 0.1

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._clock = clock
        self._saved = 0.0
        self._at_s = clock()

    @property
    def is_unlimited(self) -> bool:
        return self.per_second <= 0

    def take(self, limit: int) -> int:
        """Return how many records may be sent now, at most `limit`, and count them as sent."""
        if self.is_unlimited:
            return limit
        now_s = self._clock()
        most = max(1.0, self.per_second * self.MOST_SAVED_S)
        self._saved = min(most, self._saved + (now_s - self._at_s) * self.per_second)
        self._at_s = now_s
        taken = min(limit, int(self._saved))
        self._saved -= taken
        return taken

    def wait_s(self) -> float:
        """Return the seconds until a record may be sent, at least a hundredth, so that waits are not too many."""
        if self.is_unlimited:
            return 0.0
        return max((1.0 - self._saved) / self.per_second, 0.01)


Make = Callable[[int, int], Any]
"""Returns a value for a row number and 64 random-looking bits."""

FIRST_MOMENT = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_TEXT = """
amber anchor autumn barley beacon birch canyon cedar cobalt copper coral crane delta ember falcon fern fjord flint
garnet ginger glacier harbor hazel heron indigo iris ivory jasper juniper kelp lagoon lark laurel lichen lilac linden
lotus maple marble meadow mist moss nectar oak ocean olive onyx opal orchid otter pebble pine prairie quartz raven
reed ridge river saffron sage slate sparrow spruce thistle tide timber tulip umber valley velvet violet walnut willow
wren zephyr
"""
WORDS = tuple(_TEXT.split())
_MASK = (1 << 64) - 1
_SPEC = re.compile(r"(?P<name>[^:]+):(?P<kind>[a-z0-9]+)(?:\((?P<low>-?[\d.]+?)\.\.(?P<high>-?[\d.]+)\))?")


class _Kind(NamedTuple):
    """A kind of field: its schema, and the function that generates values between two bounds."""

    schema: Schema
    make: Callable[[float, float], Make]
    bounds: tuple[float, float] | None = None


def _int(low: float, high: float) -> Make:
    start, count = int(low), int(high) - int(low) + 1
    return lambda number, bits: start + bits % count


def _double(low: float, high: float) -> Make:
    return lambda number, bits: round(low + (high - low) * (bits / _MASK), 2)


_KINDS = {
    "sequence": _Kind(INT64, lambda low, high: lambda number, bits: number),
    "int": _Kind(INT64, _int, (0, 1000)),
    "double": _Kind(FLOAT64, _double, (0, 1)),
    "boolean": _Kind(BOOLEAN, lambda low, high: lambda number, bits: bool(bits & 1)),
    "word": _Kind(STRING, lambda low, high: lambda number, bits: WORDS[bits % len(WORDS)]),
    "uuid": _Kind(
        STRING, lambda low, high: lambda number, bits: str(uuid.UUID(int=mixed(bits) << 64 | bits, version=4))
    ),
    "timestamp": _Kind(
        TIMESTAMP, lambda low, high: lambda number, bits: FIRST_MOMENT + dt.timedelta(seconds=number % 10**10)
    ),
}


class Fields:
    """The fields of a row, parsed from texts such as `price:double(1..100)`. Raises ConfigError for a wrong one."""

    def __init__(self, specs: Sequence[str], seed: int) -> None:
        parsed = [_parsed(spec) for spec in specs]
        self.schema = Schema.struct({name: schema for name, schema, _ in parsed}, name="fencepost.datagen.Row")
        self._makers = [(name, mixed(seed * 1_000_003 + i), make) for i, (name, _, make) in enumerate(parsed)]

    def row(self, number: int) -> dict[str, Any]:
        """Return row `number`."""
        return {name: make(number, mixed(salt + number)) for name, salt, make in self._makers}


def mixed(number: int) -> int:
    """Return 64 bits that look random (the finaliser of SplitMix64: Steele, Lea and Flood, 2014)."""
    z = (number + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def bad_fields(specs: Sequence[str]) -> str | None:
    """Return why the fields are wrong, or None."""
    try:
        names = [_parsed(spec)[0] for spec in specs]
    except ConfigError as error:
        return str(error)
    if not names:
        return "at least one field is needed"
    twice = next((name for name in names if names.count(name) > 1), None)
    return None if twice is None else f"field {twice} occurs twice"


def _parsed(spec: str) -> tuple[str, Schema, Make]:
    found = _SPEC.fullmatch(spec)
    kind = None if found is None else _KINDS.get(found["kind"])
    if found is None or kind is None:
        raise ConfigError(f"{spec} is not name:kind with a kind of {', '.join(_KINDS)}")
    low, high = kind.bounds or (0, 0)
    if found["low"] is not None:
        if kind.bounds is None:
            raise ConfigError(f"{spec}: {found['kind']} takes no bounds")
        low, high = _bounds(spec, found["low"], found["high"])
    return found["name"].strip(), kind.schema, kind.make(low, high)


def _bounds(spec: str, low: str, high: str) -> tuple[float, float]:
    try:
        bounds = float(low), float(high)
    except ValueError:
        raise ConfigError(f"{spec}: the bounds are not two numbers") from None
    if bounds[0] > bounds[1]:
        raise ConfigError(f"{spec}: the first bound is above the second")
    return bounds


TASK = "task"
TASKS = "tasks"
ROW = "row"
FINISHED_WAIT_S = 1.0


class _Done(NamedTuple):
    """Rows sent while there was another number of tasks: those of one residue class up to `row`."""

    task: int
    tasks: int
    row: int

    def has(self, number: int) -> bool:
        return number <= self.row and number % self.tasks == self.task


class DatagenTask(SourceTask):
    """Generates the rows of one residue class: `task`, `task + tasks`, `task + 2 * tasks` and so on."""

    config: "DatagenConnector"

    def start(self) -> None:
        own = {TASK: self.config.task_index, TASKS: self.config.task_count}
        self.partition = own
        last = self.context.offset(own).get(ROW)
        self.next_row = self.config.task_index if last is None else last + self.config.task_count
        self.done = [
            _Done(partition[TASK], partition[TASKS], offset[ROW])
            for partition, offset in self.context.offsets()
            if partition.keys() == own.keys() and ROW in offset and partition[TASKS] != self.config.task_count
        ]
        self.last_done = max((done.row for done in self.done), default=-1)
        self.fields = Fields(self.config.fields, self.config.seed)
        self.pace = Pace(self.config.rows_per_second / self.config.task_count)

    def poll(self) -> Batch | None:
        if self.config.max_rows and self.next_row >= self.config.max_rows:
            self.context.wait(FINISHED_WAIT_S)
            return None
        count = self.pace.take(self.config.batch_size)
        if not count:
            self.context.wait(self.pace.wait_s())
            return None
        numbers = self._take(count)
        if not numbers:
            return None
        return Batch.of_column(
            [self.fields.row(number) for number in numbers],
            topic=self.config.topic,
            source_partition=self.partition,
            source_offsets=PositionColumn(ROW, numbers),
            value_schema=self.fields.schema,
        )

    def _take(self, count: int) -> list[int]:
        """Return the next row numbers, without those sent while there was another number of tasks."""
        step = self.config.task_count
        end = self.config.max_rows or self.next_row + step * (count + max(0, self.last_done - self.next_row) + 1)
        numbers = list(islice((n for n in range(self.next_row, end, step) if not self._is_done(n)), count))
        self.next_row = numbers[-1] + step if numbers else end
        return numbers

    def _is_done(self, number: int) -> bool:
        return number <= self.last_done and any(done.has(number) for done in self.done)


class DatagenConnector(SourceConnector):
    """Sends generated rows to a topic. Row n depends only on `seed` and n.

    A task's source partition is `{"task": i, "tasks": how many}`, the source offset `{"row": the last number sent}`.
    Each row is sent once, even if the number of tasks changes.
    """

    task = DatagenTask

    topic: str = setting("topic", check=non_empty(), importance=HIGH, doc="The topic to publish to.")
    fields: list[str] = setting(
        "fields",
        default=["id:sequence", "name:word", "price:double(1..100)", "at:timestamp"],
        check=Check(bad_fields, "list of name:kind, e.g. id:sequence,name:word,price:double(1..100),at:timestamp"),
        importance=HIGH,
        doc="The fields of a row. Kinds: sequence, int(a..b), double(a..b), boolean, word, uuid, and timestamp (a "
        "second later with each row).",
    )
    rows_per_second: float = setting(
        "rows.per.second",
        default=10.0,
        check=at_least(0),
        importance=HIGH,
        doc="How many rows all tasks together send in a second; 0 for as many as possible.",
    )
    seed: int = setting("seed", default=0, type=Type.LONG, doc="Another seed makes other rows.")
    max_rows: int = setting(
        "max.rows", default=0, type=Type.LONG, check=at_least(0), doc="How many rows there are; 0 for no end."
    )
    batch_size: int = setting(
        "batch.size",
        type=Type.INT,
        default=1000,
        check=at_least(1),
        importance=LOW,
        doc="The most rows that one poll returns.",
    )
    task_index: int = setting(
        "task.index", type=Type.INT, default=0, importance=LOW, doc="The task's number. Set by the connector."
    )
    task_count: int = setting(
        "task.count",
        type=Type.INT,
        default=1,
        check=at_least(1),
        importance=LOW,
        doc="How many tasks there are. Set by the connector.",
    )

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        own = super().task_configs(1)[0]
        index, count = self.key_of("task_index"), self.key_of("task_count")
        return [{**own, index: str(i), count: str(max_tasks)} for i in range(max_tasks)]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED


ID = "id"
SEQNO = "seqno"
BATCH_SIZE = 1000

COMPLETE_VALUE = Schema.struct({"name": STRING, "task": INT32, "topic": STRING, "time_ms": INT64, "seqno": INT64})


class VerifiableSourceTask(SourceTask):
    """Counts up from the committed number."""

    config: "VerifiableSourceConnector"

    def start(self) -> None:
        self.id = self.config.id
        self.partition = {ID: self.id}
        self.seqno = self.context.offset(self.partition).get(SEQNO, -1) + 1
        self.pace = Pace(self.config.throughput)

    def poll(self) -> Batch | None:
        count = self.pace.take(BATCH_SIZE)
        if not count:
            self.context.wait(self.pace.wait_s())
            return None
        numbers = range(self.seqno, self.seqno + count)
        self.seqno += count
        return Batch(
            Repeated(self.config.topic, count),
            self._values(numbers),
            Repeated(self.partition, count),
            PositionColumn(SEQNO, numbers),
            value_schema=COMPLETE_VALUE if self.config.complete_record_data else INT64,
            keys=Repeated(self.id, count),
            key_schema=INT32,
        )

    def _values(self, numbers: range) -> list[Any] | range:
        if not self.config.complete_record_data:
            return numbers
        common = {"name": self.config.name, "task": self.id, "topic": self.config.topic}
        common["time_ms"] = time.time_ns() // 1_000_000
        return [{**common, "seqno": number} for number in numbers]


class VerifiableSourceConnector(SourceConnector):
    """Sends the numbers 0, 1, 2 and so on from each task; the key is the task's number.

    The source partition is `{"id": task}`, the source offset `{"seqno": the last number sent}`.
    """

    task = VerifiableSourceTask

    name: str = setting("name", default="", importance=LOW, doc="The connector's name; part of complete records.")
    topic: str = setting("topic", check=non_empty(), importance=HIGH, doc="The topic to publish to.")
    throughput: int = setting(
        "throughput", default=-1, type=Type.LONG, doc="Records per second and task; -1 for no limit."
    )
    id: int = setting("id", type=Type.INT, default=0, importance=LOW, doc="The task's number. Set by the connector.")
    complete_record_data: bool = setting(
        "complete.record.data",
        default=False,
        importance=LOW,
        doc="Whether values are structs of name, task, topic, time and number instead of the number alone.",
    )

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        own = super().task_configs(1)[0]
        return [{**own, ID: str(i)} for i in range(max_tasks)]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED


class VerifiableSinkTask(SinkTask):
    """Prints each record when it arrives, and again once it is flushed."""

    config: "VerifiableSinkConnector"

    def start(self) -> None:
        self.unflushed: list[dict[str, Any]] = []

    def put(self, batch: SinkBatch) -> None:
        now_ms = time.time_ns() // 1_000_000
        lines = [
            {
                "name": self.config.name,
                "task": record.key,
                "sinkTask": self.config.id,
                "topic": record.topic,
                "time_ms": now_ms,
                "seqno": record.value,
                "flushed": False,
            }
            for record in batch
        ]
        _print(lines)
        self.unflushed += lines

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        now_ms = time.time_ns() // 1_000_000
        _print([{**line, "time_ms": now_ms, "flushed": True} for line in self.unflushed])
        self.unflushed = []


def _print(lines: list[dict[str, Any]]) -> None:
    """Write all lines in one call: tasks of a slot share the output."""
    sys.stdout.write("".join(f"{orjson.dumps(line, default=str).decode()}\n" for line in lines))
    sys.stdout.flush()


class VerifiableSinkConnector(SinkConnector):
    """Prints the records of topics on the standard output of its tasks' processes, for tests."""

    task = VerifiableSinkTask

    name: str = setting("name", default="", importance=LOW, doc="The connector's name; part of what is printed.")
    id: int = setting("id", type=Type.INT, default=0, importance=LOW, doc="The task's number. Set by the connector.")

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        return [{**own, ID: str(i)} for i, own in enumerate(super().task_configs(max_tasks))]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Accept any change: only the group has positions."""
        return True
