"""The columns as Spark's own Kafka source has them."""

from typing import Any

from fencepost.config import ConfigError

_HEADERS = {"headers": "array<struct<key:string,value:binary>>"}
_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}


def columns(*, has_headers: bool) -> str:
    """Return the columns and their types, in Spark's words; all of them may be null."""
    return ", ".join(f"{name} {kind}" for name, kind in _types(has_headers).items())


def check_columns(schema: Any, *, has_headers: bool) -> None:
    """Check the schema that a query has, Spark's `StructType`: it is not for users to set. Raises ConfigError."""
    if {field.name: field.dataType.simpleString() for field in schema.fields} != _types(has_headers):
        raise ConfigError(
            f"the columns of records are fixed ({columns(has_headers=has_headers)}): leave schema() out, and select"
        )


def _types(has_headers: bool) -> dict[str, str]:
    return _COLUMNS | _HEADERS if has_headers else _COLUMNS
