"""Names of tables and columns in SQL."""

from collections.abc import Iterable
from typing import NamedTuple

from fencepost.postgres.name import quoted


def listed(names: Iterable[str], prefix: str = "") -> str:
    """Return quoted names, separated by commas, each after the prefix."""
    return ", ".join(prefix + quoted(name) for name in names)


class TableName(NamedTuple):
    """A table, in the schema of the search path if it names none."""

    schema: str | None
    table: str

    @classmethod
    def parse(cls, text: str, default_schema: str | None = None) -> "TableName":
        """Return the table that `table`, `schema.table` or `catalog.schema.table` names."""
        *before, table = text.split(".")
        return cls(before[-1] if before else default_schema, table)

    @property
    def sql(self) -> str:
        return quoted(self.table) if self.schema is None else f"{quoted(self.schema)}.{quoted(self.table)}"

    def __str__(self) -> str:
        return self.table if self.schema is None else f"{self.schema}.{self.table}"
