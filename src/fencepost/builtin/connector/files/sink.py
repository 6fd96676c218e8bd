"""FilesSink: topics as Parquet, JSON lines or CSV in a directory, each record exactly once.

A listed file is committed, or will be without being written again (E17). Files are written to a staging directory that
no other attempt uses. Before the first one is moved, their list is on disk, and the name of the directory is durable as
the epoch's token.

Spark's executors may not write to the directory that the driver sees: on a local disk, each has a disk of its own.
Spark reports success all the same, and the driver finds no files, or not all. So a look comes first.
"""

import contextlib
import hashlib
import json
import logging
import os
import socket
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote

from fencepost.api import (
    HIGH,
    LOW,
    ConfigError,
    DataFrameSink,
    Epoch,
    RetriableError,
    Type,
    at_least,
    non_empty,
    one_of,
    setting,
)
from fencepost.api.dataframe import DataFrame, Session
from fencepost.builtin.connector.file_system import DirectoryError, option_faults
from fencepost.builtin.connector.files.columns import (
    CSV,
    JSON,
    LINE,
    PARQUET,
    TEXT,
    file_column,
    name_check,
    partition_columns,
    quoted,
    too_long,
    writer_options,
)
from fencepost.builtin.connector.files.moves import (
    NAME_MAX_BYTES,
    WrittenFile,
    moves_for,
    moves_of,
    number_of,
    shortened,
    written_files,
)
from fencepost.builtin.connector.files.store import FilesCopy, FilesStore, LocalFiles, check_whole, files_store
from fencepost.config.connector_limit import a_directory

_PROBE = "0-probe-"  # if it remains, it is deleted with the files of earlier epochs
_PART, _PARTS = "_fencepost_part", "parts"
_SPREAD_S = 0.2
"""How long each task of the look takes, so that one executor does not run them all."""
_HEARD_S, _POLL_S = 30.0, 0.01
_ADVICE = (
    "executors do not write to the directory that the worker sees. Set it to a directory that is mounted at this "
    "path on all machines, or is on a file system that all of them reach, such as hdfs:// or s3a://"
)


def is_certain(session: Session, store: FilesStore) -> bool:
    """Say whether a directory is the same for driver and executors, on whatever machines these run."""
    return not isinstance(store, LocalFiles) or bool(session.sparkContext._jsc.isLocal())


def ensure_shared(session: Session, store: FilesStore, place: str, key: str) -> None:
    """Raise ConfigError if an executor does not see what the driver writes below a place of the store."""
    if is_certain(session, store) or not isinstance(store, LocalFiles):
        return
    probe = f"{place}/{_PROBE}{uuid.uuid4().hex}"
    store.make(probe)
    try:
        context = session.sparkContext
        count = max(1, int(context.defaultParallelism))
        looks = context.parallelize(range(count), count).mapPartitions(_Look(str(store.path / probe))).collect()
    finally:
        store.remove(probe)
    blind = sorted({host for host, is_there in looks if not is_there})
    if blind:
        raise ConfigError(f"{key}={store.root} is another directory on {', '.join(blind)}: {_ADVICE}")


@dataclass(frozen=True)
class _Look:
    """Returns an executor's host, and whether it sees a path."""

    path: str

    def __call__(self, rows: Iterable[int]) -> Iterator[tuple[str, bool]]:
        time.sleep(_SPREAD_S)
        yield socket.gethostname(), os.path.exists(self.path)


