"""Records what Kafka's own converters and predicates make of values and bytes: `python tests/oracle/converters.py`.

Each case goes through the real classes of Kafka Connect 4.3.1. The cases with their answers are in
`tests/fixtures/connect-4.3.1/converters.json.gz`. Most are drawn by a seed, from values at the edges of their types. A
case whose answer is to differ says why in `differs`: a page of the docs has it.
"""

import base64
import json
import random
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))
from bench import peer

from oracle.java import Case, answers, write

OUTPUT = Path(__file__).parents[1] / "fixtures" / "connect-4.3.1" / "converters.json.gz"
PROGRAM = Path(__file__).with_name("ConnectConverters.java")
SEED = 31

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
HEADER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_CONVERTERS = "org.apache.kafka.connect.converters."
BYTES = _CONVERTERS + "ByteArrayConverter"
NUMBERS = {
    "INT16": _CONVERTERS + "ShortConverter",
    "INT32": _CONVERTERS + "IntegerConverter",
    "INT64": _CONVERTERS + "LongConverter",
    "FLOAT32": _CONVERTERS + "FloatConverter",
    "FLOAT64": _CONVERTERS + "DoubleConverter",
    "BOOLEAN": _CONVERTERS + "BooleanConverter",
}
INVALID = "invalid JSON is refused"
REFUSED = "what does not fit its schema is refused"
HALVES = "half of a surrogate pair is refused"
READ_BACK = "NaN, infinities and -0.0 are read as they are written"
NO_NUMBER = "NaN and infinities without a schema become null"
EXACT = "numbers without a schema keep their digits"
NO_SCHEMA = "decimals and large numbers need no schema"
RESCALED = "a decimal gets the scale of its schema"
STRUCTS = "a struct may have a default"
EARLY = "dates and timestamps are written as such"
GREGORIAN = "early dates are those of the Gregorian calendar"
NO_DATE = "a date that does not exist is a text"
WHOLE = "a text that only begins with a number, list or map is a text"
QUOTED = "quoted text in lists and maps is read as it was"
MIXED = "dates and numbers have no common schema"
OF_KAFKA = {NO_SCHEMA, RESCALED, STRUCTS}
"""The reasons for taking what Kafka's classes refuse."""

PREDICATES = "org.apache.kafka.connect.transforms.predicates."
LOGICAL = "org.apache.kafka.connect.data."

Typed = dict[str, Any]
Value = list[Any] | None

