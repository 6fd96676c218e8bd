"""Records what Debezium's own transforms make of change events: `python tests/oracle/debezium.py`.

Each case goes through the real classes of Debezium 3.6.1, in Kafka Connect 4.3.1. The cases with their answers are in
`tests/fixtures/debezium-3.6.1/values.json.gz`. The jars are those of Debezium's archive of its PostgreSQL connector.
"""

import os
import random
import sys
from itertools import cycle, product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))
from bench import peer

from fencepost.embedded import checksum, home
from fencepost.embedded.home import default_cache
from fencepost.embedded.java import find_java
from oracle.java import answers, write
from oracle.values import ENVELOPE, LOGICAL, Case, field, message, of, optional, struct

VERSION = "3.6.1.Final"
MODULES = (
    "debezium-api",
    "debezium-config",
    "debezium-connect-plugins",
    "debezium-connector-common",
    "debezium-openlineage-api",
    "debezium-util",
)
LISTED = Path(__file__).with_name("debezium.sha256")
PROGRAM = Path(__file__).with_name("ConnectValues.java")
OUTPUT = Path(__file__).parents[1] / "fixtures" / "debezium-3.6.1" / "values.json.gz"

NO_NAME = "a reference without a name is refused"
NULL_STRUCT = "a struct is refused as a metadata field, also where it is null"
REST_OF_TEXT = "text after the JSON, and numbers that do not fit, keep the payload as it is"
KEPT = "a payload that cannot be expanded is kept"
ARRAYS = "an array is expanded"
MERGED = "structs of an array have the fields of all of them"

UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
OUTBOX = "io.debezium.transforms.outbox.EventRouter"
MODES = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")

SOURCE = struct(
    field("version", of("string")),
    field("connector", of("string")),
    field("name", of("string")),
    field("ts_ms", of("int64")),
    field("snapshot", optional("string", default="false", name="io.debezium.data.Enum", version=1)),
    field("db", of("string")),
    field("table", of("string")),
    field("lsn", optional("int64")),
    name="io.debezium.connector.postgresql.Source",
)
TRANSACTION = optional(
    "struct",
    fields=[field("id", of("string")), field("total_order", of("int64")), field("data_collection_order", of("int64"))],
    name="event.block",
    version=1,
)
ROW = optional(
    "struct",
    fields=[
        field("id", of("int32")),
        field("name", optional("string")),
        field("count", optional("int32", default=7)),
        field("destination", optional("string", default="elsewhere")),
        field("at", optional("int64", name="io.debezium.time.MicroTimestamp", version=1)),
    ],
    name="server1.inventory.orders.Value",
)


def envelope(row: Any = ROW, name: str = "server1.inventory.orders.Envelope", **more: Any) -> dict[str, Any]:
    return struct(
        field("before", row),
        field("after", row),
        field("source", SOURCE),
        field("op", of("string")),
        field("ts_ms", optional("int64")),
        field("ts_us", optional("int64")),
        field("transaction", TRANSACTION),
        name=name,
        **more,
    )


def event(op: str | None, before: Any, after: Any, **more: Any) -> dict[str, Any]:
    """Return the payload of a change event."""
    source = {
        "version": "3.6.1.Final",
        "connector": "postgresql",
        "name": "server1",
        "ts_ms": 1700000000100,
        "snapshot": None,
        "db": "inventory",
        "table": "orders",
        "lsn": None,
    }
    transaction = {"id": "tx1", "total_order": 3, "data_collection_order": 2}
    return {
        "before": before,
        "after": after,
        "source": {**source, **more.pop("source", {})},
        "op": op,
        "ts_ms": 1700000000200,
        "ts_us": 1700000000200300,
        "transaction": transaction,
        **more,
    }


