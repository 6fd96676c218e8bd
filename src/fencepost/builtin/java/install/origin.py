"""Where a plug-in is from, as a user names it: in a Maven repository, on Confluent's Hub, or in an archive."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import url2pathname

from fencepost.builtin.java.install.known import InstallError, plugin_named
from fencepost.config.rest import is_loopback
from fencepost.config.version import in_order

SUFFIXES = (".zip", ".tar.gz", ".tgz", ".jar")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_CHANGING = re.compile(r".*\+|latest(\..*)?|release", re.IGNORECASE)
_COORDINATES = re.compile(r"([\w.-]+):([\w.-]+)(?::([\w.+-]+))?")
_OF_HUB = re.compile(r"([\w.-]+)/([\w.-]+)(?::([\w.+-]+))?")
_NAME = re.compile(r"([\w.-]+)(?::([\w.+-]+))?")
_HUB_DOWNLOADS = "https://hub-downloads.confluent.io/api/plugins"
_VERSION_AT_END = re.compile(r"-v?\d[\w.]*([-.](Final|Alpha\d*|Beta\d*|CR\d*|RC\d*|SNAPSHOT))?$", re.IGNORECASE)
CENTRAL = "https://repo1.maven.org/maven2"
_HUB = "https://api.hub.confluent.io/api/plugins"
_TIMEOUT_S = 30.0
_VERSION = re.compile(r"<version>([^<]+)</version>")
_BEFORE_RELEASE = re.compile(
    r"(?<![a-z])(alpha|beta|b|cr|ea|m|milestone|pre|preview|rc|snapshot)(?![a-z])", re.IGNORECASE
)


@dataclass(frozen=True)
class Coordinates:
    """An artifact of a Maven repository. Without a version, it is the newest."""

    group: str
    artifact: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.identity}:{self.version}" if self.version else self.identity

    @property
    def identity(self) -> str:
        """Return what all its versions have in common: one replaces another."""
        return f"{self.group}:{self.artifact}"


@dataclass(frozen=True)
class Archive:
    """A file, here or at a URL. `where` may have a password or a signature; the text of the object has neither."""

    where: str
    sha256: str | None = None

    def __str__(self) -> str:
        if not self.is_remote:
            return self.where
        url = urlsplit(self.where)
        return urlunsplit((url.scheme, url.netloc.rpartition("@")[2], url.path, "", ""))

    def __repr__(self) -> str:
        return f"Archive({str(self)!r})"

    @property
    def is_remote(self) -> bool:
        return "://" in self.where

    @property
    def file_name(self) -> str:
        return Path(urlsplit(self.where).path if self.is_remote else self.where).name

    @property
    def stem(self) -> str:
        """Return the file's name without its suffix and version."""
        suffix = next(one for one in SUFFIXES if self.file_name.lower().endswith(one))
        return without_version(self.file_name[: -len(suffix)])


@dataclass(frozen=True)
class HubPlugin:
    """A plug-in on Confluent's Hub. Without a version, it is the newest."""

    owner: str
    name: str
    version: str = ""
    sha256: str | None = None

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}" + (f":{self.version}" if self.version else "")

    @property
    def archive(self) -> Archive:
        """Return its archive."""
        path = f"{self.owner}/{self.name}/versions/{self.version}/{self.owner}-{self.name}-{self.version}.zip"
        return Archive(f"{_HUB_DOWNLOADS}/{path}", self.sha256)


Origin = Coordinates | HubPlugin | Archive


