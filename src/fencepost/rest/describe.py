"""What the OpenAPI document says of bodies that handlers read and answer by themselves."""

from typing import Any

from pydantic import BaseModel

from fencepost.rest.model import ErrorBody

CONFIG_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    "description": "Numbers and booleans are taken as strings.",
}

# Also keeps the framework from announcing a 422 that is never sent.
ERRORS: dict[int | str, dict[str, Any]] = {"default": {"model": ErrorBody, "description": "Any error"}}


def takes(schema: dict[str, Any] | type[BaseModel]) -> dict[str, Any]:
    """`openapi_extra` of a handler that reads a JSON body of this schema."""
    shape = schema if isinstance(schema, dict) else schema.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": shape}}}}


def also(status: int, model: type[BaseModel] | None, description: str) -> dict[int | str, dict[str, Any]]:
    """`responses` of a handler that may answer `status` too."""
    entry: dict[str, Any] = {"description": description}
    if model is not None:
        entry["model"] = model
    return {status: entry}
