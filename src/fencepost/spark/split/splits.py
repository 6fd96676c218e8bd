"""Splits of a DataFrame connector as Spark jobs: one job runs one split or several, in the calling thread."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fencepost.api import DataFrameConnector, RecordError, Split
from fencepost.api.dataframe import DataFrame, Session
from fencepost.config import ConfigError
from fencepost.spark.partition import CHANNEL_OPTION, CSV_OPTION, FORMAT, READING_OPTION, RUN_OPTION
from fencepost.spark.row.csv_objects import LeftToSparkError
from fencepost.spark.row.frame import JSON, ConverterChoice, is_repeatable, record_columns, with_sql
from fencepost.spark.slot.failure import causes_of, is_broken_content, raised_in_python, reason
from fencepost.spark.slot.job import job_group
from fencepost.spark.split.lines import LineChoice, mark_column, union
from fencepost.spark.split.run import TIME_ZONE, ReadingChangedError, fingerprint

log = logging.getLogger(__name__)

_SQL, _KEY_FIELD, _ROWS_MAX = "transforms.sql", "key.field", "split.rows.max"


class SessionOwner(Protocol):
    """The part of `SparkRuntime` that is needed here."""

    @property
    def session(self) -> Any: ...


class SplitError(RuntimeError):
    """A split's Spark job failed; the text is Spark's reason, in one line. `is_broken`: its content cannot be read."""

    def __init__(self, text: str, *, is_broken: bool) -> None:
        super().__init__(text)
        self.is_broken = is_broken


@dataclass(frozen=True)
class SplitFrame:
    """The records of splits, ready to be written; or lines, and how to make records of them (`csv`, a `CsvForm`).

    `reading`: how the rows of a single split are made.
    """

    records: DataFrame
    reading: str = ""
    csv: str = ""


class SplitReader:
    """Makes the frame that is written for a split: read ▸ `transforms.sql` ▸ key and value. One per task; driver
    side.
    """

    def __init__(
        self, connector: DataFrameConnector, properties: Mapping[str, str], *, is_exactly_once: bool = True
    ) -> None:
        """Raise ConfigError for settings of `properties` that a DataFrame connector does not support.

        Lines are cut in executors only if writes are transactional: if Spark has to write them again, the first ones
        must not stay.
        """
        if properties.get("transforms"):
            raise ConfigError(f"transforms does not apply to a DataFrame connector: remove it, and use {_SQL}")
        self._connector = connector
        self._query = properties.get(_SQL)
        self._key_field = properties.get(_KEY_FIELD)
        self._value = ConverterChoice.of(properties, "value.converter")
        self._key = ConverterChoice.of(properties, "key.converter")
        self._rows_max = _whole(properties.get(_ROWS_MAX) or "0")
        self._columns: dict[Any, list[Any]] = {}
        self._has_fitted = False
        is_plain = self._query is None and self._key_field is None and self._value.kind == JSON
        self.choice = LineChoice(connector, is_open=is_exactly_once and is_plain, has_schemas=self._value.has_schemas)

    def frame(self, session: Session, splits: Sequence[Split]) -> SplitFrame:
        """Return the rows of the splits as records, one split after the other, as one partition.

        If there are several, a column says which split a row belongs to. Raises RecordError if one cannot be read, or
        if one does not fit the settings (key, query, converter) and another does; ConfigError if none fits.
        """
        if len(splits) == 1 and splits[0].size_bytes == 0:  # these have no columns that a key or a query could name
            return SplitFrame(session.createDataFrame([], "value string").coalesce(1))
        lines = self.choice.lines(session, splits)
        if lines is None:
            return self.frame_by_spark(session, splits)
        self._has_fitted = True
        reading = self._reading(session, lines.schema) if len(splits) == 1 else ""
        return SplitFrame(lines.frame(session).coalesce(1), reading, lines.form.encoded())

    def frame_by_spark(self, session: Session, splits: Sequence[Split]) -> SplitFrame:
        """Return the same as `frame`, with Spark doing all of it."""
        frames, misfit, rows = [], None, None
        for n, split in enumerate(splits):
            mark = [mark_column(n)] if len(splits) > 1 else []
            try:
                rows = self._connector.read(session, split)
                frames.append(self._records(self._transformed(session, rows), *mark))
            except ConfigError as error:
                misfit = misfit or error
        self._has_fitted |= bool(frames)
        if misfit is not None and self._has_fitted:
            raise RecordError(f"{misfit}; other splits fit these settings") from misfit
        if misfit is not None:
            raise misfit
        reading = self._reading(session, rows.schema) if len(splits) == 1 and rows is not None else ""
        return SplitFrame(union(frames).coalesce(1), reading)

    def _records(self, rows: DataFrame, *more: Any) -> DataFrame:
        schema = rows.schema
        if schema not in self._columns:  # a call into the JVM for every field; files are alike
            self._columns = {schema: record_columns(schema, self._value, self._key, self._key_field)}
        return rows.select(*self._columns[schema], *more)

    @property
    def rows_max(self) -> int:
        """Return the value of `split.rows.max`; 0: all rows in one transaction."""
        return self._rows_max

    def is_exact(self, session: Session, split: Split) -> bool:
        """Return whether a second reading gives the same rows in the same order: a count of rows is then a position."""
        if split.size_bytes == 0 or not split.is_single_file:
            return split.is_single_file
        return is_repeatable(self._transformed(session, self._connector.read(session, split)), self._query)

    def _reading(self, session: Session, schema: Any) -> str:
        zone = {TIME_ZONE: str(session.conf.get(TIME_ZONE))}  # for timestamps without a zone, and SQL
        made_of = {**self._connector.row_settings(), **zone, "columns": schema.json()}
        return fingerprint(made_of if self._query is None else {**made_of, _SQL: self._query})

    def _transformed(self, session: Session, rows: DataFrame) -> DataFrame:
        return rows if self._query is None else with_sql(session, rows, self._query)


def run_splits(
    runtime: SessionOwner, reader: SplitReader, splits: Sequence[Split], channel_url: str, run_id: str
) -> None:
    """Write splits, as one Spark job, and return when they are committed or were found done.

    If lines that are cut in executors turn out not to be plain, a second job, in which Spark reads them, writes them.
    Call this in a thread of its own; `cancel_group` ends it from another. The plan contains no secret (E11).

    Raises:
    SplitError: The job failed; run them again, unless `is_unreadable` says that this is useless.
    ReadingChangedError: Part of a split is committed whose rows are now made differently.
    Exception: The errors of `SplitReader.frame`.
    """
    frame = reader.frame(runtime.session, splits)
    try:
        _run(runtime, frame, channel_url, run_id)
        if frame.csv:
            reader.choice.taken()
    except LeftToSparkError as error:
        log.info("lines of %s are read by Spark: %s", dict(splits[0].partition), error)
        reader.choice.refused()
        _run(runtime, reader.frame_by_spark(runtime.session, splits), channel_url, run_id)


def _run(runtime: SessionOwner, frame: SplitFrame, channel_url: str, run_id: str) -> None:
    """Run one job. Raises LeftToSparkError, too; then nothing of the open transaction is committed."""
    try:
        with job_group(runtime.session.sparkContext, run_group(run_id), "split"):
            writer = frame.records.write.format(FORMAT).mode("append")
            writer = writer.option(CHANNEL_OPTION, channel_url).option(READING_OPTION, frame.reading)
            writer.option(CSV_OPTION, frame.csv).option(RUN_OPTION, run_id).save()
    except Exception as error:
        causes = causes_of(error)
        for kind in (ReadingChangedError, LeftToSparkError):
            found = raised_in_python(causes, kind)
            if found is not None:
                raise kind(found) from error
        raise SplitError(reason(error), is_broken=is_broken_content(causes)) from error


def is_unreadable(error: BaseException) -> bool:
    """Return whether the split's content is broken, so that it should be set aside instead of being tried again."""
    return error.is_broken if isinstance(error, SplitError) else is_broken_content(causes_of(error))


def run_group(run_id: str) -> str:
    """Return the group of the Spark jobs of a run; the next owner of its id ends its transaction."""
    return f"run-{run_id}"


def _whole(text: str) -> int:
    if not text.strip().isdigit():
        raise ConfigError(f"Invalid value {text} for configuration {_ROWS_MAX}: Not a number of type INT")
    return int(text)
