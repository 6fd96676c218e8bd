"""Limits for the configs of connectors, which come over REST: files, and settings of clients.

Files (docs/decisions/0110): a process has one limit, that of the worker's file, which slots on other machines get with
their tasks. A worker's own files are never a connector's: who can write or read them is an administrator.

Settings of clients: a policy decides which ones a connector may override (KIP-458, KIP-1188). Those that load code,
read files or reach other hosts are refused under every policy (CVE-2023-25194 and similar ones).
"""

import fnmatch
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fencepost.config.check import Check

ALLOWED = "connector.file.allowed.paths"
"""The key of the setting."""
_LOCAL = ("file", "har")
"""The schemes of Hadoop's file systems whose files are those of the machine."""


@dataclass(frozen=True)
class FileLimit:
    """What is allowed and what is refused: files, and directories with everything below them.

    `allowed`: None for any that is not refused.
    """

    allowed: tuple[str, ...] | None = None
    refused: tuple[str, ...] = ()

    def fault(self, path: str) -> str | None:
        """Return why a connector may not use a path, wherever its links lead; None if it may."""
        found = os.path.realpath(path)
        if any(_is_of(found, os.path.realpath(own)) for own in self.refused):
            return "this is where the worker has files of its own; name another path"
        if self.allowed is None or any(_is_below(found, os.path.realpath(each)) for each in self.allowed):
            return None
        return f"it is not below {ALLOWED} of the worker; name a path there"

    def directory_fault(self, path: str) -> str | None:
        """Return the same for a path of any file system that Spark knows; only those of this machine have a limit."""
        return next(filter(None, map(self.fault, _on_this_machine(path))), None)


_limit = FileLimit()


def file_limit() -> FileLimit:
    """Return the limit of this process."""
    return _limit


def use_file_limit(limit: FileLimit) -> None:
    """Limit the connectors of this process."""
    global _limit
    _limit = limit


def keep_from_connectors(paths: Iterable[str]) -> None:
    """Refuse these paths, too."""
    added = (os.path.abspath(path) for path in paths)
    use_file_limit(replace(_limit, refused=tuple(dict.fromkeys((*_limit.refused, *added)))))


def a_file(check: Check | None = None) -> Check:
    """Return a check for the path of a file that connectors may use; `check` comes first."""
    return _limited(lambda path: file_limit().fault(path), check)


def a_directory(check: Check | None = None) -> Check:
    """Return the same for a directory, of any file system that Spark knows."""
    return _limited(lambda path: file_limit().directory_fault(path), check)


def _limited(fault: Callable[[str], str | None], check: Check | None) -> Check:
    def test(path: str) -> str | None:
        reason = check(path) if check is not None else None
        return reason or (fault(path) if path else None)

    return Check(test, check.text if check is not None else "")


def _is_of(path: str, own: str) -> bool:
    """Say whether a path is one of the worker's own, or the directory in which such a file is."""
    return _is_below(path, own) or (path == os.path.dirname(own) and not os.path.isdir(own))


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _on_this_machine(path: str) -> Iterator[str]:
    """Yield what a path of Hadoop's may be on this machine; nothing for one of another file system.

    A scheme is what comes before the first colon, if there is no slash before it.
    """
    scheme, colon, rest = path.partition(":")
    if colon and "/" not in scheme:
        if scheme.lower() not in _LOCAL:
            return
        path = rest
    else:
        yield path
    if path.startswith("//"):  # and the name of a host
        path = f"/{path[2:].partition('/')[2]}"
    yield path


_SUFFIX = "ConnectorClientConfigOverridePolicy"
POLICIES = ("All", "None", "Principal", "Allowlist")
_PRINCIPAL = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")

_CODE = "it would load code into the worker"
_REACH = "it would make the worker reach other hosts"
_READ = "it would make the worker read files"
_CHECKS_OFF = "it would switch the check of the broker's certificate off"
_DENIED = {
    "plugin.library.paths": _CODE,
    "ssl.engine.*": _CODE,
    "ssl.providers": _CODE,
    "ssl.provider": _CODE,
    "security.providers": _CODE,
    "config.providers*": _CODE,
    "*.callback.handler.class": _CODE,
    "*_cb": _CODE,
    "sasl.kerberos.kinit.cmd": "it would run a command",
    "*keytab*": _READ,
    "*.file": _READ,
    "*.location": _READ,
    "*.url": _REACH,
    "sasl.oauthbearer.metadata.authentication.type": _REACH,
    "debug": "it would write what clients do, secrets included, to the log",
}
TLS_FILES = ("ssl.truststore.location", "ssl.keystore.location", "ssl.ca.location", "ssl.key.location",
              "ssl.certificate.location")  # fmt: skip
_SAFE_VALUES = {
    "ssl.endpoint.identification.algorithm": "https",
    "enable.ssl.certificate.verification": "true",
}


def policy_name(name: str) -> str | None:
    """Return the short name of a policy from its alias or class; None if there is no such policy."""
    short = name.rpartition(".")[2].removesuffix(_SUFFIX)
    return next((known for known in POLICIES if known.lower() == short.lower()), None)


def known_policy() -> Check:
    """Return a check for the name of a policy."""
    return Check(
        lambda v: None if policy_name(v) else f"there is no such policy; the policies are {', '.join(POLICIES)}",
        f"[{', '.join(POLICIES)}]",
        recommended=POLICIES,
    )


def check_overrides(
    policy: str,
    overrides: Mapping[str, object],
    *,
    allowlist: Sequence[str] = (),
    allowed_paths: Sequence[str] = (),
) -> dict[str, str]:
    """Return key -> reason of every override that is refused; keys are without `producer.override.` and its kind.

    Args:
        policy: all policies but All refuse what they do not list; the refusal is worded as Kafka Connect's.
        allowlist: what the policy Allowlist lets through.
        allowed_paths: directories that TLS files may come from.
    """
    name = policy_name(policy) or "None"
    allowed = {"All": tuple(overrides), "None": (), "Principal": _PRINCIPAL, "Allowlist": tuple(allowlist)}[name]
    refused: dict[str, str] = {}
    for key, value in overrides.items():
        if key not in allowed:
            refused[key] = (
                f"The '{name}' policy does not allow '{key}' to be overridden in the connector configuration."
            )
        elif reason := _denied(key, str(value), allowed_paths):
            refused[key] = f"'{key}' can not be overridden in the connector configuration: {reason}."
    return refused


def _denied(key: str, value: str, allowed_paths: Sequence[str]) -> str | None:
    if key in _SAFE_VALUES:
        return None if value.strip().lower() == _SAFE_VALUES[key] else _CHECKS_OFF
    if key in TLS_FILES:
        if FileLimit(tuple(allowed_paths)).fault(value) is None:
            return None
        return (
            "files may only come from the directories that the worker lists in "
            "connector.client.config.override.allowed.paths; certificates and keys may be given as PEM text instead"
        )
    return next((why for pattern, why in _DENIED.items() if fnmatch.fnmatchcase(key.lower(), pattern)), None)
