"""The contract of a DataFrame connector: it plans bounded splits, Spark reads them.

`Session` and `DataFrame` are PySpark's; they are not imported here so that an executor stays light.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fencepost.api.source import ExactlyOnceSupport, SourceConnector
from fencepost.config import Secret

Session = Any
DataFrame = Any


@dataclass(frozen=True)
class Split:
    """A bounded piece of the source, committed in one transaction, which small ones may share.

    `partition` identifies it for ever, content included (a file: path, size and modification time): what has this
    identity and is committed as done is never read again. `order` sorts the splits of a run. `is_single_file` says that
    its rows come in the same order at every read, so that a position inside it means something. `size_bytes` is
    what planning knows of its size, or None: it is then written by itself. One of 0 bytes has no rows, and is not read.
    """

    partition: Mapping[str, Any]
    order: tuple[Any, ...] = ()
    is_single_file: bool = False
    size_bytes: int | None = None
    hint: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CsvLines:
    """How a split is read that is one file of CSV, by the line, with no other options of Spark's CSV source than these.

    `schema` is that of the frame that `read` gives; `takes_names`: its names are the header's. `null_value`: what
    stands for null, as nothing at all does.
    """

    path: str
    schema: Any
    has_header: bool = False
    takes_names: bool = False
    separator: str = ","
    null_value: str = ""


class DataFrameConnector(SourceConnector):
    """Plans splits and says how Spark reads one. Runs on the driver; nothing of it runs on executors.

    The runtime calls `splits` over and over, skips those committed as done, reads each of the others with `read`,
    writes its rows and `{"done": true}` in one transaction, small neighbours in the same one, and calls `finished`.
    """

    is_dataframe: ClassVar[bool] = True
    topic: str
    """Where records go: a setting of the connector."""
    poll_interval_ms: int = 1000
    """How often `splits` is asked when there was nothing new; may be a setting."""

    @abstractmethod
    def splits(self, session: Session) -> Iterable[Split]:
        """Return what is there to be read now; includes splits done before, if they still exist.

        A RetriableError or OSError is taken for trouble that passes: this is called again, as often as it takes.
        """

    @abstractmethod
    def read(self, session: Session, split: Split) -> DataFrame:
        """Return the rows of a split, lazily. May raise RecordError: the split is set aside and reported."""

    def csv_lines(self, session: Session, split: Split) -> CsvLines | None:
        """Return how to cut the lines of a split that is CSV: executors do it then, much faster, where they can.

        They leave it to Spark, hence to `read`, wherever it might read a line in another way. None: they never try.
        May raise RecordError: the split is set aside and reported.
        """
        return None

    def row_settings(self) -> Mapping[str, str]:
        """Return the settings that decide which rows a split has: parts of it are committed under the same ones only.

        By default all that the class declares, passwords left out. They are kept as hashes. `transforms.sql` and the
        columns that `read` gives are looked at besides.
        """
        return {k: str(v) for k, v in self._values.items() if not isinstance(v, Secret)}

    def is_unchanged(self, session: Session, split: Split) -> bool:
        """Say whether the split still has the identity that it was planned with. Asked before every commit."""
        return True

    def finished(self, session: Session, split: Split, rows: int) -> bool:
        """Called after a split is committed; again after a crash, so it must be idempotent.

        Returns True when the split can never be planned again (its file is gone): its offset is then forgotten.
        """
        return False

    def is_removed(self, session: Session, split: Split) -> bool:
        """Say whether a committed split that `splits` did not return just now was removed for good.

        Its offset is forgotten when this is said twice in a row: should it come back after all, it is read again. That
        it is not to be seen is not enough: a directory may be away for a while, or the right to look at a file. Asked
        after each `splits`.
        """
        return False

    def set_aside(self, session: Session, split: Split, error: Exception) -> None:
        """Called for a split that cannot be read; it is not planned again until its identity changes."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return one config a task: the connector's own properties."""
        own = {k: str(v) for k, v in self.originals.items() if v is not None}
        return [dict(own) for _ in range(max_tasks)]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED
