"""When connectors and tasks are restarted because looked-up values have expired (`config.action.reload`)."""

from fencepost.config.connector import ConnectorConfig
from fencepost.config.raw import RawConfig

_KEY = ConnectorConfig.key_of("config_action_reload")
_SHORTEST_S = 1.0  # a store that says 0 must not keep a connector restarting


def reload_in_s(config: RawConfig, ttl_ms: int | None) -> float | None:
    """Return in how many seconds to restart what uses values that are valid for `ttl_ms`; None for never."""
    if ttl_ms is None or config.get(_KEY, "restart") == "none":
        return None
    return max(ttl_ms / 1000, _SHORTEST_S)
