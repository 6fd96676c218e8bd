"""What is about the worker or the cluster: health, metrics, plug-ins, log levels, and what sinks' commits empty; and
requests between workers, signed with the session key (KIP-507).
"""

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fencepost.cluster.errors import BadRequestError, NotFoundError
from fencepost.cluster.figures import LogQuery, PastFigures, ReportedTask, WorkersEvents
from fencepost.cluster.info import (
    Health,
    HealthStatus,
    KafkaInfo,
    KeyDefinition,
    PluginInfo,
    RetentionInfo,
    ServerInfo,
    TopicRetentionInfo,
    ValidationReport,
)
from fencepost.rest.body import parse_json, read_signed_body, read_string_map, string_maps
from fencepost.rest.gateway import Gateway, Worker
from fencepost.rest.model import CONFIG_SCHEMA, TASK_CONFIGS_SCHEMA, LevelBody, LoggerBody, also, takes
from fencepost.rest.path import ConnectorName, ConnectorsOnly, Dry, PathText, PluginVersion, signed_target
from fencepost.rest.response import empty_response, json_response, warning_header
from fencepost.telemetry.loggers import LEVELS, loggers

router = APIRouter(tags=["between workers"])

_CONNECTOR = "/connectors/{name}"


@router.post(f"{_CONNECTOR}/tasks", status_code=204, openapi_extra=takes(TASK_CONFIGS_SCHEMA))
async def put_task_configs(name: ConnectorName, request: Request, worker: Worker) -> Response:
    """Gives the leader a worker's new task configs; a request that no worker has signed is refused (KIP-507)."""
    body = await _verified_body(request, worker)
    configs = string_maps(parse_json(body))
    await worker.run(worker.operations.internal.put_task_configs, name, configs)
    return empty_response(204)


@router.put(f"{_CONNECTOR}/fence", status_code=204)
async def fence(name: ConnectorName, request: Request, worker: Worker) -> Response:
    """Has the leader fence older tasks (KIP-618); refused unless signed by a worker (KIP-507)."""
    await _verified_body(request, worker)
    await worker.run_round(worker.operations.internal.fence, name)
    return empty_response(204)


@router.get("/internal/figures", response_model=list[ReportedTask])
async def get_figures(
    request: Request,
    worker: Worker,
    connector: Annotated[str | None, Query(description="Only those of one connector.")] = None,
) -> Response:
    """Gives another worker what the tasks on this one do; refused unless signed by a worker (KIP-507)."""
    await _verified_body(request, worker)
    return json_response(await worker.recall(worker.operations.probes.figures_here, connector))


@router.get("/internal/past", response_model=list[PastFigures])
async def get_past_figures(request: Request, worker: Worker) -> Response:
    """Gives another worker what tasks here moved in the last hour; refused unless signed by a worker (KIP-507)."""
    await _verified_body(request, worker)
    return json_response(await worker.recall(worker.operations.probes.past_here))


@router.get("/internal/logs", response_model=WorkersEvents)
async def get_logs(request: Request, worker: Worker) -> Response:
    """Gives another worker the log events that this one has; refused unless signed by a worker (KIP-507)."""
    await _verified_body(request, worker)
    asked = request.query_params  # not looked at before, as whoever has not signed the request learns nothing
    task = asked.get("task")
    query = LogQuery(
        None if task is None else int(task),
        int(asked.get("level", "0")),
        asked.get("after"),
        limit=int(asked.get("limit", "500")),
    )
    return json_response(await worker.recall(worker.operations.probes.logs_here, asked.get("connector", ""), query))


async def _verified_body(request: Request, worker: Gateway) -> bytes:
    """Return the body after its signature was verified. Otherwise the sender learns nothing, not even a 404."""
    headers = dict(request.headers)

    async def verify(body: bytes | None) -> bool:
        to_verify = worker.operations.internal.verify
        return await worker.recall(to_verify, request.method, signed_target(request), body, headers)

    return await read_signed_body(request, verify)


root = APIRouter(tags=["worker"])

_Live = Annotated[
    str | None, Query(description="`/health?live` answers 200 whatever Kafka and Spark do: for probes of liveness.")
]
_HEALTH_CODES = {HealthStatus.HEALTHY: 200, HealthStatus.STARTING: 503, HealthStatus.UNHEALTHY: 500}


@root.get("/", response_model=ServerInfo)
async def get_server_info(worker: Worker) -> Response:
    """Version of the worker and id of its Kafka cluster."""
    return json_response(worker.local.server_info())


@root.get("/kafka", response_model=KafkaInfo)
async def get_kafka(worker: Worker) -> Response:
    """Says where the worker's Kafka is, for tools that read it; without credentials."""
    return json_response(worker.local.kafka())


@root.get(
    "/health",
    response_model=Health,
    responses=also(503, Health, "Still starting") | also(500, Health, "Does not answer"),
)
async def get_health(worker: Worker, live: _Live = None) -> Response:
    """Says whether the worker is ready: it handles requests (KIP-1017), and Spark can run tasks."""
    if live is not None:
        return json_response(Health(HealthStatus.HEALTHY, "Worker answers."))
    health = await worker.probe(worker.operations.probes.health)
    return json_response(health, _HEALTH_CODES[health.status])


