"""Filter: drops records; a predicate chooses which."""

from fencepost.api import Record, Transform
from fencepost.record import RecordColumns


class Filter(Transform):
    """Drops all records; use it with a predicate."""

    def apply(self, record: Record) -> Record | None:
        return None

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        return batch.select(())
