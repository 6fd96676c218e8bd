"""Paths, and names of secrets, that a provider may read."""

from pathlib import Path

from fencepost.api import Config, ConfigError, setting
from fencepost.config.check import each, parsed_by


def _absolute(text: str) -> None:
    if not Path(text).is_absolute():
        raise ValueError("must be absolute paths, and none of them empty")


class AllowedPaths(Config):
    """The setting that limits what files a provider reads."""

    allowed_paths: list[str] = setting(
        "allowed.paths",
        default=[],
        check=each(parsed_by(_absolute, "absolute paths")),
        doc="The only files and directories that may be read, with everything below them; empty: any.",
    )

    def allowed(self, path: str) -> Path:
        """Return a path that may be read. Raises ConfigError."""
        if not path:
            raise ConfigError("the reference has no path: write ${provider:/path:key}")
        found = Path(path).resolve()
        allowed = [Path(one).resolve() for one in self.allowed_paths]
        if allowed and not any(map(found.is_relative_to, allowed)):
            raise ConfigError(f"{path} is not below the provider's allowed.paths: name its directory there")
        return found


_ENDS = tuple("/-._:")


class AllowedNames(Config):
    """The setting that limits what secrets of a store are looked up."""

    allowed_paths: list[str] | None = setting(
        "allowed.paths",
        default=None,
        doc="The only secrets that are looked up: their names, or how these begin: up to a `/`, or to the `/`, `-`, "
        "`.`, `_` or `:` that an entry ends with. Unset: any that the store allows.",
    )

    def require_allowed(self, name: str) -> None:
        """Raise ConfigError for a name that may not be looked up."""
        if self.allowed_paths is None:
            return
        begins = [each if each.endswith(_ENDS) else f"{each}/" for each in self.allowed_paths if each]
        if name not in self.allowed_paths and not name.startswith(tuple(begins)):
            raise ConfigError(f"{name} is not below the provider's allowed.paths: name it there")
