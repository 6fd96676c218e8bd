"""Checks whether a connector can have the ledger that its config asks for."""

from collections.abc import Mapping

from fencepost.api import Connector
from fencepost.config.worker import WorkerConfig
from fencepost.worker.ledger_choice import LEDGER_TOPIC, why_no_ledger
from fencepost.worker.validation.findings import invalid


def ledger_fault(connector: type[Connector], given: Mapping[str, str], worker: WorkerConfig) -> str | None:
    """Return why the connector cannot have its ledger; None if it can, or if it has none of its own."""
    topic = (given.get(LEDGER_TOPIC) or "").strip()
    reason = why_no_ledger(connector, topic, given, worker) if topic else None
    return None if reason is None else invalid(LEDGER_TOPIC, topic, reason)
