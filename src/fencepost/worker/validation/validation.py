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

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from fencepost.api import (
    Connector,
    DataFrameConnector,
    DataFrameStream,
    EpochConnector,
    SinkConnector,
    SourceConnector,
    StreamConnector,
)
from fencepost.cluster.errors import BadRequestError
from fencepost.cluster.info import KeyReport, KeyWarning, ValidationReport
from fencepost.config import Config, ConfigError
from fencepost.config.connector import (
    ConnectorConfig,
    DeadLetterConfig,
    RuntimeChoice,
    SinkChoice,
    SourceConnectorConfig,
)
from fencepost.config.raw import RawConfig, given_values, names_in
from fencepost.config.setting import validate_settings
from fencepost.config.topic_creation import DEFAULT_GROUP, topic_creation_faults
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.hook.hosted_task import KnowsSettings
from fencepost.plugin import PluginKind, PluginRegistry, PluginVersionError
from fencepost.plugin.secret_keys import hold_given_secrets, shown_texts
from fencepost.reference import is_of_providers
from fencepost.worker.closed_topics import closed_by_name
from fencepost.worker.fixed_reference import fixed_reference_faults
from fencepost.worker.ledger_choice import LEDGER_TOPIC
from fencepost.worker.settings import NO_EFFECT, looked_up, with_converters
from fencepost.worker.validation.chain import check_converters, converter_reports, transform_findings
from fencepost.worker.validation.choice import CLASS, VERSION, with_choices, without_choices
from fencepost.worker.validation.client_settings import (
    client_choice_fault,
    credential_faults,
    override_reports,
    own_client_faults,
    transaction_limit_ms,
)
from fencepost.worker.validation.findings import (
    Findings,
    framework_config,
    invalid,
)
from fencepost.worker.validation.former import hint, renamed_keys
from fencepost.worker.validation.ledger import ledger_fault
from fencepost.worker.validation.loop import check_loop
from fencepost.worker.validation.masking import shown
from fencepost.worker.validation.preflight import check_boundary, check_exactly_once, check_interval
from fencepost.worker.validation.sink import check_sink
from fencepost.worker.validation.stream import check_stream
from fencepost.worker.validation.typo import key_warnings

_NULL = "Null value can not be supplied as the configuration value."


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
    known = looked_up(worker, given_values(config))
    given = given_values(known.values)
    try:
        connector = _connector_class(class_name, given.get(VERSION), plugins)
    except PluginVersionError as error:
        return _without_class(config, error, plugins)
    plugins = plugins.beside(connector)
    findings = Findings()
    findings.add(with_choices(framework_config(connector).validate_values(given), given, worker, plugins))  # 1
    findings.add(transform_findings(given, plugins))
    # A reference that is not looked up is no value to log in with.
    _add_own(findings, connector, given, asks_systems=asks_systems and not known.faults)  # 2
    _explain_renamed(findings, connector, given, plugins)
    check_converters(findings, given, plugins, given_values(with_converters(given, worker)))
    if issubclass(connector, SinkConnector):
        check_sink(findings, given, worker)
    if issubclass(connector, StreamConnector):
        check_stream(findings, given, worker, plugins)
    if not issubclass(connector, SinkConnector) or issubclass(connector, StreamConnector):
        _check_topic_creation(findings, given)
    _check_dead_letters_topic(findings, given)
    _check_reach(findings, connector, given, worker)
    _check_nulls(findings, config)
    faults = {**known.faults, **fixed, **_provider_faults(given)}
    for key, text in faults.items():
        findings.fault(key, text)
    _check_unlisted(findings, given, RuntimeChoice)
    if (fault := client_choice_fault(given, worker)) is not None:
        findings.fault(RuntimeChoice.key_of("producer_client"), fault)
    if (fault := ledger_fault(connector, given, worker)) is not None:
        findings.fault(LEDGER_TOPIC, fault)
    _check_restarts(findings, given)
    if not issubclass(connector, SinkConnector):
        _check_unlisted(findings, given, DeadLetterConfig)
    else:
        _check_unlisted(findings, given, SinkChoice)
    if asks_systems or not isinstance(connector, KnowsSettings):
        _check_construction(findings, connector, given, worker, plugins)
    overrides = override_reports(given, worker)  # 3
    converters = converter_reports(findings, given, plugins)  # 4
    said = shown_texts(config)
    reports = (shown(each, config, faults, said) for each in (*findings.reports(), *overrides, *converters))
    found = _report(class_name, tuple(reports))
    return replace(found, warnings=config_warnings(config, worker=worker, plugins=plugins))


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
    _check_nulls(findings, config)
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


def _add_own(findings: Findings, connector: type[Connector], given: Mapping[str, str], *, asks_systems: bool) -> None:
    if isinstance(connector, KnowsSettings) and not asks_systems:
        findings.add(validate_settings(connector.settings().values(), given))
        return
    try:
        findings.add(connector.validate(given))
    except ConfigError as error:
        findings.add(values := connector.validate_values(given))
        for text in error.messages:
            findings.fault(_key_in(text, {value.setting.key for value in values}), text)


def _explain_renamed(
    findings: Findings, connector: type[Connector], given: Mapping[str, str], plugins: PluginRegistry
) -> None:
    """Name the old key of the config where the new one is missing."""
    name = plugins.name_of(PluginKind.CONNECTOR, connector)
    for old, new in renamed_keys(name, given, findings.by_key.keys()):
        if new not in given and not findings.is_valid(new):
            findings.fault(new, hint(old))