BITS = {"INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64}
TEXTS = ("", "x", "ä€😀", "\ud800", "a\udc00b", "\u0000", '"\\\n\t', "\u2028", "null", "1", "\x7f", "\ufeff", "y" * 300)
FLOATS64 = (
    "NaN",
    "Infinity",
    "-Infinity",
    "-0.0",
    "0.0",
    "0.1",
    "1e22",
    "1e-7",
    "4.9e-324",
    "1.7976931348623157e308",
    "123456789.125",
    "-1.5",
    "1e7",
    "9999999.0",
    "0.001",
    "0.00099",
    "1e21",
    "3.0e-5",
    "100",
)
FLOATS32 = (
    "NaN",
    "Infinity",
    "-0.0",
    "0.1",
    "3.4028235e38",
    "1.4e-45",
    "16777216",
    "123456.79",
    "1e10",
    "-1.5",
    "0.001",
)
DATA = (b"", b"\x00", b"\xff\xfe", "ä".encode(), bytes(range(40)))
DAYS = (0, 1, -1, 19000, -141428, -141427, -719162, 2932896, -200000)  # 1582-10-15 is the day -141427
MOMENTS = (0, 1, -1, 1700000000123, -12219292800000, -12219292800001, -62135596800000, 253402300799999, -1000000000001)
UNSCALED = (0, 1, -1, 255, 128, -128, -129, 10**30, -(10**40), 10**18, 99999)
SCALES = (0, 2, 50, -3, 400)


ALL_KINDS = (*BITS, "FLOAT32", "FLOAT64", "BOOLEAN", "STRING", "BYTES", "LOGICAL", "LOGICAL")
PRINTED_KINDS = (*BITS, "FLOAT32", "FLOAT64", "BOOLEAN", "STRING")
"""Java prints bytes as the address of an object, and dates in a form that we do not keep."""


def drawn_schema(rng: random.Random, depth: int, kinds: Sequence[str] = ALL_KINDS) -> Typed:
    """Return a schema of any type; with a name, a doc, parameters or a default now and then."""
    kind = rng.choice(kinds)
    if depth and rng.random() < 0.6:
        kind = rng.choice(["STRUCT", "STRUCT", "ARRAY", "MAP"])
    found = _logical(rng) if kind == "LOGICAL" else {"type": kind}
    if kind == "STRUCT":
        names = rng.sample(["a", "b", "c", "ä", "a.b", "schema"], rng.randint(0, 4))
        found["fields"] = [[name, drawn_schema(rng, depth - 1, kinds)] for name in names]
    if kind == "MAP":
        found["keys"] = {"type": rng.choice(["STRING", "STRING", "INT32", "BOOLEAN"])}
        if rng.random() < 0.2:
            found["keys"]["optional"] = True
    if kind in ("ARRAY", "MAP"):
        found["items"] = drawn_schema(rng, depth - 1, kinds)
    if kind != "LOGICAL" and rng.random() < 0.2:
        found |= {"name": rng.choice(["n", "com.x.Y"]), "version": rng.randint(1, 3)}
    if rng.random() < 0.15:
        found |= {"doc": "d", "parameters": {**found.get("parameters", {}), "p": "q"}}
    if rng.random() < 0.25 and '"STRUCT"' not in json.dumps(found):  # which Kafka's classes refuse
        found["default"] = drawn_value(rng, found)
    return {**found, "optional": rng.random() < 0.5}


def _logical(rng: random.Random) -> Typed:
    name = rng.choice(["Date", "Time", "Timestamp", "Decimal", "Decimal"])
    kind = {"Date": "INT32", "Time": "INT32", "Timestamp": "INT64", "Decimal": "BYTES"}[name]
    found: Typed = {"type": kind, "name": LOGICAL + name, "version": 1}
    return {**found, "parameters": {"scale": str(rng.choice(SCALES))}} if name == "Decimal" else found


def drawn_value(rng: random.Random, schema: Typed) -> Value:
    """Return a value that fits; null now and then where it may be."""
    if schema.get("optional") and rng.random() < 0.2:
        return None
    kind, name = schema["type"], schema.get("name", "").removeprefix(LOGICAL)
    drawn: Callable[[], Any] | None = {
        "Date": lambda: ["time", rng.choice(DAYS) * 86_400_000],
        "Time": lambda: ["time", rng.choice((0, 1, 86_399_999))],
        "Timestamp": lambda: ["time", rng.choice(MOMENTS)],
        "Decimal": lambda: ["decimal", [str(rng.choice(UNSCALED)), int(schema["parameters"]["scale"])]],
    }.get(name)
    if drawn is not None:
        return list(drawn())
    if kind in BITS:
        limit = 1 << (BITS[kind] - 1)
        return [kind.lower(), str(rng.choice((0, 1, -1, limit - 1, -limit, 42)))]
    if kind == "STRUCT":
        return ["struct", [drawn_value(rng, part) for _, part in schema["fields"]]]
    if kind == "ARRAY":
        return ["array", [drawn_value(rng, schema["items"]) for _ in range(rng.randint(0, 3))]]
    if kind == "MAP":
        keys = {json.dumps(drawn_value(rng, schema["keys"])) for _ in range(rng.randint(0, 2))}
        return ["map", [[json.loads(key), drawn_value(rng, schema["items"])] for key in sorted(keys)]]
    return {
        "FLOAT32": lambda: ["float32", rng.choice(FLOATS32)],
        "FLOAT64": lambda: ["float64", rng.choice(FLOATS64)],
        "BOOLEAN": lambda: ["boolean", rng.random() < 0.5],
        "STRING": lambda: ["string", rng.choice(TEXTS)],
        "BYTES": lambda: [rng.choice(("bytes", "bytes", "buffer")), base64.b64encode(rng.choice(DATA)).decode()],
    }[kind]()


def differing(case: Case, answer: Case) -> Case:
    """Return a case without the reason for another answer if both refuse it; with one if a text is half a character."""
    is_error = "error" in answer
    written = b"" if is_error or not answer.get("bytes") else base64.b64decode(answer["bytes"])
    if case.get("class") == JSON and any(half in written for half in (b'"\\uD800"', b"a\\uDC00b")):
        return {**case, "differs": HALVES}
    if is_error and case.get("differs") not in OF_KAFKA:
        return {key: item for key, item in case.items() if key != "differs"}
    return case


def because(reason: str | None) -> Case:
    return {} if reason is None else {"differs": reason}


def _reason_of_text(text: str) -> str | None:
    """Return why a drawn message is read in another way."""
    if '\\ud800"' in text or "a\\udc00b" in text:
        return INVALID
    return READ_BACK if "NaN" in text or "Infinity" in text or "-0.0" in text else None


def writing(name: str, settings: dict[str, str], schema: Typed | None, value: Value, **more: Any) -> Case:
    return {"class": name, "settings": settings, "schema": schema, "value": value, **more}


def reading(name: str, settings: dict[str, str], data: bytes | None, **more: Any) -> Case:
    return {
        "class": name,
        "settings": settings,
        "bytes": None if data is None else base64.b64encode(data).decode(),
        **more,
    }


def json_settings(rng: random.Random) -> dict[str, str]:
    found = {"schemas.enable": rng.choice(("true", "true", "false"))}
    for key, values in (
        ("decimal.format", ("BASE64", "NUMERIC", "numeric")),
        ("replace.null.with.default", ("true", "false")),
        ("schemas.cache.size", ("1", "1000")),
    ):
        if rng.random() < 0.5:
            found[key] = rng.choice(values)
    return found


def json_writing(rng: random.Random) -> list[Case]:
    found = []
    for number in range(220):
        schema = drawn_schema(rng, number % 4)
        more = {"is_header": True} if number % 7 == 0 else {}
        found.append(writing(JSON, json_settings(rng), schema, drawn_value(rng, schema), **more))
    for value in SCHEMALESS:
        reason = NO_NUMBER if value in (["float64", "NaN"], ["float64", "-Infinity"]) else None
        reason = NO_SCHEMA if value is not None and value[0] in ("decimal", "big") else reason
        for enabled in ("true", "false"):
            found.append(writing(JSON, {"schemas.enable": enabled}, None, value, **because(reason)))
    misfits: list[tuple[Typed, Value]] = [
        ({"type": "INT32"}, ["string", "x"]),
        ({"type": "INT8"}, ["int32", "500"]),
        ({"type": "STRING"}, ["int32", "5"]),
        ({"type": "INT32"}, None),
        ({"type": "BYTES"}, ["string", "x"]),
        ({"type": "BOOLEAN"}, ["int32", "1"]),
        ({"type": "FLOAT64"}, ["string", "1"]),
        ({"type": "BYTES", "name": LOGICAL + "Decimal", "parameters": {"scale": "2"}}, ["decimal", ["5", 3]]),
        ({"type": "BYTES", "name": LOGICAL + "Decimal"}, ["decimal", ["5", 3]]),
        ({"type": "INT32", "name": LOGICAL + "Time"}, ["time", 86_400_000]),
        ({"type": "INT32", "name": LOGICAL + "Date"}, ["time", 1]),
        ({"type": "ARRAY", "items": {"type": "INT32"}}, ["array", [["string", "x"]]]),
        ({"type": "ARRAY", "items": {"type": "INT32"}}, ["array", [None]]),
        (
            {"type": "MAP", "keys": {"type": "STRING"}, "items": {"type": "INT32"}},
            ["map", [[["int32", "1"], ["int32", "1"]]]],
        ),
    ]
    found += [writing(JSON, {}, schema, value) for schema, value in misfits]
    by_text = {"type": "MAP", "keys": {"type": "STRING", "optional": True}, "items": {"type": "INT32"}}
    found.append(writing(JSON, {}, by_text, ["map", [[None, ["int32", "1"]], [["string", "a"], ["int32", "2"]]]]))
    for number, scale in product(UNSCALED, SCALES):
        schema = {"type": "BYTES", "name": LOGICAL + "Decimal", "version": 1, "parameters": {"scale": str(scale)}}
        found.append(writing(JSON, {"decimal.format": "NUMERIC"}, schema, ["decimal", [str(number), scale]]))
    short = {"type": "BYTES", "name": LOGICAL + "Decimal", "parameters": {"scale": "2"}}
    return [*found, writing(JSON, {}, short, ["decimal", ["5", 1]], differs=RESCALED)]


SCHEMALESS: list[Value] = [
    None,
    ["int8", "5"],
    ["int64", str((1 << 63) - 1)],
    ["float64", "NaN"],
    ["float64", "-Infinity"],
    ["float64", "-0.0"],
    ["float64", "1e22"],
    ["boolean", True],
    ["string", "\ud800"],
    ["string", ""],
    ["bytes", "AP8="],
    ["buffer", "AP8="],
    ["decimal", ["12345", 2]],
    ["decimal", ["1", -3]],
    ["array", []],
    ["array", [None, ["int32", "1"]]],
    ["map", []],
    ["map", [[["string", "a"], None]]],
    ["map", [[["int32", "1"], ["string", "x"]]]],
    ["map", [[["string", "a"], ["int32", "1"]], [["int32", "1"], ["int32", "2"]]]],
    ["map", [[None, ["int32", "1"]]]],
    ["array", [["map", [[["string", "a"], ["array", [["float64", "1.5"]]]]]]]],
    ["big", "12345678901234567890123"],
]


def json_of(schema: Typed) -> dict[str, Any]:
    """Return a schema as JsonConverter's envelope has it."""
    kind = {"FLOAT32": "float", "FLOAT64": "double"}.get(schema["type"], schema["type"].lower())
    found: dict[str, Any] = {"type": kind, "optional": schema.get("optional", False)}
    found |= {key: schema[key] for key in ("name", "version", "doc", "parameters") if key in schema}
    if "fields" in schema:
        found["fields"] = [{**json_of(part), "field": name} for name, part in schema["fields"]]
    if "keys" in schema:
        found["keys"], found["values"] = json_of(schema["keys"]), json_of(schema["items"])
    elif "items" in schema:
        found["items"] = json_of(schema["items"])
    if schema.get("default") is not None:
        found["default"] = payload_of(schema, schema["default"])
    return found


def payload_of(schema: Typed, value: Value) -> Any:
    """Return a value as JsonConverter writes it."""
    if value is None:
        return None
    kind, content = value
    if kind == "decimal":
        number = int(content[0])
        return base64.b64encode(
            number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, signed=True)
        ).decode()
    if kind == "time":
        return content // 86_400_000 if schema["name"] == f"{LOGICAL}Date" else content
    if kind.startswith("int"):
        return int(content)
    if kind.startswith("float"):
        number = float(content)
        return content if number != number or abs(number) == float("inf") else number
    if kind == "array":
        return [payload_of(schema["items"], one) for one in content]
    if kind == "map":
        pairs = [[payload_of(schema["keys"], key), payload_of(schema["items"], item)] for key, item in content]
        is_object = schema["keys"]["type"] == "STRING" and all(isinstance(key, str) for key, _ in pairs)
        return dict(pairs) if is_object else pairs
    if kind == "struct":
        return {name: payload_of(part, one) for (name, part), one in zip(schema["fields"], content, strict=True)}
    return content


