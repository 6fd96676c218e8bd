"""Converters and predicates produce what Kafka's own produce (`tests/oracle/converters.py`)."""

import base64
import gzip
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from fencepost.api import ConfigError, Header, RecordError, SourceRecord
from fencepost.builtin.transform.chain import Chain
from fencepost.plugin import PluginKind, find, registry
from fencepost.record.java_value import float32
from support.kafka_values import FIXTURES
from support.typed_values import comparable, described, schema_of, value_of, written

Case = dict[str, Any]

CASES: list[Case] = json.loads(gzip.decompress((FIXTURES / "connect-4.3.1" / "converters.json.gz").read_bytes()))
CONVERTERS = [case for case in CASES if "class" in case]
PREDICATES = [case for case in CASES if "predicate" in case]
NAMES = sorted({case["class"] for case in CONVERTERS})
REASONS = sorted({case["differs"] for case in CONVERTERS if "differs" in case})
JSON = "org.apache.kafka.connect.json.JsonConverter"


def answer(case: Case) -> Case:
    """Return what a converter of ours makes of a case; what goes wrong is a RecordError or ConfigError."""
    kind = PluginKind.HEADER_CONVERTER if case.get("is_header") else PluginKind.CONVERTER
    try:
        converter = registry().find(kind, case["class"])(case["settings"])
        if "bytes" in case:
            data = None if case["bytes"] is None else base64.b64decode(case["bytes"])
            read = converter.to_connect_data if not case.get("is_header") else partial(converter.to_connect_header, "t")
            schema, value = read("t", data)
            return {"schema": described(schema), "value": written(schema, value)}
        schema = schema_of(case["schema"])
        write = (
            converter.from_connect_data if not case.get("is_header") else partial(converter.from_connect_header, "t")
        )
        data = write("t", schema, value_of(schema, case["value"]))
    except (RecordError, ConfigError) as error:
        return {"error": str(error)}
    return {"bytes": None if data is None else base64.b64encode(data).decode()}


def meaning(case: Case, answer: Case) -> Any:
    """Return an answer in a form in which equal ones are equal, however numbers are written."""
    if "error" in answer:
        return "an error"
    if "bytes" not in answer:
        return _untyped(comparable(answer)) if _lacks_schemas(answer["schema"]) else comparable(answer)
    data = None if answer["bytes"] is None else base64.b64decode(answer["bytes"])
    if data is None or case["class"] != JSON:
        return data
    number = (
        _single if '"FLOAT32"' in json.dumps(case["schema"]) or '"float32"' in json.dumps(case["value"]) else _number
    )
    return json.loads(data, parse_float=number, parse_int=lambda text: ("int", text), object_pairs_hook=_members)


def _lacks_schemas(schema: Any) -> bool:
    """Return whether a part of a list or map has no schema, which tells how wide numbers are."""
    return schema is not None and bool({'"items": null', '"keys": null'} & set(_PARTS.findall(json.dumps(schema))))


_PARTS = re.compile(r'"(?:items|keys)": null')
_WIDE = {"int8": "int64", "int16": "int64", "int32": "int64", "float32": "float64"}


def _untyped(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {"schema": answer["schema"], "value": _untyped(answer["value"])}
    if isinstance(answer, list) and len(answer) == 2 and isinstance(answer[1], str):
        return [_WIDE.get(answer[0], answer[0]), answer[1]]
    return [_untyped(one) for one in answer] if isinstance(answer, list) else answer


def _members(pairs: list[tuple[str, Any]]) -> Any:
    return ("object", pairs)


def _number(text: str) -> Any:
    """Return a number with a fraction, as the nearest double and, if it has more digits than that, with all of them."""
    sign, digits, exponent = Decimal(text).as_tuple()
    whole = "".join(map(str, digits)).lstrip("0")
    exact = (sign, whole.rstrip("0"), int(exponent) + len(whole) - len(whole.rstrip("0")))
    return ("float", float(text).hex(), exact if len(exact[1]) > 17 else None)


def _single(text: str) -> Any:
    """Return a number with the precision of 32 bits, as Java writes some with a digit too many."""
    try:
        number = _number(text)
        return number if number[2] else ("float", float32(float(text)).hex(), None)
    except OverflowError:
        return _number(text)


def differing(cases: Sequence[Case]) -> list[tuple[Case, Any]]:
    """Return the cases where ours answers something else, each with our answer."""
    found = [(case, answer(case)) for case in cases]
    return [(case, ours) for case, ours in found if meaning(case, ours) != meaning(case, case["answer"])]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.rpartition(".")[2])
def test_converter_gives_the_same_results_as_kafkas(name: str) -> None:
    cases = [case for case in CONVERTERS if case["class"] == name and "differs" not in case]
    assert len(cases) > 20
    assert differing(cases) == []


@pytest.mark.parametrize("reason", REASONS)
def test_converter_differs_from_kafkas_only_as_documented(reason: str) -> None:
    cases = [case for case in CONVERTERS if case.get("differs") == reason]
    found = differing(cases)
    assert [case for case, _ in found] == cases, "some do not differ"
    assert [ours for _, ours in found if ("error" in ours) is not ("refused" in reason)] == []


def record_of(case: Case) -> SourceRecord:
    value = None if case.get("is_tombstone") else "v"
    return SourceRecord({}, None, case["topic"], value, headers=tuple(Header(n, "v") for n in case.get("headers", ())))


def test_predicate_gives_the_same_results_as_kafkas() -> None:
    wrong = []
    for case in PREDICATES:
        try:
            found = registry().find(PluginKind.PREDICATE, case["predicate"])(case["settings"]).test(record_of(case))
        except ConfigError:
            is_as_expected = "error" in case["answer"] or "differs" in case
        else:
            is_as_expected = case["answer"] == {"result": found} and "differs" not in case
        if not is_as_expected:
            wrong.append(case)
    assert wrong == []


@pytest.mark.parametrize("is_negated", [True, False])
def test_negated_predicate_selects_the_remaining_records(is_negated: bool) -> None:
    for case in PREDICATES[::9]:
        if "result" not in case["answer"] or "differs" in case:
            continue
        properties = {f"predicates.p.{key}": value for key, value in case["settings"].items()}
        properties |= {"transforms": "f", "predicates": "p", "predicates.p.type": case["predicate"]}
        properties |= {"transforms.f.type": "Filter", "transforms.f.predicate": "p"}
        properties["transforms.f.negate"] = str(is_negated).lower()
        is_kept = Chain.from_config(properties, find).apply(record_of(case)) is not None
        assert is_kept is (case["answer"]["result"] is is_negated), case
