"""Checks a connector's config before it is accepted, as Kafka Connect's `validate` does (contract A.2).

Steps, in the order of the answer:
1. what the framework reads of every config, with the transforms and predicates that this one names;
2. what the connector's own class declares;
3. overrides of client settings, against the worker's policy and against what is never allowed;
4. the settings of converters that the config names itself.
Nothing is stored or started. Texts and counts are Kafka Connect's where it has them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.api import ExactlyOnceSupport, SourceConnector
from fencepost.cluster.operations import (
    BadRequestError,
    KeyDefinition,
    KeyReport,
    KeyValue,
    RawConfig,
    ValidationReport,
)
from fencepost.config import Config, ConfigError, Setting, SettingValue, Type
from fencepost.config.connector import (
    PREDICATES_GROUP,
    TRANSFORMS_GROUP,
    ConnectorConfig,
    SourceConnectorConfig,
    implicit_transform_settings,
)
from fencepost.config.override import check_overrides
from fencepost.config.setting import HIGH, Width, embedded, rendered, validate_settings
from fencepost.config.topic_creation import DEFAULT_GROUP, topic_creation_faults
from fencepost.config.transaction import ExactlyOnceDemand, TransactionBoundary
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.kafka.settings import Kind, SettingsError, translate
from fencepost.plugin import PluginKind

FindPlugin = Callable[[PluginKind, str], type[Any]]

_NULL = "Null value can not be supplied as the configuration value."
_CLASS_KEY = ConnectorConfig.key_of("connector_class")
_PROVIDERS_KEY = WorkerConfig.key_of("config_providers")
_CONVERTERS = {
    ConnectorConfig.key_of("header_converter"): (PluginKind.HEADER_CONVERTER, "header"),
    ConnectorConfig.key_of("key_converter"): (PluginKind.CONVERTER, "key"),
    ConnectorConfig.key_of("value_converter"): (PluginKind.CONVERTER, "value"),
}


def validate_connector(config: RawConfig, *, find_plugin: FindPlugin, worker: WorkerConfig) -> ValidationReport:
    """Return one answer per key; `config` has its config-provider variables resolved.

    Args:
        find_plugin: returns a plug-in's class by kind and name; raises ConfigError when there is none.

    Raises:
        BadRequestError: the config names no connector class, or one that there is not.
    """
    class_name = config.get(_CLASS_KEY)
    if class_name is None:
        raise BadRequestError(f"Connector config with the keys {sorted(config)} contains no connector type")
    connector = _connector_class(class_name, find_plugin)
    given = {key: value for key, value in config.items() if value is not None}
    answers = _Answers()
    answers.add(_framework_answers(given, find_plugin))  # 1
    answers.add(connector.validate(given))  # 2
    _check_classes(answers, given, find_plugin)
    _check_topic_creation(answers, given)
    _check_nulls(answers, config)
    _check_providers(answers, given)
    _check_construction(answers, connector, given, worker)
    overrides = _override_reports(given, worker)  # 3
    converters = _converter_reports(answers, given, find_plugin)  # 4
    reports = (*answers.reports(), *overrides, *converters)
    return ValidationReport(
        name=class_name,
        error_count=sum(len(report.value.errors) for report in reports),
        groups=tuple(dict.fromkeys(r.definition.group for r in reports if r.definition and r.definition.group)),
        configs=reports,
    )


def require_valid(report: ValidationReport) -> None:
    """Raises BadRequestError with every error of the report."""
    if not report.error_count:
        return
    lines = [error for one in report.configs for error in one.value.errors]
    raise BadRequestError(
        "\n".join(
            (
                f"Connector configuration is invalid and contains the following {report.error_count} error(s):",
                *lines,
                "You can also find the above list of errors at the endpoint "
                "`/connector-plugins/{connectorType}/config/validate`",
            )
        )
    )


def plugin_definitions(plugin: type[Config]) -> list[KeyDefinition]:
    """Return what a plug-in can be told: its own keys, then the framework's that it does not declare itself."""
    own = plugin.settings()
    shared = SourceConnectorConfig.settings() if issubclass(plugin, SourceConnector) else {}
    return [definition_of(one) for one in (*own.values(), *(s for k, s in shared.items() if k not in own))]


def definition_of(setting: Setting) -> KeyDefinition:
    """Return a setting as REST answers show it."""
    return KeyDefinition(
        name=setting.key,
        type=setting.kind.value,
        required=setting.is_required,
        default_value=None if setting.is_required else rendered(setting.default, setting.kind),
        importance=setting.importance.value,
        documentation=setting.doc,
        group=setting.group,
        order_in_group=setting.order,
        width=setting.width.value,
        display_name=setting.display_name or setting.key,
        dependents=setting.dependents,
    )


