"""What Spark says of the progress of a query, and of its failure."""

import json
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from fencepost.api import FatalError, RetriableError
from fencepost.config import ConfigError
from fencepost.record import TopicPartition
from fencepost.spark.query.failure import failure_of
from fencepost.spark.query.run import QueryProgress, RunningQuery


def progress(batch: int, read: int = 0, written: int = 0, end: int = 0, **more: Any) -> str:
    """Return the JSON of a progress, as Spark 4.3 writes it, without what nothing reads."""
    source = {
        "endOffset": {"orders": {"0": end, "1": 0}, "/ids": {"orders": "x"}, "/from": {"orders": {"0": 0}}},
        "latestOffset": {"orders": {"0": 20, "1": 5}},
    }
    found = {
        "batchId": batch,
        "numInputRows": read,
        "processedRowsPerSecond": 2.5,
        "batchDuration": 400,
        "stateOperators": [{"numRowsTotal": 3}, {"numRowsTotal": 4}],
        "sources": [source],
        "observedMetrics": {"fencepost": {"rows": written}},
    }
    return json.dumps({**found, **more})


def test_progress_has_rows_state_lags_and_watermark() -> None:
    event_time = {"watermark": "2026-11-29T15:53:22.106Z"}
    found = QueryProgress.of(progress(7, 5, 2, 12, eventTime=event_time))
    assert (found.batch, found.rows_read, found.rows_written, found.duration_ms) == (7, 5, 2, 400)
    assert (found.rows_per_s, found.state_rows, found.watermark_ms) == (2.5, 7, 1_795_967_602_106)
    assert found.lags == {TopicPartition("orders", 0): 8, TopicPartition("orders", 1): 5}


def test_progress_before_the_first_offsets_has_no_lag() -> None:
    found = QueryProgress.of(progress(0, sources=[{"endOffset": None, "latestOffset": None}]))
    assert (found.lags, found.watermark_ms, found.has_rows) == ({}, None, False)


class Text:
    def __init__(self, text: str) -> None:
        self._text = text

    def json(self) -> str:
        return self._text


class Query:
    """Spark's query, as far as its progress goes."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    @property
    def _jsq(self) -> "Query":
        return self

    def lastProgress(self) -> Text | None:  # noqa: N802
        return Text(self.texts[-1]) if self.texts else None

    def recentProgress(self) -> list[Text]:  # noqa: N802
        return [Text(each) for each in self.texts]


def test_each_batch_is_returned_once_however_fast_batches_are() -> None:
    query = Query()
    running = RunningQuery(query)
    seen = []
    for texts in (
        [],
        [progress(0, 5)],
        [progress(1)],
        [progress(1), progress(1, 2), progress(2, 3), progress(3, 0, 4)],
        [progress(4)],
    ):
        query.texts += texts
        seen.append([(each.batch, each.rows_read) for each in running.progress()])
    assert seen == [[], [(0, 5)], [(1, 0)], [(1, 2), (2, 3), (3, 0)], [(4, 0)]]
    assert running.progress() == []


_PYTHON = (
    "[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when it performed commit: Traceback (most recent call last)\n"
)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema.",
         FatalError, "set another checkpoint.location"),
        ("[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does not match.",
         FatalError, "Put the query back"),
        ("assertion failed: There are [1] sources in the checkpoint offsets and now there are [2] sources requested",
         FatalError, "does not fit its checkpoint"),
        (_PYTHON + "fencepost.kafka.errors.LostError: cannot connect\n\nThe above exception was the direct cause\n"
         "fencepost.kafka.errors.KafkaUnavailableError: no broker answers", RetriableError, "no broker answers"),
        (_PYTHON + "fencepost.spark.write.decision.DecidedOtherwiseError: batch 3 is decided", FatalError, "batch 3"),
        (_PYTHON + "fencepost.api.errors.FatalError: batch 3 could not be sent", RuntimeError, "batch 3 could"),
        (_PYTHON + "fencepost.config.check.ConfigError: option topic is missing", ConfigError, "option topic"),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred\nCaused by: java.io.IOException: Connection reset",
         RetriableError, "Connection reset"),
        ("Lost task 0.3 (host executor 1): org.apache.hadoop.fs.ParentNotDirectoryException: /q/state is no directory",
         RetriableError, "Lost task"),
        ("[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] Error reading delta file 3.delta",
         FatalError, "does not fit its checkpoint"),
        (_PYTHON + "NotADirectoryError: [Errno 20] Cannot create directory", RetriableError, ""),
        (_PYTHON + "FileNotFoundError: [Errno 2] Failed to open", RuntimeError, ""),
        ("x\nCaused by: org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem", RuntimeError, "No FileS"),
        ("Job aborted\nCaused by: java.lang.ArithmeticException: by zero", RuntimeError, "by zero"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)  # fmt: skip
def test_error_of_spark_says_whether_another_start_helps(text: str, kind: type[Exception], said: str) -> None:
    found = failure_of(Exception(text))
    assert type(found) is kind
    assert said in str(found)


def test_cause_that_only_the_stack_names_says_whether_another_start_helps() -> None:
    error = Exception("Mkdirs failed to create /q/offsets")
    assert type(failure_of(error)) is RuntimeError
    error._cause = Exception()  # type: ignore[attr-defined]
    for stack in ("java.io.IOException: Mkdirs failed", "ExitCodeException exitCode=1: chmod: cannot access"):
        error._cause._stackTrace = stack  # type: ignore[attr-defined]
        assert type(failure_of(error)) is RetriableError


def test_missing_watermark_is_named_with_the_clause_that_adds_it() -> None:
    text = "Invalid streaming output mode: append. Not supported for streaming aggregations without watermark"
    found = failure_of(AnalysisException(text))
    assert isinstance(found, ConfigError)
    assert str(found).startswith("sql: Spark refuses it: Invalid streaming output mode")
    assert "WATERMARK timestamp DELAY OF INTERVAL 10 MINUTES" in str(found)
