"""Validation without a worker: the plug-ins of a directory say what is wrong with a config."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import typer

from fencepost.cli.client import BOOTSTRAP, DEV, read_worker_file
from fencepost.cli.connect import RefusedError
from fencepost.cluster.errors import BadRequestError
from fencepost.config.file_limit import keep_from_connectors
from fencepost.config.reference import has_references
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginKind, PluginRegistry, use_plugin_path
from fencepost.rest.response import to_json
from fencepost.worker.file_limit import limit_files
from fencepost.worker.validation.validation import validate_connector

_PROVIDERS = WorkerConfig.key_of("config_providers")


class OfflineWorkers:
    """Answers what `Validation` asks workers.

    A reference to a config provider is not looked up: whatever is wrong with a value that has one is left out.
    """

    def __init__(self, plugins: PluginRegistry, worker: WorkerConfig) -> None:
        self._plugins = plugins
        self._worker = worker

    def put(self, *parts: object, body: Mapping[str, str]) -> Any:
        """Return the report on a config. Raises RefusedError if its class is not installed."""
        try:
            report = validate_connector(body, plugins=self._plugins, worker=self._worker, asks_systems=False)
        except BadRequestError as error:
            raise RefusedError(400, str(error)) from None
        found = orjson.loads(to_json(report))
        for one in found["configs"]:
            if has_references({"": body.get(one["value"]["name"])}):
                one["value"]["errors"] = []
        return found

    def find(self, *parts: object) -> Any:
        """Return the installed connectors."""
        return [{"class": name} for name in self._plugins.names(PluginKind.CONNECTOR)]


def offline_workers(plugin_path: Sequence[Path], properties: Path | None) -> OfflineWorkers:
    """Return what validates with these directories, and with the settings of a worker's file, or those of `dev`.

    Raises ConfigError.
    """
    given = {BOOTSTRAP: "localhost:9092", **DEV} if properties is None else read_worker_file(properties)
    worker = WorkerConfig({key: value for key, value in given.items() if not key.startswith(_PROVIDERS)})
    plugins = plugins_of(worker, plugin_path, properties)
    for failure in plugins.failures() if plugin_path or worker.plugin_path else ():
        typer.echo(failure, err=True)
    return OfflineWorkers(plugins, worker)


def plugins_of(worker: WorkerConfig, plugin_path: Sequence[Path], properties: Path | None) -> PluginRegistry:
    """Return the plug-ins of these directories, else of the worker's file `properties`.

    From here on this process refuses to connectors the files that such a worker refuses. Raises ConfigError.
    """
    limit_files(worker)
    keep_from_connectors([] if properties is None else [str(properties)])
    directories = [str(one) for one in plugin_path] or worker.plugin_path or []
    return use_plugin_path(directories, worker.java_options, worker.plugin_disabled)
