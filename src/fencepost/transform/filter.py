"""Filter: drops every record that it is given; a predicate says which."""

from fencepost.api import Record, Transform


class Filter(Transform):
    """Filters all records; meant to be used with a predicate."""

    def apply(self, record: Record) -> Record | None:
        return None
