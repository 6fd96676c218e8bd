"""The schema of a registry by which values are read, and the columns that it gives them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from fencepost.api import RecordError
from fencepost.config import ConfigError

if TYPE_CHECKING:
    from fencepost.builtin.converter.registry.client import WrittenSchema

VALUE = "value"
"""The only column of values that are no records."""
_AVRO = "AVRO"


class ValueColumn(Protocol):
    """Decodes values of one writer's schema."""

    def decoded(self, values: Any, after: int) -> tuple[Any, Mapping[int, str]]:
        """Return the column of bytes without nulls, whose payload begins after so many, and what is wrong by number."""


@dataclass(frozen=True)
class ReaderSchema:
    """A schema of the registry. `id`: 0 if only its GUID is known. `kind`: AVRO, JSON or PROTOBUF.

    `references` are the names and texts of the schemas that it refers to, each after those that it refers to itself.
    `mapping`: the converter's settings for what the format and Connect's schemas have not in common.
    """

    id: int
    kind: str
    text: str
    references: Sequence[tuple[str, str]] = ()
    mapping: Mapping[str, str] = field(default_factory=dict)

    def column(self, writer: "ReaderSchema") -> ValueColumn:
        """Return what reads a writer's values. Raises ValueError or RecordError if nothing can."""
        if writer.kind != self.kind:
            raise ValueError(f"it is {writer.kind}, not {self.kind}")
        if self.kind == _AVRO:
            from fencepost.builtin.converter.avro_column.values import AvroColumn

            return AvroColumn(_avro(writer), _avro(self))
        from fencepost.spark.row.connect_columns import ConnectColumn, connect_schema_of, reader_of

        reader = reader_of(*writer.written(), self.mapping)
        return ConnectColumn(reader, connect_schema_of(*self.written(), self.mapping))

    def arrow_type(self) -> Any:
        """Return the Arrow type of values. Raises ConfigError for a schema that has no columns."""
        try:
            if self.kind == _AVRO:
                from fencepost.builtin.converter.avro_column.kind import arrow_type

                return arrow_type(_avro(self))
            from fencepost.spark.row.connect_columns import column_type, connect_schema_of

            return column_type(connect_schema_of(*self.written(), self.mapping))
        except (ValueError, RecordError) as error:
            raise ConfigError(f"the schema with id {self.id} has no columns: {error}") from error

    def columns(self) -> Any:
        """Return Spark's type of the struct of values. Values that are no records are its only field, VALUE."""
        from pyspark.sql import types as T  # noqa: N812
        from pyspark.sql.pandas.types import from_arrow_type

        kind = from_arrow_type(self.arrow_type())
        return kind if isinstance(kind, T.StructType) else T.StructType([T.StructField(VALUE, kind)])

    def written(self) -> "tuple[WrittenSchema, dict[str, WrittenSchema]]":
        """Return it, and what it refers to, as the client of the registry does."""
        from fencepost.builtin.converter.registry.client import WrittenSchema

        return WrittenSchema(self.kind, self.text), {n: WrittenSchema(self.kind, text) for n, text in self.references}


def common_columns(schemas: Mapping[str, ReaderSchema]) -> Any:
    """Return the columns of all topics' values, as Spark's type. Raises ConfigError if they differ."""
    from pyspark.sql import types as T  # noqa: N812

    first, *others = sorted(schemas)
    found = schemas[first].columns()
    for topic in others:
        columns = schemas[topic].columns()
        if columns != found:
            raise ConfigError(
                f"the schemas of topics {first} and {topic} have different columns: {found.simpleString()} and "
                f"{columns.simpleString()}. Set value.schema.subject to the subject whose columns all of them are to "
                "have, or read each of them by itself"
            )
    return T.StructType(list(found.fields))


def to_option(schemas: Mapping[str, ReaderSchema]) -> str:
    """Return schemas by topic as the text of an option."""
    return orjson.dumps({topic: asdict(schema) for topic, schema in schemas.items()}).decode()


def of_option(option: str) -> dict[str, ReaderSchema]:
    """Return the schemas in a text that `to_option` made."""
    return {topic: ReaderSchema(**fields) for topic, fields in orjson.loads(option).items()}


def _avro(schema: ReaderSchema) -> Any:
    from fencepost.builtin.converter.avro_column.kind import parsed

    return parsed(schema.text, [text for _, text in schema.references])
