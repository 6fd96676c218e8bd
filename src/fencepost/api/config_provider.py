"""The contract of config providers, which look up the values that configs refer to: `${provider:path:key}`."""

from abc import abstractmethod
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from fencepost.config import Config


@dataclass(frozen=True)
class ConfigData:
    """The values that were found, by key.

    `ttl_ms`: for how long they are valid; None if they do not expire. When the time has passed, the connectors and
    tasks that use them are restarted, and look them up again, unless their config has `config.action.reload=none`.

    >>> from fencepost.api import ConfigData
    >>> ConfigData({"password": "s3cret"}, ttl_ms=60_000)  # values are not shown
    ConfigData(ttl_ms=60000)
    """

    values: Mapping[str, str] = field(repr=False)
    ttl_ms: int | None = None


class ConfigProvider(Config):
    """Looks up values in a store. Its settings are the `config.providers.NAME.param.*` of the worker's file.

    Workers and executors have an instance each, created when a config first refers to it, and call it from several
    threads. Values are secrets: put none of them into an error's text.

    >>> from collections.abc import Set
    >>> from fencepost.api import ConfigData, ConfigProvider, setting
    >>> class DictProvider(ConfigProvider):
    ...     prefix: str = setting("prefix", default="", doc="What all values begin with.")
    ...
    ...     def get(self, path: str, keys: Set[str]) -> ConfigData:
    ...         known = {"user": "ada"}
    ...         return ConfigData({key: self.prefix + known[key] for key in keys if key in known})
    >>> dict(DictProvider({"prefix": "db-"}).get("", {"user", "other"}).values)
    {'user': 'db-ada'}
    """

    @abstractmethod
    def get(self, path: str, keys: Set[str]) -> ConfigData:
        """Return the values of `keys` at `path`, which is empty for a reference without one. Leave out missing keys.

        It is called whenever a connector, a task or a validation needs values, so do not keep them.

        Raises:
            RetriableError: the store is away; the start of a connector or task is tried again.
            ConfigError: the path does not exist or may not be read. The text says what to do.
        """
