"""What source and sink tasks of Java's have in common: their use of the host, from `start` to `stop`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.builtin.java.port import Failure, JavaClass
from fencepost.builtin.java.shared_host import Lease
from fencepost.hook.hosted_task import PLUGIN_FIGURES, TASK_CLASS, ForeignRecordError

STOP_S = 60.0
"""How long Java's `stop` may take; by then the worker has long had the task abandoned."""


class JavaTask:
    """The part of a hosted task that does not depend on its kind; `config` is the connector's instance for the task."""

    config: Any
    context: Any
    _lease: Lease

    def abandon(self) -> None:
        """Kill the host, with all its tasks: a thread of Java's cannot be ended in any other way."""
        if self._has_host:
            self._lease.kill(f"task {self._id} did not stop in time, and nothing but the end of its process can end it")

    def figures(self) -> Mapping[str, Sequence[Sequence[str | float]]]:
        hosted = getattr(self, "_hosted", None)
        rows = [] if hosted is None else hosted.figures()
        return {PLUGIN_FIGURES: rows} if rows else {}

    def stack(self) -> str:
        """Return the stack of the task's thread in the host, which is named after the task."""
        if not self._has_host or self._lease.host.end is not None:
            return ""
        return stack_in(self._lease.host.threads(), self._id)

    @property
    def _has_host(self) -> bool:
        return hasattr(self, "_lease")

    @property
    def _id(self) -> str:
        return f"{self.context.place.connector}-{self.context.place.task}"

    def _common_start(self, *, is_source: bool) -> dict[str, Any]:
        place = self.context.place
        divided = self.config.plugins.names.divide(place.connector_config, is_source=is_source)
        connector_config = dict(place.connector_config if divided is None else divided.hosted)
        return {
            "connector": place.connector,
            "task": place.task,
            "java_class": JavaClass(self.context.configs[TASK_CLASS], self.config.java.location),
            "task_config": self.context.configs,
            "connector_config": connector_config,
            "classes": self.config.plugins.names.classes(connector_config),
            "passes_records": divided is not None,
        }


def stack_in(threads: str, name: str) -> str:
    """Return the stack of one thread of those that `JavaHost.threads` has returned."""
    blocks = re.split(r"\n(?=\S)", threads.rstrip())
    return next((block for block in blocks if block.startswith(f"{name} ")), "")


def error_of(failure: Failure) -> ForeignRecordError:
    """Return what Java has thrown for a record that it dropped."""
    return ForeignRecordError.of(failure.class_name, failure.message, failure.plugin, failure.trace)
