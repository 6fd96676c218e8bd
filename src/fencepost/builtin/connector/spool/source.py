"""SpoolDirectorySource: files that appear in a directory, each written to a topic exactly once.

Deletes or moves finished files, and never a file that is not finished.

Between the check of a file and its removal, a writer may rename another version to its path. So a file is first taken:
it is renamed to a hidden name in the same directory, and checked again there. After a crash, a taken file still counts
as a file of its directory, and a move that was nearly done is completed later.
"""

import itertools
import logging
import math
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any

from fencepost.api import (
    HIGH,
    LOW,
    ConfigError,
    ConnectError,
    CsvLines,
    DataFrameConnector,
    RecordError,
    Split,
    Type,
    at_least,
    non_empty,
    one_of,
    setting,
)
from fencepost.api.dataframe import DataFrame, Session
from fencepost.builtin.connector import file_system
from fencepost.builtin.connector.file_system import (
    DirectoryError,
    FoundFile,
    SparkFileSystem,
    file_of,
    hidden,
    option_faults,
    reason,
)
from fencepost.builtin.connector.spool.csv_layout import (
    HEAD_BYTES,
    QuoteRule,
    ends_in_open_quotes,
    ends_in_quotes,
    has_open_line,
    layout_options,
    layout_settings,
    lines_of,
    quote_rule,
)
from fencepost.config.connector_limit import a_directory, file_limit
from fencepost.guide import guide


class Removal:
    """Deletes and moves files of a directory. Methods may be called again after they failed, or after a crash."""

    def __init__(self, system: SparkFileSystem) -> None:
        self._system = system

    def delete(self, file: FoundFile) -> None:
        """Delete a file; does nothing if it is gone, or if another file has its name. Raises DirectoryError."""
        try:
            if self._take(file):
                self._system.delete(hidden(file))
        except Exception as error:
            raise DirectoryError(f"{file.path} cannot be deleted: {reason(error)}") from error

    def move(self, file: FoundFile, directory: str) -> None:
        """Move a file to `directory`, under another name if its own is in use; does nothing if it is gone.

        1 copy it, if it goes to another disk ▸ 2 take it ▸ 3 rename it, or the copy, to a temporary name in `directory`
        ▸ 4 delete it, if there is a copy ▸ 5 rename it to its final name. After step 4, `finish_moves` completes the
        move. An unfinished copy never counts as the file. Raises DirectoryError.
        """
        system = self._system
        halfway = f"{directory}/{hidden(file).rpartition('/')[2]}{self._tag(file.parent)}"
        copy = f"{halfway}.copy"
        try:
            system.make(directory)
            source = None if system.are_near(file.parent, directory) else self._location(file)
            if source is not None:
                system.copy(source, copy)  # 1
            if not self._take(file):  # 2
                if source is not None:
                    system.delete(copy)
                return
            if source is None:
                system.rename(hidden(file), halfway)  # 3
            else:
                system.rename(copy, halfway)
                system.delete(hidden(file))  # 4
            self._publish(halfway, file, directory)  # 5
        except Exception as error:
            raise DirectoryError(f"{file.path} cannot be moved to {directory}: {reason(error)}") from error

    def finish_moves(self, source: str, directory: str) -> None:
        """Complete step 5 of unfinished moves from `source` to `directory`. Raises DirectoryError."""
        tag, parent = self._tag(source), self._system.qualified(source)
        try:
            for name in self._system.hidden_names(directory, tag):
                file = file_of(name.removesuffix(tag), parent)
                if file is not None and self._location(file) is None:
                    self._publish(f"{directory}/{name}", file, directory)
        except Exception as error:
            raise DirectoryError(f"moves to {directory} cannot be finished: {reason(error)}") from error

    def try_put_back(self, file: FoundFile) -> bool:
        """Give a taken file its name back. False if another file has the name. Raises DirectoryError."""
        if self._system.find(hidden(file)) is None:
            return True
        if self._system.find(file.path) is not None:
            return False
        self._system.rename(hidden(file), file.path)
        return True

    def _take(self, file: FoundFile) -> bool:
        """Rename a file to its hidden name, out of writers' reach. False if it is gone, or is another file."""
        if self._system.find(file.path) == file:
            self._system.rename(file.path, hidden(file))
        elif self._system.find(hidden(file)) is None:
            return False
        if self._is_taken(file):
            return True
        if not self.try_put_back(file):  # a writer had put another one there in between
            raise DirectoryError(f"a new file of that name waits as {hidden(file)} until the name is free")
        return False

    def _is_taken(self, file: FoundFile) -> bool:
        found = self._system.find(hidden(file))
        if found is None or found.size != file.size:
            return False
        return found.modified_ms == file.modified_ms or not self._system.keeps_times(file.path)

    def _location(self, file: FoundFile) -> str | None:
        """Return the path of a file that may have been taken; None if it is gone, or is another file."""
        if self._system.find(hidden(file)) is not None:
            return hidden(file)
        return file.path if self._system.find(file.path) == file else None

    def _publish(self, halfway: str, file: FoundFile, directory: str) -> None:
        others = (f"{file.modified_ms}-{n}-{file.name}" for n in itertools.count(2))
        names = itertools.chain([file.name, f"{file.modified_ms}-{file.name}"], others)
        free = next(path for path in (f"{directory}/{name}" for name in names) if self._system.find(path) is None)
        self._system.rename(halfway, free)

    def _tag(self, source: str) -> str:
        """Return the end of halfway names: other connectors may move files from elsewhere to the same directory."""
        return f".{zlib.crc32(self._system.qualified(source).encode()):08x}.moving"


