"""Records what Kafka's own converters and transforms make of values: `python tests/oracle/values.py`.

Each case goes through the real classes of Kafka Connect 4.3.1. The cases with their answers, in
`tests/fixtures/connect-4.3.1/values.json`, are committed: a test compares ours with them without any Java. A case whose
answer is to differ says why in `differs`: a page of the docs has it.
"""

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))
from bench import peer

from oracle.java import Case, answers, write

OUTPUT = Path(__file__).parents[1] / "fixtures" / "connect-4.3.1" / "values.json"
PROGRAM = Path(__file__).with_name("ConnectValues.java")

REFUSED = "what does not fit its schema is refused"
REFUSED_YEARS = "dates and timestamps outside the years 1 to 9999 are refused"
ANY_SCHEMA = "SetSchemaMetadata changes the schema of any type"
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


NULLS_STAY = {"replace.null.with.default": "false"}


def logical_of(name: str, **more: Any) -> dict[str, Any]:
    return of("int64" if name == "Timestamp" else "int32", name=f"{LOGICAL}{name}", version=1, **more)


def field(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "field": name}


def struct(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return of("struct", fields=list(fields), **more)


def changed(
    name: str,
    settings: dict[str, str],
    value: str | None,
    key: str | None = None,
    differs: str | None = None,
    **more: Any,
) -> Case:
    """Return a case of one of Kafka's transforms."""
    transform = {"type": f"org.apache.kafka.connect.transforms.{name}", **settings}
    found = {"converter": ENVELOPE, "value": value, "key": key, "transform": transform, **more}
    return found if differs is None else {**found, "differs": differs}


DECIMAL = of("bytes", name=f"{LOGICAL}Decimal", version=1, parameters={"scale": "2"})
CAST_INPUTS: list[tuple[Any, list[Any]]] = [
    (of("int8"), [0, -128, 127]),
    (of("int32"), [0, 1, -1, 128, 300, -40000, 2147483647]),
    (of("int64"), [0, 255, 4294967296, 9223372036854775807, -9223372036854775808]),
    (of("float"), [0.5, -1.5, 3e38, 123456.79]),
    (of("double"), [0.0, 1.5, -129.9, 300.7, 1e10, 1e19, -1e300, 0.1, 1e-50, 1e7, 1e-4]),
    (of("boolean"), [True, False]),
    (
        of("string"),
        ["1", "-5", "+7", "128", "1.5", "1e3", " 2 ", "2.5f", "x", "", "true", "TRUE", "NaN", "-Infinity", "1_0"],
    ),
    (of("bytes"), ["AQI="]),
    (DECIMAL, ["MTIz", "AQ==", "/w=="]),
    (logical_of("Date"), [0, 19000, -1]),
    (logical_of("Time"), [0, 86399999]),
    (logical_of("Timestamp"), [0, 1, 1700000000123, -1]),
    (of("array", items=of("int32")), [[1]]),
]
CAST_TARGETS = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")


def casts() -> list[Case]:
    found = []
    for schema, payloads in CAST_INPUTS:
        for payload in payloads:
            for target in CAST_TARGETS:
                value = message(struct(field("a", schema), field("b", of("string"))), {"a": payload, "b": "x"})
                found.append(changed("Cast$Value", {"spec": f"a:{target}"}, value))
    whole = [(of("int32"), 300), (optional("double", default=2.5), None), (of("string"), "12"), (of("double"), 1e20)]
    for schema, payload in [*whole, (None, 12), (None, "7"), (None, 1.5), (None, True), (None, [1]), (None, {"a": 1})]:
        for target in ("int8", "float32", "string", "boolean"):
            found.append(changed("Cast$Key", {"spec": target}, None, message(schema, payload)))
    members = (field("a", optional("int64", default=7)), field("b", optional("string")))
    outer = optional("struct", fields=list(members), name="n", version=3, doc="d", parameters={"p": "q"})
    for payload in ({"a": None, "b": None}, {"a": 5, "b": "6"}, None):
        for settings in ({}, NULLS_STAY):
            found.append(changed("Cast$Value", {"spec": "a:string,b:int8", **settings}, message(outer, payload)))
    plain = {"a": 1, "b": "2", "c": None, "d": 2.75, "e": True, "f": 0.1}
    for spec in (
        "a:string",
        "b:int64",
        "c:int8",
        "d:int32,e:string",
        "none:string",
        "a:boolean, d:float32",
        "f:float32",
    ):
        found.append(changed("Cast$Value", {"spec": spec}, message(None, plain)))
    return found


NESTED = struct(
    field("a", struct(field("b", of("int32")), field("c", optional("struct", fields=[field("d", of("string"))])))),
    field("e", optional("int32", default=9)),
    field("a.b", of("string")),
)
NESTED_VALUES: list[Any] = [
    {"a": {"b": 1, "c": {"d": "x"}}, "e": 3, "a.b": "y"},
    {"a": {"b": 1, "c": None}, "e": None, "a.b": "y"},
]


def fields() -> list[Case]:
    found = []
    paths = ("a", "e", "a.b", "a.c.d", "`a.b`", "x", "a.x", "e.x", "`a`.b", "a.")
    for path in paths:
        for version in ("V1", "V2", "v2"):
            for replaced in ("true", "false"):
                settings = {"field": path, "field.syntax.version": version, "replace.null.with.default": replaced}
                for value in NESTED_VALUES:
                    found.append(changed("ExtractField$Value", settings, message(NESTED, value)))
                    if replaced == "true":
                        found.append(changed("ExtractField$Key", settings, None, message(None, value)))
    for value in (message(None, None), message(None, 1), message(of("int32"), 1), message(optional("int32"), None)):
        found += [
            changed("ExtractField$Value", {"field": "a"}, value),
            changed("HoistField$Value", {"field": "h"}, value),
            changed("HoistField$Key", {"field": "h"}, None, value),
            changed("Flatten$Value", {}, value),
            changed("ValueToKey", {"fields": "a"}, value),
            changed("MaskField$Value", {"fields": "a"}, value),
            changed(
                "SetSchemaMetadata$Value", {"schema.name": "n"}, value, differs=ANY_SCHEMA if "int32" in value else None
            ),
            changed("Cast$Value", {"spec": "a:string"}, value),
            changed("TimestampConverter$Value", {"field": "a", "target.type": "unix"}, value),
            changed("HeaderFrom$Value", {"fields": "a", "headers": "h", "operation": "move"}, value),
        ]
    for value in NESTED_VALUES:
        for schema in (NESTED, None):
            found += [
                changed("HoistField$Value", {"field": "h"}, message(schema, value)),
                changed("ValueToKey", {"fields": "e"}, message(schema, value), message(None, "old")),
                changed("ValueToKey", {"fields": "e,a"}, message(schema, value)),
                changed("ValueToKey", {"fields": "e", "replace.null.with.default": "false"}, message(schema, value)),
                changed("ValueToKey", {"fields": "x"}, message(schema, value)),
            ]
    return found


def flattened() -> list[Case]:
    inner = struct(field("x", of("int32")), field("y", optional("string", default="d")))
    maybe = optional("struct", fields=[field("x", of("int32")), field("y", optional("string"))])
    schemas = [
        struct(field("a", inner), field("b", of("array", items=of("int32"))), name="n", version=2),
        struct(field("a", maybe), field("b", of("int32"))),
        struct(field("a", struct(field("b", inner)))),
        struct(field("a", of("map", keys=of("string"), values=of("int32")))),
        struct(field("a", struct(field("b", of("int32")))), field("a.b", of("int32"))),
        optional("struct", fields=[field("a", inner)]),
    ]
    payloads: list[Any] = [
        {"a": {"x": 1, "y": "z"}, "b": [1]},
        {"a": None, "b": 2},
        {"a": {"b": {"x": 1, "y": None}}},
        {"a": {"k": 1}},
        {"a": {"b": 1}, "a.b": 2},
        None,
    ]
    found = [changed("Flatten$Value", {}, message(*pair)) for pair in zip(schemas, payloads, strict=True)]
    found += [
        changed("Flatten$Key", {"delimiter": "_"}, None, message(*pair)) for pair in zip(schemas, payloads, strict=True)
    ]
    plain: list[Any] = [
        {"a": {"b": {"c": 1}, "d": None}, "e": [{"x": 1}]},
        {"a": {}, "a.b": 1},
        {"a": {"b": 1}, "a.b": 2},
    ]
    return [
        *found,
        *(changed("Flatten$Value", {"delimiter": d}, message(None, one)) for one in plain for d in (".", "")),
    ]


def masked() -> list[Case]:
    schemas: list[tuple[Any, Any]] = [
        *((of(kind), 5) for kind in (*BITS, "float", "double")),
        (of("boolean"), True),
        (of("string"), "secret"),
        (of("bytes"), "AQI="),
        (DECIMAL, "MTIz"),
        (logical_of("Date"), 19000),
        (logical_of("Time"), 1000),
        (logical_of("Timestamp"), 1700000000123),
        (of("array", items=of("int32")), [1]),
        (of("map", keys=of("string"), values=of("int32")), {"a": 1}),
        (struct(field("x", of("int32"))), {"x": 1}),
        (optional("int32", default=3), None),
    ]
    found = []
    for schema, payload in schemas:
        for replacement in (None, "x", "7", "300", "1.5", "70000.9"):
            settings = {"fields": "a", **({} if replacement is None else {"replacement": replacement})}
            differs = RESCALED if schema is DECIMAL and replacement in ("7", "300", "1.5", "70000.9", None) else None
            value = message(struct(field("a", schema)), {"a": payload})
            found.append(changed("MaskField$Value", settings, value, differs=differs))
    for payload in (5, 1.5, "s", True, [1], {"b": 1}, None):
        for replacement in (None, "x", "7"):
            settings = {"fields": "a,none", **({} if replacement is None else {"replacement": replacement})}
            found.append(changed("MaskField$Key", settings, None, message(None, {"a": payload, "b": 1})))
    return found


def headers() -> list[Case]:
    given = [["h", message(of("string"), "x")], ["i", message(of("int32"), 5)], ["h", message(None, {"a": 1})]]
    value = message(struct(field("a", optional("int32", default=4)), field("b", of("string"))), {"a": None, "b": "y"})
    plain = message(None, {"a": 1, "b": "y"})
    found = [
        changed("DropHeaders", {"headers": names}, plain, headers=given)
        for names in ("h", "i", "none", "h,i", "i, none")
    ]
    literals = (
        "text", "5", "-300", "1.5", "true", "null", "", "[1,2]", '{"a":"b"}', "2026-01-02", "03:04:05.678Z",
        "2026-01-02T03:04:05.678Z", "99999999999999999999", '"quoted"', " 5", "1e3",
    )  # fmt: skip
    for one in literals:
        settings = {"header": "n", "value.literal": one}
        found.append(changed("InsertHeader", settings, plain, headers=given[:1]))
    for operation in ("move", "copy"):
        for names, to in (("a", "x"), ("a,b", "x,x"), ("none", "x"), ("b", "h")):
            for replaced in ("true", "false"):
                settings = {
                    "fields": names,
                    "headers": to,
                    "operation": operation,
                    "replace.null.with.default": replaced,
                }
                found += [changed("HeaderFrom$Value", settings, one, headers=given[:1]) for one in (value, plain)]
                found.append(changed("HeaderFrom$Key", settings, None, value, headers=given[:1]))
    return found


def metadata() -> list[Case]:
    found = []
    for settings in ({"schema.name": "new"}, {"schema.version": "7"}, {"schema.name": "new", "schema.version": "7"}):
        for replaced in ({}, NULLS_STAY):
            for value, key in SIDES:
                one: dict[str, str] = {**settings, **replaced}
                differs = ANY_SCHEMA if value is not None and '"payload": 1}' in value and "int32" in value else None
                found += [changed(f"SetSchemaMetadata${side}", one, value, key, differs) for side in ("Value", "Key")]
    return found


PATTERNS = (
    "yyyy-MM-dd'T'HH:mm:ss.SSS", "yyyy-MM-dd", "yyyyMMdd", "yyMMdd HHmm", "EEE, d MMM yyyy h:mm a", "EEEE dd MMMM yy",
    "D/yyyy", "kk:mm", "K:mm a", "yyyy-MM-dd HH:mm:ss Z", "yyyy-MM-dd'T'HH:mm:ssX", "G yyyy", "''yy", "u",
    "HH 'o''clock'",
    "yyyy-MM-dd HH:mm:ss z", "S", "SSSS", "yyyyy", "M/d/y",
)  # fmt: skip
MOMENTS = (
    0,
    1,
    -1,
    1700000000123,
    1577836799999,
    951782400000,
    -62135596800000,
    -12219292800000,
    -12219292800001,
    253402300799999,
)
TIMES: list[tuple[str, str]] = [
    ("yyyy-MM-dd", "2026-01-02"), ("yyyy-MM-dd", "2026-1-2"), ("yyyy-MM-dd", "2026-13-40"), ("yyyy-MM-dd", "x"),
    ("yyyy-MM-dd", "2026-01-02T03:04"), ("yyyy-MM-dd", " 2026-01-02"), ("yyyyMMdd", "20260102"),
    ("yyyyMMdd", "2026010"),
    ("yyMMdd", "260102"), ("yyMMdd", "500102"), ("yy/M/d", "2026/1/2"), ("yyyy", "26"),
    ("yyyy-MM-dd HH:mm", "2026-01-02 25:61"),
    ("yyyy-MM-dd HH:mm:ss Z", "2026-01-02 03:04:05 +0130"), ("yyyy-MM-dd'T'HH:mm:ssX", "2026-01-02T03:04:05Z"),
    ("yyyy-MM-dd'T'HH:mm:ssX", "2026-01-02T03:04:05-05"), ("yyyy-MM-dd'T'HH:mm:ssXXX", "2026-01-02T03:04:05+02:00"),
    ("EEE, d MMM yyyy h:mm a", "Fri, 2 Jan 2026 12:04 AM"), ("EEE, d MMM yyyy h:mm a", "fri, 2 january 2026 3:04 pm"),
    ("D/yyyy", "60/2024"), ("dd MMM yyyy", "02 Foo 2026"), ("yyyy-MM-dd", "1582-10-10"), ("yyyy-MM-dd", "1582-10-04"),
    ("yyyy-MM-dd HH:mm:ss z", "2026-01-02 03:04:05 UTC"), ("yyyy-MM-dd HH:mm:ss z", "2026-01-02 03:04:05 GMT+02:00"),
    ("HH:mm:ss.SSS", "01:02:03.4"), ("HH:mm:ss.SSS", "01:02:03.4567"),
    ("yyyy-MM-dd", "-2026-01-02"), ("kk:mm", "24:05"),
    ("yyyy-MM-dd", ""), ("yyyy-MM-dd", "2026-01"), ("yyyy-M-dd", "2026--1-05"),
]  # fmt: skip


UNITS_MS = {"seconds": 1000.0, "milliseconds": 1.0, "microseconds": 1e-3, "nanoseconds": 1e-6}
LAST_MS = 253402300799999


def formatted() -> list[Case]:
    found = []
    for pattern in PATTERNS:
        settings = {"field": "a", "target.type": "string", "format": pattern}
        for ms in MOMENTS:
            value = message(struct(field("a", logical_of("Timestamp"))), {"a": ms})
            found.append(changed("TimestampConverter$Value", settings, value))
    for pattern, text in TIMES:
        differs = REFUSED_YEARS if text.startswith("-") else None
        settings = {"field": "a", "target.type": "Timestamp", "format": pattern}
        value = message(struct(field("a", of("string"))), {"a": text})
        found.append(changed("TimestampConverter$Value", settings, value, differs=differs))
        plain = {"target.type": "unix", "format": pattern}
        found.append(changed("TimestampConverter$Key", plain, None, message(None, text)))
    return found


def converted() -> list[Case]:
    found = []
    of_kind = {"Date": (0, 19000), "Time": (0, 86399999), "Timestamp": (0, -1, 1700000000123)}
    inputs = [(name, payload) for name, payloads in of_kind.items() for payload in payloads]
    for target, precision in product(("string", "unix", "Date", "Time", "Timestamp"), UNITS_MS):
        settings = {"field": "a", "target.type": target, "format": "yyyy-MM-dd HH:mm", "unix.precision": precision}
        for name, payload in inputs:
            schema = struct(field("a", logical_of(name)), field("b", of("string")))
            found.append(changed("TimestampConverter$Value", settings, message(schema, {"a": payload, "b": "x"})))
        for number in (0, 1, -1, 1700000000, 1700000000123, -1500, 10**15):
            is_late = number * UNITS_MS[precision] > LAST_MS and target in ("Date", "Timestamp")
            value = message(struct(field("a", of("int64"))), {"a": number})
            differs = REFUSED_YEARS if is_late else None
            found.append(changed("TimestampConverter$Value", settings, value, differs=differs))
            differs = ISO if target in ("Date", "Time", "Timestamp") and not is_late else None
            found.append(
                changed("TimestampConverter$Value", settings, message(None, {"a": number, "b": 1}), differs=differs)
            )
    outer = optional(
        "struct", fields=[field("a", {**logical_of("Timestamp"), "optional": True, "default": 5})], name="n"
    )
    for payload, more in product(({"a": None}, {"a": 7}, None), ({}, NULLS_STAY, {"field": "none"})):
        every = {"field": "a", "target.type": "unix", **more}
        found.append(changed("TimestampConverter$Value", every, message(outer, payload)))
    others = [(of("int32"), 1), (of("double"), 1.5), (None, 1.5), (None, True), (optional("int64"), None)]
    return [*found, *(changed("TimestampConverter$Value", {"target.type": "unix"}, message(*one)) for one in others)]


def routed() -> list[Case]:
    topics = ("${topic}-${timestamp}", "x", "${timestamp}.${topic}.${timestamp}", "$topic")
    return [
        changed("TimestampRouter", {"topic.format": topic, "timestamp.format": pattern}, message(None, 1), timestamp=ms)
        for topic, pattern, ms in product(topics, ("yyyyMMdd", "yyyy-MM", "HH"), MOMENTS[:5])
    ]


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


def more_transforms() -> list[Case]:
    return [
        *casts(),
        *fields(),
        *flattened(),
        *masked(),
        *headers(),
        *metadata(),
        *formatted(),
        *converted(),
        *routed(),
    ]


def cases() -> list[Case]:
    return [*primitives(), *floats(), *structures(), *logical(), *plain(), *transforms(), *more_transforms(), *texts()]


def main() -> None:
    asked = cases()
    write(OUTPUT, asked, answers(PROGRAM, peer.classpath(), asked))


if __name__ == "__main__":
    main()
