"""Dead letters of a DataFrame sink: each executor writes those of the ranges that it reads.

All are acknowledged before the epoch's token is durable, and no offset passes the token (E13). If a task dies between
the two, its successor writes the dead letters again: at least once.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812

from fencepost.api import RecordError
from fencepost.api.dataframe import DataFrame
from fencepost.record import Header, SinkRecord
from fencepost.spark.epoch.read import asked_reading
from fencepost.task.channel.task_spec import LookUpSpec, TaskSpec
from fencepost.task.failure.dead_letter_producer import DeadLetters
from fencepost.task.failure.tolerance import ErrorCounters

LETTER_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
"""The columns of a dead letter: bytes as they were read, and the timestamp in milliseconds since 1970."""

LETTER_REASON = "reason"
"""The column with the reason why a value does not fit; null if the reason is not known."""

_STAGE = "VALUE_CONVERTER"
_SETTLE_S = 1.0
_NO_TIME = -1
_COUNT, _COUNT_WAIT_S, _LOOK_S = "count", 2.0, 0.005


def dead_letters_spec(spec: TaskSpec) -> TaskSpec:
    """Return the part of a task's spec that executors need to write its dead letters, and no more (E11)."""
    return replace(
        spec,
        connector_config={},
        task_config={},
        look_up=LookUpSpec(),
        output=replace(spec.output, admin_conf={}),
        input=replace(spec.input, consumer_conf={}, reader_conf={}, reader_admin_conf={}),
    )


class Tally:
    """Counts rows of a frame during the first Spark action on it. Driver side."""

    def __init__(self) -> None:
        self._observation = Observation()

    def on(self, frame: DataFrame, condition: str) -> DataFrame:
        """Return the same frame, whose rows are counted if they meet the condition."""
        return frame.observe(self._observation, F.count_if(F.expr(condition)).alias(_COUNT))

    def count(self, within_s: float = _COUNT_WAIT_S) -> int | None:
        """Return the count; None if Spark does not report it, because its optimiser may have dropped the rows."""
        future, deadline_s = self._observation._jo.future(), time.monotonic() + within_s
        while not future.isCompleted():  # it arrives soon after the action, through Spark's listeners
            if time.monotonic() > deadline_s:
                return None
            time.sleep(_LOOK_S)
        try:
            return int(self._observation.get[_COUNT])
        except Exception:
            return None


def write_dead_letters(left_out: DataFrame, channel_url: str, run: str, converter: str, misfit: str) -> int:
    """Write these records as dead letters, on executors; return how many there are.

    Their columns are LETTER_COLUMNS and LETTER_REASON. All are acknowledged when this returns. On an executor,
    RetriableError, FatalError or ChannelError end it. `converter`: the class that refused the values. `misfit`: what is
    wrong with them.
    """
    return sum(left_out.rdd.mapPartitions(_Writing(channel_url, run, converter, misfit)).collect())


@dataclass(frozen=True)
class _Writing:
    """Writes the dead letters of one partition of a frame, on an executor, and returns their number."""

    channel_url: str
    run: str
    converter: str
    misfit: str

    def __call__(self, rows: Iterator[Any]) -> Iterator[int]:
        dead_letters, count = None, 0
        try:
            for row in rows:
                dead_letters = dead_letters or self._opened()
                dead_letters.add(_record(row), _STAGE, self.converter, RecordError(self._text(row[LETTER_REASON])))
                count += 1
            while dead_letters is not None and not dead_letters.settle(_SETTLE_S):
                pass  # a record without an acknowledgement is refused when the producer's delivery.timeout.ms is over
        finally:
            if dead_letters is not None:
                dead_letters.close()
        yield count

    def _opened(self) -> DeadLetters:
        spec = asked_reading(self.channel_url, self.run).dead_letters
        assert spec is not None
        return DeadLetters(spec, ErrorCounters())

    def _text(self, reason: str | None) -> str:
        return self.misfit if reason is None else f"{self.misfit} ({reason})"


def _record(row: Any) -> SinkRecord:
    return SinkRecord(
        row["topic"],
        row["partition"],
        row["offset"],
        _bytes(row["value"]),
        key=_bytes(row["key"]),
        timestamp=None if row["timestamp"] == _NO_TIME else row["timestamp"],
        headers=tuple(Header(each["key"], _bytes(each["value"])) for each in row["headers"] or ()),
    )


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