def json_reading(rng: random.Random) -> list[Case]:
    found = []
    for number in range(220):
        schema = drawn_schema(rng, number % 4)
        envelope = {"schema": json_of(schema), "payload": payload_of(schema, drawn_value(rng, schema))}
        more = {"is_header": True} if number % 7 == 0 else {}
        settings = {**json_settings(rng), "schemas.enable": "true"}
        text = json.dumps(envelope)
        found.append(reading(JSON, settings, text.encode(), **more, **because(_reason_of_text(text))))
    for text in PLAIN_TEXTS:
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        reason = because(DIFFERENT_TEXTS.get(text))
        found.append(reading(JSON, {"schemas.enable": "false"}, data, **reason))
        found.append(reading(JSON, {}, b'{"schema":null,"payload":' + data + b"}", **reason))
    for text in ENVELOPES:
        for settings in ({}, {"replace.null.with.default": "false"}):
            reason = STRUCTS if '"default":{' in text and not settings else REFUSED if '"default":"x"' in text else None
            found.append(reading(JSON, settings, text.encode(), **because(reason)))
    items = {"type": "ARRAY", "items": {"type": "INT32", "optional": True, "default": ["int32", "7"]}}
    envelope = {"schema": json_of({**items, "default": ["array", [None, ["int32", "1"]]]}), "payload": [None]}
    for replaced in ("true", "false"):
        found.append(reading(JSON, {"replace.null.with.default": replaced}, json.dumps(envelope).encode()))
    return [*found, reading(JSON, {}, None), reading(JSON, {"schemas.enable": "false"}, None)]


