"""Records what Kafka's own converters and transforms make of values: `python tests/oracle/values.py`.

Each case goes through the real classes of Kafka Connect 4.3.1. The cases with their answers, in
`tests/fixtures/connect-4.3.1/values.json`, are committed: a test compares ours with them without any Java. A case whose
answer is to differ says why in `differs`: a page of the docs has it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench import peer

from fencepost.embedded.java import find_java

OUTPUT = Path(__file__).parents[1] / "fixtures" / "connect-4.3.1" / "values.json"
PROGRAM = Path(__file__).with_name("ConnectValues.java")

Case = dict[str, Any]

REFUSED = "what does not fit its schema is refused"
READ_BACK = "NaN and infinities are read as they are written"
RESCALED = "a number gets the scale of its decimal"
ISO = "dates and times are written as ISO 8601"
NO_TEXT = "bytes are refused as text"

ENVELOPE = {"schemas.enable": "true"}
PLAIN = {"schemas.enable": "false"}
LOGICAL = "org.apache.kafka.connect.data."
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def of(kind: str, **more: Any) -> dict[str, Any]:
    """Return the schema of a required value."""
    return {"type": kind, "optional": False, **more}


def optional(kind: str, **more: Any) -> dict[str, Any]:
    return {**of(kind, **more), "optional": True}


def message(schema: Any, payload: Any) -> str:
    return json.dumps({"schema": schema, "payload": payload})


def case(schema: Any, payload: Any, differs: str | None = None, **more: Any) -> Case:
    found = {"converter": ENVELOPE, "value": message(schema, payload), **more}
    return found if differs is None else {**found, "differs": differs}


PAYLOADS = [
    0, -1, 1.0, 1.5, 127, 128, -129, 32768, 2147483648, 9223372036854775807, True, "x", "1", "true", "NaN", "-Infinity",
    [], {}, [1], None, 1e39, 1e-46, 123456.789, 0.1, 16777217, 3.4028235e38, 1e-45,
]  # fmt: skip


def _difference(kind: str, payload: Any) -> str | None:
    """Return how ours differs where Kafka Connect takes a value that does not fit, or changes it."""
    is_number = isinstance(payload, int | float) and not isinstance(payload, bool)
    if payload is None:
        return None  # refused by both
    if kind in BITS:
        limit = 1 << (BITS[kind] - 1)
        return None if is_number and payload == int(payload) and -limit <= payload < limit else REFUSED
    if kind in ("float", "double"):
        if payload in ("NaN", "-Infinity"):
            return READ_BACK
        return None if is_number and (kind == "double" or payload < 1e39) else REFUSED
    if kind == "boolean":
        return None if isinstance(payload, bool) else REFUSED
    if kind == "string":
        return None if isinstance(payload, str) else REFUSED
    return None if isinstance(payload, str) else REFUSED


def primitives() -> list[Case]:
    kinds = [*BITS, "float", "double", "boolean", "string", "bytes"]
    schemas = [optional(kind) if kind in ("string", "bytes") else of(kind) for kind in kinds]  # null there
    return [case(one, payload, _difference(one["type"], payload)) for one in schemas for payload in PAYLOADS]


def floats() -> list[Case]:
    found = []
    for number in (123456.789, 0.1, 1e10, 1e-5, 16777217, 2147483648):
        fields = [{**of(kind, default=number), "field": kind} for kind in ("float", "double")]
        found.append(case(of("struct", fields=fields), {}))
        one, many = {**of("float"), "field": "f"}, {**of("array", items=optional("float")), "field": "a"}
        mapped = {**of("map", keys=of("string"), values=of("float")), "field": "m"}
        payload = {"f": number, "a": [number, None], "m": {"k": number}}
        found.append(case(of("struct", fields=[one, many, mapped]), payload))
        found.append(case(optional("float"), number))
    return [*found, case(of("double"), -0.0)]


def structures() -> list[Case]:
    number = {**of("int32"), "field": "a"}
    found = []
    for payload in ("x", 1, True, [1], {"a": 1}, [["a", 1]], None):
        found += [
            case(of("array", items=of("int32")), payload, REFUSED if payload not in ([1], None) else None),
            case(of("map", keys=of("string"), values=of("int32")), payload),
            case(of("map", keys=of("int32"), values=of("int32")), payload, REFUSED if payload == [["a", 1]] else None),
            case(of("struct", fields=[number]), payload),
        ]
    return [
        *found,
        case(of("struct", fields=[number]), {"a": 1, "b": 2}),
        case(of("struct", fields=[number, number]), {"a": 1}),
        case(of("struct", fields=[]), {}),
        case(optional("struct", fields=[{**optional("int32"), "field": "a"}]), {"a": None}),
        case(of("int32", name="n", version=2, doc="d", parameters={"a": "b"}), 1),
        *(
            case(schema, 1)
            for schema in ({"type": "int32"}, {"type": "nope"}, {"type": "int32", "parameters": {"a": 1}})
        ),
        *(
            case(schema, None, converter={**ENVELOPE, "replace.null.with.default": replaced})
            for schema in (of("int32", default=5), optional("int32", default=5))
            for replaced in ("true", "false")
        ),
        case(of("int32", default="x"), 1, REFUSED),
    ]


def logical() -> list[Case]:
    found = []
    for name, kind, payloads in (
        ("Date", "int32", (0, 1, -1, 19000, -719162)),
        ("Time", "int32", (0, 1, 86399999, -1)),
        ("Timestamp", "int64", (0, 1, -1, 1700000000123, 253402300799999)),
    ):
        schema = of(kind, name=f"{LOGICAL}{name}", version=1)
        found += [case(schema, payload) for payload in (*payloads, "x", 1.5)]
    found += [
        case(of("int32", name=f"{LOGICAL}Time", version=1), 86400000, REFUSED),
        case(of("int64", name=f"{LOGICAL}Timestamp", version=1), 253402300800000, REFUSED),
        case(of("int64", name=f"{LOGICAL}Timestamp", version=1), -62135596800001, REFUSED),
        case(of("int32", name=f"{LOGICAL}Date", version=1), 2932897, REFUSED),
    ]
    decimal = of("bytes", name=f"{LOGICAL}Decimal", version=1, parameters={"scale": "2"})
    for payload, differs in (("MTIz", None), ("AQ==", None), ("x", None), (True, None), (1.25, None), (1.5, RESCALED)):
        found.append(case(decimal, payload, differs))
        found.append(case(decimal, payload, converter={**ENVELOPE, "decimal.format": "NUMERIC"}))
    return found


def plain() -> list[Case]:
    texts = ("1", "1.0", "1e5", "0.1", '{"a":1,"a":2}', '{"a":null}', "[]", "null", "true", '"x"', "1e-7", "1e22")
    return [
        *({"converter": PLAIN, "value": text} for text in texts),
        *(
            {"converter": ENVELOPE, "value": text}
            for text in ("1", '{"payload":1}', '{"schema":null,"payload":1,"x":2}')
        ),
        *(case(None, payload) for payload in (1, {"a": [1, 2.5, None, "x", True]}, None)),
    ]


FIELDS = [
    {**optional("int32", default=7), "field": "a"},
    {**optional("string"), "field": "b"},
    {**optional("float"), "field": "c"},
]
STRUCT = optional("struct", name="n", version=3, doc="d", parameters={"p": "q"}, fields=FIELDS)
SIDES = [
    (message(STRUCT, {"a": 1, "b": "x", "c": 0.1}),) * 2,
    (message(STRUCT, {"a": 1, "b": "x", "c": 0.1}), None),
    (None, message(STRUCT, {"a": 1, "b": "x", "c": 0.1})),
    (message(STRUCT, {"a": None, "b": None, "c": None}),) * 2,
    (message(STRUCT, None),) * 2,
    (message(None, {"a": 1}),) * 2,
    (message(None, 1),) * 2,
    (message(of("int32"), 1),) * 2,
]
INSERTED: list[dict[str, str]] = [
    {"static.field": "s!", "static.value": "v"},
    {"static.field": "a", "static.value": "v"},
    {"topic.field": "t", "partition.field": "p?", "timestamp.field": "ts!"},
    {"topic.field": "x", "static.field": "x", "static.value": "v"},
    {"timestamp.field": "a"},
    {"offset.field": "o"},
]
REPLACED: list[dict[str, str]] = [
    {"exclude": "a"},
    {"include": "a"},
    {"include": "a,b", "exclude": "a"},
    {"include": "none"},
    {"exclude": "none", "replace.null.with.default": "false"},
    {"renames": "a:z"},
    {"renames": "a:b"},
    {"renames": "a:b,b:a"},
    {"renames": "a:z,b:z"},
    {"renames": "a:b", "exclude": "b"},
]
ROUTED = [
    ("t", "x"), ("(.)", "$1-$1"), ("t?", "<$0>"), ("", "y"), ("(?<n>t)", "${n}!"), (".*", "z"), ("t", "\\$1"),
    ("x", "y"), ("t", "a\\\\b"),
]  # fmt: skip


def transforms() -> list[Case]:
    package = "org.apache.kafka.connect.transforms."
    value = SIDES[1][0]
    found: list[Case] = [
        {
            "converter": ENVELOPE,
            "value": value,
            "transform": {"type": f"{package}RegexRouter", "regex": a, "replacement": b},
        }
        for a, b in ROUTED
    ]
    for value, key in SIDES:
        for side in ("Value", "Key"):
            for name, settings in (("InsertField", INSERTED), ("ReplaceField", REPLACED)):
                for one in settings:
                    record = {"converter": ENVELOPE, "value": value, "key": key}
                    changed = {"type": f"{package}{name}${side}", **one}
                    is_sink = "offset.field" in one and side == "Value"
                    found.append({**record, "transform": changed, "sink": is_sink})
    return found


def texts() -> list[Case]:
    numbers = (123456.789, 1e7, 9999999.0, 1e-3, 1e-4, 12345678.9, 1e22, 1.0, 0.5, 1e100, 2.5e-9)
    found = [case(of(kind), number, text=True) for kind in ("float", "double") for number in numbers if number < 1e38]
    found += [
        case(of("float"), 3.4028235e38, text=True),
        case(of("float"), 1e-45, text=True),
        case(of("double"), 1e100, text=True),
        case(of("double"), "NaN", READ_BACK, text=True),
        case(of("int64"), 5, text=True),
        case(of("boolean"), True, text=True),
        case(of("bytes"), "AQ==", NO_TEXT, text=True),
        case(of("array", items=of("double")), [1e10, 0.5], text=True),
        case(of("array", items=of("float")), [123456.789], text=True),
        case(of("map", keys=of("string"), values=of("float")), {"a": 1e10}, text=True),
        case(STRUCT, {"a": 1, "b": "x", "c": 123456.789}, text=True),
        case(of("bytes", name=f"{LOGICAL}Decimal", version=1, parameters={"scale": "2"}), "MTIz", text=True),
        {"converter": PLAIN, "value": '{"a":1.0,"b":[1e10,null,"x"]}', "text": True},
    ]
    for name, kind, payload in (("Date", "int32", 19000), ("Time", "int32", 3600000), ("Timestamp", "int64", 1)):
        found.append(case(of(kind, name=f"{LOGICAL}{name}", version=1), payload, ISO, text=True))
    return found


def cases() -> list[Case]:
    return [*primitives(), *floats(), *structures(), *logical(), *plain(), *transforms(), *texts()]


def main() -> None:
    asked = cases()
    command = [str(find_java().path), "-Dfile.encoding=UTF-8", "-cp", peer.classpath(), str(PROGRAM)]
    lines = "".join(f"{json.dumps(one)}\n" for one in asked)
    environment = {**os.environ, "TZ": "UTC"}
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, env=environment)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    written = [json.dumps({**one, "answer": answer}) for one, answer in zip(asked, answers, strict=True)]
    OUTPUT.write_text("[\n" + ",\n".join(written) + "\n]\n")
    print(f"{len(written)} cases in {OUTPUT}")


if __name__ == "__main__":
    main()
