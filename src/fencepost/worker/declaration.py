"""Connectors that a worker creates from a file, as `fencepost mirror` does."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fencepost.cluster.errors import BadRequestError, OperationError
from fencepost.config import ConfigError
from fencepost.config.reference import RawConfig
from fencepost.storage.change import TargetState
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.state import repeat

log = logging.getLogger(__name__)

_EVERY_S = 0.5


@dataclass(frozen=True)
class Declared:
    """The connectors to create: configs by name. `rivals` do the same work and must not run: advice, by name."""

    connectors: Mapping[str, RawConfig] = field(repr=False)
    rivals: Mapping[str, str] = field(default_factory=dict)


class Declaration:
    """Stores configs that are missing or differ, whenever this worker starts to lead, in a thread of its own.

    Later changes of users stay until a worker starts to lead again.
    """

    def __init__(
        self,
        declared: Declared,
        put_config: Callable[[str, RawConfig], object],
        snapshot: Callable[[], ClusterSnapshot],
        is_leading: Callable[[], bool],
        fail: Callable[[Exception], None],
        stopping: threading.Event,
    ) -> None:
        """`snapshot` returns the cluster's state; `fail` ends the worker after a permanent error."""
        self._declared = declared
        self._put_config = put_config
        self._snapshot = snapshot
        self._is_leading = is_leading
        self._fail = fail
        self._stopping = stopping
        self.is_done = False
        """Whether this worker leads and has stored the configs."""

    def start(self) -> None:
        """Start to watch whether this worker leads."""
        repeat("declaration", _EVERY_S, self._look, self._stopping)

    def _look(self) -> None:
        self.is_done = self._is_leading() and (self.is_done or self.declare())

    def declare(self) -> bool:
        """Return whether everything is stored; passing errors are logged, and the caller retries."""
        try:
            self._refuse_rivals()
            for name, config in self._declared.connectors.items():
                if self._snapshot().connectors.get(name) != config:
                    self._store(name, config)
        except ConfigError as error:
            self._fail(error)
            return True
        except OperationError as error:
            log.warning("the file's connectors are not stored yet, retrying: %s", error)
            return False
        return True

    def _store(self, name: str, config: RawConfig) -> None:
        try:
            self._put_config(name, config)
        except BadRequestError as error:
            raise ConfigError(f"{name}: {error}") from None
        log.info("stored the file's config of connector %s", name)

    def _refuse_rivals(self) -> None:
        there = self._snapshot()
        running = [
            name
            for name in self._declared.rivals
            if name in there.connectors and there.target_state(name) is not TargetState.STOPPED
        ]
        if running:
            raise ConfigError([f"There is a connector {name}: {self._declared.rivals[name]}" for name in running])
