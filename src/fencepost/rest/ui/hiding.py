"""Configs without their secrets: pages show that there is one, and never what it is."""

from collections.abc import Mapping

from fencepost.plugin.secret_keys import secret_keys, undecided_keys
from fencepost.redaction import HIDDEN
from fencepost.rest.gateway import Gateway


async def hidden_keys(gateway: Gateway, config: Mapping[str, str | None]) -> set[str]:
    """Return the keys whose values no page shows. On a thread: it may have to import the connector's class."""
    return await gateway.run(lambda: secret_keys(config) | undecided_keys(config))


def shown(config: Mapping[str, str | None], hidden: set[str]) -> dict[str, str]:
    """Return a config, as REST shows it, as a page shows it: sorted by key."""
    return {key: HIDDEN if key in hidden else value or "" for key, value in sorted(config.items())}
