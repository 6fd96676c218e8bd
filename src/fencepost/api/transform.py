"""The contract of a single message transform and of a predicate."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from fencepost.config import Config
from fencepost.record import ConnectRecord, RecordColumns

Record = TypeVar("Record", bound=ConnectRecord)
"""A source record or a sink record. A transform returns the same kind that it receives."""


class Predicate(Config):
    """Decides which records a transform applies to.

    >>> from fencepost.api import ConnectRecord, Predicate, SinkRecord, setting
    >>> class ValueIs(Predicate):
    ...     text: str = setting("text", doc="The value.")
    ...
    ...     def test(self, record: ConnectRecord) -> bool:
    ...         return record.value == self.text
    >>> ValueIs({"text": "a"}).test(SinkRecord("t", 0, 0, "a"))
    True
    """

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Return whether the record matches."""

    def matches(self, batch: RecordColumns) -> Sequence[bool] | None:
        """Return whether each record matches, on the hot path, with the results that `test` has.

        If it returns None or raises, `test` is called for each record.
        """
        return None


class Transform(Config):
    """Changes records between `poll` and conversion, or between conversion and `put`.

    Runs on executors, with one instance per task. `record.replace` changes both source and sink records.

    `apply` decides what a transform does. `apply_batch` and `apply_topics` do the same for many records at once. If
    your class derives from another transform and overrides `apply`, or any method that this transform has of its own,
    they are not called unless your class overrides one of them, too.

    >>> from fencepost.api import Record, SinkRecord, Transform, setting
    >>> class Suffix(Transform):
    ...     suffix: str = setting("suffix", doc="What is put behind the topic.")
    ...
    ...     def apply(self, record: Record) -> Record | None:
    ...         return record.replace(topic=record.topic + self.suffix)
    >>> Suffix({"suffix": "-new"}).apply(SinkRecord("orders", 0, 0)).topic
    'orders-new'
    """

    @abstractmethod
    def apply(self, record: Record) -> Record | None:
        """Return the changed record, or None to filter it.

        Raises:
            RetriableError: this is called again within `errors.retry.timeout`.
            Exception: the same as RecordError: the record is dropped or the task fails (`errors.tolerance`).
        """

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        """Return the changed records as columns, on the hot path, with the results that `apply` has.

        A record is filtered with `batch.select`; nothing else may change which records there are, or their order.
        Columns are shared with other records and batches: replace them, and do not change them in place.

        Return None for a batch that must be transformed record by record, for example because its values are not alike.
        Any error means the same: `apply` is then called for each record of the batch or of a part of it, and finds the
        record that cannot be transformed. So this must not have effects outside, and its time is lost if it raises. Nor
        may it remember records: they come again, in smaller batches or to `apply`, if this or anything after it fails.
        """
        topics = self.apply_topics(batch.topics)
        return None if topics is None else batch.replace(topics=topics)

    def apply_topics(self, topics: Sequence[str]) -> Sequence[str] | None:
        """Return the new topics of a batch if this transform reads and changes nothing but topics; otherwise None."""
        return None

    def close(self) -> None:
        """Release the resources that the transform holds."""
