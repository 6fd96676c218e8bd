"""The keys that choose a connector, its converters and their versions, with what can be chosen on this worker."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fencepost.api import Connector
from fencepost.cluster.info import KeyDefinition
from fencepost.config import Config, ConfigError, SettingValue
from fencepost.config.connector import PLUGIN_VERSION, ConnectorConfig
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginKind, PluginRegistry
from fencepost.worker.settings import with_converters
from fencepost.worker.validation.chain import CONVERTERS, converter_settings, with_default
from fencepost.worker.validation.findings import definition_of, framework_config

CLASS, VERSION = (ConnectorConfig.key_of(name) for name in ("connector_class", "connector_version"))
_CONVERTER_OF = {f"{converter}.{PLUGIN_VERSION}": converter for converter in CONVERTERS}


def plugin_definitions(kind: PluginKind, plugin: type[Config], plugins: PluginRegistry) -> list[KeyDefinition]:
    """Return the settings of a plug-in: its own, then those of the framework that it does not declare itself."""
    if kind in (PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER):
        return [definition_of(one) for one in converter_settings(plugin)]
    own = plugin.settings()
    shared = framework_config(plugin).settings() if issubclass(plugin, Connector) else {}
    found = [*own.values(), *(one for key, one in shared.items() if key not in own)]
    versions = plugins.versions(kind, plugins.name_of(kind, plugin))
    newest = versions[-1] if versions else None
    return [definition_of(replace(one, default=newest) if one.key == VERSION else one) for one in found]


def with_choices(
    values: Iterable[SettingValue], given: Mapping[str, str], worker: WorkerConfig, plugins: PluginRegistry
) -> list[SettingValue]:
    """Return the values of a connector's config, with the defaults and recommended values of classes and versions."""
    effective, inherited = (
        {key: value for key, value in with_converters(config, worker).items() if value is not None}
        for config in (given, {key: given[key] for key in (CLASS, VERSION) if key in given})
    )
    return [_with_choices(one, effective, inherited, plugins) for one in values]


def without_choices(
    values: Iterable[SettingValue], given: Mapping[str, str], plugins: PluginRegistry
) -> list[SettingValue]:
    """Return the values of a config whose connector cannot be had: only its version can be chosen."""
    found = []
    for value in values:
        key = value.setting.key
        if key == VERSION:
            value = _with_versions(value, PluginKind.CONNECTOR, given[CLASS], plugins)
        elif key in _CONVERTER_OF:
            value = replace(value, is_visible=_CONVERTER_OF[key] in given)
        found.append(value)
    return found


def _with_choices(
    value: SettingValue, effective: Mapping[str, str], inherited: Mapping[str, str], plugins: PluginRegistry
) -> SettingValue:
    key = value.setting.key
    if key == VERSION:
        return _with_versions(value, PluginKind.CONNECTOR, effective[CLASS], plugins)
    if key in CONVERTERS:
        kind, default = CONVERTERS[key][0], inherited[key]
        value = with_default(value, _full_name(kind, default, plugins) or default, tuple(plugins.names(kind)))
        return value if value.value is None else replace(value, value=_full_name(kind, value.value, plugins))
    if key in _CONVERTER_OF:
        converter = _CONVERTER_OF[key]
        return _with_versions(value, CONVERTERS[converter][0], effective[converter], plugins)
    return value


def _with_versions(value: SettingValue, kind: PluginKind, name: str, plugins: PluginRegistry) -> SettingValue:
    versions = plugins.versions(kind, name.strip())
    return replace(with_default(value, versions[-1] if versions else None, versions), is_visible=bool(versions))


def _full_name(kind: PluginKind, name: str, plugins: PluginRegistry) -> str | None:
    """Return the full name of a class; None if there is no such class."""
    try:
        return plugins.name_of(kind, plugins.find(kind, name.strip()))
    except ConfigError:
        return None
