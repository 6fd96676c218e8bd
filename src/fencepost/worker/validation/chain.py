"""A validation in progress: the plan, each key's value and its errors so far, and how REST shows both.

The classes that a config names are found here, with their versions and settings, and what can be chosen.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from fencepost.api import Connector, Converter, SinkConnector, StreamConnector
from fencepost.cluster.info import KeyDefinition, KeyReport, KeyValue, KeyWarning
from fencepost.config import Config, ConfigError, Setting, SettingValue, Type
from fencepost.config.connector import (
    PLUGIN_VERSION,
    PREDICATES_GROUP,
    TRANSFORMS_GROUP,
    ConnectorConfig,
    SinkConnectorConfig,
    SourceConnectorConfig,
    StreamConnectorConfig,
    implicit_transform_settings,
)
from fencepost.config.reference import RawConfig, given_values, names_in
from fencepost.config.setting import HIGH, LOW, Width, embedded, rendered, validate_settings
from fencepost.config.version import version_requirement
from fencepost.config.worker import WorkerConfig
from fencepost.hook.hosted_chain import HostedPart
from fencepost.plugin import PluginKind, PluginRegistry, PluginVersionError
from fencepost.worker.plan import ConnectorPlan, with_converters

CLASS, VERSION = (ConnectorConfig.key_of(name) for name in ("connector_class", "connector_version"))
Faults = Iterable[tuple[str, str]]
"""Keys, each with the text of an error."""


def framework_config(connector: type[Connector]) -> type[ConnectorConfig]:
    """Return the config class with the framework's settings for a class of connectors."""
    if issubclass(connector, StreamConnector):
        return StreamConnectorConfig
    return SinkConnectorConfig if issubclass(connector, SinkConnector) else SourceConnectorConfig


def definition_of(setting: Setting) -> KeyDefinition:
    """Return a setting as the REST API shows it."""
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
class Findings:
    """The findings so far, by key, in the order of first mention; `errors` also has undeclared keys."""

    by_key: dict[str, SettingValue] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)

    def add(self, values: Iterable[SettingValue]) -> None:
        """Add values. A framework key that the connector declares as well is shown as the connector declares it."""
        for value in values:
            key = value.setting.key
            self.by_key[key] = value
            self.errors[key] = list(dict.fromkeys((*self.errors.get(key, ()), *value.errors)))

    def fault(self, key: str, text: str) -> None:
        self.errors.setdefault(key, []).append(text)

    def refuse_nulls(self, config: RawConfig) -> None:
        """Say of keys without a value only that."""
        for key in [key for key, value in config.items() if value is None]:
            self.errors[key] = ["Null value can not be supplied as the configuration value."]
            if key in self.by_key:
                self.by_key[key] = replace(self.by_key[key], value=None)

    def is_valid(self, key: str) -> bool:
        return not self.errors.get(key)

    def reports(self) -> list[KeyReport]:
        """Return the reports. Undeclared keys with errors come first, as in Kafka Connect."""
        undeclared = [
            KeyReport(None, KeyValue(key, None, errors=tuple(errors)))
            for key, errors in self.errors.items()
            if errors and key not in self.by_key
        ]
        return undeclared + [
            report(answer, self.errors[key], definition_of(answer.setting)) for key, answer in self.by_key.items()
        ]


@dataclass
class Examination:
    """What a check is given: a connector's plan and class, the registry for what its config names, and the findings.

    `instance` is made once the settings of the connector itself are valid.
    """

    plan: ConnectorPlan
    connector: type[Connector]
    plugins: PluginRegistry
    asks_systems: bool
    """Whether checks of a Java connector may ask the system that it is for."""
    findings: Findings = field(default_factory=Findings)
    warnings: list[KeyWarning] = field(default_factory=list)
    instance: Connector | None = None

    @property
    def given(self) -> dict[str, str]:
        return self.plan.given

    @property
    def worker(self) -> WorkerConfig:
        return self.plan.worker

    def text(self, key: str) -> str:
        """Return the value of a key without the spaces around it; empty if it has none."""
        return self.given.get(key, "").strip()

    def chosen(self, key: str) -> str:
        """Return the value of a key or its default, in small letters; empty if it is wrong."""
        return (self.findings.by_key[key].value or "").strip().lower() if self.findings.is_valid(key) else ""

    def warn(self, key: str, text: str) -> None:
        """Say what could not be checked, or may be wrong."""
        self.warnings.append(KeyWarning(key, f"{key}: {text}"))

    def run(self, faults: Faults) -> None:
        """Take the faults of a check, each before the next one is looked for."""
        for key, text in faults:
            self.findings.fault(key, text)


def report(answer: SettingValue, errors: Iterable[str], definition: KeyDefinition) -> KeyReport:
    recommended = answer.setting.recommended if answer.recommended is None else answer.recommended
    return KeyReport(definition, KeyValue(definition.name, answer.value, recommended, tuple(errors), answer.is_visible))


