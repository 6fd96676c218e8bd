"""Secrets of connector configs in REST answers: shown as `[hidden]`, and kept if they are sent back like that (E11)."""

from fencepost.config.raw import RawConfig
from fencepost.config.reference import is_placeholder
from fencepost.plugin.secret_keys import hold_given_secrets, secret_keys, undecided_keys
from fencepost.redaction import HIDDEN
from fencepost.telemetry.secret import Secrets


def masked(config: RawConfig, connector: RawConfig | None = None) -> RawConfig:
    """Return a config that may be shown; references to config providers stay, as they reveal nothing.

    Args:
        connector: The config of the connector, if `config` is that of one of its tasks.
    """
    keys, secrets = secret_keys(config, connector) | undecided_keys(connector or config), Secrets()
    if connector is not None:  # it may have made other values of its secrets
        hold_given_secrets(connector, secrets.hold)
    return {key: _shown(value, secrets, is_secret=key in keys) for key, value in config.items()}


def _shown(value: str | None, secrets: Secrets, *, is_secret: bool) -> str | None:
    if not value or is_placeholder(value):
        return value
    return HIDDEN if is_secret else secrets.hide(value)


def unmasked(config: RawConfig, stored: RawConfig | None) -> RawConfig:
    """Return a config with the stored values in place of `[hidden]`: a client may send back what it was shown."""
    if not stored:
        return config
    return {key: stored[key] if value == HIDDEN and stored.get(key) else value for key, value in config.items()}
