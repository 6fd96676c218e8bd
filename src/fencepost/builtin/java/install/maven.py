"""Fetches an artifact of a Maven repository with what it needs at run time, by PySpark's Ivy."""

import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from fencepost.builtin.java.host_jar import listed_jars
from fencepost.builtin.java.install.known import InstallError, plugin_named
from fencepost.builtin.java.install.origin import Coordinates, is_safe
from fencepost.config.version import compared
from fencepost.embedded import EmbeddedKafkaError, checksum, home
from fencepost.embedded.error import IvyError
from fencepost.embedded.home import default_cache, locked
from fencepost.embedded.java import find_java

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


def ensure_repository(url: str) -> None:
    """Raise InstallError if nothing may be fetched from there: anybody in the network could replace it."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http", "file"):
        raise InstallError(f"--repository {url}: expected https://HOST/PATH or file:///PATH")
    if parts.username or parts.password:
        raise InstallError(
            "--repository: a repository with a password is not supported; download an archive, and give its path"
        )
    if parts.scheme != "file" and not is_safe(url):
        raise InstallError(f"--repository {url}: anybody in the network can replace what is there; take https")


def fetch(coordinates: Coordinates, directory: Path, repository: str | None = None) -> None:
    """Download the artifact's jar and those it needs into a directory, without those that Kafka Connect provides.

    Args:
        repository: The URL of the Maven repository that has them all; None: Maven Central.

    Raises:
        InstallError: There is no such artifact, no network, or no Java.
    """
    directory.mkdir()
    try:
        java = find_java()
        with locked(default_cache() / "plugin-install.lock"), tempfile.TemporaryDirectory() as temporary:
            wanted = Path(temporary, "ivy.xml")
            wanted.write_text(_module(coordinates))
            arguments = ["-ivy", str(wanted), *home.into(directory)]
            if repository is not None:
                settings = Path(temporary, "ivysettings.xml")
                settings.write_text(_settings(repository))
                arguments += ["-settings", str(settings)]
            with home.progress(str(coordinates)) as advance:
                home.run(java, arguments, str(coordinates), advance)
    except IvyError as error:
        raise InstallError(_reason(coordinates, error.lines) or str(error)) from error
    except EmbeddedKafkaError as error:
        raise InstallError(str(error)) from error
    if not any(directory.glob("*.jar")):
        raise InstallError(f"{coordinates} has no jar: name the artifact of the connector itself")
    _leave_out_jackson(directory)


def _leave_out_jackson(directory: Path) -> None:
    """Delete a Jackson that is exactly the runtime's, and one of Debezium's that is no newer.

    Kafka's JsonConverter, which plug-ins use, takes and returns Jackson's nodes; those of another loader do not fit.
    Debezium counts on Kafka Connect's: its CloudEventsConverter looks for methods with these nodes, and Hibernate,
    which its sink uses, finds Jackson's modules in both loaders.
    """
    expected = listed_jars()
    jars = [jar for name in _JACKSON for jar in directory.glob(f"{name}-[0-9]*.jar")]
    is_same = all(checksum.sha256(jar) == expected.get(jar.name) for jar in jars)
    if is_same or (any(directory.glob("debezium-*.jar")) and all(_is_no_newer(jar, expected) for jar in jars)):
        for jar in jars:
            jar.unlink()


def _is_no_newer(jar: Path, expected: Iterable[str]) -> bool:
    name, _, version = jar.stem.rpartition("-")
    own = next(
        (one.removeprefix(f"{name}-").removesuffix(".jar") for one in expected if one.startswith(f"{name}-")), ""
    )
    return own.partition(".")[0] == version.partition(".")[0] and compared(version, own) <= 0


def _settings(repository: str) -> str:
    root = quoteattr(f"{repository.rstrip('/')}/")
    return (
        '<ivysettings><settings defaultResolver="given"/><resolvers>'
        f'<ibiblio name="given" m2compatible="true" root={root}/></resolvers></ivysettings>\n'
    )


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
    if any(_NO_NETWORK.match(line) for line in lines):
        return (
            f"{coordinates} could not be fetched: the Maven repository cannot be reached. Where there is no network, "
            "download the plug-in's archive elsewhere, and give its path"
        )
    missing = [":".join(found.groups()) for found in map(_NOT_FOUND.match, lines) if found is not None]
    if str(coordinates) in missing:
        known = plugin_named(coordinates.artifact)
        elsewhere = known is not None and known.place != coordinates.identity
        return f"{coordinates} is not in the Maven repository: " + (
            f"{known.command} installs it"
            if known is not None and elsewhere
            else "check group, artifact and version. For a plug-in that is not there, give the path or the URL of its "
            "archive"
        )
    if missing:
        return f"{coordinates} needs {', '.join(missing)}, which the Maven repository does not have"
    return None
