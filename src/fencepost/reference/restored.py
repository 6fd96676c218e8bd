"""Puts references back into configs that were made of looked-up values, before they are stored (E11)."""

from collections.abc import Mapping

from fencepost.api import ConfigError
from fencepost.config.raw import RawConfig
from fencepost.config.reference import has_references, replaced
from fencepost.secret.known import SHORTEST, Secrets


def restored(config: RawConfig, stored: RawConfig, values: RawConfig, found: Mapping[str, str]) -> RawConfig:
    """Return a task's config in which looked-up values are references again.

    A key with the value that it has in the connector's config gets the text of that config, as in Kafka Connect; white
    space around the value does not count. In all other values, the looked-up texts are replaced.

    Args:
        config: the task's config, as its connector made it.
        stored: the connector's config with references.
        values: the same config with values.
        found: the value of each reference.

    Raises:
        ConfigError: a value has a looked-up text in another form, for which there is no reference.
    """
    texts = sorted(found.items(), key=lambda each: -len(each[1]))
    made = {key: _restored_value(key, value, stored, values, texts) for key, value in config.items()}
    _ensure_without_secrets({key: value for key, value in made.items() if value != stored.get(key)}, found)
    return made


def _restored_value(
    key: str, value: str | None, stored: RawConfig, values: RawConfig, texts: list[tuple[str, str]]
) -> str | None:
    if key in stored and value == stored[key]:
        return value  # a user wrote it; that a reference has the same value now says nothing
    return stored[key] if _is_same(key, value, stored, values) else _with_references(value, texts)


def _is_same(key: str, value: str | None, stored: RawConfig, values: RawConfig) -> bool:
    """Say whether it is the connector's value. Typed settings lose the white space at their ends."""
    known = values.get(key)
    is_equal = value == known or (value is not None and known is not None and value.strip() == known.strip())
    return key in stored and is_equal and has_references({key: stored[key]})


def _ensure_without_secrets(config: RawConfig, found: Mapping[str, str]) -> None:
    """Refuse what is left of looked-up values: trimmed, or quoted as in URLs."""
    secrets = Secrets()
    secrets.hold(found.values())
    for key, value in config.items():
        rest = replaced(key, value or "", dict.fromkeys(found, "\0"))
        if secrets.hide(rest) != rest:
            raise ConfigError(
                f"{key} of a task's config has a part or another form of a value that was looked up, and it would be "
                "stored readable. Store the value without white space at its ends; let task_configs() return it as "
                "it is, and change it in the task"
            )


def _with_references(value: str | None, texts: list[tuple[str, str]]) -> str | None:
    """Replace the longest looked-up texts first; short ones are replaced only as the value of their own key."""
    if value is None:
        return None
    pieces = [value]
    for reference, secret in texts:
        if len(secret) >= SHORTEST:
            pieces = [part for piece in pieces for part in _cut(piece, secret, reference)]
    return "".join(pieces)


def _cut(piece: str, secret: str, reference: str) -> list[str]:
    """Return a piece of text with the reference in place of the secret; pieces that are references stay whole."""
    if piece.startswith("${") and has_references({"": piece}):
        return [piece]
    parts = piece.split(secret)
    return [each for part in parts for each in (reference, part)][1:]
