"""Which process of `make test` takes which file next.

The first tests in the list wait most of the time, for sessions to run out and for what was killed to come back; the
last ones compute, in Spark. One process begins at the end, the others at the beginning: what waits runs beside what
computes. Besides, a directory is one process's, but for the one in which they meet: what its tests share is begun once.

Four files that wait leave the cores to a fifth one: all processes but one begin with the first files.
"""

from typing import Any

from xdist.scheduler import LoadFileScheduling

_AT_THE_END = "gw0"


class FromBothEnds(LoadFileScheduling):
    """Hands out files whole, as `--dist loadfile` does."""

    def _assign_work_unit(self, node: Any) -> None:
        if node.gateway.id == _AT_THE_END:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
