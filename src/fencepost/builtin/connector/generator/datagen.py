"""Datagen: generated rows at a steady rate, always the same ones."""

from itertools import islice
from typing import NamedTuple

from fencepost.api import (
    HIGH,
    LOW,
    Batch,
    ExactlyOnceSupport,
    SourceConnector,
    SourceTask,
    at_least,
    non_empty,
    setting,
)
from fencepost.builtin.connector.generator.fields import Fields, bad_fields
from fencepost.builtin.connector.generator.pace import Pace
from fencepost.config import Type
from fencepost.config.check import Check
from fencepost.record import PositionColumn

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
