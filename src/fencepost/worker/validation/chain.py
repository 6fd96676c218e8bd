"""Validation of the transforms, predicates and converters that a config names, with the settings of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fencepost.cluster.info import KeyReport
from fencepost.config import Config, ConfigError, Setting, SettingValue, Type
from fencepost.config.connector import PREDICATES_GROUP, TRANSFORMS_GROUP, ConnectorConfig, implicit_transform_settings
from fencepost.config.setting import HIGH, Width, embedded, validate_settings
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginKind
from fencepost.worker.validation.findings import Findings, aliases, below, definition_of, invalid, report

FindPlugin = Callable[[PluginKind, str], type[Any]]

_CONVERTERS = {
    ConnectorConfig.key_of("header_converter"): (PluginKind.HEADER_CONVERTER, "header"),
    ConnectorConfig.key_of("key_converter"): (PluginKind.CONVERTER, "key"),
    ConnectorConfig.key_of("value_converter"): (PluginKind.CONVERTER, "value"),
}


def transform_findings(given: Mapping[str, str], find_plugin: FindPlugin) -> list[SettingValue]:
    """Return a value for each key of the transforms, and then of the predicates, that `given` names."""
    return [*_findings_of(_TRANSFORM, given, find_plugin), *_findings_of(_PREDICATE, given, find_plugin)]


def check_converters(findings: Findings, given: Mapping[str, str], find_plugin: FindPlugin) -> None:
    for key, (kind, _) in _CONVERTERS.items():
        if key in given and findings.is_valid(key):
            for text in _found(kind, findings.by_key[key], find_plugin)[1]:
                findings.fault(key, text)


def converter_reports(findings: Findings, given: Mapping[str, str], find_plugin: FindPlugin) -> list[KeyReport]:
    reports: list[KeyReport] = []
    for key, (kind, noun) in _CONVERTERS.items():
        if key not in given or not findings.is_valid(key):
            continue
        plugin = find_plugin(kind, given[key].strip())
        prefix = f"{key}."
        properties = {"converter.type": noun, **below(prefix, given)}
        for value in plugin.validate_values(properties):
            definition = definition_of(value.setting)
            reports.append(report(value, value.errors, replace(definition, name=prefix + definition.name)))
    return reports


def require_converters(worker: WorkerConfig, find_plugin: FindPlugin) -> None:
    """Raise ConfigError with all faults of the converters that a worker's file names.

    Missing settings of a converter are no fault: a connector's config may have them.
    """
    found = [fault for key in _CONVERTERS for fault in _worker_faults(key, worker, find_plugin)]
    if found:
        raise ConfigError(found)


def _worker_faults(key: str, worker: WorkerConfig, find_plugin: FindPlugin) -> list[str]:
    kind, noun = _CONVERTERS[key]
    name = str(worker.originals.get(key) or worker.settings()[key].default).strip()
    try:
        plugin = find_plugin(kind, name)
    except ConfigError as error:
        return [invalid(key, name, str(error))]
    given = worker.with_prefix(f"{key}.")
    values = plugin.validate_values({"converter.type": noun, **given})
    return [f"{key}: {error}" for value in values if value.setting.key in given for error in value.errors]


@dataclass(frozen=True)
class _Aliased:
    """What transforms and predicates have in common: aliases, and settings with the alias as their prefix."""

    list_key: str
    group: str
    kind: PluginKind
    noun: str
    implicit: Callable[[], list[Setting]]


_TRANSFORM = _Aliased(
    ConnectorConfig.key_of("transforms"),
    TRANSFORMS_GROUP,
    PluginKind.TRANSFORM,
    "Transformation",
    implicit_transform_settings,
)
_PREDICATE = _Aliased(ConnectorConfig.key_of("predicates"), PREDICATES_GROUP, PluginKind.PREDICATE, "Predicate", list)


def _findings_of(aliased: _Aliased, given: Mapping[str, str], find_plugin: FindPlugin) -> list[SettingValue]:
    findings: list[SettingValue] = []
    for alias in dict.fromkeys(aliases(given.get(aliased.list_key))):
        prefix, group = f"{aliased.list_key}.{alias}.", f"{aliased.group}: {alias}"
        declared = Setting(
            f"{prefix}type",
            doc=f"Class for the '{alias}' {aliased.noun.lower()}.",
            importance=HIGH,
            declared_type=Type.CLASS,
            group=group,
            width=Width.LONG,
            display_name=f"{aliased.noun} type for {alias}",
            order=0,
        )
        [value] = validate_settings([declared], given)
        plugin, errors = _found(aliased.kind, value, find_plugin)
        inner: list[SettingValue] = []
        if plugin is not None:
            implicit = aliased.implicit()
            masked = {one.key for one in implicit}
            own = [one for key, one in plugin.settings().items() if key not in masked]
            inner = validate_settings(embedded([*implicit, *own], prefix, group, first_order=1), given)
            inner = _with_known_predicate(inner, prefix, given)
            if not any(one.errors for one in inner):
                errors += _construction_errors(plugin, below(prefix, given, without=masked | {"type"}))
        errors += _negated_without_predicate(aliased, prefix, given)
        findings += [SettingValue(declared, value.value, errors), *inner]
    return findings


def _found(
    kind: PluginKind, value: SettingValue, find_plugin: FindPlugin
) -> tuple[type[Config] | None, tuple[str, ...]]:
    """Return the class that a value names, and the value's errors, including that of a missing class."""
    if value.errors or value.value is None:
        return None, value.errors
    try:
        return find_plugin(kind, value.value.strip()), ()
    except ConfigError as error:
        return None, (invalid(value.setting.key, value.value, str(error)),)


def _construction_errors(plugin: type[Config], properties: Mapping[str, object]) -> tuple[str, ...]:
    """Return a class's errors about values that are valid one by one."""
    try:
        plugin(properties)
    except ConfigError as error:
        return error.messages
    return ()


def _negated_without_predicate(aliased: _Aliased, prefix: str, given: Mapping[str, str]) -> tuple[str, ...]:
    negate, predicate = f"{prefix}negate", f"{prefix}predicate"
    if aliased is not _TRANSFORM or negate not in given or predicate in given:
        return ()
    text = f"Config '{negate}' was provided but there is no config '{predicate}' defining a predicate to be negated."
    return (text,)


def _with_known_predicate(findings: list[SettingValue], prefix: str, given: Mapping[str, str]) -> list[SettingValue]:
    """Add an error for an undeclared predicate, which would otherwise only fail the task's start."""
    key = f"{prefix}predicate"
    known = aliases(given.get(_PREDICATE.list_key))
    if given.get(key) is None or given[key].strip() in known:
        return findings
    text = invalid(key, given[key], f"there is no such alias in '{_PREDICATE.list_key}'")
    return [SettingValue(a.setting, a.value, (*a.errors, text)) if a.setting.key == key else a for a in findings]