class Sightings:
    """The files that were seen in the same directory and are missing from its last listing.

    A missing mount, or a link that points elsewhere, counts as another directory, of which nothing is known yet. Files
    that are not asked about between two listings are dropped.
    """

    def __init__(self) -> None:
        self._directory: str | None = None
        self._files: frozenset[FoundFile] = frozenset()
        self._missing: frozenset[FoundFile] = frozenset()
        self._asked: set[FoundFile] = set()

    @property
    def directory(self) -> str | None:
        """Return the identity of the directory of the last listing; None if unknown."""
        return self._directory

    def record(self, directory: str | None, files: Collection[FoundFile]) -> None:
        """Record a listing of the directory with this identity; None if the identity is unknown."""
        here = frozenset(files)
        is_the_same = directory is not None and directory == self._directory
        self._missing = (self._files | (self._missing & self._asked)) - here if is_the_same else frozenset()
        self._directory, self._files, self._asked = directory, here, set()

    def is_missing(self, file: FoundFile) -> bool:
        """Say whether a file was in this directory and is no longer listed."""
        self._asked.add(file)
        return file in self._missing


_FILE, _SIZE, _MTIME = "file", "size", "mtime"
_DONE, _ROWS, _READING = "done", "rows", "reading"


def split_of(file: FoundFile) -> Split:
    """Return the split of a file."""
    return Split(
        partition={_FILE: file.path, _SIZE: file.size, _MTIME: file.modified_ms},
        order=(file.modified_ms, file.path),
        is_single_file=True,
        size_bytes=file.size,
    )


def _found_in(split: Split) -> FoundFile:
    """Return the file of a split; for a foreign partition, a file that does not exist."""
    path, size, modified_ms = (split.partition.get(name, -1) for name in (_FILE, _SIZE, _MTIME))
    return FoundFile(path, size, modified_ms)


