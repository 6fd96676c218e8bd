"""What makes columns of values, as a connector's config says; settings that do not go together are refused."""

from typing import Any

import pytest

from fencepost.api import DataFrameSink, Epoch
from fencepost.config import ConfigError
from fencepost.spark.epoch.values import JsonValues, TopicSchemas, values_of

AVRO = {
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://localhost:1",
}
PLAIN = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}


class _Sink(DataFrameSink):
    def write(self, session: Any, frame: Any, epoch: Epoch) -> str:
        raise NotImplementedError


def chosen(**settings: str) -> tuple[str, object]:
    properties = {key.replace("__", "."): value for key, value in settings.items()}
    return values_of(_Sink({"name": "c", "connector.class": "c", **properties}), properties)


@pytest.mark.parametrize(
    ("settings", "kind", "columns"),
    [
        (AVRO, "binary", TopicSchemas),
        ({**PLAIN, "value.schema": "n INT"}, "string", JsonValues),
        (PLAIN, "string", type(None)),
        ({"value.converter": "StringConverter"}, "string", type(None)),
        ({"value.converter": "ByteArrayConverter"}, "binary", type(None)),
    ],
)
def test_converter_decides_how_values_become_columns(
    settings: dict[str, str], kind: str, columns: type[object]
) -> None:
    found, made = chosen(**settings)
    assert found == kind
    assert isinstance(made, columns)


def test_executors_get_the_settings_of_the_converter_without_its_prefix() -> None:
    _, made = chosen(**AVRO, **{"value.converter.basic.auth.user.info": "me:hush"}, other="x")
    assert isinstance(made, TopicSchemas)
    assert made.conf == {"schema.registry.url": "http://localhost:1", "basic.auth.user.info": "me:hush"}
    assert "hush" not in repr(made)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({**AVRO, "value.schema": "n INT"}, "value.schema does not apply to values with schemas in a registry"),
        (
            {**PLAIN, "value.schema.subject": "s"},
            "value.schema.subject applies only to values with schemas in a registry",
        ),
        ({"value.converter": AVRO["value.converter"]}, r"value.converter \(io.*AvroConverter\): .*schema.registry.url"),
        ({"value.converter": "JsonConverter"}, "value.schema is missing"),
        (
            {"value.converter": "JsonConverter", "value.converter.schema.content": "{}", "value.schema": "n INT"},
            "value.converter.schema.content does not apply to a DataFrame sink",
        ),
        ({"value.converter": "StringConverter", "value.schema": "n INT"}, "only values that JsonConverter writes"),
        ({"value.converter": "Other"}, "value.converter=Other"),
    ],
)
def test_contradictory_settings_are_refused(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        chosen(**settings)
