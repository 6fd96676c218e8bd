"""`/connectors` and `/connectors/C`: connectors, their life cycle, tasks, topics and offsets."""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from fencepost.cluster.errors import BadRequestError, NotFoundError
from fencepost.cluster.figures import ConnectorFigures
from fencepost.cluster.info import ConnectorInfo, ConnectorStatus, StoredConnector, TaskInfo, TaskState
from fencepost.cluster.operations import LocalOperations
from fencepost.rest.access.need import Asking, Caller
from fencepost.rest.access.principal import Role
from fencepost.rest.body import offsets_body, read_create_request, read_offsets, read_string_map
from fencepost.rest.gateway import Worker
from fencepost.rest.model import (
    CONFIG_SCHEMA,
    PATCH_SCHEMA,
    ConfigMap,
    ConnectorGapsBody,
    ConnectorOffsetsBody,
    CreateBody,
    ExpandedBody,
    MessageBody,
    TopicsBody,
    also,
    takes,
)
from fencepost.rest.path import ConnectorName, Expand, IncludeTasks, OnlyFailed, TaskNumber, connector_location
from fencepost.rest.response import empty_response, json_response, warning_header

router = APIRouter(prefix="/connectors", tags=["connectors"])

_NAME = "name"
_CONFIG = "a connector config"


@router.get("", response_model=list[str] | dict[str, ExpandedBody])
async def list_connectors(
    worker: Worker,
    caller: Asking,
    expand: Expand = None,
) -> Response:
    """Names of all connectors that the caller may view; with `expand`, an object of what was asked about each."""
    if expand is None:
        return json_response(caller.visible(worker.local.connector_names()))
    parts: dict[str, Mapping[str, object]] = {}
    if "figures" in expand:
        names = caller.visible(worker.local.connector_names())
        parts["figures"] = await worker.look(worker.operations.probes.figures, names)
    # With thousands of connectors this takes a while, in which the loop has others to answer.
    return await worker.recall(lambda: json_response(_expanded(worker.local, expand, caller, parts)))


def _expanded(
    local: LocalOperations, expansions: list[str], caller: Caller, parts: dict[str, Mapping[str, object]]
) -> dict[str, dict[str, object]]:
    """Unknown expansions are ignored; a connector that vanishes meanwhile is left out."""
    if "status" in expansions:
        parts["status"] = local.connector_statuses()
    if "info" in expansions:
        parts["info"] = local.connector_infos()
    return {
        name: {kind: answers[name] for kind, answers in parts.items()}
        for name in caller.visible(local.connector_names())
        if all(name in answers for answers in parts.values())
    }


@router.post("", status_code=201, response_model=ConnectorInfo, openapi_extra=takes(CreateBody))
async def create_connector(request: Request, worker: Worker, caller: Asking) -> Response:
    """Creates a connector; 409 if there is one of that name."""
    wanted = await read_create_request(request)
    caller.ensure(Role.EDIT, wanted.name)
    config = _named(wanted.config, wanted.name)
    stored = await worker.run(
        worker.operations.connectors.create, wanted.name, config, wanted.initial_state, wanted.initial_offsets
    )
    return _stored(stored, wanted.name)


@router.get("/{name}", response_model=ConnectorInfo)
async def get_connector(name: ConnectorName, worker: Worker) -> Response:
    """Config, tasks and type of a connector."""
    return json_response(await worker.run(worker.operations.connectors.info, name))


@router.delete("/{name}", status_code=204)
async def delete_connector(name: ConnectorName, worker: Worker) -> Response:
    """Deletes a connector; its offsets stay."""
    await worker.run(worker.operations.connectors.delete, name)
    return empty_response(204)


@router.get("/{name}/config", response_model=ConfigMap)
async def get_config(name: ConnectorName, worker: Worker) -> Response:
    """Returns the config as it was given; variables of config providers are not resolved."""
    return json_response(dict(await worker.run(worker.operations.connectors.config, name)))


@router.put(
    "/{name}/config",
    response_model=ConnectorInfo,
    responses=also(201, ConnectorInfo, "Created"),
    openapi_extra=takes(CONFIG_SCHEMA),
)
async def put_config(name: ConnectorName, request: Request, worker: Worker) -> Response:
    """Replaces the config of a connector, or creates it; the tasks answered are those before the change."""
    config = _named(await read_string_map(request, _CONFIG), name)
    return _stored(await worker.run(worker.operations.connectors.put_config, name, config), name)


@router.patch("/{name}/config", response_model=ConnectorInfo, openapi_extra=takes(PATCH_SCHEMA))
async def patch_config(name: ConnectorName, request: Request, worker: Worker) -> Response:
    """Sets the given keys and removes those that are null (KIP-477)."""
    patch = await read_string_map(request, _CONFIG)
    if patch.get(_NAME) is not None:
        _named(patch, name)
    return _stored(await worker.run(worker.operations.connectors.patch_config, name, patch), name)


@router.get("/{name}/status", response_model=ConnectorStatus)
async def get_status(name: ConnectorName, worker: Worker) -> Response:
    """States of a connector and its tasks."""
    return json_response(worker.local.connector_status(name))


