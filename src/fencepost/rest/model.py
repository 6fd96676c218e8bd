"""The bodies as the OpenAPI page describes them; answers are rendered by `answer`, tests hold both together."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

ConfigMap = dict[str, str | None]
SentConfig = dict[str, str | float | bool]


class ErrorBody(BaseModel):
    """Every error, whatever the status."""

    error_code: int
    message: str | None


class ServerInfoBody(BaseModel):
    version: str
    commit: str
    kafka_cluster_id: str


class HealthBody(BaseModel):
    status: Literal["healthy", "starting", "unhealthy"]
    message: str


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
    """Offsets of a partition of a mirror's source from `position` to before `log_start` were left out."""

    cluster: str
    topic: str
    partition: int
    reason: str = Field(description="truncated, recreated or cut.")
    position: int = Field(description="Up to where the mirror had read.")
    log_start: int = Field(description="Where the log began then, and the mirror went on.")
    log_end: int
    topic_id: str
    time_ms: int = Field(description="When it was met: milliseconds since 1970.")


class ConnectorGapsBody(BaseModel):
    gaps: list[GapBody]


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


class TaskIdBody(BaseModel):
    connector: str
    task: int


class ConnectorInfoBody(BaseModel):
    name: str
    config: ConfigMap = Field(description="As it was given: variables of config providers are not resolved.")
    tasks: list[TaskIdBody]
    type: Literal["source", "sink", "unknown"]
    offsets_status: str = Field(default="", description="Only present where initial_offsets were given.")


class TaskInfoBody(BaseModel):
    id: TaskIdBody
    config: ConfigMap


class RestartBody(BaseModel):
    attempts: int = Field(description="Automatic restarts in a row so far.")
    next: str | None = Field(description="When the next is due (ISO 8601, UTC); null: no other is made.")


class StateBody(BaseModel):
    state: Literal["UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED", "RESTARTING", "DESTROYED"]
    worker_id: str
    trace: str = Field(default="", description="Only present when something failed, or is amiss with what runs.")
    version: str = Field(default="", description="Only present when the plugin has one.")
    restart: RestartBody | None = Field(
        default=None, description="Only present where it has failed, and errors.restart.enabled is true."
    )


class TaskStateBody(StateBody):
    id: int


class ConnectorStatusBody(BaseModel):
    name: str
    connector: StateBody
    tasks: list[TaskStateBody]
    type: Literal["source", "sink", "unknown"]


class ExpandedBody(BaseModel):
    """One connector of an expanded list; holds what was asked for."""

    status: ConnectorStatusBody | None = None
    info: ConnectorInfoBody | None = None


class TopicsBody(BaseModel):
    topics: list[str]


class PluginBody(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    class_name: str = Field(alias="class")
    type: Literal["source", "sink", "transformation", "predicate", "converter", "header_converter"]
    version: str = Field(default="", description="Only present when the plugin has one.")


class KeyDefinitionBody(BaseModel):
    name: str
    type: Literal["BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"]
    required: bool
    default_value: str | None
    importance: Literal["HIGH", "MEDIUM", "LOW"]
    documentation: str
    group: str | None
    order_in_group: int
    width: Literal["NONE", "SHORT", "MEDIUM", "LONG"]
    display_name: str
    dependents: list[str]


class KeyValueBody(BaseModel):
    name: str
    value: str | None
    recommended_values: list[str]
    errors: list[str]
    visible: bool


class KeyReportBody(BaseModel):
    definition: KeyDefinitionBody | None
    value: KeyValueBody


class ValidationBody(BaseModel):
    name: str
    error_count: int
    groups: list[str]
    configs: list[KeyReportBody]


class LoggerBody(BaseModel):
    level: str
    last_modified: int | None = Field(description="Milliseconds since the epoch; null if never changed.")


class LevelBody(BaseModel):
    level: str


class PartitionRetentionBody(BaseModel):
    partition: int
    start: int = Field(description="Where its log began when it was decided.")
    end: int
    until: int = Field(description="Up to where, exclusive, records may go; its start if none may.")
    held_by: str | None = Field(description="What keeps it from going further; null: nothing, all of it may go.")


class TopicRetentionBody(BaseModel):
    topic: str
    refused: str | None = Field(description="Why nothing of the topic goes; null: it may.")
    error: str | None = Field(description="What Kafka answered when it was last to be deleted; null: it was.")
    deleted: int = Field(description="Offsets that this leader has had deleted.")
    last_deletion: str | None = Field(description="When it last did so (ISO 8601, UTC); null: never.")
    partitions: list[PartitionRetentionBody]


class RetentionBody(BaseModel):
    enabled: bool = Field(description="delete.committed.enabled of the leader.")
    decided: str | None = Field(description="When (ISO 8601, UTC); null: not yet.")
    error: str | None = Field(description="Why it could not be decided last; null: it could.")
    requests: int = Field(description="Questions to Kafka that it took, each one request to every broker at most.")
    topics: list[TopicRetentionBody]