DIFFERENT_TEXTS: dict[str | bytes, str] = {
    "-0.0": READ_BACK,
    "1E400": INVALID,
    "9223372036854775808": EXACT,
    "-9223372036854775809": EXACT,
    "12345678901234567890123": EXACT,
    "1.00000000000000000001": EXACT,
    "1e-400": EXACT,
    '"\\ud800"': INVALID,
    "01": INVALID,
    "1 2": INVALID,
    "": INVALID,
    " ": INVALID,
    "\ufeff1": INVALID,
}
PLAIN_TEXTS: list[str | bytes] = [
    "1",
    "-0",
    "-0.0",
    "1.0",
    "1e2",
    "1E400",
    "0.1",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "12345678901234567890123",
    "1.00000000000000000001",
    "1e-400",
    "true",
    "null",
    "[]",
    "{}",
    '""',
    '"\\ud800"',
    '"\\u0000"',
    '"ä"',
    '{"a":{"a":{"a":null}}}',
    "[[[[1]]]]",
    '{"a":1,"a":2}',
    "[1,]",
    "{a:1}",
    "'x'",
    "01",
    "+1",
    ".5",
    "1.",
    "NaN",
    "Infinity",
    "/**/1",
    "1 2",
    "",
    " ",
    "\ufeff1",
    "[1",
    "tru",
    b"\xff",
    b'"\xff"',
    b"\x00",
    "-",
    "1e",
    '"\t"',
    "[" * 200 + "]" * 200,
]

