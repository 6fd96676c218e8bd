"""Connectors on this worker: starts them, asks for task configs, follows their target state.

Each has its own thread while it has work to do, so that a connector whose code takes long, or never returns, delays no
other. Task configs go to the leader, which writes them if they differ from the current ones.
"""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import wait

from fencepost.config.raw import RawConfig
from fencepost.storage.ids import TargetState
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import State
from fencepost.worker.supervision.connector.life import ConnectorLife
from fencepost.worker.supervision.connector.services import ConnectorServices

log = logging.getLogger(__name__)

_STOP_S = 5.0

_Wanted = tuple[RawConfig, TargetState]


class ConnectorHost:
    """Runs the connectors that are assigned to this worker. Any thread may call its methods.

    Only `stop` waits, and only for a short time.
    """

    def __init__(self, incarnation: str, services: ConnectorServices) -> None:
        self._incarnation = incarnation
        self.services = services
        self._lock = threading.Lock()
        self._snapshot = ClusterSnapshot()
        self._lives: dict[str, ConnectorLife] = {}
        self._wanted: dict[str, _Wanted] = {}

    def changed(self, snapshot: ClusterSnapshot) -> None:
        """Follow a new state of the config topic."""
        with self._lock:
            self._snapshot = snapshot
            mine = snapshot.assigned_to(self._incarnation)
            wanted: dict[str, _Wanted] = {
                name: (snapshot.connectors[name], snapshot.target_state(name))
                for name in sorted(mine.connectors if mine else ())
                if name in snapshot.connectors
            }
            before, self._wanted = self._wanted, wanted
            for name in before.keys() - wanted.keys():
                self._life(name).hurry()
                self.services.take_turn(name, self._life(name).leave)
            for name, now in wanted.items():
                if name in before and not _is_same(before[name], now):
                    self._life(name).hurry()
                if not _is_same(before.get(name), now) or name in snapshot.inconsistent:
                    self._have_follow(name, now, is_inconsistent=name in snapshot.inconsistent)

    def restart(self, name: str) -> "threading.Event":
        """Stop and start the connector, not its tasks. The event is set once that is done."""
        done = threading.Event()

        def act() -> None:
            try:
                self._life(name).restart()
            finally:
                done.set()

        self._life(name).hurry()
        self.services.take_turn(name, act)
        return done

    def stop(self) -> None:
        """Stop every connector. One that does not end in time is abandoned."""
        with self._lock:
            wanted, self._wanted = self._wanted, {}
            ending = {name: self.services.take_turn(name, self._life(name).leave) for name in wanted}
        wait(ending.values(), _STOP_S)
        for name, ended in ending.items():
            if not ended.done():
                log.warning(
                    "connector %s is abandoned: its start(), task_configs() or stop() has not returned in time", name
                )
            if name in self._snapshot.connectors:
                self.services.board.connector(name, State.UNASSIGNED)
        self.services.stop()

    def figures(self) -> dict[str, Sequence[Sequence[str | float]]]:
        """Return the metrics that connectors on this worker have registered, by connector."""
        found = {name: life.figures() for name, life in list(self._lives.items())}
        return {name: rows for name, rows in found.items() if rows}

    def count(self) -> int:
        return len(self._wanted)

    def _have_follow(self, name: str, wanted: _Wanted, *, is_inconsistent: bool) -> None:
        config, target = wanted
        life = self._life(name)
        self.services.take_turn(name, lambda: life.follow(config, target, is_inconsistent=is_inconsistent))

    def _life(self, name: str) -> ConnectorLife:
        return self._lives.setdefault(name, ConnectorLife(name, self.services))


def _is_same(one: _Wanted | None, other: _Wanted) -> bool:
    """Say whether config and target are the same objects; a config that was stored again unchanged counts as new."""
    return one is not None and one[0] is other[0] and one[1] is other[1]
