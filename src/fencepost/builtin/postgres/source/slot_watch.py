"""What a slot costs its server: how much log it keeps, how far behind it is, and which old rows are kept for it."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.postgres.connection import connect
from fencepost.postgres.error import explain
from fencepost.postgres.slots import SlotState, slot_state

log = logging.getLogger(__name__)

_LOOK_S = 5.0
_MOST_ENDS = 1_000
_SNAPSHOT_AGE = (
    "SELECT max(age(backend_xmin)) FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()"
)
_AT_RISK = ("unreserved", "lost")

Rows = Sequence[Sequence[str | float]]


class Lag:
    """Measures how long the log has had something that a position does not cover, by where the log ended when."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, int]] = []

    def seconds(self, now_s: float, end_lsn: int, confirmed_lsn: int) -> float:
        """Return the lag of a position, and remember where the log ends now."""
        if not self._ends or end_lsn > self._ends[-1][1]:
            self._ends.append((now_s, end_lsn))
        self._ends = [one for one in self._ends if one[1] > confirmed_lsn]
        if len(self._ends) > _MOST_ENDS:
            self._ends = self._ends[::2]
        return now_s - self._ends[0][0] if self._ends else 0.0


class SlotWatch:
    """Looks at a slot every few seconds, in a thread of its own and over a connection of its own."""

    def __init__(self, config: SourceSettings, remark: Callable[[str | None], None]) -> None:
        """`remark` shows a problem in the connector's status; None clears it."""
        self._config, self._remark = config, remark
        self._lag = Lag()
        self._said: str | None = None
        self._connection: Any = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="postgres-slot", daemon=True)
        self.figures: Rows = ()
        """The newest: name, tags, value. Empty if the server does not answer, or there is no slot."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; one that waits for the server ends when that answers."""
        self._stopped.set()
        self._thread.join(_LOOK_S)

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_S):
            try:
                self.look()
            except Exception as error:
                log.info("%s: the slot is looked at again: %s", self._config.prefix, explain(error))
                self.figures = ()
                self._close()
        self._close()

    def look(self) -> None:
        """Ask the server, and keep what it says."""
        settings = self._config.connection_settings()
        if self._connection is None:
            self._connection = connect(settings)
        state = slot_state(self._connection, self._config.slot_name)
        (age,) = self._connection.execute(_SNAPSHOT_AGE, (settings.application_name,)).fetchone()
        self.figures = () if state is None else self._rows(state, age)
        found = None if state is None else risk(state)
        if found != self._said:
            self._said = found
            self._remark(found)

    def _rows(self, state: SlotState, snapshot_age: int | None) -> Rows:
        confirmed, lag_bytes = state.confirmed_flush_lsn, state.lag_bytes
        lag_s = None
        if confirmed is not None and lag_bytes is not None:
            lag_s = self._lag.seconds(time.monotonic(), confirmed + lag_bytes, confirmed)
        found = {
            "slot-retained-bytes": state.retained_bytes,
            "slot-lag-bytes": lag_bytes,
            "slot-lag-seconds": lag_s,
            "slot-xmin-age": state.catalog_xmin_age,
            "snapshot-xmin-age": snapshot_age,
        }
        tags = f"slot={state.name}"
        return [[name, tags, float(value)] for name, value in found.items() if value is not None]

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def risk(state: SlotState) -> str | None:
    """Return why a slot will soon be of no use, or is of none; None if it is not at risk."""
    if state.wal_status not in _AT_RISK and not state.is_lost:
        return None
    what = "has invalidated" if state.is_lost else "will soon invalidate"
    return (
        f"The server {what} the slot {state.name}, for which it keeps more log than max_slot_wal_keep_size allows. "
        "Changes that were not read by then are lost: let the task run, or raise max_slot_wal_keep_size"
    )
