"""A validation in progress: the plan, each key's value and its errors so far, and how REST shows both."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fencepost.api import Connector, SinkConnector, StreamConnector
from fencepost.cluster.info import KeyDefinition, KeyReport, KeyValue, KeyWarning
from fencepost.config import Setting, SettingValue
from fencepost.config.connector import (
    ConnectorConfig,
    SinkConnectorConfig,
    SourceConnectorConfig,
    StreamConnectorConfig,
)
from fencepost.config.reference import RawConfig
from fencepost.config.setting import rendered
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginRegistry
from fencepost.worker.plan import ConnectorPlan

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