ENVELOPES = [
    "{}",
    "[]",
    "1",
    '{"schema":null}',
    '{"payload":1}',
    '{"schema":null,"payload":1,"x":1}',
    '{"schema":{},"payload":1}',
    '{"schema":1,"payload":1}',
    '{"schema":"int32","payload":1}',
    '{"schema":{"type":"int32"},"payload":1}',
    '{"schema":{"type":"INT32","optional":false},"payload":1}',
    '{"schema":{"type":"int32","optional":"true"},"payload":null}',
    '{"schema":{"type":"int32","optional":true,"version":"1"},"payload":1}',
    '{"schema":{"type":"int32","version":1.5},"payload":1}',
    '{"schema":{"type":"int32","name":5},"payload":1}',
    '{"schema":{"type":"int32","doc":null},"payload":1}',
    '{"schema":{"type":"array"},"payload":[]}',
    '{"schema":{"type":"map","keys":{"type":"string"}},"payload":{}}',
    '{"schema":{"type":"struct"},"payload":{}}',
    '{"schema":{"type":"struct","fields":{}},"payload":{}}',
    '{"schema":{"type":"struct","fields":[{"type":"int32"}]},"payload":{}}',
    '{"schema":{"type":"struct","fields":[{"type":"int32","field":"a","optional":true,"default":4}]},"payload":{}}',
    '{"schema":{"type":"struct","fields":[{"type":"int32","field":"a"}]},"payload":{}}',
    '{"schema":{"type":"struct","fields":[]},"payload":{"x":1}}',
    '{"schema":{"type":"struct","fields":[],"optional":true},"payload":null}',
    '{"payload":1,"schema":{"type":"int32","optional":false}}',
    '{"schema":{"type":"bytes"},"payload":"A"}',
    '{"schema":{"type":"bytes"},"payload":"AQ"}',
    '{"schema":{"type":"bytes"},"payload":"A Q="}',
    '{"schema":{"type":"bytes"},"payload":"-_8="}',
    '{"schema":{"type":"int32","parameters":{"a":"b"}},"payload":1}',
    '{"schema":{"type":"int32","parameters":[]},"payload":1}',
    '{"schema":{"type":"int32","default":"x"},"payload":1}',
    '{"schema":{"type":"int32","default":null,"optional":true},"payload":null}',
    '{"schema":{"type":"string","default":"d"},"payload":null}',
    '{"schema":{"type":"struct","fields":[{"type":"string","field":"a","default":"d"}],"default":{"a":"e"}},"payload":null}',
    '{"schema":{"type":"array","items":{"type":"int32"},"default":[1,2]},"payload":null}',
    '{"schema":{"type":"map","keys":{"type":"string"},"values":{"type":"int32"}},"payload":{"a":1,"b":2}}',
    '{"schema":{"type":"map","keys":{"type":"int32"},"values":{"type":"int32"}},"payload":[[1,2],[1,3]]}',
    '{"schema":{"type":"map","keys":{"type":"int32"},"values":{"type":"int32"}},"payload":[[1]]}',
    '{"schema":{"type":"map","keys":{"type":"string","optional":true},"values":{"type":"int32"}},"payload":{"":1}}',
    '{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"},"payload":"AQ=="}',
    '{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}},"payload":1.25}',
    '{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}},"payload":""}',
    '{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"x"}},"payload":"AQ=="}',
    '{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"30"}},"payload":0.123456789012345678901234567890}',
    '{"schema":{"type":"int64","name":"org.apache.kafka.connect.data.Date"},"payload":1}',
    '{"schema":{"type":"string","name":"org.apache.kafka.connect.data.Timestamp"},"payload":"x"}',
]


