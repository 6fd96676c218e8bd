"""Installs a plug-in."""

from pathlib import Path
from typing import NamedTuple

from fencepost.builtin.java.install import archive, maven
from fencepost.builtin.java.install.contents import offered
from fencepost.builtin.java.install.directory import InstalledPlugin, PluginDirectory
from fencepost.builtin.java.install.error import InstallError
from fencepost.builtin.java.install.newest import with_version
from fencepost.builtin.java.install.origin import Archive, Coordinates, HubPlugin, Origin


class Installation(NamedTuple):
    """What was installed, and what it has replaced."""

    directory: Path
    replaced: InstalledPlugin | None


def install(
    origin: Origin, directory: PluginDirectory, name: str | None = None, repository: str | None = None
) -> Installation:
    """Fetch a plug-in and put it into a directory, in place of another version of it.

    Args:
        name: The name of its own directory. By default the artifact's, or that of the archive, without a version.
        repository: The URL of a Maven repository. By default Maven Central.

    Raises InstallError; then the directory is as it was.
    """
    origin = with_version(origin, repository)
    with directory.staged() as scratch:
        if not isinstance(origin, Coordinates):
            own_name, fresh = _fetched(origin, scratch)
            name = name or own_name
            identity = name
        else:
            fresh = scratch / origin.artifact
            maven.fetch(origin, fresh, repository)
            name, identity = name or origin.artifact, origin.identity
        if not offered(fresh):
            raise InstallError(
                f"{origin} has no connector, transform, predicate or converter of Kafka Connect, in "
                f"{_counted(fresh)}: it is a library, or something else"
            )
        return Installation(directory.path / name, directory.put(fresh, name, str(origin), identity))


def _fetched(origin: HubPlugin | Archive, scratch: Path) -> tuple[str, Path]:
    if isinstance(origin, Archive):
        return archive.fetch(origin, scratch)
    try:
        return archive.fetch(origin.archive, scratch)
    except InstallError as error:
        page = f"https://www.confluent.io/hub/{origin.owner}/{origin.name}"
        raise InstallError(f"{error}. All versions are on {page}") from error


def _counted(directory: Path) -> str:
    count = sum(1 for _ in directory.rglob("*.jar"))
    return f"{count} jar{'' if count == 1 else 's'}"
