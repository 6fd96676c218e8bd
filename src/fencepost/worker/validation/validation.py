"""Checks a connector's config before it is accepted, as Kafka Connect's `validate` does.

Steps, in the order of the answer:
1. what the framework reads of every config, with the transforms and predicates that this one names;
2. what the connector's own class declares;
3. overrides of client settings, against the worker's policy and against what is never allowed;
4. the settings of converters that the config names itself.
Nothing is stored or started. Texts and counts are Kafka Connect's where it has them.
"""

from collections.abc import Mapping

from fencepost.api import DataFrameConnector, SourceConnector
from fencepost.cluster.errors import BadRequestError
from fencepost.cluster.info import ValidationReport
from fencepost.config import ConfigError
from fencepost.config.connector import ConnectorConfig, RuntimeChoice, SourceConnectorConfig
from fencepost.config.raw import RawConfig
from fencepost.config.topic_creation import DEFAULT_GROUP, topic_creation_faults
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginKind
from fencepost.spark.splits import SplitReader
from fencepost.worker.validation.chain import FindPlugin, check_converters, converter_reports, transform_findings
from fencepost.worker.validation.client_settings import override_reports, transaction_limit_ms
from fencepost.worker.validation.findings import Findings, aliases, definition_of, plugin_definitions
from fencepost.worker.validation.preflight import check_boundary, check_exactly_once, check_interval

__all__ = ["FindPlugin", "definition_of", "plugin_definitions", "require_valid", "validate_connector"]

_NULL = "Null value can not be supplied as the configuration value."
_CLASS_KEY = ConnectorConfig.key_of("connector_class")
_PROVIDERS_KEY = WorkerConfig.key_of("config_providers")


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
    findings = Findings()
    findings.add(SourceConnectorConfig.validate_values(given))  # 1
    findings.add(transform_findings(given, find_plugin))
    _add_own(findings, connector, given)  # 2
    check_converters(findings, given, find_plugin)
    _check_topic_creation(findings, given)
    _check_nulls(findings, config)
    _check_providers(findings, given)
    _check_runtime_choice(findings, given)
    _check_construction(findings, connector, given, worker)
    overrides = override_reports(given, worker)  # 3
    converters = converter_reports(findings, given, find_plugin)  # 4
    reports = (*findings.reports(), *overrides, *converters)
    return ValidationReport(
        name=class_name,
        error_count=sum(len(report.value.errors) for report in reports),
        groups=tuple(dict.fromkeys(r.definition.group for r in reports if r.definition and r.definition.group)),
        configs=reports,
    )


def require_valid(report: ValidationReport) -> None:
    """Raise BadRequestError with every error of the report: nothing is stored or started (E12)."""
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


def _connector_class(name: str, find_plugin: FindPlugin) -> type[SourceConnector]:
    try:
        found: type[SourceConnector] = find_plugin(PluginKind.CONNECTOR, name)
    except ConfigError as error:
        raise BadRequestError(str(error)) from error
    return found


def _add_own(findings: Findings, connector: type[SourceConnector], given: Mapping[str, str]) -> None:
    try:
        findings.add(connector.validate(given))
    except ConfigError as error:
        findings.add(connector.validate_values(given))
        for text in error.messages:
            findings.fault(_key_in(text, connector), text)


def _check_topic_creation(findings: Findings, given: Mapping[str, str]) -> None:
    names = aliases(given.get(SourceConnectorConfig.key_of("topic_creation_group_names")))
    for key, text in topic_creation_faults(given, [name for name in names if name != DEFAULT_GROUP]).items():
        findings.fault(key, text)


def _check_nulls(findings: Findings, config: RawConfig) -> None:
    for key, value in config.items():
        if value is None:
            findings.errors[key] = [_NULL]


def _check_providers(findings: Findings, given: Mapping[str, str]) -> None:
    """Refuse config providers: one that a connector could declare would read any file for it (CVE-2024-31141)."""
    for key in given:
        if key == _PROVIDERS_KEY or key.startswith(f"{_PROVIDERS_KEY}."):
            findings.fault(key, f"'{key}' can not be set by a connector: config providers stand in the worker's file.")


def _check_runtime_choice(findings: Findings, given: Mapping[str, str]) -> None:
    for one in RuntimeChoice.validate_values(given):
        for text in one.errors:
            findings.fault(one.setting.key, text)


def _check_construction(
    findings: Findings, connector: type[SourceConnector], given: Mapping[str, str], worker: WorkerConfig
) -> None:
    """Check what can only be asked of an instance, which there is once its own settings are right."""
    if not all(findings.is_valid(key) for key in connector.settings()):
        return
    try:
        instance = connector(given)
    except ConfigError as error:
        for text in error.messages:
            findings.fault(_key_in(text, connector), text)
        return
    check_exactly_once(findings, instance, worker)
    check_boundary(findings, instance)
    check_interval(findings, transaction_limit_ms(given, worker), worker)
    if isinstance(instance, DataFrameConnector):
        _check_frame(findings, instance, given)


def _check_frame(findings: Findings, instance: DataFrameConnector, given: Mapping[str, str]) -> None:
    """Refuse what a DataFrame connector cannot follow: transforms record by record, converters that Spark has not."""
    try:
        SplitReader(instance, given)
    except ConfigError as error:
        for text in error.messages:
            findings.fault(text.partition("=")[0].partition(":")[0], text)


def _key_in(text: str, connector: type[SourceConnector]) -> str:
    """Return the key that an error names, so that it is shown there."""
    words = text.replace(":", " ").replace("'", " ").replace('"', " ").split()
    return next((word for word in words if word in connector.settings()), _CLASS_KEY)