@router.get("/{name}/figures", response_model=ConnectorFigures)
async def get_figures(name: ConnectorName, worker: Worker) -> Response:
    """Returns what the tasks of a connector do, from all workers; takes 2 s at most."""
    figures = await worker.look(worker.operations.probes.figures, [name])
    if name not in figures:
        raise NotFoundError(f"Connector {name} not found")
    return json_response(figures[name])


def _stored(stored: StoredConnector, name: str) -> Response:
    warnings = warning_header(stored.warnings)
    if stored.created:
        return json_response(stored.info, 201, {"location": connector_location(name), **warnings})
    return json_response(stored.info, headers=warnings)


def _named(config: dict[str, str | None], name: str) -> dict[str, str | None]:
    """Returns the config with its name filled in; a different name in it is refused."""
    included = config.get(_NAME)
    if included is not None and included != name:
        raise BadRequestError(
            f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})"
        )
    return config | {_NAME: name}


lifecycle = APIRouter(prefix="/connectors/{name}", tags=["life cycle"])


@lifecycle.put("/pause", status_code=202, response_class=Response)
async def pause_connector(name: ConnectorName, worker: Worker) -> Response:
    """Pauses a connector and its tasks; they keep their resources."""
    await worker.run(worker.operations.connectors.pause, name)
    return empty_response(202)


@lifecycle.put("/resume", status_code=202, response_class=Response)
async def resume_connector(name: ConnectorName, worker: Worker) -> Response:
    """Lets a paused or stopped connector go on."""
    await worker.run(worker.operations.connectors.resume, name)
    return empty_response(202)


@lifecycle.put("/stop", status_code=204)
async def stop_connector(name: ConnectorName, worker: Worker) -> Response:
    """Stops a connector and removes its tasks; config and offsets stay (KIP-875)."""
    await worker.run(worker.operations.connectors.stop, name)
    return empty_response(204)


@lifecycle.post(
    "/restart",
    status_code=204,
    responses=also(202, ConnectorStatus, "The instances that will be restarted read RESTARTING"),
)
async def restart_connector(
    name: ConnectorName,
    worker: Worker,
    include_tasks: IncludeTasks = False,
    only_failed: OnlyFailed = False,
) -> Response:
    """Restarts a connector, with its tasks, or only what has failed (KIP-745)."""
    status = await worker.run(
        worker.operations.connectors.restart, name, include_tasks=include_tasks, only_failed=only_failed
    )
    return empty_response(204) if status is None else json_response(status, 202)


tasks = APIRouter(prefix="/connectors/{name}", tags=["tasks"])


@tasks.get("/tasks", response_model=list[TaskInfo])
async def list_tasks(name: ConnectorName, worker: Worker) -> Response:
    """Tasks of a connector with their configs."""
    tasks = await worker.run(worker.operations.tasks.configs, name)
    return json_response(list(tasks))


@tasks.get("/tasks/{task}/status", response_model=TaskState)
async def get_task_status(name: ConnectorName, task: TaskNumber, worker: Worker) -> Response:
    """State of one task."""
    return json_response(worker.local.task_status(name, task))


@tasks.post("/tasks/{task}/restart", status_code=204)
async def restart_task(name: ConnectorName, task: TaskNumber, worker: Worker) -> Response:
    """Restarts one task."""
    await worker.run(worker.operations.tasks.restart, name, task)
    return empty_response(204)


@tasks.get("/topics", response_model=dict[str, TopicsBody])
async def list_topics(name: ConnectorName, worker: Worker) -> Response:
    """Topics that the connector has used since its topics were last reset (KIP-558)."""
    return json_response({name: {"topics": list(worker.local.active_topics(name))}})


@tasks.put("/topics/reset", status_code=202, response_class=Response)
async def reset_topics(name: ConnectorName, worker: Worker) -> Response:
    """Forgets which topics the connector has used."""
    await worker.run(worker.operations.tasks.reset_active_topics, name)
    return empty_response(202)


offsets_router = APIRouter(prefix="/connectors/{name}", tags=["offsets"])


@offsets_router.get("/offsets", response_model=ConnectorOffsetsBody)
async def get_offsets(name: ConnectorName, worker: Worker) -> Response:
    """Returns the offset of every source partition that has one, in any state of the connector."""
    return json_response(offsets_body(await worker.run(worker.operations.offsets.read, name)))


@offsets_router.get("/gaps", response_model=ConnectorGapsBody)
async def get_gaps(name: ConnectorName, worker: Worker) -> Response:
    """Returns what a mirror has left out, where records of its source were gone before it had read them."""
    gaps = await worker.run(worker.operations.offsets.gaps, name)
    return json_response({"gaps": [dict(gap) for gap in gaps]})


@offsets_router.patch("/offsets", response_model=MessageBody, openapi_extra=takes(ConnectorOffsetsBody))
async def alter_offsets(name: ConnectorName, request: Request, worker: Worker) -> Response:
    """Sets the offsets of the given partitions of a stopped connector; null forgets one."""
    offsets = await read_offsets(request)
    return json_response({"message": await worker.run(worker.operations.offsets.alter, name, offsets)})


@offsets_router.delete("/offsets", response_model=MessageBody)
async def reset_offsets(name: ConnectorName, worker: Worker) -> Response:
    """Forgets all offsets of a stopped connector."""
    return json_response({"message": await worker.run(worker.operations.offsets.reset, name)})