class PartsWithRows:
    """Learns from Spark which row partitions of a frame had rows, while it writes them. Driver side."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._jvm = session._jvm
        self._observation: Any = session._jvm.org.apache.spark.sql.Observation()

    def on(self, frame: DataFrame) -> DataFrame:
        """Return the same frame; its first action is observed."""
        numbered = frame.selectExpr("*", f"spark_partition_id() AS {_PART}")
        parts = self._jvm.org.apache.spark.sql.functions.expr(f"collect_set({_PART})").alias(_PARTS)
        no_more = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq([])
        return type(frame)(numbered._jdf.observe(self._observation, parts, no_more), self._session).drop(_PART)

    def ensure_in(self, found: Collection[int], store: FilesStore, key: str) -> None:
        """Raise ConfigError if a part that had rows has no file among those of the parts `found`."""
        missing = sorted(self._heard() - set(found))
        if missing:
            raise ConfigError(
                f"{key}={store.root}: {len(missing)} of Spark's tasks have written rows, and none of their files is "
                f"there: {_ADVICE}"
            )

    def _heard(self) -> set[int]:
        done, deadline_s = self._observation.future(), time.monotonic() + _HEARD_S
        while not done.isCompleted():  # soon after the action: it comes by way of Spark's listeners
            if time.monotonic() > deadline_s:
                raise RetriableError("Spark did not report which of its tasks wrote rows: the epoch is written again")
            time.sleep(_POLL_S)
        row = self._observation.getAsJava().get(_PARTS)
        return {int(each) for each in self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(row)}


_ROOM = 0.9  # rows differ
_WASTED = 0.7


class FileCut:
    """The cut of one sink's files, as learned so far."""

    def __init__(self, rows_max: int, bytes_max: int) -> None:
        """0 is no limit."""
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self.rows = rows_max
        """The maximal number of rows in a file; 0: all."""

    def is_too_large(self, size_bytes: int) -> bool:
        """Say whether a file has more bytes than allowed, unless it has only one row."""
        return bool(self._bytes_max) and size_bytes > self._bytes_max and self.rows != 1

    def narrow(self, rows: int, size_bytes: int) -> None:
        """Use fewer rows in a file: `rows` rows took `size_bytes` bytes, which is too much."""
        self.rows = max(1, self._fitting(rows, size_bytes))

    def widen(self, size_bytes: int) -> None:
        """Use more rows in a file if the largest of the cut ones is much smaller than allowed."""
        if self._bytes_max and 0 < size_bytes < _WASTED * self._bytes_max:
            more = self._fitting(self.rows, size_bytes)
            self.rows = min(more, self._rows_max) if self._rows_max else more

    def _fitting(self, rows: int, size_bytes: int) -> int:
        return int(_ROOM * rows * self._bytes_max / size_bytes)


log = logging.getLogger(__name__)

_STAGING = ".fencepost"
_DATA, _MOVES = "data", "moves.json"
_WRITER, _ORDER = "writer.", "_fencepost_order"
_SMALLEST_CUT = 1_000_000
_ATTEMPTS = 4
_OWNER_DIGITS = 8
# Of a connector's name. A shorter name must not change: state is found by it.
_NAME_MAX = NAME_MAX_BYTES - 1 - _OWNER_DIGITS