def invalid(key: str, value: object, reason: str) -> str:
    return f"Invalid value {value} for configuration {key}: {reason}"


def below(prefix: str, given: Mapping[str, str], *, without: Iterable[str] = ()) -> dict[str, str]:
    left_out = set(without)
    below = {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}
    return {key: value for key, value in below.items() if key not in left_out}


CONVERTERS = {
    ConnectorConfig.key_of("header_converter"): (PluginKind.HEADER_CONVERTER, "header"),
    ConnectorConfig.key_of("key_converter"): (PluginKind.CONVERTER, "key"),
    ConnectorConfig.key_of("value_converter"): (PluginKind.CONVERTER, "value"),
}
_CONVERTER_OF = {f"{converter}.{PLUGIN_VERSION}": converter for converter in CONVERTERS}
_CONVERTER_TYPE = "converter.type"


def transform_findings(given: Mapping[str, str], plugins: PluginRegistry) -> list[SettingValue]:
    """Return a value for each key of the transforms, and then of the predicates, that `given` names."""
    return [*_findings_of(_TRANSFORM, given, plugins), *_findings_of(_PREDICATE, given, plugins)]


def converter_faults(
    findings: Findings, given: Mapping[str, str], plugins: PluginRegistry, inherited: Mapping[str, str | None]
) -> Faults:
    """Refuse converters that are not installed in the version that the config asks for.

    Args:
        inherited: The classes of the converters that the config does not name.
    """
    for key, (kind, _) in CONVERTERS.items():
        version = given.get(f"{key}.{PLUGIN_VERSION}")
        name = given.get(key) or (inherited.get(key) if version is not None else None)
        if name is None or not findings.is_valid(key) or not findings.is_valid(f"{key}.{PLUGIN_VERSION}"):
            continue
        for faulty, text in _Wanted(kind, key, name, version).found(plugins)[1]:
            if faulty in given:
                yield faulty, text


def converter_reports(findings: Findings, given: Mapping[str, str], plugins: PluginRegistry) -> list[KeyReport]:
    reports: list[KeyReport] = []
    for key, (kind, noun) in CONVERTERS.items():
        version = f"{key}.{PLUGIN_VERSION}"
        if key not in given or not findings.is_valid(key) or not findings.is_valid(version):
            continue
        plugin = plugins.find(kind, given[key].strip(), given.get(version))
        prefix = f"{key}."
        properties = {_CONVERTER_TYPE: noun, **below(prefix, given, without=(PLUGIN_VERSION,))}
        for value in validate_settings(converter_settings(plugin), properties):
            definition = definition_of(value.setting)
            reports.append(report(value, value.errors, replace(definition, name=prefix + definition.name)))
    return reports


def converter_settings(plugin: type[Config]) -> list[Setting]:
    """Return the settings of a converter: first the one that says what it converts, unless that is always headers."""
    what = Setting(
        _CONVERTER_TYPE, doc="What the converter is used for: key, value or header. It is set by the framework.",
        importance=LOW, declared_type=Type.STRING,
    )  # fmt: skip
    own = [one for key, one in plugin.settings().items() if key != _CONVERTER_TYPE]
    return [what, *own] if issubclass(plugin, Converter) else own


def require_converters(worker: WorkerConfig, plugins: PluginRegistry) -> None:
    """Raise ConfigError with all faults of the converters that a worker's file names.

    Missing settings of a converter are no fault: a connector's config may have them.
    """
    found = [fault for key in CONVERTERS for fault in _worker_faults(key, worker, plugins)]
    if found:
        raise ConfigError(found)


def _worker_faults(key: str, worker: WorkerConfig, plugins: PluginRegistry) -> list[str]:
    kind, noun = CONVERTERS[key]
    name = str(worker.originals.get(key) or worker.settings()[key].default).strip()
    given = worker.with_prefix(f"{key}.")
    version = given.pop(PLUGIN_VERSION, None)
    try:
        plugin = plugins.find(kind, name, None if version is None else str(version))
    except PluginVersionError as error:
        return [invalid(f"{key}.{PLUGIN_VERSION}", version, str(error))]
    except ConfigError as error:
        return [invalid(key, name, str(error))]
    values = plugin.validate_values({_CONVERTER_TYPE: noun, **given})
    return [f"{key}: {error}" for value in values if value.setting.key in given for error in value.errors]


@dataclass(frozen=True)
class _Wanted:
    """A plug-in that a key of a config names, and the version that the key beside it asks for."""

    kind: PluginKind
    key: str
    name: str
    version: str | None

    @property
    def version_key(self) -> str:
        return f"{self.key.removesuffix('.type')}.{PLUGIN_VERSION}"

    def found(self, plugins: PluginRegistry) -> tuple[type[Config] | None, list[tuple[str, str]]]:
        """Return the class, and the faults, each with its key; a wrong version is a fault of both keys."""
        try:
            return plugins.find(self.kind, self.name.strip(), self.version), []
        except PluginVersionError as error:
            return None, [(self.key, str(error)), (self.version_key, str(error))]
        except ConfigError as error:
            return None, [(self.key, invalid(self.key, self.name, str(error)))]


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


