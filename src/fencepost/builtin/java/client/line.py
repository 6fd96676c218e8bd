"""A connection to a host, on which one thing is asked at a time, and the form of its messages.

A message has two lengths (4 bytes each, big-endian), JSON of the first length and bytes of the second. The bytes are
buffers, each padded to 8 bytes; `buffers` in the JSON lists their names and lengths in order.

On another connection, a host tells and asks of itself: calls of a connector's context, log lines, metrics of plug-ins.
"""

import contextlib
import json
import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import orjson

from fencepost.api import ConnectError, ConnectorContext
from fencepost.builtin.java.client.process import HostProcess
from fencepost.builtin.java.error import (
    ConnectionLostError,
    HostEndedError,
    HostTimeoutError,
    JavaError,
    JavaPluginError,
    JavaRetriableError,
    Thrown,
)
from fencepost.builtin.java.protocol import SERVICES, encoded

_LENGTHS = struct.Struct(">ii")

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


@dataclass(frozen=True)
class Message:
    """What was received. Buffers are in one block of memory, at multiples of 8 bytes."""

    head: dict[str, Any]
    buffers: Mapping[str, memoryview]


def send(connection: socket.socket, head: Mapping[str, Any], buffers: Iterable[tuple[str, Any]] = ()) -> None:
    """Send a message. Raises OSError."""
    listed = [(name, memoryview(buffer).cast("B")) for name, buffer in buffers]
    if listed:
        head = {**head, "buffers": [(name, len(view)) for name, view in listed]}
    parts: list[bytes | memoryview] = []
    for _, view in listed:
        parts += [view, b"\0" * (-len(view) % 8)]
    try:
        text = orjson.dumps(head)
    except TypeError:  # half of a character, such as in an offset that Java has written
        text = json.dumps(head).encode()
    parts.insert(0, _LENGTHS.pack(len(text), sum(map(len, parts))) + text)
    sent = connection.sendmsg(parts)  # one call, if the other side takes them all: each may wake it
    for part in parts:
        if sent < len(part):
            connection.sendall(memoryview(part)[sent:])
        sent = max(sent - len(part), 0)


def receive(connection: socket.socket) -> Message | None:
    """Return the next message; None if the other side has ended. Raises OSError, TimeoutError if it is late."""
    lengths = _exactly(connection, _LENGTHS.size)
    if lengths is None:
        return None
    json_bytes, size = _LENGTHS.unpack(lengths)
    text = _exactly(connection, json_bytes)
    data = b"" if size == 0 else _exactly(connection, size)
    if text is None or data is None:
        return None
    try:
        head: dict[str, Any] = orjson.loads(text)
    except orjson.JSONDecodeError:  # half of a character, which Java writes as it is
        head = json.loads(text)
    buffers, start, view = {}, 0, memoryview(data)
    for name, length in head.get("buffers", ()):
        buffers[name] = view[start : start + length]
        start += length + -length % 8
    return Message(head, buffers)


def _exactly(connection: socket.socket, count: int) -> bytearray | None:
    data = bytearray(count)
    view, read = memoryview(data), 0
    while read < count:
        got = connection.recv_into(view[read:])
        if got == 0:
            return None
        read += got
    return data


Reply = Callable[[str, Message], Any]
"""Answers what the host asks in the middle of a call: gets the name of the question, and what it is about."""


def exception_of(described: Mapping[str, Any]) -> JavaError | JavaRetriableError | JavaPluginError:
    """Return the exception for what the host has described."""
    message = described["root_message"]
    if described["kind"] == "plugin":
        return JavaPluginError(described["message"])
    thrown = Thrown(described["class"], described["message"], described["trace"])
    cause = described["root_class"] if message is None else f"{described['root_class']}: {message}"
    error = JavaRetriableError if described["kind"] == "retriable" else JavaError
    return error(f"{cause}\n{thrown.trace.rstrip()}", thrown)


class Line:
    """Asks, and waits for the answer. `close` may be called from any thread."""

    def __init__(
        self,
        process: HostProcess,
        service: str,
        opening: Mapping[str, Any],
        reply: Reply | None = None,
        *,
        spares_s: float | None = None,
    ) -> None:
        """Connect, and ask for what the connection is for: `opened` is the answer.

        Args:
            process: The host's.
            service: What the connection is for, as `protocol` names it.
            opening: The fields of the first request.
            reply: Called in the thread that waits for an answer.
            spares_s: How long to wait for each answer; after that the connection ends, and the host is not killed.

        Raises:
            HostEndedError: and what the plug-in has thrown.
        """
        self._process = process
        self._service = SERVICES[service]
        self._reply = reply
        self._spares_s = spares_s
        self._lock = threading.Lock()
        self._end: HostEndedError | None = None
        try:
            self._socket: socket.socket = process.connect(spares_s)
        except (TimeoutError, BlockingIOError):  # the latter while too many others wait
            raise self._silence("a connection") from None
        except OSError:
            raise process.ended(process.await_end()) from None
        try:
            request = encoded(service, self._service.opening.fields, opening)
            self.opened: dict[str, Any] = self._asked(request).head["result"]
        except BaseException:
            self._socket.close()
            raise

    def ask(
        self,
        operation: str,
        buffers: Iterable[tuple[str, Any]] = (),
        *,
        timeout_s: float | None = None,
        meanwhile: Callable[[], None] | None = None,
        **fields: Any,
    ) -> Message:
        """Return the answer; its `result` is in the head. `meanwhile` is called once after the request was sent.

        Raises:
            HostTimeoutError: There was none in time; the host has been killed.
            HostEndedError, JavaError, JavaRetriableError, JavaPluginError.
        """
        request = encoded(operation, self._service.operations[operation].fields, fields)
        return self._asked(request, buffers, timeout_s, meanwhile)

    def result(self, operation: str, *, timeout_s: float | None = None, **fields: Any) -> Any:
        """Return the result of an operation without buffers."""
        return self.ask(operation, timeout_s=timeout_s, **fields).head["result"]

    def finish(self, operation: str, timeout_s: float) -> None:
        """Carry out the last operation, and close the connection. Does nothing if it is closed."""
        if self._socket.fileno() >= 0:
            self.result(operation, timeout_s=timeout_s)
            self.close()

    def _asked(
        self,
        request: dict[str, Any],
        buffers: Iterable[tuple[str, Any]] = (),
        timeout_s: float | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Message:
        with self._lock:
            if self._socket.fileno() < 0:
                raise self._end or HostEndedError(f"{request['op']} came after the end of its task or connector")
            answer = self._exchanged(request, buffers, timeout_s or self._spares_s, meanwhile)
        if answer is None:
            self.close()
            self._end = self._ended(request["op"])
            raise self._end
        if "error" in answer.head:
            raise exception_of(answer.head["error"])
        return answer

    def _exchanged(
        self,
        request: dict[str, Any],
        buffers: Iterable[tuple[str, Any]],
        timeout_s: float | None,
        meanwhile: Callable[[], None] | None,
    ) -> Message | None:
        try:
            self._socket.settimeout(timeout_s)
            send(self._socket, request, buffers)
            if meanwhile is not None:
                meanwhile()
            answer = receive(self._socket)
            while answer is not None and "question" in answer.head:
                assert self._reply is not None
                try:
                    reply = {"result": self._reply(answer.head["question"], answer)}
                except ConnectError as error:  # it is for the plug-in, which has asked, to deal with it
                    reply = {"error": str(error)}
                send(self._socket, reply)
                answer = receive(self._socket)
            return answer
        except TimeoutError:
            if self._spares_s is not None:
                self.close()
                raise self._silence(request["op"]) from None
            why = f"{request['op']} did not return within {timeout_s:g} s"
            self._process.kill(why)
            raise HostTimeoutError(self._process.await_end()) from None
        except OSError:
            return None
        except BaseException:
            self.close()  # an answer that nobody has read would be taken for that of the next request
            raise

    def _silence(self, operation: str) -> ConnectionLostError:
        return ConnectionLostError(
            f"{operation} was not answered within {self._spares_s:g} s by the {self._process.label} (a JVM), which runs"
        )

    def _ended(self, operation: str) -> HostEndedError:
        how = self._process.end_soon()
        if how is not None:
            return self._process.ended(how)
        return ConnectionLostError(
            f"{operation} was not answered: its connection to the {self._process.label} (a JVM) ended, though that "
            "runs. Its log has the reason"
        )

    def close(self) -> None:
        self._socket.close()


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
            while (message := receive(self._connection)) is not None:
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
                send(self._connection, {"id": event["id"], **outcome})


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
