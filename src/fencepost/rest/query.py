"""Query parameters as Kafka Connect reads them."""

from typing import Annotated

from fastapi import Query
from pydantic import BeforeValidator, WithJsonSchema


def _is_true(value: object) -> bool:
    # As Java's Boolean.valueOf: clients send True and False, and anything else is false.
    return value is True or str(value).strip().lower() == "true"


_FLAG = (
    BeforeValidator(_is_true),
    WithJsonSchema(
        {
            "anyOf": [{"type": "boolean"}, {"type": "string"}],
            "description": "true, in any case of letters; anything else is false.",
        }
    ),
)

Expand = Annotated[
    list[str] | None,
    Query(description="status, info, figures; repeatable. Other words are ignored."),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
]
IncludeTasks = Annotated[bool, Query(alias="includeTasks"), *_FLAG]
OnlyFailed = Annotated[bool, Query(alias="onlyFailed"), *_FLAG]
ConnectorsOnly = Annotated[bool, Query(alias="connectorsOnly"), *_FLAG]
PluginVersion = Annotated[
    str | None,
    Query(description="A version, or a range such as [1.0,2.0); without it, or with latest: the newest installed."),
    WithJsonSchema({"type": "string"}),
]
Dry = Annotated[bool, Query(), *_FLAG]
