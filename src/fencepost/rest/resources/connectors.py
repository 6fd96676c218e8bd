"""`/connectors` and `/connectors/C`: create, look at, change and delete connectors."""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from fencepost.cluster.errors import BadRequestError, NotFoundError
from fencepost.cluster.figures import ConnectorFigures
from fencepost.cluster.info import ConnectorInfo, ConnectorStatus, StoredConnector
from fencepost.cluster.operations import LocalOperations
from fencepost.rest.access.caller import Asking, Caller
from fencepost.rest.access.principal import Role
from fencepost.rest.body import read_create_request, read_string_map
from fencepost.rest.describe import CONFIG_SCHEMA, PATCH_SCHEMA, also, takes
from fencepost.rest.gateway import Worker
from fencepost.rest.model import ConfigMap, CreateBody, ExpandedBody
from fencepost.rest.path import ConnectorName, connector_location
from fencepost.rest.query import Expand
from fencepost.rest.response import empty_response, json_response
from fencepost.rest.warning import warning_header

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
    return await worker.show(lambda: json_response(_expanded(worker.local, expand, caller, parts)))


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
