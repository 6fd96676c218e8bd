"""Victims that were not there any more when a fault came: their slots had stood still, by chance."""

from fencepost.testing import eventually
from support.worker import Worker

_MISSED_SHARE = 0.1
_SAID_S = 30.0


class Missed:
    """Counts the victims that a fault has missed, and bounds them: a fault that hits nobody shows nothing."""

    def __init__(self, worker: Worker, at_once: int) -> None:
        """`at_once`: how many victims a round has; all slots of a machine that stands still are given up together."""
        self._worker = worker
        self._at_once = at_once
        self._count = 0

    def add(self, pid: int, what: str, within_s: float = _SAID_S) -> None:
        """Note one whose slot has this process. Raises AssertionError if it, or what was in it, ended by itself."""
        try:
            eventually(lambda: self._worker.has_lost_slot(pid), within_s=within_s)
        except AssertionError:
            raise AssertionError(f"{what} ended by itself, or process {pid}, its slot, did") from None
        self._count += 1
        print(f"{what} was missed: its slot had stood still for longer than its lease", flush=True)

    def check(self, struck: int) -> None:
        """Raise AssertionError where too many were missed, of those and `struck` ones."""
        most = max(self._at_once, (struck + self._count) * _MISSED_SHARE)
        assert self._count <= most, f"{self._count} victims were missed, and {struck} hit"
