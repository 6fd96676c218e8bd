"""Removing the source offsets of splits that are over (KIP-910), in a transaction of their own.

A split that is planned again would be read again, so its offset goes only after it: once its file is removed
(docs/decisions/0018). Usually the tombstones go with the next split; here they are written when there is none.
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Sequence

from fencepost.api.errors import ConnectError
from fencepost.task.copies import Copy, OffsetCopier, copier_of, with_copies
from fencepost.task.lanes import open_delivery
from fencepost.task.spec import Admission, TaskSpec
from fencepost.transaction import ProduceError

log = logging.getLogger(__name__)

_FLUSH_S = 60.0


class Forgetting:
    """What one task may forget: only what it, or its connector, has itself seen removed.

    That a split is not there any more proves nothing when a whole directory may be missing for a while.
    """

    def __init__(self, spec: TaskSpec, admit: Callable[[], Admission], copy: Copy | None = None) -> None:
        """`copy` has the worker write copies, where the connector has an offsets topic of its own."""
        self._spec = spec
        self._copier = copier_of(spec, copy)
        self._admit = admit
        self._over: set[bytes] = set()
        self._missed: frozenset[bytes] = frozenset()
        self._removed: frozenset[bytes] = frozenset()
        self._logged = ""

    def finished(self, key: bytes, *, is_over: bool) -> None:
        """Note of the offset key of a finished split whether it can never be planned again: its file is removed."""
        if is_over:
            self._over.add(key)
        else:
            self._over.discard(key)

    def missed(self, keys: Collection[bytes]) -> None:
        """Note the offset keys of all splits that are said to be removed now. What is said twice in a row holds."""
        missing = frozenset(keys)
        self._missed, self._removed = missing, missing & self._missed

    def due(self, stored: Collection[bytes]) -> tuple[bytes, ...]:
        """Return which of the offset keys that are `stored` can be removed; the others were."""
        self._over.intersection_update(stored)
        return tuple(sorted(self._over | self._removed.intersection(stored)))

    def try_run(self, keys: Sequence[bytes]) -> bool:
        """Remove these offsets. Returns False where that did not succeed, or nobody knows (E6): ask `due` again."""
        try:
            write_tombstones(self._spec, keys, self._admit, self._copier)
            return True
        except ConnectError as error:
            if self._logged != str(error):
                self._logged = str(error)
                log.warning("task %s keeps the offsets of removed files for now: %s", self._spec.id, error)
            return False


def write_tombstones(
    spec: TaskSpec, keys: Sequence[bytes], admit: Callable[[], Admission], copier: OffsetCopier | None = None
) -> None:
    """Write tombstones under the task's transactional id (E3): init ▸ admission ▸ produce ▸ commit.

    Nothing is written where the task is not admitted. Raises what opening, writing or committing raises.
    """
    opened = open_delivery(spec.producer_conf, spec.transactional_id, spec.offsets_topic, _FLUSH_S)
    delivery = with_copies(opened, copier, spec.offsets_topic)  # E7: first in the worker's topic
    try:
        if not admit().is_admitted:  # a newer start has its own view of what is over
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
