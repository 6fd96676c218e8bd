"""Fetches an artifact of a Maven repository with what it needs at run time, by PySpark's Ivy."""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fencepost.embedded import EmbeddedKafkaError, checksum, ivy
from fencepost.embedded.error import IvyError
from fencepost.embedded.home import default_cache, locked
from fencepost.embedded.java import find_java
from fencepost.java.install.error import InstallError
from fencepost.java.install.origin import Coordinates
from fencepost.java.runtime import listed_jars

# Kafka Connect has these, and never loads them from a plug-in: Kafka's own, and SLF4J with its backends.
_PROVIDED = (
    ("org.apache.kafka", ".*"),
    (r"org\.slf4j", "slf4j-(api|simple|nop|jdk14|log4j12|reload4j)"),
)
_JACKSON = ("jackson-annotations", "jackson-core", "jackson-databind")
_NOT_FOUND = re.compile(r"\s*module not found: (\S+)#(\S+);(\S+)")
_NO_NETWORK = re.compile(
    r"\s*(Server access [Ee]rror|Host .* not found|.*(UnknownHost|Connect|SocketTimeout)Exception)"
)


def fetch(coordinates: Coordinates, directory: Path) -> None:
    """Download the artifact's jar and those it needs into a directory, without those that Kafka Connect provides.

    Raises:
        InstallError: There is no such artifact, no network, or no Java.
    """
    directory.mkdir()
    try:
        java = find_java()
        with locked(default_cache() / "plugin-install.lock"), tempfile.TemporaryDirectory() as temporary:
            wanted = Path(temporary, "ivy.xml")
            wanted.write_text(_module(coordinates))
            with ivy.progress(str(coordinates)) as advance:
                ivy.run(java, ["-ivy", str(wanted), *ivy.into(directory)], str(coordinates), advance)
    except IvyError as error:
        raise InstallError(_reason(coordinates, error.lines) or str(error)) from error
    except EmbeddedKafkaError as error:
        raise InstallError(str(error)) from error
    if not any(directory.glob("*.jar")):
        raise InstallError(f"{coordinates} has no jar: name the artifact of the connector itself")
    _leave_out_jackson(directory)


def _leave_out_jackson(directory: Path) -> None:
    """Delete a Jackson that is exactly the runtime's.

    Kafka's JsonConverter, which plug-ins use, takes and returns Jackson's nodes; those of another loader do not fit.
    """
    expected = listed_jars()
    jars = [jar for name in _JACKSON for jar in directory.glob(f"{name}-[0-9]*.jar")]
    if all(checksum.sha256(jar) == expected.get(jar.name) for jar in jars):
        for jar in jars:
            jar.unlink()


def _module(coordinates: Coordinates) -> str:
    """Return what Ivy is to resolve. An exclusion holds for the artifact, too: it spares the one that is wanted."""
    excluded = "".join(
        f'    <exclude org="{group}" module="(?!{re.escape(coordinates.artifact)}$){module}" matcher="regexp"/>\n'
        for group, module in _PROVIDED
    )
    wanted = f'org="{coordinates.group}" name="{coordinates.artifact}" rev="{coordinates.version}"'
    return (
        '<ivy-module version="2.0">\n'
        '  <info organisation="fencepost" module="plugin"/>\n'
        "  <dependencies>\n"
        f'    <dependency {wanted} conf="*->default"/>\n'
        f"{excluded}"
        "  </dependencies>\n"
        "</ivy-module>\n"
    )


def _reason(coordinates: Coordinates, lines: Sequence[str]) -> str | None:
    """Return why Ivy has failed, by what it printed; None if that is not clear."""
    if any(_NO_NETWORK.match(line) for line in lines):
        return (
            f"{coordinates} could not be fetched: the Maven repository cannot be reached. Where there is no network, "
            "download the plug-in's archive elsewhere, and give its path"
        )
    missing = [":".join(found.groups()) for found in map(_NOT_FOUND.match, lines) if found is not None]
    if str(coordinates) in missing:
        return (
            f"{coordinates} is not in the Maven repository: check group, artifact and version. For a plug-in that is "
            "not there, give the path or the URL of its archive"
        )
    if missing:
        return f"{coordinates} needs {', '.join(missing)}, which the Maven repository does not have"
    return None
