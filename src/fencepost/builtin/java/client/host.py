"""A running host."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Self

from fencepost.api import ConnectorContext
from fencepost.builtin.java.client.line import Events, Line
from fencepost.builtin.java.client.process import START_S, HostProcess
from fencepost.builtin.java.client.session import (
    HostedConnector,
    HostedSinkTask,
    HostedSourceTask,
    HostedSteps,
    replies_of,
)
from fencepost.builtin.java.error import ConnectionLostError
from fencepost.builtin.java.port import (
    Callbacks,
    ChainStart,
    Description,
    JavaClass,
    SinkTaskStart,
    SourceTaskStart,
    TaskStart,
)
from fencepost.builtin.java.protocol import CONTROL
from fencepost.telemetry.loggers import fields_of, subject

log = logging.getLogger(__name__)

_INTERRUPT_S = 5.0
_CONTROL_S = 30.0


class HostedClasses:
    """Questions to classes, each of which a new instance answers. May be asked from any thread."""

    def __init__(self, process: HostProcess) -> None:
        self._process = process

    def describe(self, java_class: JavaClass) -> Description:
        """Load the class, create an instance, and ask it. Raises JavaPluginError with what is wrong with it."""
        found = self._answer("describe", java_class)
        callbacks = None if found["callbacks"] is None else Callbacks(**found["callbacks"])
        return Description(found["version"], callbacks)

    def definitions(self, java_class: JavaClass) -> list[dict[str, Any]]:
        """Return the plug-in's settings as `GET /connector-plugins/NAME/config` has them."""
        found: list[dict[str, Any]] = self._answer("definitions", java_class)
        return found

    def validate(self, java_class: JavaClass, properties: Mapping[str, str | None]) -> dict[str, Any]:
        """Return what `PUT .../config/validate` answers, for the plug-in's own settings alone (not those that Kafka
        Connect adds). For a connector this is its `validate`, which may ask the outside system."""
        found: dict[str, Any] = self._answer("validate", java_class, properties=properties)
        return found

    def look_up(
        self, java_class: JavaClass, settings: Mapping[str, str], path: str, keys: Sequence[str]
    ) -> tuple[dict[str, str], int | None]:
        """Configure a config provider, ask it for values, and close it.

        Returns what it has of the keys, and for how many milliseconds that is valid; None: it does not expire.
        """
        found: dict[str, Any] = self._answer("look_up", java_class, properties=settings, path=path, keys=keys)
        return found["values"], found["ttl_ms"]

    def _answer(self, operation: str, java_class: JavaClass, **more: Any) -> Any:
        """Ask about a class, on a connection of its own: each may take long, and none waits for another."""
        fields: dict[str, Any] = {"class": java_class, **more}
        with closing(Line(self._process, "questions", {})) as line:
            return line.result(operation, **fields)


class JavaHost:
    """A running JVM, the child of this process. It ends when this process does, in whatever way that happens."""

    def __init__(self, command: Sequence[str], label: str, within_s: float = START_S) -> None:
        """Start a host. Raises JavaUnavailableError, also if it does not answer `within_s`."""
        self._process = HostProcess(command, label, within_s)
        self._events = Events(self._process.events, label)
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def end(self) -> str | None:
        """Return how the host has ended, in a sentence; None while it runs."""
        return self._process.end()

    @property
    def is_killed_by_others(self) -> bool:
        return self._process.is_killed_by_others

    @property
    def ask(self) -> HostedClasses:
        return HostedClasses(self._process)

    def connector(self, java_class: JavaClass, name: str, context: ConnectorContext) -> HostedConnector:
        """Create a connector; it is not started. The host calls `context` from a thread of its own."""
        opening = {"class": java_class, "name": name, "subject": fields_of(name)}
        line = Line(self._process, "connector", opening)
        self._events.register(line.opened["session"], context)
        return HostedConnector(line, self._interrupt, self._events)

    def source_task(self, start: SourceTaskStart) -> HostedSourceTask:
        """Create, initialize and start a source task with its transforms and converters."""
        own = {"offsets": start.offsets, "defines_transactions": start.defines_transactions}
        line = Line(self._process, "source", {**_opening(start), **own})
        return HostedSourceTask(line, self._interrupt, self._events)

    def sink_task(self, start: SinkTaskStart) -> HostedSinkTask:
        """Create, initialize and start a sink task with its transforms and converters."""
        opening = {**_opening(start), "has_reporter": start.has_reporter}
        line = Line(self._process, "sink", opening, replies_of(start.offsets, start.report))
        return HostedSinkTask(line, self._interrupt, self._events, passes_records=start.passes_records)

    def chain(self, start: ChainStart) -> HostedSteps:
        """Create and configure transforms, predicates and converters for the chain of a Python connector."""
        line = Line(self._process, "chain", {**vars(start), "subject": subject()})
        return HostedSteps(line, is_source=start.is_source)

    def set_levels(self, levels: Mapping[str, str]) -> None:
        """Set the levels of Java's loggers, by Kafka Connect's names; "" is the root, which is INFO if it is left out.

        Plug-ins log to Python's loggers of the same names, whose levels hold as well. Raises as `threads` does.
        """
        self._controlled("levels", _CONTROL_S, levels=levels)

    def threads(self) -> str:
        """Return the stacks of all threads. Raises ConnectionLostError if there is no answer for half a minute."""
        found: str = self._controlled("threads", _CONTROL_S)
        return found

    def close(self) -> None:
        """End the host without asking any plug-in. Does nothing if it has ended."""
        self._events.close()
        self._process.await_end()
        self._process.clear()

    def terminate(self, timeout_s: float) -> int:
        """Let the JVM end in good order, as `close` does not, and return its exit code. Raises TimeoutExpired."""
        return self._process.terminate(timeout_s)

    def kill(self, why: str) -> None:
        """Send SIGKILL. Calls that are under way, and later ones, raise HostEndedError with `why` in its text."""
        self._process.kill(why)
        self.close()

    def _interrupt(self, session: int) -> None:
        """Interrupt a session's thread. Gives up soon on a JVM that is stopped, which its caller may kill next."""
        try:
            self._controlled("interrupt", _INTERRUPT_S, session=session)
        except ConnectionLostError as error:
            log.info("a thread was not interrupted: %s", error)

    def _controlled(self, operation: str, within_s: float, **fields: Any) -> Any:
        """Ask the host something about itself. Raises ConnectionLostError if it does not answer, and spares it.

        The connection is only for this, so that nothing else waits for the answer.
        """
        with closing(Line(self._process, CONTROL, {}, spares_s=within_s)) as line:
            return line.result(operation, **fields)


def _opening(start: TaskStart) -> dict[str, Any]:
    return {
        "class": start.java_class,
        "connector": start.connector,
        "task": start.task,
        "subject": fields_of(start.connector, start.task),
        "task_config": start.task_config,
        "connector_config": start.connector_config,
        "classes": start.classes,
        "passes_records": start.passes_records,
    }
