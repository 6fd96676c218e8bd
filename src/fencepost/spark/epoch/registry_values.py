"""Values with schemas in a registry as columns of an epoch's frame. Driver side.

The plan of an epoch names the schema by which each topic is read, so that a repetition makes the same rows.
"""

from collections.abc import Collection, Mapping
from typing import Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fencepost.api import RecordError, RetriableError
from fencepost.api.dataframe import DataFrame
from fencepost.builtin.converter.registry.wire import SchemaKey
from fencepost.spark.epoch.values import CORRUPT, EpochValues
from fencepost.spark.partition.options import REGISTRY_OPTION
from fencepost.spark.row.kafka_columns import MISFIT_REASON, PARSED, RECORD_COLUMNS
from fencepost.spark.row.registry import ValueRegistry
from fencepost.spark.row.registry_schema import ReaderSchema, common_columns, to_option


class RegistryValues(EpochValues):
    """Values of topics, read by a schema of each."""

    kind = RECORD_COLUMNS["value"]
    misfit = "the value cannot be read by its schema in the registry"
    advice = "see to it that it can, or set errors.tolerance=all"

    def __init__(self, schemas: Mapping[str, ReaderSchema]) -> None:
        """Raise ConfigError if the topics do not have columns in common."""
        self._schemas = dict(schemas)
        self._type = common_columns(schemas).add(CORRUPT, T.StringType())

    def made(self) -> dict[str, Any]:
        return {MISFIT_REASON: T.StringType(), PARSED: self._type}

    def made_of_letters(self) -> dict[str, Any]:
        return self.made()

    def options(self) -> dict[str, str]:
        return {REGISTRY_OPTION: to_option(self._schemas)}

    def value_of(self, frame: DataFrame) -> tuple[Any, Any]:
        if PARSED not in frame.columns:  # whose rows are unknown; nor is it known how the struct depends on the bytes
            made = F.from_json(F.col("value").cast("string"), self._type)
            return made, F.lit(False)
        return F.col(PARSED), F.col(MISFIT_REASON).isNotNull()


class TopicSchemas:
    """The schemas of a connector's topics in the registry."""

    misfit = RegistryValues.misfit

    def __init__(self, conf: Mapping[str, str], kind: str, subject: str | None) -> None:
        """`conf`: the converter's settings, without prefix; `subject`: see ValueRegistry. Raises ConfigError."""
        self.conf = dict(conf)
        self._registry = ValueRegistry(conf, kind, subject)
        self._made: dict[tuple[tuple[str, int], ...], RegistryValues] = {}

    def newest(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the id of each topic's newest schema. Raises RetriableError if the registry is away."""
        return {topic: self._registry.latest(topic).id for topic in sorted(topics)}

    def of(self, ids: Mapping[str, int]) -> RegistryValues:
        """Return the columns of values by the schemas with these ids. Raises RetriableError as `newest`."""
        key = tuple(sorted(ids.items()))
        if key not in self._made:
            self._made.clear()  # the schemas of later epochs are newer
            try:
                self._made[key] = RegistryValues({topic: self._registry.by_key(SchemaKey(id_)) for topic, id_ in key})
            except RecordError as error:
                raise RetriableError(f"{error}. The epoch was planned with it: restore it in the registry") from error
        return self._made[key]