CONTENT: Typed = {
    "type": "STRUCT",
    "name": "shop.Order",
    "fields": [
        ["id", {"type": "INT64"}],
        ["note", {"type": "STRING", "optional": True, "default": ["string", "none"]}],
        [
            "total",
            {
                "type": "BYTES",
                "name": LOGICAL + "Decimal",
                "version": 1,
                "parameters": {"scale": "2"},
                "optional": True,
            },
        ],
        ["at", {"type": "INT64", "name": LOGICAL + "Timestamp", "version": 1, "optional": True}],
    ],
}
CONTENT_TEXTS: list[str | None] = [
    '{"id":1}',
    '{"id":1,"note":null}',
    '{"id":1,"note":"x","total":"AQA=","at":1700000000123,"more":1}',
    '{"id":1,"total":12.34}',
    "{}",
    "[]",
    "null",
    "1",
    '"x"',
    "",
    "{",
    '{"schema":null,"payload":{"id":1}}',
    '{"schema":{"type":"int32"},"payload":5}',
    '{"schema":{"type":"struct","fields":[{"field":"id","type":"int64"}]},"payload":{"id":1}}',
    '{"payload":{"id":1}}',
    '{"id":1,"schema":2,"payload":3}',
    '{"schema":{"id":1},"payload":{"id":2},"id":3}',
    None,
]
CONTENTS: dict[str, tuple[str, ...] | None] = {
    **dict.fromkeys(("", "x", "{}", "null", "[]", '{"type":"nope"}', '{"schema":{"type":"int32"}}')),
    '{"type":"int32"}': ("1",),
    '{"type":"int32","optional":true}': ("1",),
    '{"type":"string","default":"d"}': ('"x"',),
    '{"type":"struct","fields":[{"field":"schema","type":"string"},{"field":"payload","type":"int32"}]}': None,
    '{"type":"array","items":{"type":"int64"}}': ("[1]",),
    '{"type":"bytes"}': ('"x"',),
    '{"type":"double"}': ("1", "1.5"),
}
"""Texts of schemas, and those of the messages that fit."""


def contents(rng: random.Random) -> list[Case]:
    """Schemas given once, in the settings."""
    found = []
    given = {"schema.content": json.dumps(json_of(CONTENT))}
    for text in CONTENT_TEXTS:
        data = None if text is None else text.encode()
        for more in ({}, {"schemas.enable": "false"}, {"replace.null.with.default": "false"}):
            found.append(reading(JSON, {**given, **more}, data, **because(INVALID if text == "" else None)))
    for content, fitting in CONTENTS.items():
        for text in ("1", "null", '"x"', "[1]", '{"schema":"a","payload":1}', "1.5"):
            reason = because(None if fitting is None or text in (*fitting, "null") else REFUSED)
            found.append(reading(JSON, {"schema.content": content}, text.encode(), **reason))
        found.append(reading(JSON, {"schema.content": content, "schemas.enable": "false"}, b"1"))
        found.append(writing(JSON, {"schema.content": content}, {"type": "INT64"}, ["int64", "1"]))
        found.append(writing(JSON, {"schema.content": content}, None, ["string", "x"]))
    for number in range(40):
        schema = drawn_schema(rng, number % 4)
        text = json.dumps(payload_of(schema, drawn_value(rng, schema)))
        more = {"is_header": True} if number % 7 == 0 else {}
        content = json.dumps(json_of(schema))
        reason = because(_reason_of_text(content + text))
        found.append(reading(JSON, {"schema.content": content}, text.encode(), **more, **reason))
    return found


def texts(rng: random.Random) -> list[Case]:
    found = []
    for encoding in ("UTF-8", "ISO-8859-1", "US-ASCII", "UTF-16", "UTF-16LE", "nope"):
        settings = {"converter.encoding": encoding}
        for text in TEXTS[:9]:
            found.append(writing(STRING, settings, {"type": "STRING"}, ["string", text]))
        for data in (*DATA[:4], b"\xe4", b"\xf0\x9f", b"\xed\xa0\x80", b"\xc0\x80", "x".encode("utf-16")):
            found.append(reading(STRING, settings, data))
    for number in range(60):
        schema = drawn_schema(rng, number % 3, PRINTED_KINDS)
        found.append(writing(STRING, {}, schema, drawn_value(rng, schema)))
    found += [
        writing(STRING, {}, None, value) for value in SCHEMALESS if value is None or value[0] not in ("bytes", "buffer")
    ]
    found += [writing(STRING, {}, {"type": "STRING"}, None), reading(STRING, {}, None)]
    for text in TEXTS[:5]:
        found.append(writing(STRING, {}, {"type": "STRING"}, ["string", text], is_header=True))
        found.append(reading(STRING, {}, text.encode("utf-8", "replace"), is_header=True))
    return found


