"""The Java plug-ins of one process: what there is, the Python classes that stand for them, and their hosts.

For each Java class a Python class is made, whose class methods ask a host. It has the class's own name, so that it is
called the same wherever plug-ins are named. Nothing here starts a JVM before something is asked that only a JVM knows.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fencepost.builtin.java.error import ConnectionLostError, HostEndedError, JavaPluginError
from fencepost.builtin.java.index import Found, JavaIndex, JavaKind
from fencepost.builtin.java.port import Callbacks, Classes, HostOptions, JavaClass
from fencepost.builtin.java.questions import ClassFacts, Questions
from fencepost.builtin.java.shared_host import SharedHost
from fencepost.telemetry.loggers import ROOT, loggers

if TYPE_CHECKING:
    from fencepost.builtin.java.client.host import JavaHost

log = logging.getLogger(__name__)

_LINGER_S = 30.0
_JAVAS = {"ALL": "TRACE", "WARNING": "WARN", "CRITICAL": "ERROR", "FATAL": "ERROR", "OFF": "ERROR"}
"""The nearest level of Java's; what is below ours is dropped here."""


class Divided(NamedTuple):
    """The config of a Java connector that names Python classes, too: what its host does, and what is left to its slot.

    The host has the Java transforms next to the task: the first of a source, the last of a sink. Everything else,
    Java classes among it, is a mixed chain in the slot, and what passes between the two are records, not bytes.
    """

    hosted: Mapping[str, str]
    rest: Mapping[str, str]


class Names(Protocol):
    """Knows what the class names in the configs of Java connectors mean."""

    def classes(self, config: Mapping[str, str]) -> Classes:
        """Return the Java classes."""

    def divide(self, config: Mapping[str, str], *, is_source: bool) -> Divided | None:
        """Divide a config between host and slot; None if all that it names is Java's."""


class JavaHosts:
    """The hosts of this process, each started by its first user.

    Validation has one of its own: a connector's `validate` may hang or end the JVM, which must cost nothing that runs.
    """

    def __init__(self, options: Sequence[str], start: Callable[[HostOptions], "JavaHost"] | None = None) -> None:
        self._start_one = start
        self.inspection = SharedHost(self._start, HostOptions(options, "host for validation"), _LINGER_S)
        self.connectors = SharedHost(self._start, HostOptions(options, "host of connectors"), _LINGER_S)
        self.tasks = SharedHost(self._start, HostOptions(options, "host of tasks"), _LINGER_S)
        self._callbacks: dict[JavaClass, Callbacks] = {}
        loggers.follow(self._levels_changed)

    def callbacks(self, task: JavaClass) -> Callbacks:
        """Return which callbacks a class of source tasks has. Raises HostLostError, and what the host raises."""
        if task not in self._callbacks:
            with self.tasks.take(f"questions to {task.name}") as lease:
                try:
                    found = lease.host.ask.describe(task).callbacks
                except HostEndedError as error:
                    raise lease.lost(error) from error
            if found is None:
                raise JavaPluginError(f"class {task.name} is no source task")
            self._callbacks[task] = found
        return self._callbacks[task]

    def _start(self, options: HostOptions) -> "JavaHost":
        if self._start_one is None:
            from fencepost.builtin.java.start import start_host  # its imports are for processes that run a host

            self._start_one = start_host
        host = self._start_one(options)
        self._set_levels(host)
        return host

    def _levels_changed(self) -> None:
        for host in (*self.inspection.running, *self.connectors.running, *self.tasks.running):
            threading.Thread(target=self._set_levels, args=(host,), name="java-levels", daemon=True).start()

    def _set_levels(self, host: "JavaHost") -> None:
        """Let Java's loggers have the levels that were set here. A host that ends meanwhile needs none.

        Threads do not wait for each other here, as a host may be stopped. Whichever is the last to say something looks
        once more whether that is still so.
        """
        said: dict[str, str] = {}
        try:
            while True:
                chosen = {"" if name == ROOT else name: level for name, level in loggers.chosen().items()}
                levels = {name: _JAVAS.get(level, level) for name, level in chosen.items()}
                if levels == said:
                    return
                host.set_levels(levels)
                said = levels
        except ConnectionLostError as error:
            log.warning("the levels of Java's loggers stay as they are until one is set again: %s", error)
        except HostEndedError:
            pass


class JavaPlugins:
    """Thread-safe. `make` returns the Python class that stands for a class of a kind."""

    names: Names
    """Set by the registry, which knows the classes of Python, too."""

    def __init__(
        self,
        index: JavaIndex,
        hosts: JavaHosts,
        make: "Callable[[JavaPlugins, JavaKind, JavaClass], type[Any]]",
        *,
        facts_directory: Path | None = None,
    ) -> None:
        self.index = index
        self.hosts = hosts
        self.questions = Questions(ClassFacts(hosts.inspection, facts_directory), hosts.inspection)
        self._make = make
        self._made: dict[tuple[JavaKind, JavaClass], type[Any]] = {}
        self._lock = threading.Lock()
        self.outside: Callable[[str], list[Found]] = lru_cache(1024)(self.index.outside)

    def made(self, kind: JavaKind, java_class: JavaClass) -> type[Any]:
        """Return the Python class that stands for a Java class: always the same one."""
        with self._lock:
            if (kind, java_class) not in self._made:
                self._made[kind, java_class] = self._make(self, kind, java_class)
            return self._made[kind, java_class]
