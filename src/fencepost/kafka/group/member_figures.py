"""What a member of a group measures: its rebalances, and the requests of its client."""

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from fencepost.telemetry.rate import WindowedRates

EVERY_MS = 1000
"""How often the client reports, which is also how exactly the length of a rebalance is known."""
_TOTALS = ("tx", "rx", "tx_bytes", "rx_bytes")
_STEADY = ("steady", "init")  # states of librdkafka's member in which no rebalance is under way


@dataclass(frozen=True)
class MemberFigures:
    """Times are in seconds; `since_last_s` is None before the first rebalance.

    `rates`, a second, are librdkafka's (STATISTICS.md): `tx` and `rx` are requests and responses, `tx_bytes` and
    `rx_bytes` their bytes.
    """

    rebalances: int = 0
    rebalance_mean_s: float = 0.0
    rebalance_max_s: float = 0.0
    since_last_s: float | None = None
    connections: int = 0
    rates: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_TOTALS, 0.0))


@dataclass
class _Rebalances:
    """Times are monotonic; `begun_s` is None while none is under way, as far as is known."""

    begun_s: float | None = None
    ended_s: float | None = None
    count: int = 0
    total_s: float = 0.0
    longest_s: float = 0.0

    def end(self) -> None:
        """Count one that ends now. One that no statistics have seen takes no time."""
        self.ended_s = time.monotonic()
        took_s = 0.0 if self.begun_s is None else self.ended_s - self.begun_s
        self.begun_s = None
        self.count += 1
        self.total_s += took_s
        self.longest_s = max(self.longest_s, took_s)


class MemberMeter:
    """Written by the member's thread, read by any."""

    def __init__(self, rates: WindowedRates | None = None) -> None:
        self._lock = threading.Lock()
        self._rates = rates or WindowedRates()
        self._rebalances = _Rebalances()
        self._connections = 0
        self._before = dict.fromkeys(_TOTALS, 0.0)  # of clients that were replaced
        self._of_client = dict.fromkeys(_TOTALS, 0.0)

    def joins(self) -> None:
        """Note that a new client begins to join."""
        with self._lock:
            self._rebalances.begun_s = time.monotonic()
            self._before = {name: self._before[name] + self._of_client[name] for name in _TOTALS}
            self._of_client = dict.fromkeys(_TOTALS, 0.0)

    def take(self, text: str) -> None:
        """Take a client's statistics, in librdkafka's JSON."""
        found: dict[str, Any] = json.loads(text)
        now_s = time.monotonic()
        with self._lock:
            self._of_client = {name: float(found.get(name, 0)) for name in _TOTALS}
            self._rates.add({name: self._before[name] + self._of_client[name] for name in _TOTALS}, now_s)
            self._connections = sum(each.get("state") == "UP" for each in found.get("brokers", {}).values())
            is_steady = found.get("cgrp", {}).get("join_state", "init") in _STEADY
            if self._rebalances.begun_s is None and not is_steady:
                self._rebalances.begun_s = now_s

    def assigned(self) -> None:
        """Note the end of a rebalance."""
        with self._lock:
            self._rebalances.end()

    def figures(self) -> MemberFigures:
        """Return what is known now."""
        now_s = time.monotonic()
        with self._lock:
            seen = self._rebalances
            return MemberFigures(
                seen.count,
                seen.total_s / seen.count if seen.count else 0.0,
                seen.longest_s,
                None if seen.ended_s is None else now_s - seen.ended_s,
                self._connections,
                self._rates.per_second(now_s) or dict.fromkeys(_TOTALS, 0.0),
            )
