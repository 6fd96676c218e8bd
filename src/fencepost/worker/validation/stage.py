"""Validation of the transforms, predicates and converters that a config names, with the settings of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fencepost.cluster.answer import KeyReport
from fencepost.config import Config, ConfigError, Setting, SettingValue, Type
from fencepost.config.connector import PREDICATES_GROUP, TRANSFORMS_GROUP, ConnectorConfig, implicit_transform_settings
from fencepost.config.setting import HIGH, Width, embedded, validate_settings
from fencepost.plugin import PluginKind
from fencepost.worker.validation.answer import Answers, aliases, below, definition_of, invalid, report

FindPlugin = Callable[[PluginKind, str], type[Any]]

_CONVERTERS = {
    ConnectorConfig.key_of("header_converter"): (PluginKind.HEADER_CONVERTER, "header"),
    ConnectorConfig.key_of("key_converter"): (PluginKind.CONVERTER, "key"),
    ConnectorConfig.key_of("value_converter"): (PluginKind.CONVERTER, "value"),
}


def transform_answers(given: Mapping[str, str], find_plugin: FindPlugin) -> list[SettingValue]:
    """Return an answer for each key of the transforms and then of the predicates that `given` names."""
    return [*_stage_answers(_TRANSFORM, given, find_plugin), *_stage_answers(_PREDICATE, given, find_plugin)]


def check_converters(answers: Answers, given: Mapping[str, str], find_plugin: FindPlugin) -> None:
    for key, (kind, _) in _CONVERTERS.items():
        if key in given and answers.is_valid(key):
            for text in _found(kind, answers.by_key[key], find_plugin)[1]:
                answers.fault(key, text)


def converter_reports(answers: Answers, given: Mapping[str, str], find_plugin: FindPlugin) -> list[KeyReport]:
    reports: list[KeyReport] = []
    for key, (kind, noun) in _CONVERTERS.items():
        if key not in given or not answers.is_valid(key):
            continue
        plugin = find_plugin(kind, given[key].strip())
        prefix = f"{key}."
        properties = {"converter.type": noun, **below(prefix, given)}
        for answer in plugin.validate_values(properties):
            definition = definition_of(answer.setting)
            reports.append(report(answer, answer.errors, replace(definition, name=prefix + definition.name)))
    return reports


@dataclass(frozen=True)
class _Stage:
    """What transforms and predicates have in common: aliases, and settings below the alias."""

    list_key: str
    group: str
    kind: PluginKind
    noun: str
    implicit: Callable[[], list[Setting]]


_TRANSFORM = _Stage(
    ConnectorConfig.key_of("transforms"),
    TRANSFORMS_GROUP,
    PluginKind.TRANSFORM,
    "Transformation",
    implicit_transform_settings,
)
_PREDICATE = _Stage(ConnectorConfig.key_of("predicates"), PREDICATES_GROUP, PluginKind.PREDICATE, "Predicate", list)


def _stage_answers(stage: _Stage, given: Mapping[str, str], find_plugin: FindPlugin) -> list[SettingValue]:
    answers: list[SettingValue] = []
    for alias in dict.fromkeys(aliases(given.get(stage.list_key))):
        prefix, group = f"{stage.list_key}.{alias}.", f"{stage.group}: {alias}"
        declared = Setting(
            f"{prefix}type",
            doc=f"Class for the '{alias}' {stage.noun.lower()}.",
            importance=HIGH,
            declared_type=Type.CLASS,
            group=group,
            width=Width.LONG,
            display_name=f"{stage.noun} type for {alias}",
            order=0,
        )
        [answer] = validate_settings([declared], given)
        plugin, errors = _found(stage.kind, answer, find_plugin)
        inner: list[SettingValue] = []
        if plugin is not None:
            implicit = stage.implicit()
            masked = {one.key for one in implicit}
            own = [one for key, one in plugin.settings().items() if key not in masked]
            inner = validate_settings(embedded([*implicit, *own], prefix, group, first_order=1), given)
            inner = _with_known_predicate(inner, prefix, given)
            if not any(one.errors for one in inner):
                errors += _construction_errors(plugin, below(prefix, given, without=masked | {"type"}))
        errors += _negated_without_predicate(stage, prefix, given)
        answers += [SettingValue(declared, answer.value, errors), *inner]
    return answers


def _found(
    kind: PluginKind, answer: SettingValue, find_plugin: FindPlugin
) -> tuple[type[Config] | None, tuple[str, ...]]:
    """Return the class that a value names, and the answer's errors with the one that there is none."""
    if answer.errors or answer.value is None:
        return None, answer.errors
    try:
        return find_plugin(kind, answer.value.strip()), ()
    except ConfigError as error:
        return None, (invalid(answer.setting.key, answer.value, str(error)),)


def _construction_errors(plugin: type[Config], properties: Mapping[str, object]) -> tuple[str, ...]:
    """Return what a class finds wrong with values that are right one by one."""
    try:
        plugin(properties)
    except ConfigError as error:
        return error.messages
    return ()


def _negated_without_predicate(stage: _Stage, prefix: str, given: Mapping[str, str]) -> tuple[str, ...]:
    negate, predicate = f"{prefix}negate", f"{prefix}predicate"
    if stage is not _TRANSFORM or negate not in given or predicate in given:
        return ()
    text = f"Config '{negate}' was provided but there is no config '{predicate}' defining a predicate to be negated."
    return (text,)


def _with_known_predicate(answers: list[SettingValue], prefix: str, given: Mapping[str, str]) -> list[SettingValue]:
    """A predicate that is not declared would only be missed when the task starts."""
    key = f"{prefix}predicate"
    known = aliases(given.get(_PREDICATE.list_key))
    if given.get(key) is None or given[key].strip() in known:
        return answers
    text = invalid(key, given[key], f"there is no such alias in '{_PREDICATE.list_key}'")
    return [SettingValue(a.setting, a.value, (*a.errors, text)) if a.setting.key == key else a for a in answers]
