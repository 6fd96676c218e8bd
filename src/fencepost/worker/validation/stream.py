"""Checks of streams only: their output, and the transactions in which they commit their offsets."""

from collections.abc import Mapping

from fencepost.config.connector import ConnectorConfig
from fencepost.config.output import OUTPUT
from fencepost.config.raw import names_in
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginRegistry
from fencepost.worker.validation.chain import check_converters, converter_reports, transform_findings
from fencepost.worker.validation.client_settings import transaction_limit_ms
from fencepost.worker.validation.findings import Findings, below
from fencepost.worker.validation.preflight import check_interval

_SERVERS = WorkerConfig.key_of("bootstrap_servers")
_ISOLATION = "consumer.override.isolation.level"
_OF_THE_WAY_OUT = [
    ConnectorConfig.key_of(name)
    for name in ("key_converter", "value_converter", "header_converter", "transforms", "predicates")
]


def check_stream(findings: Findings, given: Mapping[str, str], worker: WorkerConfig, plugins: PluginRegistry) -> None:
    """Check converters and transforms of the output, the boundary's interval, and the isolation level."""
    _check_output(findings, below(OUTPUT, given), plugins)
    _check_cluster(findings, given, worker)
    check_interval(findings, transaction_limit_ms(given, worker))
    if (given.get(_ISOLATION) or "").strip().lower() == "read_uncommitted":
        why = "a stream's output must not outlive the records that it was made from, so it reads only committed ones"
        findings.fault(_ISOLATION, f"{_ISOLATION}: {why}. Remove {_ISOLATION}.")


def _check_cluster(findings: Findings, given: Mapping[str, str], worker: WorkerConfig) -> None:
    """Refuse two clusters: a transaction in one cannot contain offsets of a group in another."""
    read, written = (
        given.get(f"{client}.override.{_SERVERS}") or str(worker.client_properties(f"{client}.")[_SERVERS])
        for client in ("consumer", "producer")
    )
    if set(names_in(read)) != set(names_in(written)):
        key = f"producer.override.{_SERVERS}"
        findings.fault(
            key,
            f"{key}: a stream reads and writes one cluster, and commits its offsets with its output, but {written} is "
            f"not {read}, where it reads. Set the same consumer.override.{_SERVERS}, or mirror the output",
        )


def _check_output(findings: Findings, output: Mapping[str, str], plugins: PluginRegistry) -> None:
    """Check the output's settings like those of any connector; faults are reported with their full keys."""
    found = Findings()
    found.add(value for value in ConnectorConfig.validate_values(output) if value.setting.key in _OF_THE_WAY_OUT)
    found.add(transform_findings(output, plugins))
    check_converters(found, output, plugins, {})
    errors = {key: list(texts) for key, texts in found.errors.items()}
    for report in converter_reports(found, output, plugins):
        errors.setdefault(report.value.name, []).extend(report.value.errors)
    for key, texts in errors.items():
        own = OUTPUT + key
        for text in texts:
            if text.replace(key, own) not in findings.errors.get(own, ()):
                findings.fault(own, text.replace(key, own))
