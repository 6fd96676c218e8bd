"""What the OpenAPI document says of bodies that handlers read and answer by themselves."""

from typing import Any

from pydantic import BaseModel

from fencepost.rest.model import ErrorBody

_CLASS = "connector.class"
_TAKEN_AS_TEXT = "Numbers and booleans are taken as strings."

# What a config may hold as it is sent; only a PATCH takes nulls, which remove keys.
CONFIG_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean"]},
    "required": [_CLASS],
    "description": _TAKEN_AS_TEXT,
}
PATCH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    "description": f"{_TAKEN_AS_TEXT} null removes a key.",
}
TASK_CONFIGS_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}},
}

# Also keeps the framework from announcing a 422 that is never sent.
ERRORS: dict[int | str, dict[str, Any]] = {"default": {"model": ErrorBody, "description": "Any error"}}


def takes(schema: dict[str, Any] | type[BaseModel]) -> dict[str, Any]:
    """`openapi_extra` of a handler that reads a JSON body of this schema."""
    shape = schema if isinstance(schema, dict) else _whole(schema.model_json_schema())
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": shape}}}}


def _whole(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its definitions where they are referred to: inside a document `#/$defs` leads nowhere."""
    definitions = schema.pop("$defs", {})

    def resolved(part: Any) -> Any:
        if isinstance(part, list):
            return [resolved(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return resolved(definitions[part["$ref"].rpartition("/")[2]])
        return {key: resolved(value) for key, value in part.items()}

    whole: dict[str, Any] = resolved(schema)
    return whole


def also(status: int, model: type | None, description: str) -> dict[int | str, dict[str, Any]]:
    """`responses` of a handler that may answer `status` too."""
    entry: dict[str, Any] = {"description": description}
    if model is not None:
        entry["model"] = model
    return {status: entry}