def check_alteration(partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
    """Raise ConnectError for an offset with which a task could not continue. A file marked as done is never read."""
    is_file = isinstance(partition.get(_FILE), str) and all(_is_whole(partition.get(n)) for n in (_SIZE, _MTIME))
    if not is_file or len(partition) != 3:
        raise ConnectError(
            f"Partition objects should contain the keys '{_FILE}' (a text), '{_SIZE}' and '{_MTIME}' (whole numbers) "
            "and no others, as GET shows them"
        )
    unknown = sorted(set(offset) - {_DONE, _ROWS, _READING})
    if unknown:
        raise ConnectError(
            f"Offset objects should either be null or contain '{_DONE}' or '{_ROWS}', not '{unknown[0]}'"
        )
    if not isinstance(offset.get(_DONE, False), bool):
        raise ConnectError(f"The value for the '{_DONE}' key in the offset is expected to be a Boolean value")
    if not offset.get(_DONE) and _ROWS not in offset:
        raise ConnectError(f"Offset objects should either be null or contain '{_DONE}' (true) or '{_ROWS}'")
    if not _is_whole(offset.get(_ROWS, 0)):
        raise ConnectError(f"The value for the '{_ROWS}' key in the offset should be a non-negative whole number")
    if not isinstance(offset.get(_READING, ""), str):
        raise ConnectError(f"The value for the '{_READING}' key in the offset should be a text, or be left out")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


log = logging.getLogger(__name__)

KEEP, MOVE, DELETE = "keep", "move", "delete"
_READER, _TOLERANCE = "reader.", "errors.tolerance"
_CHECKED_FORMATS = ("csv", "json")
_SEPARATORS = {"sep", "delimiter"}
_LINE_OPTIONS = {"header", "nullvalue", *_SEPARATORS}


class SpoolDirectorySource(DataFrameConnector):
    """Sends the records of files that appear in a directory, each file as a whole, in one transaction.

    An offset in that transaction marks the file as done. Small files that wait at the same time share a transaction. A
    file is identified by path, size and time of modification: a changed file is another file. Files should appear
    complete (written elsewhere and renamed), or stay unchanged for `min.age.ms`. Names that start with `.` or `_` are
    ignored. A file that cannot be read is moved to `error.path`, and the others are read. So is a file whose name Spark
    does not support: with a colon, or not UTF-8.
    """

    path: str = setting("input.path", check=a_directory(non_empty()), doc="The directory to watch.", importance=HIGH)
    topic: str = setting("topic", check=non_empty(), doc="Where records go.", importance=HIGH)
    format: str = setting(
        "input.format", default="csv", check=one_of("csv", "json", "parquet", "text"), importance=HIGH,
        doc="How the files are read. `json` is one object a line. CSV goes fastest where columns are text and whole "
        "numbers, nothing is quoted, and neither `transforms.sql` nor `key.field` is set. CSV is that of RFC 4180: a "
        "quote in a quoted value is doubled, a backslash is a backslash, and a quoted value may have line breaks. A "
        "file that ends within a quoted value is set aside. "
        "`reader.…` is an option of Spark's reader: `reader.header` (false), `reader.sep` (a comma), `reader.quote` "
        "(the double quote), `reader.escape` (the quote; a backslash for files that have one before a quote), "
        "`reader.multiLine` and `reader.lineSep` (found in each file), `reader.encoding` (UTF-8), `reader.nullValue` "
        "(nothing), `reader.comment` (none).",
    )  # fmt: skip
    pattern: str = setting("input.pattern", default="*", doc="Only files whose name fits this pattern (*, ?, [a-z]).")
    schema: str | None = setting(
        "input.schema", default=None,
        doc="The columns, as in SQL (`id INT, name STRING`). Unset: a CSV file's header names them (`reader.header`), "
        "all of them text; each file of JSON, and of CSV with `reader.inferSchema`, is looked through before it is "
        "read, and has the columns that it shows, all of them (with `reader.samplingRatio` below 1: those that the "
        "sample shows), so they may differ from file to file; Parquet knows. Set: the same columns for all files; what "
        "a JSON file has in addition is silently dropped, what it lacks is null. Columns must be wide enough, or "
        f"STRING: values are not checked ({guide('delivery-guarantees#dataframe-connectors')}). Set it where "
        "`transforms.sql` or `key.field` names a field that not every file has (a file without it is set aside), or "
        "where looking through files before reading them takes too long.",
    )  # fmt: skip
    transforms_sql: str | None = setting(
        "transforms.sql", default=None,
        doc="A query over the rows of a file, called `split`: projections and filters.",
    )  # fmt: skip
    key_field: str | None = setting("key.field", default=None, doc="The column that becomes the record's key.")
    finished_action: str = setting(
        "finished.action", default=KEEP, check=one_of(KEEP, MOVE, DELETE),
        doc="What happens to a file once it is committed. One that is kept is remembered until it is seen to be "
        "removed: it was listed, and then its name answers twice in a row, in the same directory, that there is no "
        "such file. A file that cannot be looked at, or a link whose target is away, is not removed.",
    )  # fmt: skip
    finished_path: str | None = setting(
        "finished.path",
        default=None,
        check=a_directory(),
        doc="Where files go with finished.action=move; on the same disk, preferably.",
    )
    error_path: str | None = setting(
        "error.path", default=None, check=a_directory(),
        doc="Where files go that cannot be read. Unset: `.failed` in the directory.",
    )  # fmt: skip
    min_age_ms: int = setting(
        "min.age.ms", type=Type.INT, default=0, check=at_least(0), importance=LOW,
        doc="A file is read when it has not been changed for this long: for writers that do not rename.",
    )  # fmt: skip
    poll_interval_ms: int = setting(
        "poll.interval.ms",
        type=Type.INT,
        default=1000,
        check=at_least(10),
        importance=LOW,
        doc="How often the directory is listed.",
    )
    split_rows_max: int = setting(
        "split.rows.max", type=Type.INT, default=0, check=at_least(0), importance=LOW,
        doc="Commit a file in parts of so many rows; 0: all of it, or nothing, in one transaction. For files that take "
        "longer than the broker's transaction.max.timeout.ms. A file that changes after a part of it was committed is "
        "another file, and read from its start; where columns, transforms.sql or other settings that make its rows "
        "change, the task fails and says what to do.",
    )  # fmt: skip

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._sightings = Sightings()
        self._doubtful: set[FoundFile] = set()
        self._doubtful_logged = 0
        self._unfit_logged: set[bytes] = set()
        self._inferred: tuple[FoundFile, Any] | None = None
        self._given: Any = None
        self._layout: tuple[FoundFile, dict[str, str]] | None = None
        self._taken: frozenset[FoundFile] = frozenset()
        self._has_moves_open = True  # perhaps, of an earlier start

    @property
    def _format(self) -> str:
        return self.format.lower()

    @property
    def _action(self) -> str:
        return self.finished_action.lower()

    @property
    def _tolerance(self) -> str:
        return str(self.originals.get(_TOLERANCE, "none")).lower()

    @property
    def _error_path(self) -> str:
        return self.error_path or f"{self.path.rstrip('/')}/.failed"

    def check_together(self) -> list[str]:
        if faults := option_faults(self.originals, _READER):
            return faults
        if self._action == MOVE and not self.finished_path:
            return ["finished.path is missing: finished.action=move needs a directory to move files to"]
        if self.finished_path and self.finished_path.rstrip("/") == self.path.rstrip("/"):
            return [f"Invalid value {self.finished_path} for configuration finished.path: it is input.path itself"]
        return []

    def splits(self, session: Session) -> Iterable[Split]:
        """Return the splits of the listed files. Raises ConfigError if the directory does not exist."""
        system = SparkFileSystem(session)
        self._finish_moves(system)
        directory = system.identity(self.path)
        files = system.files(self.path, self.pattern)
        if files is None:
            raise ConfigError(f"input.path={self.path}: there is no such directory where Spark runs; create it")
        self._log_doubtful()
        self._sightings.record(directory if directory == system.identity(self.path) else None, files)
        self._taken = frozenset(file for file in files if file.is_taken)
        newest_ms = time.time() * 1000 - self.min_age_ms
        self._set_aside_unfit(system, newest_ms / 1000 if self.min_age_ms else math.inf)
        return [split_of(file) for file in files if self.min_age_ms == 0 or file.modified_ms <= newest_ms]

    def read(self, session: Session, split: Split) -> DataFrame:
        file = _found_in(split)
        self._put_back(session, file)
        reader = self._reader(session, file)
        if self.schema:
            reader = self._with_given_schema(reader)
        elif self._is_inferred:
            reader = reader.schema(self._schema(session, file))
        return reader.load(file.path)

    def csv_lines(self, session: Session, split: Split) -> CsvLines | None:
        """Return None if the reader's settings change how a line is read, or which columns it has."""
        options = self._reader_options
        has_header = options.get("header", "false").lower()
        is_known = options.keys() <= _LINE_OPTIONS and has_header in ("true", "false")
        if self._format != "csv" or not is_known or options.keys() >= _SEPARATORS:
            return None
        if not self.schema and has_header == "false":  # the columns are as many as the first line has
            return None
        file = _found_in(split)
        self._put_back(session, file)
        if self.schema and self._given is None:  # as Spark has them once it reads a file
            self._given = self._with_given_schema(self._reader(session, file)).load(file.path).schema
        return CsvLines(
            file.path,
            self._given if self.schema else self._schema(session, file),
            has_header=has_header == "true",
            takes_names=not self.schema,
            separator=options.get("sep", options.get("delimiter", ",")),
            null_value=options.get("nullvalue", ""),
        )

    def row_settings(self) -> dict[str, str]:
        """Return the settings of `_reader`; `input.schema` shows in the columns."""
        given = {k: str(v) for k, v in self.with_prefix(_READER).items()}
        layout = layout_settings(self._reader_options) if self._format == "csv" else {}
        reader = {f"{_READER}{k}": v for k, v in {**layout, **given}.items()}
        return {self.key_of("format"): self._format, _TOLERANCE: self._tolerance, **reader}

    def is_unchanged(self, session: Session, split: Split) -> bool:
        file = _found_in(split)
        return SparkFileSystem(session).find(file.path) == file

    def is_removed(self, session: Session, split: Split) -> bool:
        file = _found_in(split)
        if not self._sightings.is_missing(file):
            return False
        is_gone = SparkFileSystem(session).is_gone(file, self._sightings.directory)
        if not is_gone:
            self._doubtful.add(file)
        return is_gone

    def _log_doubtful(self) -> None:
        """Log how many missing files could not be confirmed as removed, once for each number."""
        doubtful, self._doubtful = self._doubtful, set()
        if doubtful and len(doubtful) != self._doubtful_logged:
            log.warning(
                "input.path=%s: %d done files, such as %s, cannot be seen, but may still exist (missing permissions, "
                "a link without its target, or a failing disk): their offsets are kept",
                self.path, len(doubtful), min(doubtful, key=lambda file: file.path).name,
            )  # fmt: skip
        self._doubtful_logged = len(doubtful)

    def finished(self, session: Session, split: Split, rows: int) -> bool:
        """Move or delete the file. A failure is logged, and retried at the next listing."""
        system = SparkFileSystem(session)
        file, removal = _found_in(split), Removal(system)
        if self._action == KEEP:
            return False
        try:
            if self._action == MOVE:
                removal.move(file, str(self.finished_path))
            else:
                removal.delete(file)
        except DirectoryError as error:
            self._has_moves_open = True
            log.warning("finished.action=%s: %s; it is committed, and this is tried again", self.finished_action, error)
            return False
        return system.is_gone(file, self._sightings.directory)  # the path may belong to another directory by now

    def set_aside(self, session: Session, split: Split, error: Exception) -> None:
        try:
            Removal(SparkFileSystem(session)).move(_found_in(split), self._error_path)
        except DirectoryError as failure:
            self._has_moves_open = True
            log.warning("error.path=%s: %s; the file stays where it is", self._error_path, failure)

    def alter_offsets(self, offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]) -> bool:
        """Accept offsets that a task could have committed for a file, and tombstones for anything."""
        for partition, offset in offsets.items():
            if offset is not None:
                check_alteration(dict(partition), offset)
        return True

    def _set_aside_unfit(self, system: SparkFileSystem, newest_s: float) -> None:
        """Move files away whose names Spark cannot read; a failure is logged once."""
        directory, target = system.local(self.path), system.local(self._error_path)
        if directory is None:
            return
        for name in file_system.unfit_files(directory, self.pattern, newest_s):
            if name in self._unfit_logged:
                continue
            try:
                if target is None:
                    raise OSError(f"error.path={self._error_path} is on another file system")
                place = f"it was moved to {file_system.set_aside(directory, name, target)}"
            except OSError as error:
                self._unfit_logged.add(name)
                place = f"it stays where it is ({error})"
            log.error(
                "input.path=%s: %s cannot be read, because Spark accepts no file name that has a colon or is not "
                "UTF-8: %s. Rename it, and put it back", self.path, name, place,
            )  # fmt: skip

    def _finish_moves(self, system: SparkFileSystem) -> None:
        if not self._has_moves_open:
            return
        try:
            for target in filter(None, (self.finished_path, self._error_path)):
                Removal(system).finish_moves(self.path, target)
            self._has_moves_open = False
        except DirectoryError as error:
            log.warning("%s; this is tried again", error)

    def _put_back(self, session: Session, file: FoundFile) -> None:
        """Give a file the name back that it had before an unfinished removal. Raises RecordError."""
        if (fault := file_limit().directory_fault(file.path)) is not None:  # a link
            raise RecordError(f"{file.path}: {fault}")
        if file in self._taken and not Removal(SparkFileSystem(session)).try_put_back(file):
            raise RecordError(f"{file.path} was about to be moved, but another file has its name now")

    def _with_given_schema(self, reader: Any) -> Any:
        try:
            return reader.schema(self.schema)
        except Exception as error:
            raise ConfigError(f"Invalid value {self.schema} for configuration input.schema: {error}") from error

    @property
    def _is_inferred(self) -> bool:
        infers = self._reader_options.get("inferschema", "").lower() == "true"
        return self._format == "json" or (self._format == "csv" and infers)

    @property
    def _reader_options(self) -> dict[str, str]:
        """Return the options of Spark's reader, with names in lower case, as case does not matter for them."""
        return {k.lower(): str(v) for k, v in self.with_prefix(_READER).items()}

    def _reader(self, session: Session, file: FoundFile) -> Any:
        # A path is a path, whatever brackets are in a file's name.
        reader = session.read.format(self._format).option("__globPaths__", "false")
        if self._format in _CHECKED_FORMATS:
            reader = reader.option("mode", "DROPMALFORMED" if self._tolerance == "all" else "FAILFAST")
            # A row is broken also where transforms.sql does not look.
            reader = reader.option("columnPruning", "false")
        if self._format == "json":  # else "20200101" is a number of days in a DATE, the year 57275
            reader = reader.option("enableDateTimeParsingFallback", "false")
        if self._format == "csv":
            reader = reader.options(**self._layout_of(session, file))
        return reader.options(**{k: str(v) for k, v in self.with_prefix(_READER).items()})

    def _layout_of(self, session: Session, file: FoundFile) -> dict[str, str]:
        if self._layout is None or self._layout[0] != file:
            head = cache(lambda: SparkFileSystem(session).head(file.path, HEAD_BYTES))
            options = layout_options(self._reader_options, head, lambda quote: has_open_line(session, file.path, quote))
            self._ensure_closed(session, file, quote_rule({**options, **self._reader_options}), head)
            self._layout = (file, options)
        return self._layout[1]

    def _ensure_closed(
        self, session: Session, file: FoundFile, rule: QuoteRule | None, head: Callable[[], bytes]
    ) -> None:
        """Raise RecordError for a file whose last quoted value is open: Spark reads all following rows as one value."""
        if rule is None:
            return
        is_whole = len(head()) < HEAD_BYTES
        if ends_in_quotes(lines_of(head()), rule) if is_whole else ends_in_open_quotes(session, file.path, rule):
            raise RecordError(f"{file.path} ends within a quoted value: a quote is missing, or the end of the file")

    def _schema(self, session: Session, file: FoundFile) -> Any:
        """Return a file's own columns, independent of earlier files."""
        if self._inferred is None or self._inferred[0] != file:
            self._inferred = (file, self._reader(session, file).load(file.path).schema)
        return self._inferred[1]
