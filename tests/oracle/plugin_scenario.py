"""What a worker is asked about its plug-ins: their keys, and whether configs with each of them would do.

Nothing is created. `CASES` are the requests, in order; `row` is what is kept of each key in an answer.
"""

from typing import Any, NamedTuple

from oracle.recorder import STRING, Json

_CONNECT = "org.apache.kafka.connect."
TRANSFORMS = f"{_CONNECT}transforms."
PREDICATES = f"{TRANSFORMS}predicates."
JSON = f"{_CONNECT}json.JsonConverter"
SIMPLE = f"{_CONNECT}storage.SimpleHeaderConverter"
NUMBERS = tuple(f"{_CONNECT}converters.{name}Converter" for name in ("Boolean", "Short", "Integer", "Long", "Double"))
CONVERTERS = (
    JSON,
    STRING,
    *NUMBERS,
    f"{_CONNECT}converters.FloatConverter",
    f"{_CONNECT}converters.ByteArrayConverter",
)

# Each transform at least once as it should be, and with what can be wrong about it.
OF_TRANSFORMS: tuple[tuple[str, dict[str, str]], ...] = (
    ("Cast$Key", {"spec": "int32"}),
    ("Cast$Value", {"spec": "a:int32,b:string", "replace.null.with.default": "false"}),
    ("Cast$Value", {"spec": "a:nonsense"}),
    ("Cast$Value", {"spec": ""}),
    ("Cast$Value", {}),
    ("DropHeaders", {"headers": "a,b"}),
    ("DropHeaders", {"headers": ""}),
    ("ExtractField$Key", {"field": "id"}),
    ("ExtractField$Value", {"field": "a.b", "field.syntax.version": "V2"}),
    ("ExtractField$Value", {"field": "a.b", "field.syntax.version": "v3"}),
    ("ExtractField$Value", {}),
    ("Filter", {}),
    ("Flatten$Key", {"delimiter": "_"}),
    ("Flatten$Value", {}),
    ("HeaderFrom$Key", {"fields": "a", "headers": "h", "operation": "copy"}),
    ("HeaderFrom$Value", {"fields": "a,b", "headers": "h", "operation": "move"}),
    ("HeaderFrom$Value", {"fields": "a", "headers": "h", "operation": "drop"}),
    ("HeaderFrom$Value", {}),
    ("HoistField$Key", {}),
    ("HoistField$Value", {"field": "line"}),
    ("InsertField$Key", {}),
    ("InsertField$Value", {"static.field": "s", "static.value": "v", "topic.field": "t!"}),
    ("InsertField$Value", {"static.field": "s"}),
    ("InsertHeader", {"header": "h", "value.literal": "1"}),
    ("InsertHeader", {"header": ""}),
    ("MaskField$Key", {"fields": "a", "replacement": "x"}),
    ("MaskField$Value", {"fields": ""}),
    ("RegexRouter", {"regex": "(.*)", "replacement": "x-$1"}),
    ("RegexRouter", {"regex": "(", "replacement": "x"}),
    ("ReplaceField$Key", {"exclude": "a", "renames": "b:c"}),
    ("ReplaceField$Value", {"renames": "b"}),
    ("ReplaceField$Value", {"include": "a", "blacklist": "b"}),
    ("SetSchemaMetadata$Key", {"schema.name": "n"}),
    ("SetSchemaMetadata$Value", {"schema.version": "x"}),
    ("TimestampConverter$Key", {"target.type": "unix", "unix.precision": "seconds"}),
    ("TimestampConverter$Value", {"field": "t", "target.type": "string", "format": "yyyy-MM-dd"}),
    ("TimestampConverter$Value", {"target.type": "nonsense"}),
    ("TimestampConverter$Value", {"target.type": "string"}),
    ("TimestampConverter$Value", {"target.type": "unix", "unix.precision": "days"}),
    ("TimestampConverter$Value", {}),
    ("TimestampRouter", {"topic.format": "${topic}", "timestamp.format": "yyyy"}),
    ("ValueToKey", {"fields": "id"}),
    ("ValueToKey", {}),
)
OF_PREDICATES: tuple[tuple[str, dict[str, str]], ...] = (
    ("HasHeaderKey", {"name": "h"}),
    ("HasHeaderKey", {"name": ""}),
    ("RecordIsTombstone", {}),
    ("TopicNameMatches", {"pattern": "a.*"}),
    ("TopicNameMatches", {"pattern": "("}),
    ("TopicNameMatches", {}),
)
OF_CONVERTERS: tuple[dict[str, str], ...] = (
    *({"value.converter": name} for name in CONVERTERS),
    {"key.converter": "JsonConverter", "value.converter": STRING, "header.converter": "SimpleHeaderConverter"},
    {"header.converter": STRING, "header.converter.converter.encoding": "UTF-16"},
    {"value.converter": JSON, "value.converter.schemas.enable": "maybe", "value.converter.decimal.format": "NUMERIC"},
    {"value.converter": JSON, "value.converter.decimal.format": "roman", "value.converter.schemas.cache.size": "-1"},
    {"key.converter": "Nope", "value.converter": "Nope", "header.converter": "Nope"},
    {"key.converter": SIMPLE},
    {"value.converter.schemas.enable": "maybe"},
)
VERSIONS = ("4.3.1", "[4.3.1]", "[4.0,5.0)", "latest", "9.9", "[5,)", "(,4.3.1)", "[1,2],[4,5]", " 4.3.1 ", "")
NO_VERSIONS = ("[", "[1.0", "(4.3.1)", "[2,1]", "[1,3],[2,4]", "[4.3.1],9")


