"""What ours make of a case of `tests/oracle/ConnectValues.java`, and what of an answer counts."""

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from fencepost.api import ConfigError, ConnectRecord, FatalError, RecordError
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.plain import StringConverter
from fencepost.plugin import PluginKind, registry
from fencepost.record import Header, SinkRecord, SourceRecord

FIXTURES = Path(__file__).parents[1] / "fixtures"
TIMESTAMP = 1_700_000_000_123


def by_subject(cases: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return recorded cases by the transform that they are of. A test costs more than one of thousands of cases."""
    found: dict[str, list[dict[str, Any]]] = {}
    for case in cases:
        name = case.get("transform", {}).get("type", "no transform")
        found.setdefault(name.rpartition(".")[2], []).append(case)
    return found


Transformed = Callable[[dict[str, str], ConnectRecord], ConnectRecord | None]
"""Returns what a transform with these settings, and its class as `type`, makes of a record; None if it filters it."""


def transformed_here(settings: dict[str, str], record: ConnectRecord) -> ConnectRecord | None:
    """Apply Python's class."""
    own = dict(settings)
    changed: ConnectRecord | None = registry().find(PluginKind.TRANSFORM, own.pop("type"))(own).apply(record)
    return changed


def answer(case: Mapping[str, Any], transformed: Transformed = transformed_here) -> dict[str, Any]:
    """Return what Kafka's answers are compared with; what goes wrong is a RecordError, and nothing else."""
    try:
        converter = JsonConverter(case["converter"])
        key_schema, key = converter.to_connect_data("t", _bytes(case.get("key")))
        schema, value = converter.to_connect_data("t", _bytes(case.get("value")))
        record: ConnectRecord
        timestamp = case.get("timestamp", TIMESTAMP)
        headers = tuple(_header(converter, *pair) for pair in case.get("headers", ()))
        if case.get("sink"):
            record = SinkRecord("t", 3, 7, value, schema, key, key_schema, timestamp, headers)
        else:
            record = SourceRecord({}, None, "t", value, schema, key, key_schema, 3, timestamp, headers)
        changed = transformed(case["transform"], record) if "transform" in case else record
        if changed is None:
            return {"filtered": True}
        record = changed
        if case.get("text"):
            text = StringConverter({}).from_connect_data("t", record.value_schema, record.value)
            return {"topic": record.topic, "value": _text(text)}
        place = {"partition": record.kafka_partition, "timestamp": record.timestamp} if case.get("whole") else {}
        return {
            "topic": record.topic,
            **place,
            "key": _text(converter.from_connect_data("t", record.key_schema, record.key)),
            "value": _text(converter.from_connect_data("t", record.value_schema, record.value)),
            "headers": [
                [one.key, _text(converter.from_connect_data("t", one.schema, one.value))] for one in record.headers
            ],
        }
    except (RecordError, ConfigError, FatalError) as error:
        return {"error": str(error)}


def _header(converter: JsonConverter, key: str, text: str) -> Header:
    schema, value = converter.to_connect_data("t", _bytes(text))
    return Header(key, value, schema)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def meaning(answer: Mapping[str, Any], case: Mapping[str, Any]) -> object:
    """Return an answer in a form in which equal ones are equal, however numbers are written."""
    if "error" in answer:
        return "an error"
    if "filtered" in answer:
        return "nothing"
    is_json = not case.get("text")
    found = {side: answer.get(side) for side in ("key", "value")}
    read = {side: _parsed(text) if is_json and text is not None else text for side, text in found.items()}
    headers = [(key, None if text is None else _parsed(text)) for key, text in answer.get("headers", [])]
    return answer["topic"], answer.get("partition"), answer.get("timestamp"), read["key"], read["value"], headers


def _parsed(text: str) -> Any:
    found = json.loads(text, parse_float=lambda number: ("float", Decimal(number)))
    if isinstance(found, dict) and found.keys() == {"schema", "payload"} and _is_of_32_bits(found["schema"]):
        found = json.loads(text, parse_float=lambda number: ("float", _nearest(number)))
    return found


def _is_of_32_bits(schema: Any) -> bool:
    return '"float"' in json.dumps(schema, default=str)


def _nearest(number: str) -> float:
    """Return the number of 32 bits: Java 17 writes some with a digit too many."""
    found: float = struct.unpack("f", struct.pack("f", float(number)))[0]
    return found
