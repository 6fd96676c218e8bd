"""Client libraries that are extras of the package."""

import importlib
from types import ModuleType

from fencepost.api import ConfigError


def imported(module: str, extra: str) -> ModuleType:
    """Return a module of an extra. Raises ConfigError, which names the extra, if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"the library {error.name or module} is not installed: pip install 'fencepost[{extra}]', on workers and "
            "executors"
        ) from None
