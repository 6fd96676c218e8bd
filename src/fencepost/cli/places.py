"""Directories of this user that commands share."""

import os
from pathlib import Path


def plugin_directory() -> Path:
    """Return the directory in which `plugin install` puts plug-ins by default, and in which `dev` finds them.

    It is `$XDG_DATA_HOME/fencepost/plugins`, by default `~/.local/share/fencepost/plugins`, and need not exist.
    """
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "fencepost" / "plugins"


def config_directory() -> Path:
    """Return the directory of this user's settings: `$XDG_CONFIG_HOME/fencepost`, by default `~/.config/fencepost`."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "fencepost"
