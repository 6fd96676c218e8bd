"""Checks a connector's config before it is accepted, as Kafka Connect's `validate` does.

Steps, in the order of the answer:
1. what the framework reads from every config, with the transforms and predicates that this one names;
2. what the connector's own class declares;
3. overrides of client settings, against the worker's policy and against what is never allowed; the latter also
   applies to the settings of a connector's own clients;
4. the settings of converters that the config names itself.
References to config providers are looked up first; the answer shows them, and no value that they stand for (E11).
Nothing is stored or started. Texts and counts are Kafka Connect's where it has them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fencepost.api import Connector
from fencepost.cluster.errors import BadRequestError
from fencepost.cluster.info import KeyReport, KeyWarning, ValidationReport
from fencepost.config import ConfigError
from fencepost.config.connector import ConnectorConfig
from fencepost.config.reference import RawConfig, given_values, has_references
from fencepost.config.setting import validate_settings
from fencepost.config.worker import WorkerConfig
from fencepost.hook.hosted_task import KnowsSettings
from fencepost.plugin import PluginKind, PluginRegistry, PluginVersionError
from fencepost.plugin.secret_keys import hold_given_secrets, secret_keys, shown_texts
from fencepost.secret.known import hide, hide_known
from fencepost.secret.redaction import HIDDEN
from fencepost.worker.plan import NO_EFFECT, ConnectorPlan, fixed_reference_faults, looked_up, with_converters
from fencepost.worker.validation.chain import (
    CLASS,
    VERSION,
    Examination,
    Findings,
    converter_reports,
    framework_config,
    transform_findings,
    with_choices,
    without_choices,
)
from fencepost.worker.validation.check import CHECKS, key_in, reference_faults
from fencepost.worker.validation.client_settings import override_reports
from fencepost.worker.validation.typo import key_warnings


def validate_connector(
    config: RawConfig, *, plugins: PluginRegistry, worker: WorkerConfig, asks_systems: bool = True
) -> ValidationReport:
    """Return one answer per key, without the secrets of the config (E11).

    Args:
        plugins: Where the config's classes are found.
        asks_systems: Whether a Java connector's own checks run, which may ask the system that it is for. Without them,
            its values are checked by the types that it declares.

    Raises:
        BadRequestError: The config names no connector class, or one that does not exist.
    """
    forget = hold_given_secrets(config)
    try:
        return _validated(config, plugins, worker, asks_systems=asks_systems)
    finally:
        forget()


def _validated(
    config: RawConfig, plugins: PluginRegistry, worker: WorkerConfig, *, asks_systems: bool
) -> ValidationReport:
    class_name = config.get(CLASS)
    if class_name is None:
        raise BadRequestError(f"Connector config with the keys {sorted(config)} contains no connector type")
    fixed = fixed_reference_faults(config)
    if CLASS in fixed:
        raise BadRequestError(fixed[CLASS])
    plan = ConnectorPlan(worker, config, looked_up(worker, given_values(config)))
    try:
        connector = _connector_class(class_name, plan.given.get(VERSION), plugins)
    except PluginVersionError as error:
        return _without_class(config, error, plugins)
    case = Examination(plan, connector, plugins.beside(connector), asks_systems)
    findings = case.findings
    findings.add(with_choices(framework_config(connector).validate_values(plan.given), plan, case.plugins))  # 1
    findings.add(transform_findings(plan.given, case.plugins))
    _add_own(case)  # 2
    for check in CHECKS:
        if check.applies(case):
            case.run(check.find(case))
    overrides = override_reports(plan)  # 3
    converters = converter_reports(findings, plan.given, case.plugins)  # 4
    faults, said = reference_faults(case), shown_texts(config)
    reports = [shown(each, config, faults, said) for each in (*findings.reports(), *overrides, *converters)]
    found = _report(class_name, reports)
    return replace(found, warnings=(*case.warnings, *config_warnings(config, worker=worker, plugins=plugins)))


def shown(report: KeyReport, config: RawConfig, faults: Mapping[str, str], said: str = "") -> KeyReport:
    """Return the report of a key for users: it shows references, not what they refer to (E11).

    Args:
        config: the config with its references.
        faults: why references could not be looked up, or are not possible. Nothing else is said about these keys, as
            the text of a reference is no value.
        said: what the config shows itself. If secrets in that were hidden, it would say that they are some.
    """
    found = report.value
    key = found.name
    errors = (faults[key],) if key in faults else found.errors
    is_reference = found.value != HIDDEN and has_references({key: config.get(key)})
    is_secret = not is_reference and found.value is not None and key in secret_keys({key: config.get(key)})
    value = replace(
        found,
        value=HIDDEN if is_secret else config.get(key) if is_reference else found.value,
        errors=tuple(hide(each, unless_in=said) for each in errors),
        # Users choose one of them.
        recommended_values=tuple(hide_known(each, unless_in=said) for each in found.recommended_values),
    )
    return replace(report, value=value)


def config_warnings(config: RawConfig, *, worker: WorkerConfig, plugins: PluginRegistry) -> tuple[KeyWarning, ...]:
    """Return a warning for each key that has no effect or looks like a typo.

    No key looks like a typo if the settings of a class are not known here.
    """
    given = given_values(config)
    converters = given_values(with_converters(given, worker))
    unread = [KeyWarning(key, f"{key}: {NO_EFFECT}") for key in given if key not in converters]
    try:
        connector = plugins.find(PluginKind.CONNECTOR, given.get(CLASS) or "", given.get(VERSION))
        typos = key_warnings(given, connector, converters, plugins.beside(connector))
    except ConfigError:  # or a Java class cannot be asked for its settings
        typos = []
    return (*unread, *(one for one in typos if one.name in converters))


def _report(class_name: str, reports: Sequence[KeyReport]) -> ValidationReport:
    return ValidationReport(
        name=class_name,
        error_count=sum(len(report.value.errors) for report in reports),
        groups=tuple(dict.fromkeys(r.definition.group for r in reports if r.definition and r.definition.group)),
        configs=reports,
    )


def _without_class(config: RawConfig, error: PluginVersionError, plugins: PluginRegistry) -> ValidationReport:
    """Return the report on a config whose connector is installed in other versions: only the framework's keys."""
    findings, given = Findings(), given_values(config)
    values = ConnectorConfig.validate_values(given)
    findings.add(without_choices(values, given, plugins))
    for key in (CLASS, VERSION):
        findings.fault(key, str(error))
    findings.refuse_nulls(config)
    return _report(config[CLASS] or "", findings.reports())


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


def _connector_class(name: str, version: str | None, plugins: PluginRegistry) -> type[Connector]:
    """Return the class, in its newest version if the version cannot be read, which is a fault of its key.

    Raises PluginVersionError, or BadRequestError if there is no such class.
    """
    is_readable = not validate_settings([ConnectorConfig.settings()[VERSION]], {VERSION: version})[0].errors
    try:
        found: type[Connector] = plugins.find(PluginKind.CONNECTOR, name, version if is_readable else None)
    except PluginVersionError:
        raise
    except ConfigError as error:
        raise BadRequestError(str(error)) from error
    return found


def _add_own(case: Examination) -> None:
    """Add what the connector's class declares, by its own checks."""
    findings, connector, given = case.findings, case.connector, case.given
    # A reference that is not looked up is no value to log in with.
    is_known = case.plan.answers is None or not case.plan.answers.faults
    if isinstance(connector, KnowsSettings) and not (case.asks_systems and is_known):
        findings.add(validate_settings(connector.settings().values(), given))
        return
    try:
        findings.add(connector.validate(given))
    except ConfigError as error:
        findings.add(values := connector.validate_values(given))
        for text in error.messages:
            findings.fault(key_in(text, {value.setting.key for value in values}), text)
