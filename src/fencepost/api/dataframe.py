"""The contract of a DataFrame connector: it plans bounded splits, and Spark reads them.

`Session` and `DataFrame` are PySpark types. They are not imported here so that an executor stays light.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from fencepost.api.source import ExactlyOnceSupport, SourceConnector, SourceOffset, SourcePartition
from fencepost.config import Secret

Session = Any
DataFrame = Any


@dataclass(frozen=True)
class Split:
    """A bounded piece of the source, committed in one transaction. Small splits may share a transaction.

    Attributes:
        partition: identifies the split and its content for ever (for a file: path, size and modification time). A split
            whose identity is committed as done is never read again. With `offset`: the source partition, which all
            splits of a sequence have in common.
        order: the sort key of the splits that one call of `splits` returns.
        is_single_file: whether every read returns the rows in the same order, so that a position inside the split is
            meaningful.
        size_bytes: the size as far as planning knows it. A split of unknown size (None) does not share a transaction;
            a split of 0 bytes has no rows and is not read.
        hint: whatever the connector wants to find again in `read`; it is not part of the identity.
        offset: the source offset that is committed with the rows, for a split that is a step of a sequence without an
            end, such as a range of ids. None: the split is committed as done.
        after: the source offset that must be committed before this step (None: there is none yet). If another one is,
            nothing is written, and the sequence is planned again.
        topic: the topic of the rows. None: the connector's.

    >>> from fencepost.api import Split
    >>> Split({"file": "a.csv", "size": 17, "mtime": 1}, order=(1, "a.csv"), size_bytes=17).partition["file"]
    'a.csv'
    """

    partition: Mapping[str, Any]
    order: tuple[Any, ...] = ()
    is_single_file: bool = False
    size_bytes: int | None = None
    hint: Mapping[str, Any] = field(default_factory=dict)
    offset: SourceOffset | None = None
    after: SourceOffset | None = None
    topic: str | None = None


class Positions(Protocol):
    """The committed offsets of a connector, as one of its tasks sees them when it plans.

    >>> from fencepost.api import DataFrameConnector, Positions, Split
    >>> class Counted(DataFrameConnector):
    ...     def next_splits(self, session: object, positions: Positions) -> list[Split]:
    ...         number = {"table": "orders"}
    ...         after = positions.offset(number)
    ...         first = 0 if after is None else after["id"]
    ...         return [Split(number, after=after, offset={"id": first + 100})] if positions.is_mine(number) else []
    """

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """Return the committed offset of a source partition; None if there is none."""

    def is_mine(self, partition: SourcePartition) -> bool:
        """Return whether this task runs the splits of a source partition; others need not be planned."""


@dataclass(frozen=True)
class CsvLines:
    """How to read one CSV file by lines, for a split that needs no options of Spark's CSV source except these.

    Attributes:
        schema: the schema of the frame that `read` returns.
        takes_names: whether the names in `schema` come from the header.
        null_value: the text that means null. An empty field means null, too.

    >>> from fencepost.api import CsvLines
    >>> CsvLines("/data/a.csv", schema="id INT, name STRING", has_header=True, takes_names=True).separator
    ','
    """

    path: str
    schema: Any
    has_header: bool = False
    takes_names: bool = False
    separator: str = ","
    null_value: str = ""


class DataFrameConnector(SourceConnector):
    """Plans splits and says how Spark reads each of them. Runs on the driver only, never on executors.

    The runtime calls `splits` again and again and skips splits that are committed as done. It reads each other split
    with `read`, writes its rows and `{"done": true}` in one transaction, and calls `finished`. Small neighbouring
    splits share a transaction. A source without an end, such as a table that grows, overrides `next_splits` and plans
    steps of a sequence (`Split.offset`), so that it has one offset however long it runs.

    >>> from collections.abc import Iterable
    >>> from pathlib import Path
    >>> from fencepost.api import DataFrameConnector, Split, setting
    >>> class ParquetConnector(DataFrameConnector):
    ...     path: str = setting("input.path", doc="The directory.")
    ...     topic: str = setting("topic", doc="Where rows go.")
    ...
    ...     def splits(self, session: object) -> Iterable[Split]:
    ...         for file in sorted(Path(self.path).glob("*.parquet")):
    ...             yield Split({"file": str(file), "size": file.stat().st_size})
    ...
    ...     def read(self, session, split: Split):
    ...         return session.read.parquet(split.partition["file"])
    """

    is_dataframe: ClassVar[bool] = True
    topic: str
    """The topic that records are written to: a setting of the connector."""
    poll_interval_ms: int = 1000
    """The pause before the next call of `splits` when the last one returned nothing new. May be a setting."""

    @abstractmethod
    def splits(self, session: Session) -> Iterable[Split]:
        """Return the splits that can be read now, including those done before that still exist.

        The runtime treats a RetriableError or OSError as temporary and calls this again until it succeeds.
        """

    def next_splits(self, session: Session, positions: Positions) -> Iterable[Split]:
        """Return the splits that can be read now, given what is committed. By default that of `splits`.

        Steps of one source partition are returned in their order, each `after` the offset of the one before. They are
        not skipped when they cannot be read, and not committed in parts. Errors are those of `splits`.
        """
        return self.splits(session)

    @abstractmethod
    def read(self, session: Session, split: Split) -> DataFrame:
        """Return the rows of a split, lazily. If it raises RecordError, the split is skipped and reported."""

    def csv_lines(self, session: Session, split: Split) -> CsvLines | None:
        """Return how executors may cut the lines of a CSV split themselves, which is much faster than Spark.

        Executors fall back to Spark, and so to `read`, wherever Spark might read a line differently. Return None to
        always use Spark. If it raises RecordError, the split is skipped and reported.
        """
        return None

    def row_settings(self) -> Mapping[str, str]:
        """Return the settings that determine which rows a split has.

        A split that is committed in parts is continued only while these settings stay the same. The offset holds hashes
        of them. By default these are all settings that the class declares, except passwords. The runtime also
        compares `transforms.sql` and the columns that `read` returns.
        """
        return {k: str(v) for k, v in self._values.items() if not isinstance(v, Secret)}

    def is_unchanged(self, session: Session, split: Split) -> bool:
        """Return whether the split still has the identity that it was planned with. Called before every commit."""
        return True

    def finished(self, session: Session, split: Split, rows: int) -> bool:
        """Called after a split is committed, and again after a crash, so it must be idempotent.

        Returns True if the split can never be planned again (its file is gone). Its offset is then deleted.
        """
        return False

    def is_removed(self, session: Session, split: Split) -> bool:
        """Return whether a committed split that the last call of `splits` did not return is removed for good.

        Called after each `splits`. When this returns True twice in a row, the runtime deletes the split's offset; a
        split that comes back later is read again. It is not enough that the split cannot be seen: a directory may be
        unavailable for a while, or a permission to read a file may be missing.
        """
        return False

    def set_aside(self, session: Session, split: Split, error: Exception) -> None:
        """Called for a split that cannot be read. The task skips it until its identity changes."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return one config per task: the connector's own properties."""
        own = {k: str(v) for k, v in self.originals.items() if v is not None}
        return [dict(own) for _ in range(max_tasks)]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED
