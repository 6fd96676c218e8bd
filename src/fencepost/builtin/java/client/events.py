"""What a host tells and asks of itself: calls of a connector's context, log lines, and metrics of plug-ins."""

import contextlib
import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from fencepost.api import ConnectError, ConnectorContext
from fencepost.builtin.java.client import line
from fencepost.builtin.java.client.line import exception_of

log = logging.getLogger(__name__)

_CALLERS = 4
_TRACE = 5  # Python has no level below DEBUG
_LEVELS = {
    "TRACE": _TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
}


class Events:
    """Takes the events of one host in a thread, until its connection ends.

    Contexts are called in threads of their own: one that waits for something that waits for the host holds up neither
    log lines nor other connectors.
    """

    def __init__(self, connection: socket.socket, label: str) -> None:
        self._connection = connection
        self._contexts: dict[int, ConnectorContext] = {}
        self._figures: dict[int, list[Any]] = {}
        self._sending = threading.Lock()
        self._callers = ThreadPoolExecutor(_CALLERS, thread_name_prefix=f"contexts of {label}")
        self._thread = threading.Thread(target=self._run, name=f"events of {label}", daemon=True)
        self._thread.start()

    def register(self, session: int, context: ConnectorContext) -> None:
        """Let the connector of a session use its context."""
        self._contexts[session] = context

    def forget(self, session: int) -> None:
        self._contexts.pop(session, None)
        self._figures.pop(session, None)

    def measure(self, session: int) -> None:
        """Keep the metrics of a session's plug-ins from now on."""
        self._figures[session] = []

    def figures(self, session: int) -> list[Any]:
        """Return the newest metrics of a session's plug-ins."""
        return self._figures.get(session, [])

    def close(self) -> None:
        """End the connection, and with it the host."""
        with contextlib.suppress(OSError):  # it has ended
            self._connection.shutdown(socket.SHUT_RDWR)
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._callers.shutdown(wait=False)
        self._connection.close()

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # the host has ended
            while (message := line.receive(self._connection)) is not None:
                try:
                    self._take(message.head)
                except Exception:  # the host's threads would wait for this one
                    log.exception("an event of a host could not be handled")

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "log":
            _log(event)
        elif event["event"] == "figures":
            if event["session"] in self._figures:  # else it has just ended
                self._figures[event["session"]] = event["rows"]
        else:
            self._callers.submit(self._call, event)

    def _call(self, event: dict[str, Any]) -> None:
        context = self._contexts.get(event["session"])
        outcome: dict[str, Any]
        try:
            outcome = {"result": _carried_out(event, context)}
            orjson.dumps(outcome)
        except Exception as error:  # the connector's; its host waits for an answer
            log.exception("an event of a Java connector could not be handled: %s", event["event"])
            outcome = {"error": f"{type(error).__name__}: {error}"}  # no result would mean: nothing is committed
        if "id" in event:
            with contextlib.suppress(OSError), self._sending:  # the host has ended
                line.send(self._connection, {"id": event["id"], **outcome})


def _carried_out(event: dict[str, Any], context: ConnectorContext | None) -> Any:
    match event["event"]:
        case "offsets":
            if context is None:
                raise ConnectError("the connector has been closed")
            return context.offsets()
        case "reconfigure" if context is not None:
            context.request_task_reconfiguration()
        case "error" if context is not None:
            context.raise_error(exception_of(event["error"]))
    return None


def _log(event: dict[str, Any]) -> None:
    owner = f"{event['owner']}: " if event["owner"] else ""
    logging.getLogger(event["logger"]).log(
        _LEVELS[event["level"]], "%s%s", owner, event["message"], extra=event.get("subject")
    )
