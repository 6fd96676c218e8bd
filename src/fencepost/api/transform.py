"""The contract of a single message transform and of a predicate."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from fencepost.config import Config
from fencepost.record import ConnectRecord

Record = TypeVar("Record", bound=ConnectRecord)
"""A record of a source, or of a sink: what goes in is what comes out."""


class Predicate(Config):
    """Decides which records a transform applies to."""

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Return whether the record matches."""


class Transform(Config):
    """Changes records between `poll` and conversion, or between conversion and `put`.

    Runs on executors, one instance a task. `record.replace` changes records of both kinds.
    """

    @abstractmethod
    def apply(self, record: Record) -> Record | None:
        """Return the record as it shall go on, or None to filter it.

        Raises:
            RetriableError: called again within `errors.retry.timeout`.
            Exception: as RecordError: the record is dropped or the task fails (`errors.tolerance`).
        """

    def apply_topics(self, topics: Sequence[str]) -> Sequence[str] | None:
        """Return the new topics of a batch if topics are all that this transform looks at and changes, else None.

        Keeps batches of columns whole on the hot path; without it records are taken apart and packed again.
        """
        return None

    def close(self) -> None:
        """Let go of what the transform holds."""
