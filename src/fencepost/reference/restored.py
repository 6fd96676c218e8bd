"""Puts references back into configs that were made of looked-up values, before they are stored (E11)."""

from collections.abc import Mapping

from fencepost.config.raw import RawConfig
from fencepost.config.reference import has_references

_SHORTEST = 4  # a shorter value is replaced only where it is the value of its own key


def restored(config: RawConfig, stored: RawConfig, values: RawConfig, found: Mapping[str, str]) -> RawConfig:
    """Return a task's config in which looked-up values are references again.

    A key with the value that it has in the connector's config gets the text of that config, as in Kafka Connect. In all
    other values, the looked-up texts are replaced.

    Args:
        config: the task's config, as its connector made it.
        stored: the connector's config with references.
        values: the same config with values.
        found: the value of each reference.
    """
    texts = sorted(found.items(), key=lambda each: -len(each[1]))
    return {
        key: stored[key] if _is_same(key, value, stored, values) else _with_references(value, texts)
        for key, value in config.items()
    }


def _is_same(key: str, value: str | None, stored: RawConfig, values: RawConfig) -> bool:
    return key in stored and value == values.get(key) and has_references({key: stored[key]})


def _with_references(value: str | None, texts: list[tuple[str, str]]) -> str | None:
    """Return a value with the longest looked-up texts replaced first."""
    if value is None:
        return None
    pieces = [value]
    for reference, secret in texts:
        if len(secret) >= _SHORTEST:
            pieces = [part for piece in pieces for part in _cut(piece, secret, reference)]
    return "".join(pieces)


def _cut(piece: str, secret: str, reference: str) -> list[str]:
    """Return a piece of text with the reference in place of the secret; pieces that are references stay whole."""
    if piece.startswith("${") and has_references({"": piece}):
        return [piece]
    parts = piece.split(secret)
    return [each for part in parts for each in (reference, part)][1:]
