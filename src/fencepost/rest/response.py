"""Operation answers as the JSON bodies of Kafka Connect."""

import json
from datetime import UTC, datetime
from typing import Any

import orjson
from starlette.responses import Response

from fencepost.cluster.info import (
    ConnectorInfo,
    ConnectorState,
    ConnectorStatus,
    KeyDefinition,
    KeyReport,
    PluginInfo,
    RetentionInfo,
    TaskInfo,
    TaskState,
    TopicRetentionInfo,
    ValidationReport,
)
from fencepost.storage.ids import TaskId

Json = dict[str, Any]


def json_response(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_json(content), status, headers, media_type="application/json")


def empty_response(status: int) -> Response:
    return Response(status_code=status)


def to_json(content: object) -> bytes:
    try:
        return orjson.dumps(content)
    except TypeError:
        # A trace may hold lone surrogates (a file name that is not UTF-8), which orjson refuses.
        return json.dumps(content).encode("ascii")


def info_body(info: ConnectorInfo) -> Json:
    body: Json = {
        "name": info.name,
        "config": dict(info.config),
        "tasks": [task_id_body(task) for task in info.tasks],
        "type": info.type.value,
    }
    if info.offsets_status is not None:
        body["offsets_status"] = info.offsets_status
    return body


def task_id_body(task: TaskId) -> Json:
    return {"connector": task.connector, "task": task.task}


def task_info_body(task: TaskInfo) -> Json:
    return {"id": task_id_body(task.id), "config": dict(task.config)}


def status_body(status: ConnectorStatus) -> Json:
    return {
        "name": status.name,
        "connector": _state_body(status.connector),
        "tasks": [task_state_body(task) for task in sorted(status.tasks, key=lambda task: task.id)],
        "type": status.type.value,
    }


def task_state_body(task: TaskState) -> Json:
    return {"id": task.id, **_state_body(task)}


def _state_body(state: ConnectorState | TaskState) -> Json:
    body: Json = {"state": state.state, "worker_id": state.worker_id}
    if state.trace:
        body["trace"] = state.trace
    if state.version:
        body["version"] = state.version
    if state.restart is not None:
        body["restart"] = {"attempts": state.restart.attempts, "next": _moment(state.restart.next_ms)}
    return body


def _moment(at_ms: int | None) -> str | None:
    if at_ms is None:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def retention_body(info: RetentionInfo) -> Json:
    return {
        "enabled": info.is_enabled,
        "decided": _moment(info.decided_ms),
        "error": info.error,
        "requests": info.requests,
        "topics": [topic_retention_body(topic) for topic in info.topics],
    }


def topic_retention_body(topic: TopicRetentionInfo) -> Json:
    return {
        "topic": topic.topic,
        "refused": topic.refusal,
        "error": topic.error,
        "deleted": topic.deleted,
        "last_deletion": _moment(topic.deleted_ms),
        "partitions": [
            {"partition": p.partition, "start": p.start, "end": p.end, "until": p.until, "held_by": p.held_by or None}
            for p in topic.partitions
        ],
    }


def plugin_body(plugin: PluginInfo) -> Json:
    body: Json = {"class": plugin.class_name, "type": plugin.type}
    if plugin.version:
        body["version"] = plugin.version
    return body


def definition_body(key: KeyDefinition) -> Json:
    return {
        "name": key.name,
        "type": key.type,
        "required": key.required,
        "default_value": key.default_value,
        "importance": key.importance,
        "documentation": key.documentation,
        "group": key.group,
        "order_in_group": key.order_in_group,
        "width": key.width,
        "display_name": key.name if key.display_name is None else key.display_name,
        "dependents": list(key.dependents),
    }


def validation_body(report: ValidationReport) -> Json:
    return {
        "name": report.name,
        "error_count": report.error_count,
        "groups": list(report.groups),
        "configs": [_key_report_body(key) for key in report.configs],
    }


def _key_report_body(key: KeyReport) -> Json:
    value = key.value
    return {
        "definition": None if key.definition is None else definition_body(key.definition),
        "value": {
            "name": value.name,
            "value": value.value,
            "recommended_values": list(value.recommended_values),
            "errors": list(value.errors),
            "visible": value.visible,
        },
    }
