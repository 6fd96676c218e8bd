"""The base of converters that convert headers as they do keys and values."""

from typing import Any

from fencepost.api import Converter, HeaderConverter, Schema


class AnyPlaceConverter(Converter, HeaderConverter):
    """Converts keys, values and headers in the same way."""

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_data(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return self.to_connect_data(topic, data)
