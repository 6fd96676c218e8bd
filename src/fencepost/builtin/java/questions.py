"""What the worker asks Java classes for configs: their versions and settings, and whether a config is valid.

Versions and settings are asked once, and kept in a file for each location until a jar changes: it has the path, size
and time of its jars. A file that is missing, damaged or of another version of Fencepost means that the JVM is asked.
"""

import contextlib
import hashlib
import json
import logging
import math
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fencepost import __version__
from fencepost.api import ConnectError
from fencepost.builtin.java.error import HostEndedError, HostKilledError, JavaError, JavaPluginError
from fencepost.builtin.java.port import JavaClass, Location
from fencepost.builtin.java.shared_host import SharedHost
from fencepost.config import ConfigError, Setting, SettingValue, Type
from fencepost.config.setting import REQUIRED, Importance, Width
from fencepost.embedded.checksum import stamp
from fencepost.embedded.home import KAFKA_VERSION, default_cache

if TYPE_CHECKING:
    from fencepost.builtin.java.client.host import JavaHost

log = logging.getLogger(__name__)
T = TypeVar("T")
_Known = dict[str, dict[str, Any]]

_READABLE = 0o644
AGAIN_S = 300.0
"""For how long a class that hung, or ended its host, is not asked again. Each time costs a JVM or two, and whatever is
asked at the same time is asked twice; and pages ask every few seconds.

Only the second time in a row counts: the first one may be chance, where memory is short or the machine busy."""


@contextmanager
def as_config_errors() -> Iterator[None]:
    """Raise what a host says as an error of the config that made us ask it."""
    try:
        yield
    except ConnectError as error:
        raise ConfigError(str(error)) from error


def setting_of(definition: Mapping[str, Any]) -> Setting:
    """Return one key of `GET /connector-plugins/NAME/config`. Values are checked by Java, not by the setting."""
    return Setting(
        definition["name"],
        REQUIRED if definition["required"] else definition.get("default_value"),
        doc=definition.get("documentation") or "",
        importance=Importance(definition["importance"]),
        declared_type=Type(definition["type"]),
        group=definition.get("group"),
        width=Width(definition.get("width") or "NONE"),
        display_name=definition.get("display_name"),
        dependents=tuple(definition.get("dependents") or ()),
        order=definition.get("order", -1),
    )


def settings_of(definitions: Iterable[Mapping[str, Any]]) -> dict[str, Setting]:
    """Return the settings by key."""
    return {each["name"]: setting_of(each) for each in definitions}


def values_of(report: Mapping[str, Any]) -> list[SettingValue]:
    """Return the results of a validation, in the form of REST. An undeclared key is shown if it is wrong."""
    found = []
    for each in report["configs"]:
        definition, value = each.get("definition"), each.get("value") or {}  # a validator may leave out declared keys
        if definition is None and not value.get("errors"):
            continue
        found.append(
            SettingValue(
                Setting(value["name"], None, declared_type=Type.STRING)
                if definition is None
                else setting_of(definition),
                value.get("value"),
                tuple(value.get("errors") or ()),
                tuple(value.get("recommended_values") or ()),
                value.get("visible", True),
            )
        )
    return found


