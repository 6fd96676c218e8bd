"""How the values of a connector's records become columns, as its config says."""

from collections.abc import Mapping

from fencepost.api import EpochConnector
from fencepost.config import ConfigError
from fencepost.spark.epoch.json_values import JsonValues
from fencepost.spark.epoch.registry_values import RegistryValues, TopicSchemas
from fencepost.spark.epoch.values import EpochValues
from fencepost.spark.row.frame import BYTES, JSON, ConverterChoice
from fencepost.spark.row.kafka_columns import RECORD_COLUMNS, TEXT
from fencepost.spark.row.registry import CONVERTERS, is_registry_converter

_CONVERTER = "value.converter"
_CONTENT = "value.converter.schema.content"
_SCHEMA, _SUBJECT = EpochConnector.key_of("value_schema"), EpochConnector.key_of("value_schema_subject")


def values_of(
    connector: EpochConnector, properties: Mapping[str, str]
) -> tuple[str, EpochValues | TopicSchemas | None]:
    """Return Spark's type of values as they are read, and what makes columns of them; None if nothing does.

    Raises ConfigError for settings that do not go together.
    """
    schema, name = connector.value_schema, properties.get(_CONVERTER) or ""
    if is_registry_converter(name):
        if schema is not None:
            raise ConfigError(
                f"{_SCHEMA} does not apply to values with schemas in a registry, which define the columns: remove it, "
                "and choose columns in transforms.sql"
            )
        return RegistryValues.kind, _schemas(properties, name, connector.value_schema_subject)
    if connector.value_schema_subject is not None:
        raise ConfigError(f"{_SUBJECT} applies only to values with schemas in a registry: remove it")
    choice = ConverterChoice.of(properties, _CONVERTER)
    if choice.kind == JSON and choice.has_schemas and properties.get(_CONTENT):
        raise ConfigError(
            f"{_CONTENT} does not apply to a DataFrame sink: remove it, set {_SCHEMA} to the columns of the values, "
            "and set value.converter.schemas.enable=false, since the values have no envelope"
        )
    if schema is None:
        if choice.kind == JSON and choice.has_schemas:
            raise ConfigError(
                f"{_SCHEMA} is missing: set it to the columns of values with schemas "
                "(value.converter.schemas.enable=true, the default), or set value.converter.schemas.enable=false for "
                "plain JSON"
            )
        return RECORD_COLUMNS["value"] if choice.kind == BYTES else TEXT, None
    if choice.kind != JSON:
        raise ConfigError(f"{_SCHEMA}: only values that {JSON} writes have columns; value.converter is {choice.kind}")
    return TEXT, JsonValues(schema, choice)


def _schemas(properties: Mapping[str, str], name: str, subject: str | None) -> TopicSchemas:
    prefix = f"{_CONVERTER}."
    own = {key[len(prefix) :]: value for key, value in properties.items() if key.startswith(prefix)}
    try:
        return TopicSchemas(own, CONVERTERS[name.rpartition(".")[2]], subject)
    except ConfigError as error:
        raise ConfigError([f"{_CONVERTER} ({name}): {message}" for message in error.messages]) from error
