"""What the OpenAPI document says of bodies, except for the answers in `cluster/info.py`."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fencepost.cluster.figures import ConnectorFigures
from fencepost.cluster.info import ConnectorInfo, ConnectorStatus

ConfigMap = dict[str, str | None]
SentConfig = dict[str, str | float | bool]


class ErrorBody(BaseModel):
    """Every error, whatever the status."""

    error_code: int
    message: str | None


class ConnectorOffsetBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    partition: dict[str, str | int | float | bool | None] | None = Field(
        default=None, description="The source partition."
    )
    offset: dict[str, str | int | float | bool | None] | None = Field(
        default=None, description="The source offset; null, or left out, forgets it."
    )


class ConnectorOffsetsBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    offsets: list[ConnectorOffsetBody]


class GapBody(BaseModel):
    """A log of a mirror's source did not continue at `position`. What was deleted in between was left out."""

    cluster: str
    topic: str
    partition: int
    reason: str = Field(description="truncated, recreated, cut or diverged.")
    position: int = Field(description="Up to where the mirror had read.")
    log_start: int = Field(description="Where the log began then.")
    log_end: int
    continues_at: int | None = Field(
        default=None,
        description="Where the mirror went on: at `log_start`, or, where the log was cut (cut, diverged), at the first "
        "offset from which on it no longer had what was mirrored. Gaps of earlier versions lack it.",
    )
    topic_id: str
    time_ms: int = Field(description="When it was met: milliseconds since 1970.")


class ConnectorGapsBody(BaseModel):
    gaps: list[GapBody]


class ResendBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    letters: list[str] | None = Field(
        default=None, description="Single dead letters, such as orders-dead-0@4; without it, all that wait."
    )
    skip: list[str] | None = Field(
        default=None,
        description="Dead letters, and topics that they came from, that are passed over for good instead.",
    )


class MessageBody(BaseModel):
    message: str


class CreateBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="Trimmed; must equal `name` in the config if that is given.")
    config: SentConfig = Field(description="Numbers and booleans are taken as strings.")
    initial_state: Literal["RUNNING", "PAUSED", "STOPPED"] | None = Field(
        default=None, description="In any case of letters."
    )
    initial_offsets: list[ConnectorOffsetBody] | None = Field(
        default=None, description="Where the connector starts; offsets that its name still has are replaced (KIP-995)."
    )


class ExpandedBody(BaseModel):
    """One connector of an expanded list; holds what was asked for."""

    status: ConnectorStatus | None = None
    info: ConnectorInfo | None = None
    figures: ConnectorFigures | None = None


class TopicsBody(BaseModel):
    topics: list[str]


class LoggerBody(BaseModel):
    level: str
    last_modified: int | None = Field(description="Milliseconds since the epoch; null if never changed.")


class LevelBody(BaseModel):
    level: str


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