def _findings_of(aliased: _Aliased, given: Mapping[str, str], plugins: PluginRegistry) -> list[SettingValue]:
    findings: list[SettingValue] = []
    for alias in dict.fromkeys(names_in(given.get(aliased.list_key))):
        prefix, group = f"{aliased.list_key}.{alias}.", f"{aliased.group}: {alias}"
        declared, versioned = _own_settings(aliased, alias, prefix, group)
        [value, version] = validate_settings([declared, versioned], given)
        plugin: type[Config] | None = None
        faults = [(declared.key, text) for text in value.errors]
        if value.value is not None:
            asked = None if version.errors else given.get(versioned.key)
            plugin, faults = _Wanted(aliased.kind, declared.key, value.value, asked).found(plugins)
        inner: list[SettingValue] = []
        if plugin is not None and not version.errors:
            implicit = aliased.implicit()
            masked = {one.key for one in implicit} | {PLUGIN_VERSION}
            own = [one for key, one in plugin.settings().items() if key not in masked]
            inner = validate_settings(embedded([*implicit, *own], prefix, group, first_order=2), given)
            inner = _with_known_predicate(inner, prefix, given)
            if not any(one.errors for one in inner):
                without = masked | {"type"}
                faults += [
                    (declared.key, text) for text in _construction_errors(plugin, below(prefix, given, without=without))
                ]
        faults += [(declared.key, text) for text in _negated_without_predicate(aliased, prefix, given)]
        own_values = _enriched(aliased.kind, plugin, value, version, plugins)
        findings += [replace(one, errors=(*one.errors, *_of_key(faults, one))) for one in own_values]
        findings += inner
    return findings


def _own_settings(aliased: _Aliased, alias: str, prefix: str, group: str) -> tuple[Setting, Setting]:
    noun = aliased.noun.lower()
    return (
        Setting(
            f"{prefix}type", doc=f"Class for the '{alias}' {noun}.", importance=HIGH, declared_type=Type.CLASS,
            group=group, width=Width.LONG, display_name=f"{aliased.noun} type for {alias}", order=0,
        ),
        Setting(
            prefix + PLUGIN_VERSION, None, check=version_requirement(), doc=f"Version of the '{alias}' {noun}.",
            importance=HIGH, declared_type=Type.STRING, group=group, width=Width.LONG,
            display_name=f"{aliased.noun} version for {alias}", order=1,
        ),
    )  # fmt: skip


def _enriched(
    kind: PluginKind,
    plugin: type[Config] | None,
    value: SettingValue,
    version: SettingValue,
    plugins: PluginRegistry,
) -> tuple[SettingValue, SettingValue]:
    """Return the class with its full name, and the version with its default and the versions that are installed."""
    value = replace(value, recommended=tuple(plugins.names(kind)))
    if value.value is None:
        return value, version
    versions = plugins.versions(kind, value.value)
    if plugin is not None:
        value = replace(value, value=plugins.name_of(kind, plugin))
    elif not versions:
        value = replace(value, value=None)
    newest = versions[-1] if versions else None
    return value, with_default(version, newest, versions)


def with_default(value: SettingValue, default: str | None, recommended: tuple[str, ...]) -> SettingValue:
    """Return a key's value with another default and other recommended values."""
    shown = default if value.value is None and not value.errors else value.value
    return replace(value, setting=replace(value.setting, default=default), value=shown, recommended=recommended)


def _of_key(faults: list[tuple[str, str]], value: SettingValue) -> tuple[str, ...]:
    return tuple(text for key, text in faults if key == value.setting.key and text not in value.errors)


def _construction_errors(plugin: type[Config], properties: Mapping[str, object]) -> tuple[str, ...]:
    """Return a class's errors about values that are valid one by one."""
    try:
        made = plugin(properties)
        if isinstance(made, HostedPart):
            made.require_valid()
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
    known = names_in(given.get(_PREDICATE.list_key))
    if given.get(key) is None or given[key].strip() in known:
        return findings
    text = invalid(key, given[key], f"there is no such alias in '{_PREDICATE.list_key}'")
    return [replace(a, errors=(*a.errors, text)) if a.setting.key == key else a for a in findings]


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


def with_choices(values: Iterable[SettingValue], plan: ConnectorPlan, plugins: PluginRegistry) -> list[SettingValue]:
    """Return the values of a connector's config, with the defaults and recommended values of classes and versions."""
    named = {key: plan.given[key] for key in (CLASS, VERSION) if key in plan.given}
    effective, inherited = (given_values(each) for each in (plan.effective, with_converters(named, plan.worker)))
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
    try:
        return plugins.name_of(kind, plugins.find(kind, name.strip()))
    except ConfigError:
        return None
