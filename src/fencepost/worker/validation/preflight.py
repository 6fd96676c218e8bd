"""Whether a connector can keep what its config promises about transactions (KIP-618's preflight checks)."""

from fencepost.api import ExactlyOnceSupport, SourceConnector
from fencepost.config.connector import SourceConnectorConfig
from fencepost.config.transaction import ExactlyOnceDemand, TransactionBoundary
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.worker.validation.findings import Findings


def check_exactly_once(findings: Findings, instance: SourceConnector, worker: WorkerConfig) -> None:
    demanding = instance.demands_exactly_once()
    if demanding is not None and worker.exactly_once is not ExactlyOnceSource.ENABLED:
        findings.fault(
            demanding,
            f"{demanding} needs exactly-once source support, which this worker does not have enabled: set "
            "exactly.once.source.support=enabled in the workers' files, or remove this setting.",
        )
    key = SourceConnectorConfig.key_of("exactly_once_support")
    if not findings.is_valid(key) or _chosen(findings, key) != ExactlyOnceDemand.REQUIRED.value:
        return
    if worker.exactly_once is not ExactlyOnceSource.ENABLED:
        findings.fault(key, "This worker does not have exactly-once source support enabled.")
    try:
        support = instance.exactly_once_support()
    except BaseException as error:
        findings.fault(key, _unexpected(error))
        return
    if support is None:
        findings.fault(
            key,
            "The connector does not implement the API required for preflight validation of exactly-once source "
            "support. Please consult the documentation for the connector to determine whether it supports "
            "exactly-once semantics, and then consider reconfiguring the connector to use the value "
            f'"{ExactlyOnceDemand.REQUESTED.value}" for this property (which will disable this preflight check and '
            "allow the connector to be created).",
        )
    elif support is not ExactlyOnceSupport.SUPPORTED:
        findings.fault(key, "The connector does not support exactly-once semantics with the provided configuration.")


def check_boundary(findings: Findings, instance: SourceConnector) -> None:
    key = SourceConnectorConfig.key_of("transaction_boundary")
    if not findings.is_valid(key) or _chosen(findings, key) != TransactionBoundary.CONNECTOR.value:
        return
    try:
        can_define = instance.can_define_transaction_boundaries()
    except BaseException as error:
        findings.fault(key, _unexpected(error))
        return
    if not can_define:
        findings.fault(
            key,
            "The connector does not support connector-defined transaction boundaries with the given configuration. "
            "Please reconfigure it to use a different transaction boundary definition.",
        )


def check_interval(findings: Findings, timeout_ms: int | None) -> None:
    """`timeout_ms`: how long a transaction may take; None if unknown, or if there are no transactions."""
    boundary, key = (SourceConnectorConfig.key_of(f"transaction_boundary{tail}") for tail in ("", "_interval_ms"))
    if timeout_ms is None:
        return
    is_valid = findings.is_valid(boundary) and findings.is_valid(key)
    if not is_valid or _chosen(findings, boundary) != TransactionBoundary.INTERVAL.value:
        return
    given = findings.by_key[key].value
    if given is not None and int(given) >= timeout_ms:
        findings.fault(
            key,
            f"Invalid value {given} for configuration {key}: a transaction may take transaction.timeout.ms={timeout_ms}"
            ", so the broker would end it before the interval is over. Set a shorter interval, or a longer "
            "producer.override.transaction.timeout.ms (the broker's transaction.max.timeout.ms bounds it).",
        )


def _chosen(findings: Findings, key: str) -> str:
    return (findings.by_key[key].value or "").strip().lower()


def _unexpected(error: BaseException) -> str:
    reason = str(error).strip() if isinstance(error, Exception) else repr(error)
    tail = f": {reason}" if reason else "; please see the worker logs for more details."
    return f"An unexpected error occurred during validation{tail}"
