"""Finds the task to blame when the process of a slot dies with all its tasks, from lack of memory or a native crash.

The culprit cannot be observed, only which tasks were in the process, and which had made progress since their start. A
task that has committed something, or has lived for a minute, is not suspected. So if a slot is killed from outside, no
task that does its work is blamed. The other tasks are suspects, and start again after a pause. After its second crash
in a row, a suspect gets a slot of its own, until it makes progress or has lived for a minute. The only suspect of a
third or later crash is the culprit. If a process dies without any suspect in it, earlier suspects that had died
together with its tasks are cleared: one of these tasks makes progress and still kills the process.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fencepost.cluster.running import Start
from fencepost.task.failure.back_off import pause_after

TRIAL_S = 60.0
"""A start that has lived this long is not suspected."""

_MOST_TOGETHER = 2
_PAUSES_S = (0.0, 0.0, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class Life:
    """A start that ended with its slot's process. `is_at_work`: it was not paused, and had not committed anything."""

    start: Start
    lived_s: float
    is_at_work: bool

    @property
    def is_suspect(self) -> bool:
        return self.is_at_work and self.lived_s < TRIAL_S


@dataclass(frozen=True)
class Outcome:
    """The outcome of a crash for one start. `crashes` counts its crashes in a row with this one; 0: not suspected."""

    crashes: int = 0
    is_culprit: bool = False

    @property
    def delay_s(self) -> float:
        """Return the pause before the next start."""
        return pause_after(self.crashes, _PAUSES_S)


def outcomes_of(crashes: Mapping[Start, int], lives: Iterable[Life]) -> dict[Start, Outcome]:
    """Return the outcome for each start that ended with a process. `crashes` counts earlier crashes in a row. Pure."""
    lives = list(lives)
    is_alone = sum(life.is_suspect for life in lives) == 1
    outcomes: dict[Start, Outcome] = {}
    for life in lives:
        count = crashes.get(life.start, 0) + 1 if life.is_suspect else 0
        outcomes[life.start] = Outcome(count, is_culprit=is_alone and count > _MOST_TOGETHER)
    return outcomes


class Suspicions:
    """How often each start's process died in a row. Used by the supervisor's thread.

    A start is a task and its generation: with another config, counting begins at 0.
    """

    def __init__(self) -> None:
        self._crashes: dict[Start, int] = {}
        self._died_with: dict[Start, frozenset[Start]] = {}  # in the last crash

    def crashed(self, lives: Iterable[Life]) -> dict[Start, Outcome]:
        """Count a crash of the process that ran these starts. Returns the outcome for each."""
        lives = list(lives)
        together = frozenset(life.start for life in lives)
        outcomes = outcomes_of(self._crashes, lives)
        if not any(life.is_suspect for life in lives):
            for start in [s for s, others in self._died_with.items() if others & together]:
                self.clear(start)
        for start, outcome in outcomes.items():
            if outcome.crashes:
                self._crashes[start] = outcome.crashes
                self._died_with[start] = together - {start}
            else:
                self.clear(start)
        return outcomes

    def runs_alone(self, start: Start) -> bool:
        """Say whether the next start is to have a slot of its own."""
        return self._crashes.get(start, 0) >= _MOST_TOGETHER

    def is_suspect(self, start: Start) -> bool:
        return start in self._crashes

    def clear(self, start: Start) -> None:
        """Stop suspecting a start, because it makes progress, or a user has restarted it."""
        self._crashes.pop(start, None)
        self._died_with.pop(start, None)

    def keep_only(self, starts: Iterable[Start]) -> None:
        """Forget starts of generations that are over."""
        if self._crashes:
            kept = set(starts)
            for start in [start for start in self._crashes if start not in kept]:
                self.clear(start)