def changed(base: dict[str, Any], *, without: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return an envelope's schema as other transforms may leave it: without fields, and with more or other ones."""
    given = {one["field"]: one for one in base["fields"] if one["field"] not in without}
    return {**base, "fields": list({**given, **{name: field(name, schema) for name, schema in more.items()}}.values())}


KEY = message(
    struct(field("id", of("int32")), field("name", optional("string")), name="server1.Key"), {"id": 1, "name": "k"}
)
OLD = {"id": 1, "name": "old", "count": None, "destination": None, "at": 1}
NEW = {"id": 1, "name": None, "count": None, "destination": "there", "at": None}
EVENTS = (("c", None, NEW), ("r", None, NEW), ("u", OLD, NEW), ("u", None, NEW), ("d", OLD, None), ("t", None, None))


def transformed(name: str, settings: dict[str, str], value: str | None, **more: Any) -> Case:
    return {
        "converter": {**ENVELOPE, "replace.null.with.default": "false"},
        "value": value,
        "key": KEY,
        "whole": True,
        "transform": {"type": name, **settings},
        **more,
    }


def unwrapped(settings: dict[str, str], value: str | None, **more: Any) -> Case:
    return transformed(UNWRAP, settings, value, **more)


def deletes() -> list[Case]:
    found = []
    for mode, (op, before, after) in product(MODES, EVENTS):
        for added in ({}, {"add.fields": "op,table", "add.headers": "op,source.ts_ms"}):
            settings = {"delete.tombstone.handling.mode": mode, **added}
            found.append(unwrapped(settings, message(envelope(), event(op, before, after))))
    for mode in (*MODES, "REWRITE", "none"):
        for settings in ({}, {"add.headers": "op"}, {"route.by.field": "name"}):
            found.append(unwrapped({"delete.tombstone.handling.mode": mode, **settings}, None))
            found.append(unwrapped({"delete.tombstone.handling.mode": mode, **settings}, message(envelope(), None)))
    return found


REFERENCES = (
    "op", "ts_ms", "ts_us", "ts_ns", "source.ts_ms", "table,lsn,snapshot", "id,total_order,data_collection_order",
    "transaction.id", "source.snapshot", "none", "source.none", "none.op", "before.name", "op:OPERATION",
    "source.ts_ms:AT,table:TABLE", "op, table", " op ,db ", "a.b.c", "op:", ":x", "op:a:b", "source", "transaction",
    "name", "after.name", "op,op",
)  # fmt: skip


def metadata() -> list[Case]:
    found = []
    for text, key in product(REFERENCES, ("add.fields", "add.headers")):
        more = {"differs": NO_NAME} if text == ":x" else {}
        found.append(unwrapped({key: text}, message(envelope(), event("u", OLD, NEW)), **more))
    for prefix in ("", "x.", "__"):
        for key in ("add.fields", "add.headers"):
            found.append(
                unwrapped({key: "op,source.lsn", f"{key}.prefix": prefix}, message(envelope(), event("c", None, NEW)))
            )
    short = event("c", None, NEW, transaction=None)
    for replaced, (op, before, after) in product(("true", "false"), EVENTS[:5]):
        settings = {"add.fields": "snapshot,id,lsn", "replace.null.with.default": replaced}
        settings |= {"delete.tombstone.handling.mode": "rewrite", "add.headers": "snapshot,total_order"}
        found.append(unwrapped(settings, message(envelope(), {**short, "op": op, "before": before, "after": after})))
    return found


def dropped() -> list[Case]:
    texts = of("array", items=of("string"))
    lists = [["name"], ["id"], ["name", "id", "none"], [], ["id", "name", "count", "destination", "at"]]
    given: list[list[list[str]]] = [[["drop", message(texts, one)]] for one in lists]
    given += [
        [],
        [["drop", message(texts, ["name"])], ["drop", message(texts, ["count"])]],
        [["drop", message(None, ["name"])]],
        [["drop", message(of("string"), "name")]],
        [["drop", message(optional("string"), None)]],
    ]
    found = []
    for headers in given:
        for from_key, keeps, (op, before, after) in product(("true", "false"), ("true", "false"), EVENTS[2:5:2]):
            settings = {
                "drop.fields.header.name": "drop",
                "drop.fields.from.key": from_key,
                "drop.fields.keep.schema.compatible": keeps,
                "delete.tombstone.handling.mode": "rewrite",
            }
            found.append(unwrapped(settings, message(envelope(), event(op, before, after)), headers=headers))
    settings = {"drop.fields.header.name": "drop", "drop.fields.from.key": "true"}
    found.append(unwrapped(settings, message(envelope(), event("u", OLD, NEW)), headers=given[0], key=None))
    found.append(unwrapped(settings, None, headers=given[0]))
    return found


def routes() -> list[Case]:
    found = []
    for name, mode in product(
        ("name", "destination", "id", "none", ""), ("tombstone", "rewrite", "delete-to-tombstone")
    ):
        for op, before, after in EVENTS[1:5]:
            settings = {"route.by.field": name, "delete.tombstone.handling.mode": mode}
            found.append(unwrapped(settings, message(envelope(), event(op, before, after))))
    return found


def other_records() -> list[Case]:
    rows = (
        message(ROW, NEW),
        message(None, {"after": NEW, "op": "c"}),
        message(of("string"), "x"),
        message(of("string", name="x.Envelope"), "x"),
        message(
            optional("struct", fields=[field("after", ROW), field("op", of("string"))], name="a.Envelope"),
            {"after": NEW, "op": "c"},
        ),
        message(optional("struct", fields=[field("after", ROW)], name="a.Envelope"), {"after": NEW}),
        message(optional("struct", fields=[field("op", of("string"))], name="a.Envelope"), {"op": "c"}),
        message(envelope(), event("c", None, None)),
        message(envelope(), event("d", None, None)),
        message(envelope(), event("x", OLD, NEW)),
        message(envelope(), event("m", None, None)),
        message(envelope(), event("c", OLD, None)),
        message(envelope(), event("x", OLD, None)),
        message(envelope(), event("d", OLD, NEW)),
        message(envelope(), event("d", None, NEW)),
        message(changed(envelope(), op=optional("string")), event(None, OLD, NEW)),
        message(changed(envelope(), op=optional("string")), event(None, OLD, None)),
        message(envelope(name="Envelope"), event("c", None, NEW)),
        message(envelope(name="a.envelope"), event("c", None, NEW)),
        message(envelope(name="a.Envelope.b"), event("c", None, NEW)),
    )
    found = []
    for row, settings in product(
        rows, ({}, {"add.fields": "op", "delete.tombstone.handling.mode": "rewrite"}, {"add.headers": "op"})
    ):
        found += [unwrapped(settings, row), unwrapped(settings, row, sink=True), transformed(OUTBOX, {}, row)]
    return found


INSERTED = {"region": of("string"), "db": optional("string", default="none"), "lines": of("array", items=of("int32"))}
CHANGED = (
    (changed(envelope(), **INSERTED), {"region": "eu", "db": None, "lines": [1]}),
    (changed(envelope(), at=of("int64", name=f"{LOGICAL}Timestamp", version=1), id=of("int32")), {"at": 5, "id": 9}),
    (changed(envelope(), none=of("int32"), snapshot=of("boolean")), {"none": 4, "snapshot": True}),
    (changed(envelope(), extra=of("struct", fields=[field("x", of("int32"))])), {"extra": {"x": 1}}),
    (changed(envelope(), extra=optional("struct", fields=[field("x", of("int32"))])), {"extra": None}),
    (changed(envelope(), source=of("string"), region=of("string")), {"source": "s", "region": "eu"}),
    (changed(envelope(), source=optional("struct", fields=SOURCE["fields"])), {"source": None}),
    (changed(envelope(), without=("source",)), {}),
    (changed(envelope(), without=("source",), db=of("string"), table=of("string")), {"db": "d", "table": "t"}),
    (changed(envelope(), without=("transaction",)), {}),
    (changed(envelope(), region=of("string")), {"transaction": None, "region": "eu"}),
    (changed(envelope(), without=("op",)), {}),
    (changed(envelope(), without=("op",), operation=of("string")), {"operation": "c"}),
    (changed(envelope(), op=optional("string")), {"op": None}),
    (changed(envelope(), op=of("int32")), {"op": 1}),
    (changed(envelope(), without=("ts_ms", "ts_us")), {}),
    (changed(envelope(), without=("before",)), {}),
    (changed(envelope(), without=("after",)), {}),
    (changed(envelope(), without=("after",), row=ROW), {"row": NEW}),
    (changed(envelope(), after=of("string")), {"after": "x"}),
)  # fmt: skip
ADDED = (
    "", "op", "ts_ms", "region", "region:R", "source.region", "transaction.region", "before.region", "after.region",
    "db", "source.db", "source.op", "transaction.op", "before.op", "after.ts_ms", "id", "transaction.id", "before.id",
    "before.x", "none", "source.none", "lines", "snapshot", "at", "extra", "extra.x", "extra.op", "extra.region",
    "operation", "transaction", "before", "updateDescription", "updateDescription.x", "region,source.table",
)  # fmt: skip


def changed_envelopes() -> list[Case]:
    """Return events that other transforms have changed before."""
    found = []
    events = cycle((EVENTS[2], EVENTS[4], EVENTS[3]))
    for (schema, more), text in product(CHANGED, ADDED):
        op, before, after = next(events)
        kinds = {one["field"]: one["type"] for one in schema["fields"]}
        payload = {name: value for name, value in {**event(op, before, after), **more}.items() if name in kinds}
        added = {"add.fields": text, "add.headers": text} if text else {}
        is_whole = kinds.get("source") == kinds.get("after") == "struct" and kinds.get("op") == "string"
        is_null = is_whole and kinds.get(text) == "struct" and None in (payload[text], payload["source"])
        settings = {"delete.tombstone.handling.mode": "rewrite", **added}
        found.append(unwrapped(settings, message(schema, payload), **({"differs": NULL_STRUCT} if is_null else {})))
    return found


def drawn_unwraps(seed: int, count: int) -> list[Case]:
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        op, before, after = rng.choice(EVENTS)
        settings = {"delete.tombstone.handling.mode": rng.choice(MODES)}
        for key in ("add.fields", "add.headers"):
            if rng.random() < 0.6:
                settings[key] = ",".join(
                    rng.sample(("op", "ts_ms", "source.ts_ms", "table", "lsn:LSN", "id", "none"), rng.randint(1, 3))
                )
        if rng.random() < 0.3:
            settings["add.fields.prefix"] = rng.choice(("", "_", "p-"))
        if rng.random() < 0.3:
            settings["route.by.field"] = "destination"
        if rng.random() < 0.3:
            settings["replace.null.with.default"] = rng.choice(("true", "false"))
        headers = []
        if rng.random() < 0.3:
            settings["drop.fields.header.name"] = "drop"
            names = rng.sample(("id", "name", "count", "at", "none"), 2)
            headers = [["drop", message(of("array", items=of("string")), names)]]
        value = message(envelope(), event(op, before, after, source={"lsn": rng.choice((None, 0, 1 << 40))}))
        found.append(unwrapped(settings, value, headers=headers, sink=rng.random() < 0.3))
    return found


OUTBOX_ROW = optional(
    "struct",
    fields=[
        field("id", of("string", name="io.debezium.data.Uuid", version=1)),
        field("aggregatetype", of("string")),
        field("aggregateid", optional("string")),
        field("type", optional("string", default="T")),
        field("payload", optional("string", name="io.debezium.data.Json", version=1)),
        field("at", optional("int64", name="io.debezium.time.MicroTimestamp", version=1)),
        field("version", optional("int32")),
        field("number", of("int64")),
        field("raw", optional("bytes")),
    ],
    name="server1.inventory.outbox.Value",
)


def outbox_row(**more: Any) -> dict[str, Any]:
    row = {
        "id": "4d47e190-0402-4048-bc2c-89dd54343cdc",
        "aggregatetype": "Order",
        "aggregateid": "7",
        "type": "Created",
        "payload": '{"id": 1, "items": [{"name": "a", "price": 1.5}, {"name": null}]}',
        "at": 1700000000123456,
        "version": 2,
        "number": 5,
        "raw": "AQI=",
    }
    return {**row, **more}


def routed(settings: dict[str, str], row: Any, op: str = "c", schema: Any = OUTBOX_ROW, **more: Any) -> Case:
    value = message(envelope(schema, "server1.inventory.outbox.Envelope"), event(op, None, row))
    return transformed(OUTBOX, settings, value, **more)


PLACEMENTS = (
    "type:header", "type:header:eventType", "type:envelope", "type:envelope:eventType", "version:partition",
    "number:partition", "type:partition", "type:header,version:envelope:v,version:partition", "none:header",
    "none:envelope", "none:partition", "type:nowhere", "type", "type:header:a:b", "type:HEADER", "type:Envelope",
    " type : header ", "type:header, version:header",
    "id:envelope", "payload:header", "raw:header,raw:envelope", "at:header",
    "payload:envelope", "type:envelope:payload", "type:header:", "type:header:id", "type:envelope,type:envelope",
)  # fmt: skip


def placements() -> list[Case]:
    found = []
    for text in PLACEMENTS:
        for more in ({}, {"table.field.event.schema.version": "version"}):
            found.append(routed({"table.fields.additional.placement": text, **more}, outbox_row()))
    for text in PLACEMENTS[:6]:
        found.append(routed({"table.fields.additional.placement": text}, outbox_row(type=None, version=None)))
    return found


def outbox_basics() -> list[Case]:
    found = [
        routed({"table.op.invalid.behavior": b}, outbox_row(), op)
        for b, op in product(("warn", "error", "fatal", "WARN", "x"), "crudt")
    ]
    found += [
        transformed(OUTBOX, settings, value)
        for settings in ({}, {"route.tombstone.on.empty.payload": "true"})
        for value in (None, message(envelope(OUTBOX_ROW), None))
    ]
    for key in ("id", "key", "payload", "timestamp", "schema.version"):
        for column in ("id", "aggregateid", "type", "payload", "at", "version", "number", "raw", "none", ""):
            if not column and key in ("timestamp", "schema.version"):
                continue
            found.append(routed({f"table.field.event.{key}": column}, outbox_row()))
            found.append(
                routed(
                    {f"table.field.event.{key}": column, "table.fields.additional.placement": "type:envelope"},
                    outbox_row(version=None, at=None, type=None, payload=None, aggregateid=None, raw=None),
                )
            )
    return found


def outbox_routes() -> list[Case]:
    regexes = [
        ("(?<routedByValue>.*)", "outbox.event.${routedByValue}"), ("(.*)", "x.$1"), ("Or(.*)", "$1"), ("none", "x"),
        ("(?<routedByValue>.*)", "fixed"), ("(", "x"), ("(.*)", "$2"), ("(.*)", "${none}"), ("(?i)order", "lower"),
        ("(?<routedByValue>.*)", "${routedByValue}.${routedByValue}"),
    ]  # fmt: skip
    found = [routed({"route.topic.regex": a, "route.topic.replacement": b}, outbox_row()) for a, b in regexes]
    for name in ("type", "id", "number", "none", "aggregateid", "", "payload"):
        found.append(routed({"route.by.field": name}, outbox_row()))
        found.append(routed({"route.by.field": name}, outbox_row(type=None, aggregateid=None)))
    return found


TIMES = [
    ("int64", "io.debezium.time.Timestamp", 1700000000123),
    ("int64", "io.debezium.time.MicroTimestamp", 1700000000123456),
    ("int64", "io.debezium.time.MicroTimestamp", -1), ("int64", "io.debezium.time.NanoTimestamp", 1700000000123456789),
    ("int64", "io.debezium.time.NanoTimestamp", -1),
    ("int64", f"{LOGICAL}Timestamp", 1700000000123), ("int64", None, 1700000000123), ("int32", None, 5),
    ("int32", "io.debezium.time.Date", 5), ("int32", f"{LOGICAL}Date", 19000), ("string", None, "2026-01-02T03:04:05Z"),
    ("string", "io.debezium.time.ZonedTimestamp", "2026-01-02T03:04:05.678901Z"),
    ("string", "io.debezium.time.ZonedTimestamp", "2026-01-02T03:04:05+02:00"),
    ("string", "io.debezium.time.ZonedTimestamp", "x"), ("int64", "io.debezium.time.MicroTime", 5),
    ("int64", "io.debezium.time.MicroTimestamp", None), ("int64", "other", 7),
]  # fmt: skip


def outbox_times() -> list[Case]:
    found = []
    for kind, name, number in TIMES:
        more = {} if name is None else {"name": name, "version": 1}
        schema = {**OUTBOX_ROW, "fields": [*OUTBOX_ROW["fields"][:5], field("at", optional(kind, **more))]}
        row = {key: outbox_row()[key] for key in ("id", "aggregatetype", "aggregateid", "type", "payload")}
        found.append(routed({"table.field.event.timestamp": "at"}, {**row, "at": number}, schema=schema))
    return found


JSON_TEXTS = [
    "{}", "[]", "null", "1", '"x"', "true", "", " ", "x", "{", '{"a":1', '{"a":1}x', ' {"a": 1} ', '{"a":null}',
    '{"a":1,"a":2}', '{"a":2147483648}', '{"a":9223372036854775808}', '{"a":1.0}', '{"a":1e400}', '{"a":0.1}',
    '{"a":1.2345678901234567890}', '{"a":-0.0}', '{"a":true,"b":"x"}', '{"a":[]}', '{"a":[1,2.5]}', '{"a":[1,"x"]}',
    '{"a":[null]}', '{"a":[null,1]}', '{"a":[1,null]}', '{"a":[{"b":1},{"c":2}]}', '{"a":[{"b":1},{"b":"x"}]}',
    '{"a":[[1],[2]]}', '{"a":[[1],["x"]]}', '{"a":[[],[1]]}', '{"a":{"b":{"c":1}}}', '{"a":{}}', '{"":1}', '{"a b":1}',
    '[1,2]', '[{"a":1},{"a":2}]', '[1,"x"]', '["x",null]', "[null]", "[[]]", '{"a":NaN}', "{'a':1}", '{"a":"\u0000"}',
    '{"a":"é"}', "[1] [2]", '{"a":[1,9223372036854775807]}', '{"a":[true,false]}', '{"a":[{"b":null}]}',
    '{"schema":1,"payload":2}',
    '{"a":[{"b":[{"c":1}]},{"b":[]}]}', '{"a":[{"b":1,"c":2},{"c":3,"b":4}]}', '{"a": 12345678901234567890123}',
    '{"a":[1,2147483648]}', '{"a":[{"b":1},{"b":2.5}]}', '{"a":[{"b":{"c":1}},{"b":{"d":2}}]}', '[{"a":1},{"b":"x"}]',
    '[{"a":1},2]',
]  # fmt: skip


DIFFERENT = {
    "[]": KEPT, '{"a":1}x': REST_OF_TEXT, "[1] [2]": REST_OF_TEXT, '{"a":1e400}': REST_OF_TEXT,
    '{"a":9223372036854775808}': KEPT, '{"a": 12345678901234567890123}': KEPT, '{"a":[{"b":1},{"b":"x"}]}': KEPT,
    '{"a":[{"b":1},{"b":2.5}]}': KEPT, '{"a":[[1],["x"]]}': KEPT, "[1,2]": ARRAYS, '[{"a":1},{"a":2}]': ARRAYS,
    '["x",null]': ARRAYS, '[{"a":1},{"b":"x"}]': ARRAYS, '{"a":[{"b":{"c":1}},{"b":{"d":2}}]}': MERGED,
}  # fmt: skip


def outbox_payloads() -> list[Case]:
    found = []
    for text in JSON_TEXTS:
        expands = {"table.expand.json.payload": "true"}
        more = {"differs": DIFFERENT[text]} if text in DIFFERENT else {}
        found.append(routed(expands, outbox_row(payload=text), **more))
        expands["table.json.payload.null.behavior"] = "optional_bytes"
        if text == "[null]":
            more = {"differs": ARRAYS}
        found.append(routed(expands, outbox_row(payload=text), **more))
    for text in (None, "{}", *JSON_TEXTS[2:9]):
        for more in ({}, {"table.fields.additional.placement": "type:envelope"}):
            settings = {"route.tombstone.on.empty.payload": "true", **more}
            found.append(routed(settings, outbox_row(payload=text)))
            found.append(routed({**settings, "table.expand.json.payload": "true"}, outbox_row(payload=text)))
    for column in ("number", "raw", "version"):
        found.append(routed({"table.expand.json.payload": "true", "table.field.event.payload": column}, outbox_row()))
    return found


def drawn_outboxes(seed: int, count: int) -> list[Case]:
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        settings = {}
        if rng.random() < 0.6:
            settings["table.fields.additional.placement"] = ",".join(rng.sample(PLACEMENTS[:5], rng.randint(1, 2)))
        if rng.random() < 0.5:
            settings["table.expand.json.payload"] = "true"
        if rng.random() < 0.3:
            settings["table.field.event.timestamp"] = "at"
        if rng.random() < 0.3:
            settings["table.field.event.key"] = rng.choice(("id", "number", "type"))
        if rng.random() < 0.3:
            settings["route.tombstone.on.empty.payload"] = "true"
        row = outbox_row(
            payload=rng.choice(JSON_TEXTS), aggregateid=rng.choice((None, "7", "")), type=rng.choice((None, "t"))
        )
        drawn = routed(settings, row, rng.choice("ccccrrud"), sink=rng.random() < 0.3)
        if row["payload"] not in DIFFERENT and not drawn["sink"]:  # in a sink the original needs a partition
            found.append(drawn)
    return found


def cases() -> list[Case]:
    return [
        *({"settings": name} for name in (UNWRAP, OUTBOX)),
        *deletes(),
        *metadata(),
        *dropped(),
        *routes(),
        *other_records(),
        *changed_envelopes(),
        *drawn_unwraps(31, 150),
        *placements(),
        *outbox_basics(),
        *outbox_routes(),
        *outbox_times(),
        *outbox_payloads(),
        *drawn_outboxes(31, 150),
    ]


def _jars() -> list[str]:
    """Return Debezium's jars, fetched the first time; what they need of others is among Kafka Connect's."""
    directory = default_cache() / f"debezium-{VERSION}"
    expected = checksum.listed(LISTED.read_text(encoding="ascii"))
    if not all((directory / name).exists() for name in expected):
        directory.mkdir(parents=True, exist_ok=True)
        pattern = f"{directory}/[artifact]-[revision](-[classifier]).[ext]"
        for module in MODULES:
            what = ["-dependency", "io.debezium", module, VERSION, "-confs", "default", "-notransitive"]
            home.run(find_java(), [*what, "-retrieve", pattern], "Debezium")
    checksum.verify(directory, expected)
    return [str(directory / name) for name in sorted(expected)]


def main() -> None:
    asked = cases()
    found = answers(PROGRAM, os.pathsep.join((peer.classpath(), *_jars())), asked)
    write(OUTPUT, asked, found)


if __name__ == "__main__":
    main()
