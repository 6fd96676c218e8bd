"""Measures how fast something is on a machine that is in use."""

from collections.abc import Callable


def fastest_s(measure: Callable[[], float], below_s: float, tries: int = 3) -> float:
    """Return the first of a few times that is below `below_s`, else the shortest: other work only adds to each."""
    took_s: list[float] = []
    while not took_s or (min(took_s) >= below_s and len(took_s) < tries):
        took_s.append(measure())
    return min(took_s)
