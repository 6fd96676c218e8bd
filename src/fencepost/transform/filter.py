"""Filter: drops records; a predicate chooses which."""

from fencepost.api import Record, Transform


class Filter(Transform):
    """Drops all records; use it with a predicate."""

    def apply(self, record: Record) -> Record | None:
        return None
