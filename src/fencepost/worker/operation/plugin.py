"""Installed plugins: which there are, which keys they take, and whether a config is valid."""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.cluster.errors import BadRequestError, NotFoundError, OperationError
from fencepost.cluster.info import KeyDefinition, PluginInfo, ValidationReport
from fencepost.config import ConfigError
from fencepost.config.reference import RawConfig
from fencepost.config.version import requirement_of
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginKind, PluginRegistry, PluginVersionError, VersionUnknownError, registry
from fencepost.worker.plan import kind_of_config
from fencepost.worker.validation.chain import CLASS, plugin_definitions
from fencepost.worker.validation.validation import validate_connector


class Plugins:
    """The `PluginOperations` of a worker."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config

    def installed(self, *, connectors_only: bool) -> Sequence[PluginInfo]:
        found = registry().all_plugins()
        shown = [p for p in found if not connectors_only or p.type in ("source", "sink")]
        return [PluginInfo(p.class_name, p.type, p.version) for p in shown]

    def kinds(self) -> Mapping[str, str]:
        kinds = {name: kind_of_config({CLASS: name}) for name in registry().names(PluginKind.CONNECTOR)}
        return {name: kind for name, kind in kinds.items() if kind is not None}

    def keys(self, plugin: str, version: str | None = None) -> Sequence[KeyDefinition]:
        try:
            requirement_of(version)
        except ValueError as error:
            raise BadRequestError(f"Invalid version specification: {version} ({error})") from None
        for plugins in registry().views():
            for kind in PluginKind:
                try:
                    found = plugins.find(kind, plugin, version)
                except (PluginVersionError, VersionUnknownError) as error:
                    raise BadRequestError(str(error)) from None
                except ConfigError:
                    continue
                return _definitions(kind, found, plugins)
        raise NotFoundError(f"Unknown plugin {plugin}.")

    def validate(self, plugin: str, config: RawConfig) -> ValidationReport:
        try:
            registry().find(PluginKind.CONNECTOR, plugin)
        except ConfigError as error:
            raise BadRequestError(str(error)) from None
        return validate_connector(config, plugins=registry(), worker=self._config)


def _definitions(kind: PluginKind, plugin: type[Any], plugins: PluginRegistry) -> Sequence[KeyDefinition]:
    try:
        return plugin_definitions(kind, plugin, plugins)
    except ConfigError as error:  # a Java class that no host can ask
        raise OperationError(str(error)) from None