class ClassFacts:
    """The facts of one process. Thread-safe; a class is asked one thing at a time, and none waits for another class."""

    def __init__(self, host: SharedHost, directory: Path | None = None) -> None:
        self._host = host
        self._directory = directory or default_cache() / "java-plugins"
        self._lock = threading.Lock()
        self._asking: dict[JavaClass, threading.Lock] = {}
        self._known: dict[Location | None, _Known] = {}
        self._spared: dict[JavaClass, tuple[float, HostEndedError]] = {}
        self._ended: set[tuple[JavaClass, bool]] = set()  # and whether somebody else killed the host

    def version(self, java_class: JavaClass) -> str:
        """Return the version. Raises what the host raises; HostEndedError if it has ended twice in a row.

        Which version is the newest depends on it, and a task that starts is not told to try again later.
        """
        try:
            return self._version(java_class)
        except HostKilledError:
            raise
        except HostEndedError:
            return self._version(java_class)

    def definitions(self, java_class: JavaClass) -> list[dict[str, Any]]:
        """Return the settings as REST shows them. Raises what the host raises."""
        return self._fact(java_class, "definitions", lambda host: host.ask.definitions(java_class))

    def known_version(self, java_class: JavaClass) -> str | None:
        """Return the version if it is known without a JVM."""
        found: str | None = self._known_fact(java_class, "version")
        return found

    def known_definitions(self, java_class: JavaClass) -> list[dict[str, Any]] | None:
        """Return the settings if they are known without a JVM."""
        found: list[dict[str, Any]] | None = self._known_fact(java_class, "definitions")
        return found

    def learn_version(self, java_class: JavaClass, version: str) -> None:
        """Keep a version that was learned on the way."""
        if self.known_version(java_class) != version:
            self._keep(java_class, "version", version)

    def _version(self, java_class: JavaClass) -> str:
        return self._fact(java_class, "version", lambda host: host.ask.describe(java_class).version)

    def _fact(self, java_class: JavaClass, name: str, ask: Callable[["JavaHost"], T]) -> T:
        known: T | None = self._known_or_refused(java_class, name)  # must not wait for a class that hangs
        if known is not None:
            return known
        with self._lock:
            turn = self._asking.setdefault(java_class, threading.Lock())
        with turn:
            known = self._known_or_refused(java_class, name)
            if known is not None:
                return known
            try:
                found = self._host.answer(f"{name} of {java_class.name}", ask)
            except HostEndedError as error:
                self._spare(java_class, error)
                raise
            self._ended -= {(java_class, True), (java_class, False)}
            self._keep(java_class, name, found)
            return found

    def _spare(self, java_class: JavaClass, error: HostEndedError) -> None:
        """Do not ask a class for a while if its host has ended in the same way the last time."""
        end = java_class, isinstance(error, HostKilledError)
        if end not in self._ended:
            self._ended.add(end)
        else:
            self._spared[java_class] = (time.monotonic() + AGAIN_S, error)

    def _known_or_refused(self, java_class: JavaClass, name: str) -> Any:
        """Return a fact, or None if the JVM is to be asked. Raises HostEndedError if the class has just ended one."""
        found = self._known_fact(java_class, name)
        if found is None and (spared := self._spared.get(java_class)) is not None:
            again_at, error = spared
            left_s = again_at - time.monotonic()
            if left_s > 0:
                raise type(error)(f"{error} (the class is not asked for {left_s:.0f} s more)")
        return found

    def _known_fact(self, java_class: JavaClass, name: str) -> Any:
        with self._lock:
            return self._of(java_class.location).get(java_class.name, {}).get(name)

    def _keep(self, java_class: JavaClass, name: str, fact: Any) -> None:
        with self._lock:
            known = self._of(java_class.location)
            known.setdefault(java_class.name, {})[name] = fact
            _write(self._file(java_class.location), {"stamp": _stamp(java_class.location), "classes": known})

    def _of(self, location: Location | None) -> _Known:
        if location not in self._known:
            self._known[location] = _read(self._file(location), _stamp(location))
        return self._known[location]

    def _file(self, location: Location | None) -> Path:
        name = "runtime" if location is None else hashlib.sha256(location.path.encode()).hexdigest()[:16]
        return self._directory / f"{name}.json"


class Questions:
    """Thread-safe. What a class says of itself is asked once (`facts`); a config is checked by Java each time."""

    def __init__(self, facts: ClassFacts, host: SharedHost) -> None:
        self.facts = facts
        self._host = host
        self._lock = threading.Lock()
        self._settings: dict[JavaClass, dict[str, Setting]] = {}
        self._asks_at: dict[JavaClass, float] = {}

    def settings(self, java_class: JavaClass) -> dict[str, Setting]:
        """Return a class's settings. Raises ConfigError if they cannot be learned."""
        if java_class not in self._settings:
            with as_config_errors():
                self._settings[java_class] = settings_of(self.facts.definitions(java_class))
        return self._settings[java_class]

    def known_settings(self, java_class: JavaClass, *, asks: bool = True) -> dict[str, Setting] | None:
        """Return a class's settings if they are known without a JVM; if not, None, and a thread asks if `asks`."""
        if java_class in self._settings or self.facts.known_definitions(java_class) is not None:
            return self.settings(java_class)
        if not asks:
            return None
        with self._lock:
            is_due = time.monotonic() >= self._asks_at.get(java_class, 0.0)
            if is_due:
                self._asks_at[java_class] = math.inf
        if is_due:
            threading.Thread(target=self._learn_settings, args=(java_class,), name="java-settings", daemon=True).start()
        return None

    def validated(self, java_class: JavaClass, properties: Mapping[str, object]) -> list[SettingValue]:
        """Let a class check its own settings. Raises ConfigError if it cannot."""
        given = {key: None if value is None else str(value) for key, value in properties.items()}
        with as_config_errors():
            return self._host.answer(
                f"validation of {java_class.name}", lambda host: values_of(host.ask.validate(java_class, given))
            )

    def _learn_settings(self, java_class: JavaClass) -> None:
        try:
            self.settings(java_class)
        except Exception as error:  # nobody waits for this thread, and a failure must not be for good
            if not isinstance(error.__cause__, JavaError | JavaPluginError):  # of the class itself
                self._asks_at[java_class] = time.monotonic() + AGAIN_S
            log.warning(
                "the settings of %s are not known, so its configs are shown without values: %s", java_class, error
            )


def _stamp(location: Location | None) -> list[Any]:
    """Return what changes when a location's classes may have changed, and is the same in the layer of an image."""
    found: list[Any] = [__version__, KAFKA_VERSION]
    for path in () if location is None else location.archives:
        with contextlib.suppress(OSError):
            found.append([path, *stamp(Path(path))])
    return found


def _read(path: Path, stamp: list[Any]) -> _Known:
    try:
        found = json.loads(path.read_text())
        classes: _Known = found["classes"]
        return classes if found["stamp"] == stamp else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _write(path: Path, contents: dict[str, Any]) -> None:
    """Replace a file at once. If that is not possible here, the next process asks again."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".new-", delete=False) as file:
            json.dump(contents, file)
            os.fchmod(file.fileno(), _READABLE)  # in an image, another user reads it
        os.replace(file.name, path)
