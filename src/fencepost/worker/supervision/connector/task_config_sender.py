"""Sends the task configs of one connector to the leader."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from fencepost.api import Connector, RetriableError
from fencepost.cluster.errors import BadRequestError
from fencepost.config.raw import RawConfig
from fencepost.telemetry.traces import trace_of
from fencepost.worker.supervision.connector.services import ConnectorServices

log = logging.getLogger(__name__)

_RETRY_S = 1.0


class TaskConfigSender:
    """Used in the connector's own thread.

    Only one set of task configs is sent at a time, even if the connector was unassigned and assigned again in the
    meantime: an older set that arrives late would undo the newer one.
    """

    def __init__(
        self,
        name: str,
        services: ConnectorServices,
        running: Callable[[], Connector | None],
        configs_of: Callable[[Connector], Sequence[RawConfig]],
        fail: Callable[[str], None],
    ) -> None:
        """`running` returns the running connector, `configs_of` its task configs; `fail` is called with a trace."""
        self._name = name
        self._services = services
        self._running = running
        self._configs_of = configs_of
        self._fail = fail
        self._is_on_the_way = False
        self._is_due = False  # task configs are to be sent once those on the way have arrived
        self.is_again_soon = False

    def send(self) -> None:
        """Ask the connector for task configs, and pass them to the leader; retries if sending fails.

        It also retries after a RetriableError of the connector; the current tasks continue until then.
        """
        self._is_due, connector = self._is_on_the_way, self._running()
        if connector is None or self._is_due:
            return
        try:
            on_the_way = self._services.put_task_configs(self._name, self._configs_of(connector))
        except RetriableError as error:
            self._send_soon(error)
        except BaseException as error:
            self._fail(trace_of(error))
        else:
            self._is_on_the_way = True
            on_the_way.add_done_callback(
                lambda done: self._services.take_turn(self._name, lambda: self._sent(connector, done))
            )

    def _sent(self, connector: Connector, written: "Future[Any]") -> None:
        """Handle the leader's answer."""
        self._is_on_the_way = False
        if self._is_due:
            self.send()
            return
        error = None if written.cancelled() else written.exception()
        if error is None or self._running() is not connector:
            return
        if isinstance(error, BadRequestError):  # the leader would refuse the same configs again
            self._fail(trace_of(error))
        else:
            self._send_soon(error)

    def _send_soon(self, error: BaseException) -> None:
        if not self.is_again_soon:
            self.is_again_soon = True
            log.warning("sending the task configs of %s will be retried in %g s: %s", self._name, _RETRY_S, error)
            self._services.take_turn(self._name, self._send_again, _RETRY_S)

    def _send_again(self) -> None:
        self.is_again_soon = False
        if not self._is_on_the_way:
            self.send()
