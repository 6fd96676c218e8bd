"""Whether a connector can keep what its config promises about transactions (KIP-618's preflight checks)."""

from fencepost.api import ExactlyOnceSupport, SourceConnector
from fencepost.config.connector import ExactlyOnceDemand, SourceConnectorConfig, TransactionBoundary
from fencepost.kafka.setting.client_settings import transaction_timeout_ms
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.setting.translation import SettingsError, translate
from fencepost.worker.plan import PRODUCER
from fencepost.worker.validation.findings import Examination, Faults

_SUPPORT, _BOUNDARY, _INTERVAL = (
    SourceConnectorConfig.key_of(name)
    for name in ("exactly_once_support", "transaction_boundary", "transaction_boundary_interval_ms")
)


def exactly_once_faults(case: Examination) -> Faults:
    source, is_enabled = case.instance, case.worker.is_exactly_once
    assert isinstance(source, SourceConnector)
    demanding = source.demands_exactly_once()
    if demanding is not None and not is_enabled:
        yield (
            demanding,
            f"{demanding} needs exactly-once source support, which this worker does not have enabled: set "
            "exactly.once.source.support=enabled in the workers' files, or remove this setting.",
        )
    if case.chosen(_SUPPORT) != ExactlyOnceDemand.REQUIRED.value:
        return
    if not is_enabled:
        yield _SUPPORT, "This worker does not have exactly-once source support enabled."
    try:
        support = source.exactly_once_support()
    except BaseException as error:
        yield _SUPPORT, _unexpected(error)
        return
    if support is None:
        yield (
            _SUPPORT,
            "The connector does not implement the API required for preflight validation of exactly-once source "
            "support. Please consult the documentation for the connector to determine whether it supports "
            "exactly-once semantics, and then consider reconfiguring the connector to use the value "
            f'"{ExactlyOnceDemand.REQUESTED.value}" for this property (which will disable this preflight check and '
            "allow the connector to be created).",
        )
    elif support is not ExactlyOnceSupport.SUPPORTED:
        yield _SUPPORT, "The connector does not support exactly-once semantics with the provided configuration."


def boundary_faults(case: Examination) -> Faults:
    assert isinstance(case.instance, SourceConnector)
    if case.instance.defines_transactions:
        if case.text(_BOUNDARY) and case.chosen(_BOUNDARY) not in ("", TransactionBoundary.CONNECTOR.value):
            yield (
                _BOUNDARY,
                f"Invalid value {case.text(_BOUNDARY)} for configuration {_BOUNDARY}: this connector defines its "
                f"transactions itself; remove the setting, or set it to {TransactionBoundary.CONNECTOR.value}.",
            )
        return
    if case.chosen(_BOUNDARY) != TransactionBoundary.CONNECTOR.value:
        return
    try:
        can_define = case.instance.can_define_transaction_boundaries()
    except BaseException as error:
        yield _BOUNDARY, _unexpected(error)
        return
    if not can_define:
        yield (
            _BOUNDARY,
            "The connector does not support connector-defined transaction boundaries with the given configuration. "
            "Please reconfigure it to use a different transaction boundary definition.",
        )


def interval_faults(case: Examination) -> Faults:
    """Refuse an interval that is longer than a transaction of the connector's producers may take."""
    clients = case.plan.clients
    try:
        conf = translate(ClientKind.PRODUCER, {**clients.shared(PRODUCER), **clients.own(PRODUCER)}).conf
    except SettingsError:
        return
    timeout_ms = transaction_timeout_ms(conf)
    if not case.findings.is_valid(_INTERVAL) or case.chosen(_BOUNDARY) != TransactionBoundary.INTERVAL.value:
        return
    given = case.findings.by_key[_INTERVAL].value
    if given is not None and int(given) >= timeout_ms:
        yield (
            _INTERVAL,
            f"Invalid value {given} for configuration {_INTERVAL}: a transaction may take transaction.timeout.ms="
            f"{timeout_ms}, so the broker would end it before the interval is over. Set a shorter interval, or a "
            "longer producer.override.transaction.timeout.ms (the broker's transaction.max.timeout.ms bounds it).",
        )


def _unexpected(error: BaseException) -> str:
    reason = str(error).strip() if isinstance(error, Exception) else repr(error)
    tail = f": {reason}" if reason else "; please see the worker logs for more details."
    return f"An unexpected error occurred during validation{tail}"
