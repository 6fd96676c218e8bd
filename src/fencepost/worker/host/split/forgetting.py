"""Removes the source offsets of splits that are over (KIP-910), in a transaction of their own.

A split whose offset is removed would be read again if it were planned again, so its offset goes after its file
(docs/decisions/0018). Usually the tombstones go with the next split; here they are written when there is none.
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Sequence

from fencepost.api.errors import ConnectError
from fencepost.task.channel.message import Admission
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.copies import Copy, OffsetCopier, copier_of, with_copies
from fencepost.task.delivery.lanes import open_delivery
from fencepost.transaction import ProduceError

log = logging.getLogger(__name__)

_FLUSH_S = 60.0


class Forgetting:
    """What one task may forget: only splits that it, or its connector, has itself seen removed.

    That a split is missing proves nothing, as a whole directory may be missing for a while.
    """

    def __init__(self, spec: TaskSpec, admit: Callable[[], Admission], copy: Copy | None = None) -> None:
        """`copy` lets the worker write copies, if the connector has an offsets topic of its own."""
        self._spec = spec
        self._copier = copier_of(spec, copy)
        self._admit = admit
        self._over: set[bytes] = set()
        self._missed: frozenset[bytes] = frozenset()
        self._removed: frozenset[bytes] = frozenset()
        self._logged = ""

    def finished(self, key: bytes, *, is_over: bool) -> None:
        """Record, by offset key, whether a finished split can never be planned again: its file is removed."""
        if is_over:
            self._over.add(key)
        else:
            self._over.discard(key)

    def missed(self, keys: Collection[bytes]) -> None:
        """Record the offset keys of all splits reported as removed now. Two reports in a row make it certain."""
        missing = frozenset(keys)
        self._missed, self._removed = missing, missing & self._missed

    def due(self, stored: Collection[bytes]) -> tuple[bytes, ...]:
        """Return which of the `stored` offset keys can be removed."""
        self._over.intersection_update(stored)
        return tuple(sorted(self._over | self._removed.intersection(stored)))

    def try_run(self, keys: Sequence[bytes]) -> bool:
        """Remove these offsets. Returns False if that failed, or the outcome is unknown (E6): ask `due` again."""
        try:
            write_tombstones(self._spec, keys, self._admit, self._copier)
            return True
        except ConnectError as error:
            if self._logged != str(error):
                self._logged = str(error)
                log.warning("task %s cannot remove the offsets of removed files yet: %s", self._spec.id, error)
            return False


def write_tombstones(
    spec: TaskSpec, keys: Sequence[bytes], admit: Callable[[], Admission], copier: OffsetCopier | None = None
) -> None:
    """Write tombstones under the task's transactional id (E3): init ▸ admission ▸ produce ▸ commit.

    Writes nothing if the task is not admitted. Raises what opening, writing or committing raises.
    """
    opened = open_delivery(spec.output.producer_conf, spec.output.transactional_id, spec.output.offsets_topic, _FLUSH_S)
    delivery = with_copies(opened, copier, spec.output.offsets_topic)  # E7: first in the worker's topic
    try:
        if not admit().is_admitted:  # a newer start decides itself what is over
            return
        if not delivery.commit([(key, None) for key in keys]):
            raise ProduceError(f"tombstones were not acknowledged within {_FLUSH_S:g} s", is_refused=False)
        delivery.finished(wait=True)
    except BaseException:
        with contextlib.suppress(Exception):  # the next holder of the id ends what is left open
            delivery.abort()
        raise
    finally:
        delivery.close()