def _check_topic_creation(findings: Findings, given: Mapping[str, str]) -> None:
    names = names_in(given.get(SourceConnectorConfig.key_of("topic_creation_group_names")))
    for key, text in topic_creation_faults(given, [name for name in names if name != DEFAULT_GROUP]).items():
        findings.fault(key, text)


def _check_nulls(findings: Findings, config: RawConfig) -> None:
    for key, value in config.items():
        if value is None:
            findings.errors[key] = [_NULL]
            if key in findings.by_key:
                findings.by_key[key] = replace(findings.by_key[key], value=None)


def _provider_faults(given: Mapping[str, str]) -> dict[str, str]:
    """Refuse config providers: one declared by a connector could read any file for it (CVE-2024-31141)."""
    return {
        key: f"'{key}' can not be set by a connector: config providers belong in the worker's file."
        for key in given
        if is_of_providers(key)
    }


def _check_unlisted(findings: Findings, given: Mapping[str, str], config: type[Config]) -> None:
    """Check keys that only Fencepost has; an answer shows them only if they are wrong."""
    for one in config.validate_values(given):
        for text in one.errors:
            findings.fault(one.setting.key, text)


def _check_restarts(findings: Findings, given: Mapping[str, str]) -> None:
    if any(one.errors for one in RuntimeChoice.validate_values(given)):
        return
    choice, longest = RuntimeChoice(given), RuntimeChoice.key_of("restart_backoff_max_ms")
    if choice.restart_backoff_max_ms < choice.restart_backoff_initial_ms:
        first = RuntimeChoice.key_of("restart_backoff_initial_ms")
        text = f"Value must be at least that of {first}, {choice.restart_backoff_initial_ms}"
        findings.fault(longest, invalid(longest, choice.restart_backoff_max_ms, text))


def _check_construction(
    findings: Findings,
    connector: type[Connector],
    given: Mapping[str, str],
    worker: WorkerConfig,
    plugins: PluginRegistry,
) -> None:
    """Check what only an instance can answer; one is created once its own settings are valid."""
    if isinstance(connector, KnowsSettings) and not findings.is_valid(CLASS):
        return  # a Java class that cannot be asked for its settings
    if not all(findings.is_valid(key) for key in connector.settings()):
        return
    try:
        instance = connector(given)
    except ConfigError as error:
        for text in error.messages:
            findings.fault(_key_in(text, connector.settings()), text)
        return
    if isinstance(instance, StreamConnector | DataFrameStream):
        check_loop(findings, instance, given, plugins)
    if isinstance(instance, EpochConnector):
        effective = given_values(with_converters(given, worker))
        _check_frame(findings, lambda: _epoch_reader(instance, effective))
    if not isinstance(instance, SourceConnector):
        return
    check_exactly_once(findings, instance, worker)
    check_boundary(findings, instance)
    if worker.exactly_once is ExactlyOnceSource.ENABLED:
        check_interval(findings, transaction_limit_ms(given, worker))
    if isinstance(instance, DataFrameConnector):
        _check_frame(findings, lambda: _split_reader(instance, given))
        _check_no_dead_letters(
            findings,
            given,
            "Spark reads and converts the rows of a DataFrame connector, so single rows cannot fail. Remove {key}; "
            "with errors.tolerance=all, a split that cannot be read is set aside as a whole.",
        )


def _epoch_reader(connector: EpochConnector, given: Mapping[str, str]) -> object:
    from fencepost.spark.epoch.frame import EpochReader  # and PySpark with it, for which no worker's start waits
    from fencepost.spark.epoch.records import EpochRecords

    return EpochRecords(connector, given) if isinstance(connector, DataFrameStream) else EpochReader(connector, given)


def _split_reader(connector: DataFrameConnector, given: Mapping[str, str]) -> object:
    from fencepost.spark.split.splits import SplitReader

    return SplitReader(connector, given)


def _check_frame(findings: Findings, make_reader: Callable[[], object]) -> None:
    """Refuse what DataFrames do not support: transforms of single records, and converters that Spark lacks."""
    try:
        make_reader()
    except ConfigError as error:
        known = {text for texts in findings.errors.values() for text in texts}
        for text in (each for each in error.messages if each not in known):
            findings.fault(text.partition("=")[0].partition(":")[0], text)


def _check_dead_letters_topic(findings: Findings, given: Mapping[str, str]) -> None:
    """Refuse dead letter topics that contain the connector's offsets."""
    own = given.get(SourceConnectorConfig.key_of("offsets_storage_topic"))
    for key in (DeadLetterConfig.key_of("dead_letters_topic"), SinkChoice.key_of("resend_topic")):
        name = (given.get(key) or "").strip()
        if name and name == own:
            findings.fault(key, invalid(key, name, "this topic holds the connector's offsets; choose another one"))


def _check_reach(
    findings: Findings, connector: type[Connector], given: Mapping[str, str], worker: WorkerConfig
) -> None:
    """Refuse what no connector may reach: topics of the workers, and other hosts as the workers."""
    found = (
        closed_by_name(worker, given).faults(connector, given),
        own_client_faults(connector, given, worker),
        credential_faults(connector, given, worker),
    )
    for key, text in (pair for faults in found for pair in faults.items()):
        findings.fault(key, text)


def _check_no_dead_letters(findings: Findings, given: Mapping[str, str], reason: str) -> None:
    key = DeadLetterConfig.key_of("dead_letters_topic")
    if given.get(key):
        findings.fault(key, f"{key}: {reason.format(key=key)}")


def _key_in(text: str, keys: Collection[str]) -> str:
    """Return the key of these that an error names, so that the error is shown with it; else that of the class."""
    words = text.replace(":", " ").replace("'", " ").replace('"', " ").split()
    return next((word for word in words if word in keys), CLASS)
