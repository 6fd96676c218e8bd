"""References to config providers, `${provider:path:key}`, in values of configs."""

import re
from collections.abc import Container, Mapping

from fencepost.config.errors import ConfigError

REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
"""As Kafka reads them. `${topic}` and other placeholders have no colon."""

_SPARK = "spark."
_OF_SPARK = {"env", "system", "spark", "sparkconf", "hivevar", "hiveconf"}  # Spark looks them up in its own settings


def shown(found: re.Match[str]) -> str:
    """Return a reference that may be shown: whole if it is the entire value, else only its provider (E11)."""
    return found.group() if found.group() == found.string.strip() else f"${{{found[1]}:…}}"


def reference_faults(config: Mapping[str, object]) -> dict[str, str]:
    """Return a text for each key whose value refers to a config provider, because no provider would look it up."""
    faults = {}
    for key, value in config.items():
        found = _first(str(value or ""), _OF_SPARK if key.startswith(_SPARK) else ())
        if found is not None:
            faults[key] = (
                f"Invalid value for configuration {key}: {shown(found)} refers to a config provider. No provider "
                "resolves it, so the text would be used as the value: write the value itself"
            )
    return faults


def check_references(*configs: Mapping[str, object]) -> None:
    """Raise ConfigError when a value refers to a config provider."""
    faults = {key: text for config in configs for key, text in reference_faults(config).items()}
    if faults:
        raise ConfigError(list(faults.values()))


def _first(value: str, looked_up: Container[str]) -> re.Match[str] | None:
    return next((one for one in REFERENCE.finditer(value) if one[1] not in looked_up), None)