def origin_of(text: str, sha256: str | None = None) -> Origin:
    """Return what a user has named. Raises InstallError if that is none of the three.

    `sha256` is that of the archive. One that anybody in the network can replace needs it.
    """
    if sha256 is not None and _SHA256.fullmatch(sha256) is None:
        raise InstallError(f"--sha256 {sha256} is not a SHA-256: it has 64 hexadecimal digits")
    archive = Archive(text, None if sha256 is None else sha256.lower())
    if archive.file_name.lower().endswith(SUFFIXES):
        if archive.is_remote and urlsplit(text).scheme not in ("https", "http"):
            raise InstallError(f"{archive}: only http and https are supported; download the file, and give its path")
        if not archive.is_remote and not Path(text).is_file():
            raise InstallError(f"{text} is not a file")
        if archive.is_remote and sha256 is None and not is_safe(text):
            raise InstallError(f"{archive}: anybody in the network can replace it; take https, or give its --sha256")
        return archive
    text = _in_full(text)
    if (of_hub := _OF_HUB.fullmatch(text)) is not None:
        version = None if of_hub[3] == "latest" else of_hub[3]
        return HubPlugin(of_hub[1], of_hub[2], _fixed(text, version), archive.sha256)
    found = _COORDINATES.fullmatch(text)
    if found is not None and sha256 is not None:
        raise InstallError("--sha256 is for an archive: a Maven repository has checksums of its own")
    if found is not None:
        return Coordinates(found[1], found[2], _fixed(text, found[3]))
    raise InstallError(
        f"{archive} is neither GROUP:ARTIFACT:VERSION, as in a Maven repository, nor OWNER/NAME:VERSION, as on "
        f"Confluent's Hub, nor an archive ({', '.join(SUFFIXES)}); `fencepost plugin search WORD` shows what is known"
    )


def _in_full(text: str) -> str:
    name = _NAME.fullmatch(text)
    known = None if name is None else plugin_named(name[1])
    return text if known is None or name is None else known.place + text.removeprefix(name[1])


def _fixed(text: str, version: str | None) -> str:
    if version is not None and _CHANGING.fullmatch(version):
        raise InstallError(
            f"{text}: {version} is another version tomorrow; write the one that you want, or none for the newest"
        )
    return version or ""


def is_safe(url: str) -> bool:
    """Say whether nobody in the network can change what is at a URL: it is https, or on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def without_version(name: str) -> str:
    """Return a name of a file or directory without the version at its end."""
    return _VERSION_AT_END.sub("", name) or name


def with_version(origin: Origin, repository: str | None = None) -> Origin:
    """Return a plug-in with its newest version that is no preview, if it has none. Raises InstallError."""
    if isinstance(origin, Coordinates) and not origin.version:
        return replace(origin, version=_in_maven(origin, (repository or CENTRAL).rstrip("/")))
    if isinstance(origin, HubPlugin) and not origin.version:
        url = f"{_HUB}/{origin.owner}/{origin.name}"
        return replace(origin, version=str(_read(url, lambda answer: answer.json()["version"], origin)))
    return origin


def _in_maven(wanted: Coordinates, repository: str) -> str:
    url = f"{repository}/{wanted.group.replace('.', '/')}/{wanted.artifact}/maven-metadata.xml"
    found = _VERSION.findall(_read(url, lambda answer: answer.text, wanted))
    released = [version for version in found if not _BEFORE_RELEASE.search(version)]
    if not released:
        raise InstallError(f"{wanted}: {url} names no version but previews: write the one that you want")
    return in_order(released)[-1]


def _read(url: str, content: Callable[[Any], Any], wanted: Coordinates | HubPlugin) -> Any:
    import httpx

    try:
        if url.startswith("file:"):
            return Path(url2pathname(url.removeprefix("file:").replace("///", "/", 1))).read_text()
        answer = httpx.get(url, follow_redirects=True, timeout=_TIMEOUT_S)
        answer.raise_for_status()
        if not all(is_safe(str(each.url)) for each in (*answer.history, answer)):
            raise InstallError(
                f"{wanted} has no version, and {url} is redirected to plain http, where anybody can replace what names "
                f"the newest: write {wanted}:VERSION"
            )
        return content(answer)
    except (OSError, httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        why = f"{url} answered {status}" if status else f"{url} could not be read ({type(error).__name__})"
        raise InstallError(
            f"{wanted} has no version, and the newest is not known: {why}. Check the name, or write {wanted}:VERSION"
        ) from None
