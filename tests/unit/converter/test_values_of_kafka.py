"""Converters and transforms produce what Kafka's own produce from the same values (`tests/oracle/values.py`)."""

import json
import struct
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import ConnectRecord, RecordError
from fencepost.converter.json import JsonConverter
from fencepost.converter.string import StringConverter
from fencepost.plugin import PluginKind, registry
from fencepost.record import Header, SinkRecord, SourceRecord

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "connect-4.3.1" / "values.json").read_text()
)
AS_KAFKAS = [case for case in CASES if "differs" not in case]
DIFFERENT = [case for case in CASES if "differs" in case]
TIMESTAMP = 1_700_000_000_123


def answer(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Kafka's answers are compared with; what goes wrong is a RecordError, and nothing else."""
    converter = JsonConverter(case["converter"])
    try:
        key_schema, key = converter.to_connect_data("t", _bytes(case.get("key")))
        schema, value = converter.to_connect_data("t", _bytes(case.get("value")))
        record: ConnectRecord
        timestamp = case.get("timestamp", TIMESTAMP)
        headers = tuple(_header(converter, *pair) for pair in case.get("headers", ()))
        if case.get("sink"):
            record = SinkRecord("t", 3, 7, value, schema, key, key_schema, timestamp, headers)
        else:
            record = SourceRecord({}, None, "t", value, schema, key, key_schema, 3, timestamp, headers)
        if "transform" in case:
            settings = dict(case["transform"])
            record = registry().find(PluginKind.TRANSFORM, settings.pop("type"))(settings).apply(record)
        if case.get("text"):
            text = StringConverter({}).from_connect_data("t", record.value_schema, record.value)
            return {"topic": record.topic, "value": _text(text)}
        return {
            "topic": record.topic,
            "key": _text(converter.from_connect_data("t", record.key_schema, record.key)),
            "value": _text(converter.from_connect_data("t", record.value_schema, record.value)),
            "headers": [
                [one.key, _text(converter.from_connect_data("t", one.schema, one.value))] for one in record.headers
            ],
        }
    except RecordError as error:
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
    is_json = not case.get("text")
    found = {side: answer.get(side) for side in ("key", "value")}
    read = {side: _parsed(text) if is_json and text is not None else text for side, text in found.items()}
    headers = [(key, None if text is None else _parsed(text)) for key, text in answer.get("headers", [])]
    return answer["topic"], read["key"], read["value"], headers


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


@pytest.mark.parametrize("case", AS_KAFKAS, ids=range(len(AS_KAFKAS)))
def test_a_value_becomes_what_kafkas_own_classes_make_of_it(case: dict[str, Any]) -> None:
    assert meaning(answer(case), case) == meaning(case["answer"], case), case


@pytest.mark.parametrize("case", DIFFERENT, ids=range(len(DIFFERENT)))
def test_what_differs_from_kafkas_classes_is_what_the_docs_say(case: dict[str, Any]) -> None:
    ours, theirs, differs = answer(case), case["answer"], case["differs"]
    assert meaning(ours, case) != meaning(theirs, case), "it does not differ"
    if "refused" in differs:
        assert "error" in ours
    else:
        assert "error" not in ours