def numbers() -> list[Case]:
    found = []
    for kind, name in NUMBERS.items():
        values: list[Value] = [
            ["boolean", True],
            ["boolean", False],
            ["string", "1"],
            ["float32", "0.1"],
            ["float64", "-0.0"],
            None,
        ]
        values += [
            ["float32", "NaN"],
            ["float64", "NaN"],
            ["float64", "1e300"],
            ["float32", "3.4028235e38"],
            ["float64", "Infinity"],
        ]
        for width, bits in BITS.items():
            limit = 1 << (bits - 1)
            values += [[width.lower(), str(number)] for number in (0, -1, limit - 1, -limit)]
        for value in values:
            fits = value is None or value[0].upper() == kind
            found.append(writing(name, {}, {"type": kind if value is None else value[0].upper()}, value))
            if fits:
                found.append(writing(name, {}, {"type": kind, "optional": True}, value, is_header=True))
                found.append(writing(name, {}, None, value))
        found.append(writing(name, {}, {"type": "STRING", "optional": True}, None))
        for data in (
            None,
            b"",
            b"\x00",
            b"\x01",
            b"\x02",
            b"\xff",
            b"\x00\x01",
            b"\x80\x00",
            b"\x7f\xff\xff\xff",
            b"\xff\xc0\x00\x00",
            b"\x7f\xf8\x00\x00\x00\x00\x00\x00",
            b"\x80" + b"\x00" * 7,
            b"\xff" * 8,
            b"x" * 9,
        ):
            found += [reading(name, {}, data), reading(name, {}, data, is_header=True)]
    return found


def raw_bytes() -> list[Case]:
    found: list[Case] = []
    for data in DATA:
        text = base64.b64encode(data).decode()
        for schema, kind in product(
            (None, {"type": "BYTES"}, {"type": "BYTES", "optional": True}), ("bytes", "buffer")
        ):
            found.append(writing(BYTES, {}, schema, [kind, text]))
        found += [reading(BYTES, {}, data), reading(BYTES, {}, data, is_header=True)]
        found.append(writing(BYTES, {}, {"type": "BYTES"}, ["bytes", text], is_header=True))
    wrong: list[tuple[Typed | None, Value]] = [
        ({"type": "STRING"}, ["string", "x"]),
        (None, ["string", "x"]),
        (None, ["int32", "1"]),
        (None, None),
        ({"type": "BYTES"}, None),
        ({"type": "STRING"}, None),
    ]
    return [*found, *(writing(BYTES, {}, schema, value) for schema, value in wrong), reading(BYTES, {}, None)]


LITERALS = (
    "text",
    "5",
    "-300",
    "70000",
    "3000000000",
    "99999999999999999999",
    "1.5",
    "-0.0",
    "1e3",
    "1E400",
    "NaN",
    "true",
    "TRUE",
    "false",
    "null",
    "",
    " ",
    " 5",
    "5 ",
    "+5",
    ".5",
    "5.",
    "0x10",
    "1_000",
    "[1,2]",
    "[]",
    "{}",
    '{"a":1}',
    '{"a":"b"}',
    '["a","b"]',
    '[1,"a"]',
    "[1",
    "{a:b}",
    '"quoted"',
    '"a\\"b"',
    "2026-01-02",
    "03:04:05.678Z",
    "2026-01-02T03:04:05.678Z",
    "2026-01-02T03:04:05Z",
    "10000-01-01",
    "ä",
    "\\",
    "a,b",
    "a:b",
    "[,]",
    "{,}",
    "[null]",
    '{"a":null}',
    "--1",
    "1-1",
    "[1.5,2]",
    "[true]",
    "\u0000",
)


DIFFERENT_LITERALS = {
    "2026-13-01": NO_DATE,
    "1500-01-02": GREGORIAN,
    "0001-01-01": GREGORIAN,
    "5,6": WHOLE,
    "[1] x": WHOLE,
    "1:2": WHOLE,
    '["a, "]': QUOTED,
    '["a\\"b"]': QUOTED,
    '[1,"2026-01-02"]': MIXED,
}


def drawn_literal(rng: random.Random, depth: int) -> str:
    """Return a text of lists and maps, some with faults."""
    if not depth or rng.random() < 0.3:
        return rng.choice(('"a"', '""', "1", "-300", "70000", "1.5", "1e3", "1e300", "true", "null", "x"))
    if rng.random() < 0.5:
        return "[" + ",".join(drawn_literal(rng, depth - 1) for _ in range(rng.randint(0, 3))) + "]"
    keys = rng.choice((('"a"', '"b"', '"ä"'), ("1", "300", "2"), ("true", '"t"', "1.5")))
    pairs = (f"{key}:{drawn_literal(rng, depth - 1)}" for key in rng.sample(keys, rng.randint(0, 3)))
    return "{" + rng.choice((",", ", ")).join(pairs) + "}"


