"""What the worker asks Java classes for on behalf of configs: their settings, and whether a config is valid."""

import logging
import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from fencepost.api import ConnectError
from fencepost.builtin.java.definition import settings_of, values_of
from fencepost.builtin.java.error import JavaError, JavaPluginError
from fencepost.builtin.java.facts import AGAIN_S, ClassFacts
from fencepost.builtin.java.port import JavaClass
from fencepost.builtin.java.shared_host import SharedHost
from fencepost.config import ConfigError, Setting, SettingValue

log = logging.getLogger(__name__)


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


@contextmanager
def as_config_errors() -> Iterator[None]:
    """Raise what a host says as an error of the config that made us ask it."""
    try:
        yield
    except ConnectError as error:
        raise ConfigError(str(error)) from error
