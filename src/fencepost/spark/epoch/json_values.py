"""Values of JSON with `value.schema` as columns of an epoch's frame. Driver side."""

from functools import cached_property
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fencepost.api.dataframe import DataFrame
from fencepost.spark.epoch.values import CORRUPT, EpochValues
from fencepost.spark.partition.options import PAYLOAD_OPTION
from fencepost.spark.row.exact_json import ExactColumns
from fencepost.spark.row.frame import ConverterChoice
from fencepost.spark.row.kafka_columns import MISFIT_REASON, PARSED, PARSED_TYPES, TEXT
from fencepost.spark.row.payloads import payload_option


class JsonValues(EpochValues):
    """Values whose columns are those of `value.schema`; Arrow or Spark parses them."""

    kind = TEXT
    misfit = "the value is not JSON that fits value.schema"
    advice = "correct value.schema, or set errors.tolerance=all"

    def __init__(self, schema: str, choice: ConverterChoice) -> None:
        self._schema = schema
        self._choice = choice

    def made(self) -> dict[str, Any]:
        made = self.made_of_letters()
        if self._arrow_type is not None:
            made[PARSED] = self._arrow_type
        return made

    def made_of_letters(self) -> dict[str, Any]:
        return {MISFIT_REASON: T.StringType()} if self._has_reasons else {}

    def options(self) -> dict[str, str]:
        return {PAYLOAD_OPTION: self._payload_option} if self._has_reasons else {}

    def value_of(self, frame: DataFrame) -> tuple[Any, Any]:
        text = F.col("value")
        is_corrupt = text.isNotNull() & (F.trim(text) == "")  # Spark finds no fault in a blank text
        if MISFIT_REASON in frame.columns:
            is_corrupt |= F.col(MISFIT_REASON).isNotNull()
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        made = F.from_json("value", f"{self._schema}, {CORRUPT} STRING", options)
        return (F.coalesce(F.col(PARSED), made) if PARSED in frame.columns else made), is_corrupt

    @cached_property
    def _arrow_type(self) -> T.StructType | None:
        """Return the type of the struct that executors make of values; None if they may not make it."""
        return for_arrow(self._schema)

    @cached_property
    def _has_reasons(self) -> bool:
        """Return whether a value may not fit for a reason that Spark does not detect."""
        try:
            return self._choice.has_schemas or ExactColumns(_struct(self._schema)).is_needed
        except ParseException:  # the parser of the values sets the reason
            return False

    @cached_property
    def _payload_option(self) -> str:
        choice = self._choice
        return payload_option(
            _struct(self._schema), has_schemas=choice.has_schemas, is_null_replaced=choice.replaces_null
        )


def _struct(schema: str) -> T.StructType:
    """Return the type of these columns, in the syntax of `from_json`."""
    try:
        return T.StructType.fromDDL(schema)
    except ParseException:
        return T.DataType.fromDDL(f"struct<{schema}>")


def for_arrow(schema: str) -> T.StructType | None:
    """Return a struct of these columns and the corrupt column; None if Spark must read them."""
    try:
        fields = T.StructType.fromDDL(schema).fields
    except ParseException:  # from_json accepts another spelling of it
        return None
    if not PARSED_TYPES.keys() >= {field.dataType.simpleString() for field in fields}:
        return None
    made = T.StructType([*(T.StructField(f.name, f.dataType) for f in fields), T.StructField(CORRUPT, T.StringType())])
    return made if len(set(made.names)) == len(made) else None
