"""The contract of a single message transform and of a predicate."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from fencepost.config import Config
from fencepost.record import ConnectRecord

Record = TypeVar("Record", bound=ConnectRecord)
"""A source record or a sink record. A transform returns the same kind that it receives."""


class Predicate(Config):
    """Decides which records a transform applies to."""

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Return whether the record matches."""


class Transform(Config):
    """Changes records between `poll` and conversion, or between conversion and `put`.

    Runs on executors, with one instance per task. `record.replace` changes both source and sink records.
    """

    @abstractmethod
    def apply(self, record: Record) -> Record | None:
        """Return the changed record, or None to filter it.

        Raises:
            RetriableError: this is called again within `errors.retry.timeout`.
            Exception: the same as RecordError: the record is dropped or the task fails (`errors.tolerance`).
        """

    def apply_topics(self, topics: Sequence[str]) -> Sequence[str] | None:
        """Return the new topics of a batch if this transform reads and changes nothing but topics; otherwise None.

        This keeps column batches whole on the hot path. If it returns None, they are unpacked into records and packed
        again.
        """
        return None

    def close(self) -> None:
        """Release the resources that the transform holds."""
