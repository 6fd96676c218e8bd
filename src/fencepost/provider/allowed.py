"""Paths that a provider may read."""

from pathlib import Path

from fencepost.api import Config, ConfigError, setting


class AllowedPaths(Config):
    """The setting that limits what files a provider reads."""

    allowed_paths: list[str] = setting(
        "allowed.paths",
        default=[],
        doc="The only files and directories that may be read, with everything below them; empty: any.",
    )

    def allowed(self, path: str) -> Path:
        """Return a path that may be read. Raises ConfigError."""
        if not path:
            raise ConfigError("the reference has no path: write ${provider:/path:key}")
        found = Path(path).resolve()
        allowed = [each for each in self.allowed_paths if each]
        if allowed and not any(found.is_relative_to(Path(each).resolve()) for each in allowed):
            raise ConfigError(f"{path} is not below the provider's allowed.paths: name its directory there")
        return found