@dataclass
class _Answers:
    """The answers so far by key, in the order of their first mention; errors of undeclared keys beside them."""

    by_key: dict[str, SettingValue] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)

    def add(self, values: Iterable[SettingValue]) -> None:
        """A key that the connector declares as well is shown as the connector declares it."""
        for value in values:
            self.by_key[value.setting.key] = value
            self.errors[value.setting.key] = list(value.errors)

    def fault(self, key: str, text: str) -> None:
        self.errors.setdefault(key, []).append(text)

    def is_valid(self, key: str) -> bool:
        return not self.errors.get(key)

    def reports(self) -> list[KeyReport]:
        """Undeclared keys with errors come first, as in Kafka Connect."""
        undeclared = [
            KeyReport(None, KeyValue(key, None, errors=tuple(errors)))
            for key, errors in self.errors.items()
            if errors and key not in self.by_key
        ]
        return undeclared + [
            _report(answer, self.errors[key], definition_of(answer.setting)) for key, answer in self.by_key.items()
        ]


def _report(answer: SettingValue, errors: Iterable[str], definition: KeyDefinition) -> KeyReport:
    check = answer.setting.check
    recommended = check.recommended if check else ()
    return KeyReport(
        definition, KeyValue(definition.name, answer.value, recommended_values=recommended, errors=tuple(errors))
    )


def _invalid(key: str, value: object, reason: str) -> str:
    return f"Invalid value {value} for configuration {key}: {reason}"


# --- 1: the framework -----------------------------------------------------------------------------------------------


def _connector_class(name: str, find_plugin: FindPlugin) -> type[SourceConnector]:
    try:
        found: type[SourceConnector] = find_plugin(PluginKind.CONNECTOR, name)
    except ConfigError as error:
        raise BadRequestError(str(error)) from error
    return found


def _framework_answers(given: Mapping[str, str], find_plugin: FindPlugin) -> list[SettingValue]:
    base = SourceConnectorConfig.validate_values(given)
    return [
        *base,
        *_stage_answers(_TRANSFORM, given, find_plugin),
        *_stage_answers(_PREDICATE, given, find_plugin),
    ]


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
    for alias in dict.fromkeys(_aliases(given.get(stage.list_key))):
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
                errors += _construction_errors(plugin, _below(prefix, given, without=masked | {"type"}))
        errors += _negated_without_predicate(stage, prefix, given)
        answers += [SettingValue(declared, answer.value, errors), *inner]
    return answers


