"""The automatic restarts of one connector."""

import logging
import time
from collections.abc import Callable

from fencepost.config.raw import RawConfig
from fencepost.worker.supervision.automatic_restart import AutomaticRestarts, RestartPolicy
from fencepost.worker.supervision.connector.services import ConnectorServices

log = logging.getLogger(__name__)


class ConnectorRestarts:
    """Used in the connector's own thread. `began_s` is when it last started, on the monotonic clock."""

    def __init__(self, name: str, services: ConnectorServices, restart: Callable[[], None]) -> None:
        self._name = name
        self._services = services
        self._restart = restart
        self._restarts: AutomaticRestarts[str] = AutomaticRestarts()
        self._failure: object = None  # the newest one, to which an automatic restart belongs
        self.began_s = 0.0

    def failed(self, config: RawConfig, trace: str) -> None:
        """Write that the connector has failed, and restart it later, if its config asks for that."""
        lived_s = time.monotonic() - self.began_s
        plan = self._restarts.failed(self._name, RestartPolicy.of(config), lived_s)
        self._services.board.failed(self._name, trace, plan)
        failure = self._failure = object()
        if plan is not None and plan.in_s is not None:
            self._services.take_turn(self._name, lambda: self._restart_after(failure), plan.in_s)

    def call_off(self) -> None:
        self._failure = None
        self._restarts.forget(self._name)

    def _restart_after(self, failure: object) -> None:
        """Restart automatically, unless that failure was handled in the meantime."""
        if self._failure is failure:
            self._restarts.made(self._name)
            self._services.count_startup("restarts")
            log.info("connector %s is restarted automatically", self._name)
            self._restart()
