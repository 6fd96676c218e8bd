"""Plug-ins that are fetched from Maven, once per user, and checked by SHA-256."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from fencepost.embedded import checksum, home
from fencepost.embedded.home import default_cache, locked
from fencepost.embedded.java import find_java


def plugin(organisation: str, modules: Sequence[str], revision: str, plugin_path: Path, *more: Path) -> Path:
    """Put a plug-in, and other jars, into a directory of `plugin.path`; the first module names it."""
    directory = plugin_path / modules[0]
    shutil.copytree(fetched(organisation, modules, revision), directory)
    for jar in more:
        (directory / jar.name).symlink_to(jar)
    return directory


def fetched(organisation: str, modules: Sequence[str], revision: str) -> Path:
    """Return the directory with the jars; beside this file is a `MODULE.sha256` of them, named by the first module."""
    name = modules[0]
    expected = checksum.listed(Path(__file__).with_name(f"{name}.sha256").read_text())
    cached = default_cache() / f"{name}-{revision}"
    with locked(cached.with_name(f"{cached.name}.lock")):
        for module in () if cached.exists() else modules:
            home.retrieve(find_java(), (organisation, module, revision), cached, expected_jars=len(expected))
        checksum.verify(cached, expected)
    return cached