class FilesSink(DataFrameSink):
    """Writes topics to Parquet, JSON lines or CSV files, each record exactly once.

    It writes each epoch to a staging directory, then moves its files to names made of topic, partition and offsets.
    Anyone listing the directory at any moment sees each record once, and only whole files. Readers ignore names that
    start with a dot. Settings below `writer.` are options of Spark's writer (`writer.compression`).
    """

    writes_at_once = True
    _is_tidy = False

    path: str = setting(
        "path", check=a_directory(non_empty()), importance=HIGH,
        doc="The directory to write to: of any file system that Spark knows, the same for all executors.",
    )  # fmt: skip
    aside_path: str | None = setting(
        "aside.path", default=None, check=a_directory(), importance=LOW,
        doc="Where files are written before they are shown: of another file system than `path`, the same for all "
        "executors. Then they are copied to `path`, not renamed, for stores that have no rename. Unset: in `path`.",
    )  # fmt: skip
    format: str = setting(
        "format", default=PARQUET, check=one_of(PARQUET, JSON, CSV), importance=HIGH,
        doc="What the files are. `json` is one object a line; text values are taken for JSON, and written as they are.",
    )  # fmt: skip
    partition_by: list[str] = setting(
        "partition.by", default=[],
        doc="The columns whose values become directories (`country=DE`). `at:day`, and the same with `hour`, `month` "
        "or `year`, makes a directory of a timestamp (`at_day=2026-11-23`).",
    )  # fmt: skip
    file_rows_max: int = setting(
        "file.rows.max", default=0, type=Type.LONG, check=at_least(0),
        doc="The most rows of a file; 0: all that an epoch has of a partition.",
    )  # fmt: skip
    file_bytes_max: int = setting(
        "file.bytes.max", default=0, type=Type.LONG, check=at_least(0),
        doc="The most bytes of a file, from 1000000 on, unless a single row has more; 0: no limit. An epoch of which a "
        "file has become larger is written again, with fewer rows in each, before it is published.",
    )  # fmt: skip

    def check_together(self) -> list[str]:
        faults = [*super().check_together(), *option_faults(self.originals, _WRITER)]
        try:
            partition_columns({}, self.partition_by)
        except ConfigError as error:
            faults.append(str(error))
        if 0 < self.file_bytes_max < _SMALLEST_CUT:
            key = self.key_of("file_bytes_max")
            faults.append(f"{key} is {self.file_bytes_max}: set {_SMALLEST_CUT} or more, or 0 for no limit")
        return faults

    def refused(self, columns: Mapping[str, str]) -> tuple[str, str] | None:
        condition = too_long(self.partition_by, columns)
        key = self.key_of("partition_by")
        return None if condition is None else (condition, f"{key} makes a directory name of more than 255 bytes")

    def started(self, session: Session, number: int, tokens: Collection[str]) -> int:
        store = self._staging_store(session)
        self._open.clear()
        self._open.update(tokens)
        self._is_tidy = False
        ensure_shared(session, store, self.staging, self._staging_key)
        self._clean_up(store, number, tokens)
        return max((number_of(attempt) or 0 for attempt in store.names(self.staging)), default=0)

    def write(self, session: Session, frame: DataFrame, epoch: Epoch) -> str:
        store, token = self._staging_store(session), f"{epoch.number}-{uuid.uuid4().hex}"
        if not self._is_tidy:  # the number is durable: starts with lower numbers are zombies and must not publish
            self._clean_up(store, epoch.number, ())
            self._is_tidy = True
        try:
            self._write_staged(session, store, frame, epoch, f"{self.staging}/{token}")
        except BaseException:
            with contextlib.suppress(DirectoryError):
                store.remove(f"{self.staging}/{token}")  # room for others on a full disk
            raise
        return token

    def _write_staged(self, session: Session, store: FilesStore, frame: DataFrame, epoch: Epoch, place: str) -> None:
        """Write the files and the list of their moves. Both are on disk when this returns."""
        check = name_check(self.partition_by, epoch.ranges)
        if check is not None:
            partition_columns(dict(frame.dtypes), self.partition_by)  # its error is clearer than Spark's
            frame = frame.where(check)
        files = self._written(session, store, frame, place)
        is_cut = bool(self.file_rows_max or self.file_bytes_max)
        moves = moves_of(files, epoch.ranges, self.format.lower(), is_cut)
        store.sync(list(moves))
        store.write(f"{place}/{_MOVES}", json.dumps(moves))

    def _written(self, session: Session, store: FilesStore, frame: DataFrame, place: str) -> list[WrittenFile]:
        """Write the files. While one is too large, write them again, cut by the size of its rows."""
        for attempt in range(1, _ATTEMPTS + 1):
            data = f"{place}/{_DATA}-{attempt}"  # a new one each time: a store may delete late
            files = self._saved(session, store, frame, data)
            largest = max(files, key=lambda file: file.size_bytes, default=None)
            if largest is None or not self._cut.is_too_large(largest.size_bytes):
                break
            kind = PARQUET if self.format.lower() == PARQUET else TEXT
            rows = int(session.read.format(kind).load(store.at(largest.path)).count())
            self._cut.narrow(rows, largest.size_bytes)
            if attempt < _ATTEMPTS:
                store.remove(data)
            else:
                key = self.key_of("file_bytes_max")
                log.warning("a file has %d bytes, more than %s: row sizes differ too much", largest.size_bytes, key)
        if largest is not None and any(file.roll for file in files):
            self._cut.widen(largest.size_bytes)
        return files

    def _saved(self, session: Session, store: FilesStore, frame: DataFrame, place: str) -> list[WrittenFile]:
        """Let Spark write the files, check that no rows are missing, and return them."""
        parts = None if is_certain(session, store) else PartsWithRows(session)
        self.save(frame if parts is None else parts.on(frame), store.at(place))
        files = written_files(store, place)
        if parts is not None:
            parts.ensure_in({file.part for file in files}, store, self._staging_key)
        return files

    @cached_property
    def _open(self) -> set[str]:
        """Return the tokens of epochs that began before this start and are not finished."""
        return set()

    @cached_property
    def _cut(self) -> FileCut:
        return FileCut(self.file_rows_max, self.file_bytes_max)

    def publish(self, session: Session, epoch: Epoch, token: str) -> None:
        staged, shown = self._staging_store(session), self._store(session)
        text = staged.read(f"{self.staging}/{token}/{_MOVES}")
        if text is None:
            key, path = self._staging_key, staged.root
            raise ConfigError(
                f"{key}={path}: the files of epoch {epoch.number} are missing. If {key} has changed, put it "
                f"back until the epoch is committed. If {_STAGING} was deleted, stop the connector, delete the "
                "files that are named by offsets at or above its own (GET /connectors/NAME/offsets), and set all of "
                "its offsets to what they are (PATCH): the epoch is written again"
            )
        moves = moves_for(json.loads(text), epoch.ranges)
        move = staged.move if self.aside_path is None else FilesCopy(session, staged, shown).move
        for source, target in moves.items():
            move(source, target)
        shown.sync(list(moves.values()), are_shown=True)

    def published(self, session: Session, epoch: Epoch, token: str) -> None:
        store = self._staging_store(session)
        try:
            for name in store.names(f"{self.staging}/{token}"):
                if name != _MOVES:  # deleted with the next epoch; until then it shows the number of this one
                    store.remove(f"{self.staging}/{token}/{name}")
            self._open.discard(token)
            self._clean_up(store, epoch.number + 1, (token,))
        except DirectoryError as error:
            log.info("%s: it will be deleted later", error)

    def _clean_up(self, store: FilesStore, number: int, tokens: Collection[str]) -> None:
        for attempt in store.names(self.staging):
            of_epoch = number_of(attempt)
            if of_epoch is not None and of_epoch < number and attempt not in tokens and attempt not in self._open:
                store.remove(f"{self.staging}/{attempt}")

    @property
    def staging(self) -> str:
        """Return the staging directory. Connectors of other clusters have others, even with the same name and path."""
        name, whose = quote(str(self.originals.get("name", "sink")), safe=""), self.owner.encode()
        return f"{_STAGING}/{shortened(name, _NAME_MAX)}-{hashlib.sha256(whose).hexdigest()[:_OWNER_DIGITS]}"

    @property
    def _staging_key(self) -> str:
        return self.key_of("path" if self.aside_path is None else "aside_path")

    def _store(self, session: Session) -> FilesStore:
        return files_store(session, self.path)

    def _staging_store(self, session: Session) -> FilesStore:
        if self.aside_path is None:
            return self._store(session)
        check_whole(self._store(session))
        return files_store(session, self.aside_path, key=self.key_of("aside_path"))

    def save(self, frame: DataFrame, place: str) -> None:
        types = dict(frame.dtypes)
        kind, expressions = self.format.lower(), partition_columns(types, self.partition_by)
        kept = [name for name in frame.schema.names if name not in expressions]
        if kind == JSON and kept == ["value"] and types["value"] == "string":
            kind, kept = TEXT, [f"{LINE} AS value"]
        else:
            kept = [file_column(kind, name, types[name]) for name in kept]
        given = {k: str(v) for k, v in self.with_prefix(_WRITER).items() if v is not None}
        options = writer_options(kind, len(kept), given)
        if expressions:
            # In the order of the records within each directory: then Spark sorts by nothing more.
            added = [f"{expression} AS {quoted(name)}" for name, expression in expressions.items()]
            frame = frame.selectExpr(*kept, *added, f"monotonically_increasing_id() AS {_ORDER}")
            frame = frame.sortWithinPartitions(*map(quoted, expressions), _ORDER).drop(_ORDER)
        else:
            frame = frame.selectExpr(*kept)
        writer = frame.write.format(kind).mode("errorifexists").options(**options)
        if self._cut.rows:
            writer = writer.option("maxRecordsPerFile", self._cut.rows)
        (writer.partitionBy(*expressions) if expressions else writer).save(place)
