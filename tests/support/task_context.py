"""A task context for unit tests."""

from collections.abc import Mapping
from typing import Any

Offsets = list[tuple[dict[str, Any], dict[str, Any]]]


class Context:
    """Its wait returns at once and remembers what was asked; `committed` is what the connector has committed."""

    takes_columns = False
    transaction_bytes = None
    transaction_timeout_s = None

    def __init__(self, committed: Offsets | None = None) -> None:
        self.committed = committed or []
        self.waits: list[float] = []
        self.configs: dict[str, str] = {}
        self.transaction = None
        self.batches_refusal = "nobody writes"
        self.is_stopping = False

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any]:
        return next((offset for known, offset in self.committed if known == partition), {})

    def offsets(self) -> Offsets:
        return self.committed

    def wait(self, timeout_s: float) -> bool:
        self.waits.append(timeout_s)
        return False

    def wake(self) -> None:
        """Nobody sleeps here."""