class Case(NamedTuple):
    """One request; `body` is None for a GET."""

    path: str
    body: dict[str, str | None] | None = None


def _source(**more: str | None) -> dict[str, str | None]:
    own = {"connector.class": "FileStreamSource", "name": "c", "file": "f", "topic": "t"}
    return {**own, **{key.replace("__", "."): value for key, value in more.items()}}


def _validate(config: dict[str, str | None]) -> Case:
    name = config["connector.class"]
    return Case(f"/connector-plugins/{name}/config/validate", config)


def _transformed(name: str, settings: dict[str, str], **more: str) -> Case:
    own = {f"transforms.x.{key}": value for key, value in {"type": name, **settings}.items()}
    return _validate({**_source(transforms="x"), **own, **more})


def _with_predicate(name: str, settings: dict[str, str], **more: str) -> Case:
    own = {f"predicates.p.{key}": value for key, value in {"type": name, **settings}.items()}
    return _transformed(f"{TRANSFORMS}Filter", {"predicate": "p"}, predicates="p", **own, **more)


def _of_versions() -> list[Case]:
    cases = [_validate(_source(connector__plugin__version=version)) for version in (*VERSIONS, *NO_VERSIONS)]
    for version in ("[4.3.1]", "9.9", "["):
        own: dict[str, str | None] = {"value.converter": JSON, "value.converter.plugin.version": version}
        cases += [
            _validate({**_source(), **own}),
            _validate(_source(key__converter__plugin__version=version)),
            _transformed(f"{TRANSFORMS}Filter", {"plugin.version": version}),
            _with_predicate(f"{PREDICATES}RecordIsTombstone", {"plugin.version": version}),
            _transformed("Nope", {"plugin.version": version}),
        ]
    return cases


def _of_values() -> list[Case]:
    """How values are shown: trimmed, in the spelling of their type, null if they cannot be read."""
    return [
        _validate(_source()),
        _validate({"connector.class": "FileStreamSink", "name": "c", "topics": "a, b", "file": "f"}),
        _validate(_source(tasks__max="x", errors__log__enable=" TRUE ", batch__size=" 7 ")),
        _validate(_source(errors__tolerance="ALL", errors__retry__timeout="-1", config__action__reload="never")),
        _validate(_source(transforms=" a , b ", predicates="")),
        _validate(_source(transforms="a,a", predicates="p,p")),
        _validate(_source(transforms="a,,b")),
        _validate(_source(transaction__boundary="INTERVAL", transaction__boundary__interval__ms="-1")),
        _validate(_source(tasks__max=None, key__converter=None, extra=None)),
        _validate(_source(name="")),
        _transformed(f"{TRANSFORMS}Filter", {"negate": "true"}),
        _transformed(f"{TRANSFORMS}Filter", {"predicate": "p", "negate": "perhaps"}, predicates="p"),
        _transformed("RegexRouter", {"regex": "a", "replacement": "b"}),
        _validate(_source(topic__creation__groups="g", topic__creation__default__partitions="1")),
        _validate(_source(producer__override__acks="1", consumer__override__x="y")),
    ]


def _keys() -> list[Case]:
    names = [f"{TRANSFORMS}{name}" for name in dict.fromkeys(name for name, _ in OF_TRANSFORMS)]
    names += [f"{PREDICATES}{name}" for name in dict.fromkeys(name for name, _ in OF_PREDICATES)]
    names += [*CONVERTERS, SIMPLE, "FileStreamSource", "FileStreamSink", "VerifiableSource", "VerifiableSink"]
    cases = [Case(f"/connector-plugins/{name}/config") for name in names]
    asked = ("4.3.1", "[4,5)", "latest", "9.9", "%5B5,)", "%5B", "")
    of_all = (f"{TRANSFORMS}Filter", JSON, "FileStreamSource", "Nope")
    return cases + [Case(f"/connector-plugins/{name}/config?version={text}") for name in of_all for text in asked]


CASES = (
    *_keys(),
    *_of_values(),
    *(_transformed(f"{TRANSFORMS}{name}", settings) for name, settings in OF_TRANSFORMS),
    *(_with_predicate(f"{PREDICATES}{name}", settings) for name, settings in OF_PREDICATES),
    *(_validate({**_source(), **settings}) for settings in OF_CONVERTERS),
    *_of_versions(),
)
"""All requests."""

_DEFINED = ("type", "required", "default_value", "importance", "group", "order_in_group", "width", "display_name")
_VALUED = ("value", "recommended_values", "errors", "visible")
COLUMNS = ("name", *_DEFINED, "dependents", *_VALUED)


def kept(answer: Json) -> Json:
    """Return what is kept of an answer: a row for each key, or the message of an error."""
    if isinstance(answer, list):
        return [row(one, {}) for one in answer]
    if "configs" not in answer:
        return answer
    rows = [row(one["definition"], one["value"]) for one in answer["configs"]]
    return {"error_count": answer["error_count"], "groups": answer["groups"], "rows": rows}


def row(definition: dict[str, Any] | None, value: dict[str, Any]) -> list[Any]:
    """Return the `COLUMNS` of a key; documentation is left out, as each project has its own."""
    of_key = definition or {}
    return [of_key.get("name", value.get("name")), *(of_key.get(one) for one in (*_DEFINED, "dependents"))] + [
        value.get(one) for one in _VALUED
    ]
