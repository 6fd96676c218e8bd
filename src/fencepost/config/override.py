"""Decides which client settings a connector may override (KIP-458, KIP-1188).

A connector's config comes over REST. Client settings that load code, read files or reach other hosts are refused under
every policy (CVE-2023-25194 and similar ones).
"""

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path

from fencepost.config.check import Check

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
        if _is_below(value, allowed_paths):
            return None
        return (
            "files may only come from the directories that the worker lists in "
            "connector.client.config.override.allowed.paths; certificates and keys may be given as PEM text instead"
        )
    return next((why for pattern, why in _DENIED.items() if fnmatch.fnmatchcase(key.lower(), pattern)), None)


def _is_below(path: str, directories: Sequence[str]) -> bool:
    return any(Path(path).resolve().is_relative_to(Path(directory).resolve()) for directory in directories)