@root.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def get_metrics(worker: Worker) -> Response:
    """Metrics in the text format of Prometheus."""
    text = await worker.probe(worker.operations.probes.metrics)
    return Response(text, media_type="text/plain; version=0.0.4")


plugins = APIRouter(prefix="/connector-plugins", tags=["plugins"])

_CLASS = "connector.class"
_SUFFIX = "Connector"


@plugins.get("", response_model=list[PluginInfo])
async def list_plugins(worker: Worker, connectors_only: ConnectorsOnly = True) -> Response:
    """Installed connectors; with `connectorsOnly=false` also transforms, predicates and converters."""
    plugins = await worker.run(worker.operations.plugins.installed, connectors_only=connectors_only)
    return json_response(list(plugins))


@plugins.get("/{plugin}/config", response_model=list[KeyDefinition])
async def get_plugin_config(plugin: PathText, worker: Worker, version: PluginVersion = None) -> Response:
    """Keys that a plugin takes (KIP-769), in one of its versions (KIP-891)."""
    keys = await worker.run(worker.operations.plugins.keys, plugin, version)
    return json_response(list(keys))


@plugins.put("/{plugin}/config/validate", response_model=ValidationReport, openapi_extra=takes(CONFIG_SCHEMA))
async def validate_config(plugin: PathText, request: Request, worker: Worker) -> Response:
    """Says what is wrong with a config, key by key; changes nothing."""
    config = await read_string_map(request, "a connector config")
    _check_class(config.get(_CLASS), plugin)
    report = await worker.run(worker.operations.plugins.validate, plugin, config)
    return json_response(report, headers=warning_header(report.warnings))


def _check_class(included: str | None, plugin: str) -> None:
    if not included:
        raise BadRequestError(f"Connector config contains no connector type; set {_CLASS}.")
    if not _base_name(included).endswith(_base_name(plugin)):
        raise BadRequestError(f"Included connector type {included} does not match request type {plugin}")


def _base_name(plugin: str) -> str:
    return plugin if plugin == _SUFFIX else plugin.removesuffix(_SUFFIX)


retention = APIRouter(prefix="/retention", tags=["retention"])


@retention.get("", response_model=RetentionInfo)
async def get_retention(worker: Worker, dry: Dry = False) -> Response:
    """Says of each topic up to where it was emptied, or why not; with dry=true what would be done now."""
    return json_response(await worker.run(worker.operations.cluster.retention, is_preview=dry))


@retention.get("/{topic}", response_model=TopicRetentionInfo)
async def get_topic_retention(topic: PathText, worker: Worker, dry: Dry = False) -> Response:
    """Says it of one topic."""
    info = await worker.run(worker.operations.cluster.retention, is_preview=dry)
    found = next((each for each in info.topics if each.topic == topic), None)
    if found is None:
        raise NotFoundError(
            f"There is no decision for topic {topic}: no pattern of delete.committed.topics matches it, the topic "
            "does not exist, or the first decision is still to come (dry=true decides now)"
        )
    return json_response(found)


admin = APIRouter(prefix="/admin/loggers", tags=["logging"])
"""Log levels of this worker (KIP-495) or of all (KIP-976), which are lost when a worker restarts."""


@admin.get("", response_model=dict[str, LoggerBody])
async def list_loggers() -> Response:
    """Loggers of this worker with their levels."""
    return json_response({name: _body(name) for name in loggers.names()})


@admin.get("/{logger}", response_model=LoggerBody)
async def get_logger(logger: PathText) -> Response:
    """Level of one logger."""
    if logger not in loggers.names():
        raise NotFoundError(f"Logger {logger} not found.")
    return json_response(_body(logger))


@admin.put(
    "/{logger}",
    response_model=list[str],
    responses=also(204, None, "Sent to all workers"),
    openapi_extra=takes(LevelBody),
)
async def put_level(
    logger: PathText,
    request: Request,
    worker: Worker,
    scope: Annotated[str, Query(description="worker, or cluster: all workers that run now")] = "worker",
) -> Response:
    """Sets the level of a logger and of its children, on this worker or on all."""
    body = await read_string_map(request, '"level"')
    level = body.get("level")
    if level is None:
        raise BadRequestError("Desired 'level' parameter was not specified in request.")
    if level.upper() not in LEVELS:
        raise NotFoundError(f"invalid log level '{level}'.")
    if scope.lower() == "cluster":
        await worker.run(worker.operations.cluster.set_log_level, logger, level.upper())
        return empty_response(204)
    return json_response(loggers.set_level(logger, level, int(time.time() * 1000)))


def _body(name: str) -> dict[str, object]:
    level, last_modified_ms = loggers.level(name)
    return {"level": level, "last_modified": last_modified_ms}
