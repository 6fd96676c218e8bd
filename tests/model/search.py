"""Breadth first through every state that can be reached: the first anomaly found has the shortest trace."""

import contextlib
import gc
from collections.abc import Iterator
from dataclasses import dataclass

from model import query
from model.broker import Anomaly
from model.world import State, World

AnyWorld = World | query.QueryWorld
AnyState = State | query.State


@dataclass(frozen=True)
class Found:
    """What a search came to: how many states there are, and the shortest way to an anomaly, if there is one."""

    states: int
    is_done_reached: bool
    trace: tuple[str, ...] = ()
    standstill: tuple[str, ...] = ()
    """The shortest way to a state from which nothing comes, though not all is delivered."""

    def __str__(self) -> str:
        return "\n".join(f"{number:3} {line}" for number, line in enumerate("\n".join(self.trace).splitlines(), 1))


def search(world: AnyWorld) -> Found:
    """Visit every state once."""
    with _without_collection():
        return _search(world)


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """States are many, live to the end and make no circles: a fifth of the time would go into looking for some."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _search(world: AnyWorld) -> Found:
    start = world.start()
    came_from: dict[AnyState, AnyState | None] = {start: None}
    front, is_done_reached = [start], False
    standstill: tuple[str, ...] = ()
    while front:
        following = []
        for state in front:
            is_done = world.is_done(state)
            is_done_reached = is_done_reached or is_done
            has_moves = False
            try:
                for _, reached in world.moves(state):
                    has_moves = True
                    known = len(came_from)
                    came_from.setdefault(reached, state)  # a state is hashed once: it is large
                    if len(came_from) > known:
                        following.append(reached)
            except Anomaly as anomaly:
                return Found(len(came_from), is_done_reached, (*_way(world, came_from, state), str(anomaly)))
            if not (has_moves or is_done or standstill):
                standstill = tuple(_way(world, came_from, state))
        front = following
    return Found(len(came_from), is_done_reached, standstill=standstill)


def _way(world: AnyWorld, came_from: dict[AnyState, AnyState | None], state: AnyState) -> list[str]:
    """Name the moves that led to `state`."""
    names: list[str] = []
    while (before := came_from[state]) is not None:
        names.append(next(" ".join(map(str, what)) for what, reached in world.moves(before) if reached == state))
        state = before
    return names[::-1]
