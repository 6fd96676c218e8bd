"""A running host."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Self

from fencepost.api import ConnectorContext
from fencepost.builtin.java.chain_port import ChainStart, HostedSteps
from fencepost.builtin.java.client.events import Events
from fencepost.builtin.java.client.hosted_chain import ChainClient
from fencepost.builtin.java.client.hosted_connector import ConnectorClient
from fencepost.builtin.java.client.hosted_sink import SinkTaskClient, replies_of
from fencepost.builtin.java.client.hosted_source import SourceTaskClient, listed
from fencepost.builtin.java.client.line import Line
from fencepost.builtin.java.client.process import START_S, HostProcess
from fencepost.builtin.java.error import ConnectionLostError
from fencepost.builtin.java.port import (
    Callbacks,
    Description,
    HostedClasses,
    HostedConnector,
    HostedSinkTask,
    HostedSourceTask,
    JavaClass,
    SinkTaskStart,
    SourceTaskStart,
    TaskStart,
)
from fencepost.telemetry.subject import fields_of, subject

log = logging.getLogger(__name__)

_INTERRUPT_S = 5.0
_CONTROL_S = 30.0


class ClassesClient:
    """Implements `HostedClasses`."""

    def __init__(self, process: HostProcess) -> None:
        self._process = process

    def describe(self, java_class: JavaClass) -> Description:
        found = self._answer("describe", java_class)
        callbacks = None if found["callbacks"] is None else Callbacks(**found["callbacks"])
        return Description(tuple(found["kinds"]), found["version"], callbacks)

    def definitions(self, java_class: JavaClass) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._answer("definitions", java_class)
        return found

    def validate(self, java_class: JavaClass, properties: Mapping[str, str | None]) -> dict[str, Any]:
        found: dict[str, Any] = self._answer("validate", java_class, properties=dict(properties))
        return found

    def look_up(
        self, java_class: JavaClass, settings: Mapping[str, str], path: str, keys: Sequence[str]
    ) -> tuple[dict[str, str], int | None]:
        asked = {"properties": dict(settings), "path": path, "keys": list(keys)}
        found: dict[str, Any] = self._answer("look_up", java_class, **asked)
        return found["values"], found["ttl_ms"]

    def _answer(self, operation: str, java_class: JavaClass, **arguments: Any) -> Any:
        """Ask about a class, on a connection of its own: each may take long, and none waits for another."""
        line = Line(self._process, {"op": "questions"})
        try:
            return line.ask({"op": operation, "class": _described(java_class), **arguments}).head["result"]
        finally:
            line.close()


class HostClient:
    """Implements `JavaHost`."""

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
        return self._process.end()

    @property
    def is_killed_by_others(self) -> bool:
        return self._process.is_killed_by_others

    @property
    def ask(self) -> HostedClasses:
        return ClassesClient(self._process)

    def connector(self, java_class: JavaClass, name: str, context: ConnectorContext) -> HostedConnector:
        opening = {"op": "connector", "class": _described(java_class), "name": name}
        line = Line(self._process, {**opening, "subject": dict(fields_of(name))})
        session = line.opened["session"]
        self._events.register(session, context)
        return ConnectorClient(line, self._interrupt, self._events)

    def source_task(self, start: SourceTaskStart) -> HostedSourceTask:
        opening = {
            "op": "source",
            **_opening(start),
            "offsets": listed(start.offsets),
            "defines_transactions": start.defines_transactions,
        }
        return SourceTaskClient(Line(self._process, opening), self._interrupt, self._events)

    def sink_task(self, start: SinkTaskStart) -> HostedSinkTask:
        opening = {"op": "sink", **_opening(start), "has_reporter": start.has_reporter}
        line = Line(self._process, opening, replies_of(start.offsets, start.report))
        return SinkTaskClient(line, self._interrupt, self._events, passes_records=start.passes_records)

    def chain(self, start: ChainStart) -> HostedSteps:
        steps = [{**step._asdict(), "class": _described(step.java_class), "java_class": None} for step in start.steps]
        opening = {"op": "chain", "owner": start.owner, "is_source": start.is_source, "config": dict(start.config)}
        line = Line(self._process, {**opening, "steps": steps, "subject": dict(subject())})
        return ChainClient(line, is_source=start.is_source)

    def set_levels(self, levels: Mapping[str, str]) -> None:
        self._controlled("levels", _CONTROL_S, levels=dict(levels))

    def threads(self) -> str:
        found: str = self._controlled("threads", _CONTROL_S)
        return found

    def close(self) -> None:
        self._events.close()
        self._process.await_end()
        self._process.clear()

    def terminate(self, timeout_s: float) -> int:
        """Let the JVM end in good order, as `close` does not, and return its exit code. Raises TimeoutExpired."""
        return self._process.terminate(timeout_s)

    def kill(self, why: str) -> None:
        self._process.kill(why)
        self.close()

    def _interrupt(self, session: int) -> None:
        """Interrupt a session's thread. Gives up soon on a JVM that is stopped, which its caller may kill next."""
        try:
            self._controlled("interrupt", _INTERRUPT_S, session=session)
        except ConnectionLostError as error:
            log.info("a thread was not interrupted: %s", error)

    def _controlled(self, operation: str, within_s: float, **arguments: Any) -> Any:
        """Ask the host something about itself. Raises ConnectionLostError if it does not answer, and spares it.

        The connection is only for this, so that nothing else waits for the answer.
        """
        with closing(Line(self._process, {"op": "control"}, spares_s=within_s)) as line:
            return line.result(operation, **arguments)


def _described(java_class: JavaClass) -> list[Any]:
    location = java_class.location
    return [java_class.name, None, []] if location is None else [java_class.name, location.path, location.archives]


def _opening(start: TaskStart) -> dict[str, Any]:
    return {
        "class": _described(start.java_class),
        "connector": start.connector,
        "task": start.task,
        "subject": dict(fields_of(start.connector, start.task)),
        "task_config": dict(start.task_config),
        "connector_config": dict(start.connector_config),
        "classes": {name: _described(each) for name, each in start.classes.items()},
        "passes_records": start.passes_records,
    }
