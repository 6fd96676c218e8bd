"""The newest version of a plug-in, where a user has given none. What is installed is recorded with its version."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import url2pathname

from fencepost.builtin.java.install.error import InstallError
from fencepost.builtin.java.install.origin import Coordinates, HubPlugin, Origin, is_safe
from fencepost.config.version import in_order

CENTRAL = "https://repo1.maven.org/maven2"
_HUB = "https://api.hub.confluent.io/api/plugins"
_TIMEOUT_S = 30.0
_VERSION = re.compile(r"<version>([^<]+)</version>")
_BEFORE_RELEASE = re.compile(
    r"(?<![a-z])(alpha|beta|b|cr|ea|m|milestone|pre|preview|rc|snapshot)(?![a-z])", re.IGNORECASE
)


def with_version(origin: Origin, repository: str | None = None) -> Origin:
    """Return a plug-in with its newest version that is no preview, if it has none. Raises InstallError."""
    if isinstance(origin, Coordinates) and not origin.version:
        return replace(origin, version=_in_maven(origin, (repository or CENTRAL).rstrip("/")))
    if isinstance(origin, HubPlugin) and not origin.version:
        return replace(origin, version=_on_hub(origin))
    return origin


def _in_maven(wanted: Coordinates, repository: str) -> str:
    url = f"{repository}/{wanted.group.replace('.', '/')}/{wanted.artifact}/maven-metadata.xml"
    found = _VERSION.findall(_read(url, lambda answer: answer.text, wanted))
    released = [version for version in found if not _BEFORE_RELEASE.search(version)]
    if not released:
        raise InstallError(f"{wanted}: {url} names no version but previews: write the one that you want")
    return in_order(released)[-1]


def _on_hub(wanted: HubPlugin) -> str:
    return str(_read(f"{_HUB}/{wanted.owner}/{wanted.name}", lambda answer: answer.json()["version"], wanted))


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