def _aliases(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _below(prefix: str, given: Mapping[str, str], *, without: Iterable[str] = ()) -> dict[str, str]:
    left_out = set(without)
    below = {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}
    return {key: value for key, value in below.items() if key not in left_out}


def _found(
    kind: PluginKind, answer: SettingValue, find_plugin: FindPlugin
) -> tuple[type[Config] | None, tuple[str, ...]]:
    """Return the class that a value names, and the answer's errors with the one that there is none."""
    if answer.errors or answer.value is None:
        return None, answer.errors
    try:
        return find_plugin(kind, answer.value.strip()), ()
    except ConfigError as error:
        return None, (_invalid(answer.setting.key, answer.value, str(error)),)


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
    known = _aliases(given.get(_PREDICATE.list_key))
    if given.get(key) is None or given[key].strip() in known:
        return answers
    text = _invalid(key, given[key], f"there is no such alias in '{_PREDICATE.list_key}'")
    return [SettingValue(a.setting, a.value, (*a.errors, text)) if a.setting.key == key else a for a in answers]


# --- 1 and 2: across keys -------------------------------------------------------------------------------------------


def _check_classes(answers: _Answers, given: Mapping[str, str], find_plugin: FindPlugin) -> None:
    for key, (kind, _) in _CONVERTERS.items():
        if key in given and answers.is_valid(key):
            for text in _found(kind, answers.by_key[key], find_plugin)[1]:
                answers.fault(key, text)


def _check_topic_creation(answers: _Answers, given: Mapping[str, str]) -> None:
    names = _aliases(given.get(SourceConnectorConfig.key_of("topic_creation_group_names")))
    for key, text in topic_creation_faults(given, [name for name in names if name != DEFAULT_GROUP]).items():
        answers.fault(key, text)


def _check_nulls(answers: _Answers, config: RawConfig) -> None:
    for key, value in config.items():
        if value is None:
            answers.errors[key] = [_NULL]


def _check_providers(answers: _Answers, given: Mapping[str, str]) -> None:
    """A provider that a connector could declare would read any file for it (CVE-2024-31141)."""
    for key in given:
        if key == _PROVIDERS_KEY or key.startswith(f"{_PROVIDERS_KEY}."):
            answers.fault(key, f"'{key}' can not be set by a connector: config providers stand in the worker's file.")


def _check_construction(
    answers: _Answers, connector: type[SourceConnector], given: Mapping[str, str], worker: WorkerConfig
) -> None:
    """What can only be asked of an instance, which there is once its own settings are right."""
    if not all(answers.is_valid(key) for key in connector.settings()):
        return
    try:
        instance = connector(given)
    except ConfigError as error:
        for text in error.messages:
            answers.fault(_key_in(text, connector), text)
        return
    _check_exactly_once(answers, instance, worker)
    _check_boundary(answers, instance)


def _key_in(text: str, connector: type[SourceConnector]) -> str:
    """Return the key that an error names, so that it is shown there."""
    words = text.replace(":", " ").replace("'", " ").replace('"', " ").split()
    return next((word for word in words if word in connector.settings()), _CLASS_KEY)


def _check_exactly_once(answers: _Answers, instance: SourceConnector, worker: WorkerConfig) -> None:
    key = SourceConnectorConfig.key_of("exactly_once_support")
    if not answers.is_valid(key) or _chosen(answers, key) != ExactlyOnceDemand.REQUIRED.value:
        return
    if worker.exactly_once is not ExactlyOnceSource.ENABLED:
        answers.fault(key, "This worker does not have exactly-once source support enabled.")
    try:
        support = instance.exactly_once_support()
    except Exception as error:
        answers.fault(key, _unexpected(error))
        return
    if support is None:
        answers.fault(
            key,
            "The connector does not implement the API required for preflight validation of exactly-once source "
            "support. Please consult the documentation for the connector to determine whether it supports "
            "exactly-once semantics, and then consider reconfiguring the connector to use the value "
            f'"{ExactlyOnceDemand.REQUESTED.value}" for this property (which will disable this preflight check and '
            "allow the connector to be created).",
        )
    elif support is not ExactlyOnceSupport.SUPPORTED:
        answers.fault(key, "The connector does not support exactly-once semantics with the provided configuration.")


def _check_boundary(answers: _Answers, instance: SourceConnector) -> None:
    key = SourceConnectorConfig.key_of("transaction_boundary")
    if not answers.is_valid(key) or _chosen(answers, key) != TransactionBoundary.CONNECTOR.value:
        return
    try:
        can_define = instance.can_define_transaction_boundaries()
    except Exception as error:
        answers.fault(key, _unexpected(error))
        return
    if not can_define:
        answers.fault(
            key,
            "The connector does not support connector-defined transaction boundaries with the given configuration. "
            "Please reconfigure it to use a different transaction boundary definition.",
        )


def _chosen(answers: _Answers, key: str) -> str:
    return (answers.by_key[key].value or "").strip().lower()


def _unexpected(error: Exception) -> str:
    reason = str(error).strip()
    tail = f": {reason}" if reason else "; please see the worker logs for more details."
    return f"An unexpected error occurred during validation{tail}"


# --- 3: overrides of client settings --------------------------------------------------------------------------------


def _override_reports(given: Mapping[str, str], worker: WorkerConfig) -> list[KeyReport]:
    return [report for kind in Kind for report in _overrides_of(kind, given, worker)]


def _overrides_of(kind: Kind, given: Mapping[str, str], worker: WorkerConfig) -> list[KeyReport]:
    """Values are never shown: any of them may be a secret (E11)."""
    prefix = f"{kind.value}.override."
    overrides = _below(prefix, given)
    refused = check_overrides(
        worker.override_policy,
        overrides,
        allowlist=worker.override_allowlist,
        allowed_paths=worker.override_allowed_paths,
    )
    refused = _untranslatable(kind, overrides, worker) | refused
    return [
        KeyReport(None, KeyValue(prefix + key, "[hidden]", errors=(refused[key],) if key in refused else ()))
        for key in overrides
    ]


def _untranslatable(kind: Kind, overrides: Mapping[str, str], worker: WorkerConfig) -> dict[str, str]:
    """Overrides are read together with what the worker says, as the client will; only their own faults count."""
    try:
        translate(kind, {**worker.client_properties(f"{kind.value}."), **overrides})
    except SettingsError as error:
        prefix = f"{kind.value}.override."
        return {
            key: f"Invalid value for configuration {prefix}{key}: {reason}"
            for key, reason in error.by_key.items()
            if key in overrides
        }
    return {}


# --- 4: converters --------------------------------------------------------------------------------------------------


def _converter_reports(answers: _Answers, given: Mapping[str, str], find_plugin: FindPlugin) -> list[KeyReport]:
    reports: list[KeyReport] = []
    for key, (kind, noun) in _CONVERTERS.items():
        if key not in given or not answers.is_valid(key):
            continue
        plugin = find_plugin(kind, given[key].strip())
        prefix = f"{key}."
        properties = {"converter.type": noun, **_below(prefix, given)}
        for answer in plugin.validate_values(properties):
            definition = definition_of(answer.setting)
            reports.append(_report(answer, answer.errors, replace(definition, name=prefix + definition.name)))
    return reports
