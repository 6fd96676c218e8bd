"""A streaming query that runs: its start, its progress, its failure and its end. Driver side."""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from fencepost.api import RetriableError
from fencepost.api.dataframe import DataFrame
from fencepost.builtin.connector.sql_stream import UPDATE, SqlStream
from fencepost.record import TopicPartition
from fencepost.spark.kafka_read.selection import positions
from fencepost.spark.partition import BATCH_OPTION, FORMAT
from fencepost.spark.query.failure import failure_of
from fencepost.spark.row.frame import first_line

log = logging.getLogger(__name__)

_WRITTEN, _ROWS = "fencepost", "rows"


@dataclass(frozen=True)
class QueryProgress:
    """What a query has done with one batch; a batch without rows may not have been one.

    Attributes:
        batch: the number of the batch.
        rows_read: the records of the batch.
        rows_written: the rows that the query made of them.
        rows_per_s: the records read, divided by the time that the batch took.
        watermark_ms: the event time up to which results are final, in milliseconds since 1970; None without one.
        state_rows: the rows in the query's state.
        lags: the records to the end of each partition.
    """

    batch: int
    rows_read: int = 0
    rows_written: int = 0
    rows_per_s: float = 0.0
    duration_ms: int = 0
    watermark_ms: int | None = None
    state_rows: int = 0
    lags: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def has_rows(self) -> bool:
        return bool(self.rows_read or self.rows_written)

    @classmethod
    def of(cls, text: str) -> "QueryProgress":
        """Parse Spark's `StreamingQueryProgress`."""
        found: dict[str, Any] = json.loads(text)
        watermark = found.get("eventTime", {}).get("watermark")
        at_ms = None if watermark is None else round(datetime.fromisoformat(watermark).timestamp() * 1000)
        return cls(
            found["batchId"],
            found["numInputRows"],
            int((found.get("observedMetrics", {}).get(_WRITTEN) or {}).get(_ROWS) or 0),
            float(found.get("processedRowsPerSecond") or 0.0),
            int(found.get("batchDuration") or 0),
            at_ms or None,  # Spark begins at 1970
            sum(operator["numRowsTotal"] for operator in found["stateOperators"]),
            dict(lag for source in found["sources"] for lag in _lags(source)),
        )


def _lags(source: Mapping[str, Any]) -> Iterator[tuple[TopicPartition, int]]:
    ends, read = (positions(source.get(name) or {}) for name in ("latestOffset", "endOffset"))
    for place, end in ends.items():
        yield place, max(0, end - read.get(place, end))


def _write(batch: DataFrame, number: int, options: Mapping[str, str]) -> None:
    batch.write.format(FORMAT).mode("append").options(**options).option(BATCH_OPTION, number).save()


class RunningQuery:
    """One run of a query. Errors of Spark are translated by `failure_of`."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self._seen = -1
        self._last = ""

    @classmethod
    def start(cls, records: DataFrame, stream: SqlStream, writing: Mapping[str, str]) -> "RunningQuery":
        """Start the query, in threads of Spark's. `writing` are the sink's options that are not the connector's."""
        options = {**writing, "topic": stream.topic, "checkpointLocation": stream.checkpoint}
        if stream.commit_group is not None:
            options["commit.group"] = stream.commit_group
        counted = records.observe(_WRITTEN, F.count(F.lit(1)).alias(_ROWS))
        writer = counted.writeStream.format(FORMAT).options(**options).outputMode(stream.output_mode.lower())
        if stream.output_mode.lower() == UPDATE:  # which Spark does not let data sources in Python take
            writer = writer.foreachBatch(lambda batch, number: _write(batch, number, options))
        try:
            return cls(writer.trigger(processingTime=f"{stream.trigger_ms} milliseconds").start())
        except Exception as error:
            raise failure_of(error) from error

    @property
    def group(self) -> str:
        """Return the name of the group of its jobs."""
        return str(self._query.runId)

    @property
    def driver_thread(self) -> int | None:
        """Return the number of the thread in Spark's driver that runs it; None if it has ended."""
        with suppress(Exception):  # it is not in Spark's API
            return int(self._query._jsq.streamingQuery().queryExecutionThread().getId())
        return None

    @property
    def step(self) -> str:
        """Return a text that changes as the query moves on; empty while it waits for its next trigger."""
        status = self._query._jsq.status()
        is_at_work = bool(status.isTriggerActive()) or str(status.message()).startswith("Initializing")
        return f"{self._seen} {status.message()}" if is_at_work else ""

    def progress(self) -> list[QueryProgress]:
        """Return what it has done since the last call, oldest first: each batch with rows once, and where it is now."""
        last = self._query._jsq.lastProgress()
        text = "" if last is None else str(last.json())
        if text in ("", self._last):
            return []
        self._last, newest = text, QueryProgress.of(text)
        texts = [text]
        if newest.batch > self._seen + 1:  # batches are shorter than the time between two calls
            texts = [str(each.json()) for each in self._query._jsq.recentProgress()]
        found = {each.batch: each for each in map(QueryProgress.of, texts) if each.has_rows and each.batch > self._seen}
        self._seen = max((self._seen, *found))
        made = [found[batch] for batch in sorted(found)]
        return made if newest in made else [*made, newest]

    def failure(self) -> Exception | None:
        """Return why it has ended; None while it runs."""
        if self._query.isActive:
            return None
        error = self._query.exception()
        return RetriableError("Spark has stopped the query") if error is None else failure_of(error)

    def wait(self, timeout_s: float) -> None:
        """Return when it ends, or after this time."""
        with suppress(Exception):  # `failure` returns it
            self._query.awaitTermination(timeout_s)

    def stop(self) -> None:
        """End it, in the middle of a batch if there is one, which is written later. Never raises."""
        try:
            self._query.stop()
        except Exception as error:
            log.warning("the query with run id %s was not stopped: %s", self.group, first_line(error))
