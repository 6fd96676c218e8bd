"""The libraries of the registry converters, which are extras."""

from importlib.util import find_spec
from typing import NamedTuple

_CLIENT = ("confluent_kafka", "httpx2", "authlib", "cachetools", "attrs")


class Extra(NamedTuple):
    """An extra of Fencepost, and the modules that it installs in addition to the registry's client."""

    name: str
    modules: tuple[str, ...]

    def missing(self) -> str | None:
        """Return a text that says what to install if a module is missing. Imports none of them."""
        missing = [name for name in (*_CLIENT, *self.modules) if not _is_there(name)]
        if not missing:
            return None
        return (
            f"it needs Python modules that are not installed ({', '.join(missing)}): install the extra with "
            f"`pip install 'fencepost[{self.name}]'` on the worker and on all executors"
        )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of its package
        return False
