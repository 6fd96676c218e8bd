"""Which process of `make test` takes which file next.

The first tests in the list wait most of the time, for sessions to run out and for what was killed to come back; the
last ones compute, in Spark. One process begins at the end, the others at the beginning: what waits runs beside what
computes.

A campaign of `tests/chaos` takes both cores by itself, and more of them if it is starved, as what runs out is begun
again: `test_java_faults.py` took 93 s of processor time alone, and 244 beside another one. So these files are one
process's.

The tests of a directory below `tests/integration` share a worker, a Spark or brokers, which each process has to start
for itself. So such a directory is one process's as well, from its first file to its last. Only where nothing else is
left do others help with the directory that has most files left. So that this is rare, two processes begin with the
largest directories, which would be left over otherwise.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from xdist.scheduler import LoadFileScheduling

_AT_THE_END = "gw0"
_LARGEST_FIRST = ("gw1", "gw2")
_CAMPAIGNS = PurePosixPath("tests/chaos")
_SHARING = PurePosixPath("tests/integration")


class FromBothEnds(LoadFileScheduling):
    """Hands out files whole, as `--dist loadfile` does."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        self._rooms: dict[Any, str] = {}

    def _assign_work_unit(self, node: Any) -> None:
        others = [room for other, room in self._rooms.items() if other is not node]
        file = next_file(list(self.workqueue), self._rooms.get(node, ""), others, node.gateway.id)
        self._rooms[node] = room_of(file)
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


def next_file(left: Sequence[str], own: str, others: Iterable[str], process: str) -> str:
    """Return the file for a process that was last in the room `own`, while others are in theirs."""
    rooms = Counter(map(room_of, left))
    if own in rooms:
        return next(file for file in left if room_of(file) == own)
    free = [file for file in left if room_of(file) not in set(others)]
    if free and process in _LARGEST_FIRST:
        return max(free, key=lambda file: rooms[room_of(file)])  # of several the first
    if free:
        return free[-1] if process == _AT_THE_END else free[0]
    ((fullest, _),) = rooms.most_common(1)
    return [file for file in left if room_of(file) == fullest][-1]


def room_of(file: str) -> str:
    """Return what one process is to run alone: a directory, or the file."""
    directory = PurePosixPath(file).parent
    return str(directory) if directory == _CAMPAIGNS or _SHARING in directory.parents else file
