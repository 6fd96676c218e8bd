"""Automatic restarts: after failures (`errors.restart.*`), and when looked-up values expire (`config.action.reload`).

The counts are kept in the worker that runs the connector or task. If it dies or hands it over, they start again at 0.
"""

import random
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fencepost.config import ConfigError
from fencepost.config.connector import ConnectorConfig, RuntimeChoice
from fencepost.config.reference import RawConfig, given_values

_KEY = ConnectorConfig.key_of("config_action_reload")
_SHORTEST_S = 1.0
"""The shortest time after which a connector is restarted for a store of secrets that says how long values are valid."""
S = TypeVar("S", bound=Hashable)

_JITTER = 0.2
"""A pause is up to this share shorter or longer, so that simultaneous failures do not restart together; as in Kafka."""


def reload_in_s(config: RawConfig, ttl_ms: int | None) -> float | None:
    """Return in how many seconds to restart what uses values that are valid for `ttl_ms`; None for never."""
    if ttl_ms is None or config.get(_KEY, "restart") == "none":
        return None
    return max(ttl_ms / 1000, _SHORTEST_S)


@dataclass(frozen=True)
class RestartPolicy:
    """What a connector's config asks for; `most` below 0 means no limit."""

    is_enabled: bool = False
    first_s: float = 1.0
    longest_s: float = 300.0
    most: int = -1
    window_s: float = 600.0

    @classmethod
    def of(cls, config: RawConfig) -> "RestartPolicy":
        """Parse it from a config; disabled if the config, which another worker may have stored, is invalid."""
        try:
            choice = RuntimeChoice(given_values(config))
        except ConfigError:
            return cls()
        return cls(
            choice.restart_enabled,
            choice.restart_backoff_initial_ms / 1000,
            choice.restart_backoff_max_ms / 1000,
            choice.restart_attempts,
            choice.restart_window_ms / 1000,
        )

    def pause_s(self, made: int, chance: float) -> float:
        """Return the pause after `made` restarts in a row; it doubles each time. `chance` is from 0 to 1. Pure."""
        doubled_s = self.first_s * 2.0 ** min(made, 62)
        return float(min(doubled_s, self.longest_s) * (1 + _JITTER * (2 * chance - 1)))


@dataclass(frozen=True)
class RestartSchedule:
    """How many restarts were made in a row, and in how many seconds the next is due; None if there is no next one."""

    made: int
    in_s: float | None


class AutomaticRestarts(Generic[S]):
    """Counts the restarts of each subject. Not thread-safe."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._chance = chance
        self._made: dict[S, int] = {}

    def failed(self, subject: S, policy: RestartPolicy, lived_s: float) -> RestartSchedule | None:
        """Return what follows a failure after `lived_s`; None if the config does not ask for restarts."""
        if not policy.is_enabled or lived_s >= policy.window_s:
            self.forget(subject)
        if not policy.is_enabled:
            return None
        made = self._made.get(subject, 0)
        if 0 <= policy.most <= made:
            return RestartSchedule(made, None)
        return RestartSchedule(made, policy.pause_s(made, self._chance()))

    def made(self, subject: S) -> None:
        """Count a restart that is being made."""
        self._made[subject] = self._made.get(subject, 0) + 1

    def forget(self, subject: S) -> None:
        """Reset the count: a user has acted, or the subject belongs to another worker."""
        self._made.pop(subject, None)

    def keep_only(self, subjects: Iterable[S]) -> None:
        """Forget all others."""
        if self._made:
            kept = set(subjects)
            self._made = {subject: count for subject, count in self._made.items() if subject in kept}
