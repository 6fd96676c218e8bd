"""Config providers in Java: each look-up is made in a host of the process that needs the values.

Values and settings go over a socket, never on a command line.
"""

from collections.abc import Set
from typing import Any, ClassVar

from fencepost.api import ConfigData, ConfigError, ConfigProvider, RetriableError
from fencepost.builtin.java.error import (
    HostEndedError,
    JavaError,
    JavaPluginError,
    JavaRetriableError,
    JavaUnavailableError,
)
from fencepost.builtin.java.plugins import JavaPlugins
from fencepost.builtin.java.port import JavaClass
from fencepost.config import Setting


class JavaConfigProvider(ConfigProvider):
    """A class of `plugin.path`. Java creates, configures and closes an instance for each look-up."""

    java: ClassVar[JavaClass]
    plugins: ClassVar[JavaPlugins]

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """Return nothing: Java's providers do not declare their settings, and no JVM is asked."""
        return {}

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        settings = {key: str(value) for key, value in self.originals.items()}
        try:
            return self.plugins.hosts.inspection.answer(
                f"look-up by {self.java.name}",
                lambda host: ConfigData(*host.ask.look_up(self.java, settings, path, sorted(keys))),
            )
        except (HostEndedError, JavaRetriableError) as error:
            raise RetriableError(_text(error)) from None
        except (JavaError, JavaPluginError, JavaUnavailableError) as error:
            raise ConfigError(_text(error)) from None


def _text(error: Any) -> str:
    """Return what Java has thrown, without the stack."""
    return str(error).partition("\n")[0]