def headers(rng: random.Random) -> list[Case]:
    found = [
        reading(HEADER, {}, text.encode(), is_header=True, **because(DIFFERENT_LITERALS.get(text)))
        for text in (*LITERALS, *DIFFERENT_LITERALS)
    ]
    found += [reading(HEADER, {}, drawn_literal(rng, 3).encode(), is_header=True) for _ in range(150)]
    found += [reading(HEADER, {}, data, is_header=True) for data in (None, b"\xff", b"\x00\x01")]
    found += [writing(HEADER, {}, None, value, is_header=True) for value in SCHEMALESS]
    for number in range(60):
        schema = drawn_schema(rng, number % 3, (*PRINTED_KINDS, "BYTES"))
        found.append(writing(HEADER, {}, schema, drawn_value(rng, schema), is_header=True))
    for name, ms in product(
        ("Date", "Time", "Timestamp"), (0, 1, 86_399_999, 86_400_000, 1_700_000_000_123, -1, -14_831_683_200_000)
    ):
        if (name == "Date" and ms % 86_400_000) or (name == "Time" and not 0 <= ms < 86_400_000):
            continue
        schema = {"type": "INT64" if name == "Timestamp" else "INT32", "name": LOGICAL + name, "version": 1}
        is_midnight = name == "Timestamp" and not ms % 86_400_000
        reason = because(EARLY if name != "Time" and (ms < 86_400_000 or is_midnight) else None)
        found.append(writing(HEADER, {}, schema, ["time", ms], is_header=True, **reason))
    for number, scale in product(UNSCALED, SCALES):
        schema = {"type": "BYTES", "name": LOGICAL + "Decimal", "version": 1, "parameters": {"scale": str(scale)}}
        found.append(writing(HEADER, {}, schema, ["decimal", [str(number), scale]], is_header=True))
    for name in (JSON, STRING, BYTES):
        found += [reading(name, {}, text.encode(), is_header=True) for text in LITERALS[:6]]
    return found


def predicates() -> list[Case]:
    topics = ("orders", "orders-1", "Orders", "", "my.topic", "a\nb", "orders\n", "9", "_x", "a b")
    patterns = (
        "orders",
        "orders.*",
        "(?i)orders",
        "^orders$",
        "ord",
        ".*",
        "",
        "my\\.topic",
        "my.topic",
        "[a-z]+",
        "\\w+",
        "\\d",
        "\\p{Alpha}+",
        "(orders|9)",
        "a.b",
        "(?s)a.b",
        "\\S+",
        "\\Qmy.topic\\E",
        "[^-]*",
        "orders(?!-)",
        "(?:ord)ers",
        "\\p{Lower}*",
        "[[a-f][o-z]]*",
        "[a-z&&[^o]]*",
        "(",
        "*",
        "a++",
        "(?<n>o)rders",
        "\\h",
        "\\R",
        "x{1,2",
        "\\u006frders",
        "\\p{L}+",
        "orders\\z",
        "orders\\Z",
        "\\Aorders",
        "\\x6frders",
        "(?>ord)ers",
        "ord*+ers",
        "[\\w.]+",
        "\\bmy\\b.*",
        "(?x) o r d e r s",
        "orders$",
        ".rders|.",
    )
    found: list[Case] = [
        {"predicate": f"{PREDICATES}TopicNameMatches", "settings": {"pattern": pattern}, "topic": topic}
        for pattern, topic in product(patterns, topics)
    ]
    for name, given in product(
        ("a", "A", "", "ä", " "), ([], ["a"], ["b"], ["b", "a"], ["a", "a"], ["A"], [""], ["ä"])
    ):
        found.append(
            {"predicate": f"{PREDICATES}HasHeaderKey", "settings": {"name": name}, "topic": "t", "headers": given}
        )
    for is_tombstone in (True, False):
        found.append(
            {"predicate": f"{PREDICATES}RecordIsTombstone", "settings": {}, "topic": "t", "is_tombstone": is_tombstone}
        )
    return found


def cases() -> list[Case]:
    rng = random.Random(SEED)
    drawn = [*json_writing(rng), *json_reading(rng), *contents(rng), *texts(rng), *headers(rng)]
    return [*drawn, *numbers(), *raw_bytes(), *predicates()]


def main() -> None:
    asked = cases()
    found = answers(PROGRAM, peer.classpath(), asked)
    write(OUTPUT, [differing(*pair) for pair in zip(asked, found, strict=True)], found)


if __name__ == "__main__":
    main()
