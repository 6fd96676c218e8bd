"""`/connector-plugins`: what can be run, which keys it takes, and whether a config would do."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from fencepost.cluster.errors import BadRequestError
from fencepost.cluster.info import KeyDefinition, PluginInfo, ValidationReport
from fencepost.rest.body import read_string_map
from fencepost.rest.describe import CONFIG_SCHEMA, takes
from fencepost.rest.gateway import Worker
from fencepost.rest.path import PathText
from fencepost.rest.query import ConnectorsOnly, PluginVersion
from fencepost.rest.response import json_response
from fencepost.rest.warning import warning_header

router = APIRouter(prefix="/connector-plugins", tags=["plugins"])

_CLASS = "connector.class"
_SUFFIX = "Connector"


@router.get("", response_model=list[PluginInfo])
async def list_plugins(worker: Worker, connectors_only: ConnectorsOnly = True) -> Response:
    """Installed connectors; with `connectorsOnly=false` also transforms, predicates and converters."""
    plugins = await worker.run(worker.operations.plugins.installed, connectors_only=connectors_only)
    return json_response(list(plugins))


@router.get("/{plugin}/config", response_model=list[KeyDefinition])
async def get_plugin_config(plugin: PathText, worker: Worker, version: PluginVersion = None) -> Response:
    """Keys that a plugin takes (KIP-769), in one of its versions (KIP-891)."""
    keys = await worker.run(worker.operations.plugins.keys, plugin, version)
    return json_response(list(keys))


@router.put("/{plugin}/config/validate", response_model=ValidationReport, openapi_extra=takes(CONFIG_SCHEMA))
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
