"""Copies of a task's offsets in the worker's topic, if its connector has an offsets topic of its own (KIP-618).

A tombstone is acknowledged there before the transaction that contains it commits (E7): otherwise the merged view would
show an old value. All other copies are made after their commit, in the background, and nothing depends on them.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from fencepost.storage.offset_copies import OffsetCopy
from fencepost.task.channel.client import ChannelError
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.delivery import Delivery, OnDelivered
from fencepost.task.delivery.finish import Closing, OffsetRecords
from fencepost.task.delivery.outgoing import Outgoing, OutgoingColumns
from fencepost.transaction import ProduceError

log = logging.getLogger(__name__)

_LAST_S = 2.0


Copy = Callable[[Sequence[OffsetCopy]], None]
"""Lets the worker write copies; returns once they are acknowledged. Raises ChannelError, or what Kafka raises."""


class OffsetCopier:
    """The copies of one task, in order. The task's thread calls `forget`; any thread may call `put` and `close`."""

    def __init__(self, copy: Copy, task: str) -> None:
        self._copy = copy
        self._task = task
        self._changed = threading.Condition()
        self._waiting: dict[bytes, OffsetCopy] = {}
        self._is_copying = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def forget(self, tombstones: Sequence[OffsetCopy]) -> None:
        """Return once the worker's topic has the tombstones, after all earlier copies. Raises ProduceError."""
        if not tombstones:
            return
        with self._changed:
            for one in tombstones:
                self._waiting.pop(one.key, None)
            self._changed.wait_for(lambda: not self._is_copying)  # else an older value might follow the tombstone
        try:
            self._copy(tombstones)
        except Exception as error:
            raise ProduceError(
                f"the tombstones were not written to the worker's offsets topic: {error}", is_refused=False
            ) from error

    def put(self, copies: Sequence[OffsetCopy]) -> None:
        """Copy soon; of several values of a key only the newest. Never waits, never raises."""
        if not copies:
            return
        with self._changed:
            if self._is_closed:
                return
            self._waiting.update({one.key: one for one in copies})
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"copies-{self._task}", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Give the waiting copies a short time, and stop."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_LAST_S)

    def _run(self) -> None:
        while copies := self._take():
            try:
                self._copy(copies)
            except Exception as error:
                log.log(
                    logging.DEBUG if isinstance(error, ChannelError) else logging.WARNING,
                    "task %s: its offsets cannot be copied to the worker's topic at the moment: %s", self._task, error,
                )  # fmt: skip
            with self._changed:
                self._is_copying = False
                self._changed.notify_all()

    def _take(self) -> Sequence[OffsetCopy]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            taken, self._waiting = tuple(self._waiting.values()), {}
            self._is_copying = bool(taken)
            return taken


class CopyingDelivery(Delivery):
    """A delivery whose offsets are copied. Only the inner delivery's offsets count."""

    def __init__(self, inner: Delivery, copier: OffsetCopier, offsets_topic: str) -> None:
        self._inner = inner
        self._copier = copier
        self._offsets_topic = offsets_topic
        self._current: dict[bytes, OffsetCopy] = {}
        self._begun: deque[dict[bytes, OffsetCopy]] = deque()

    @property
    def is_open(self) -> bool:
        return self._inner.is_open

    @property
    def must_be_replaced(self) -> bool:
        return self._inner.must_be_replaced

    @property
    def is_narrow(self) -> bool:
        return self._inner.is_narrow

    @property
    def is_light(self) -> bool:
        return self._inner.is_light

    @property
    def is_full(self) -> bool:
        return self._inner.is_full

    def is_ready(self) -> bool:
        return self._inner.is_ready()

    def cover(self, offsets: OffsetRecords) -> bool:
        self._remember(offsets)
        return self._inner.cover(offsets)

    def send(self, outgoing: Outgoing, on_delivered: OnDelivered | None = None) -> None:
        if (
            isinstance(outgoing, OutgoingColumns)
            and outgoing.keys is not None
            and len(outgoing)
            and outgoing.topics[0] == self._offsets_topic
        ):
            self._remember([(key or b"", value) for key, value in zip(outgoing.keys, outgoing.values, strict=True)])
        self._inner.send(outgoing, on_delivered)

    def commit(self, offsets: OffsetRecords, closing: Closing | None = None) -> bool:
        self._remember(offsets)
        if not self._inner.commit(offsets, closing):
            return False
        self._begun.append(self._current)
        self._current = {}
        return True

    def finished(self, *, wait: bool = False) -> Sequence[float]:
        ended_s = self._inner.finished(wait=wait)
        for _ in ended_s:
            self._copier.put(tuple(self._begun.popleft().values()))
        return ended_s

    def abort(self) -> None:
        self._current = {}
        self._inner.abort()

    def close(self) -> None:
        self._inner.close()

    def _remember(self, offsets: OffsetRecords) -> None:
        """Write tombstones before the commit, and let no copy of an earlier commit follow them (E7)."""
        now_ms = int(time.time() * 1000)
        own = [OffsetCopy(key, value, now_ms) for key, value in offsets]
        tombstones = [one for one in own if one.value is None]
        for made in (*self._begun, self._current):
            for one in tombstones:
                made.pop(one.key, None)
        self._copier.forget(tombstones)
        self._current.update({one.key: one for one in own if one.value is not None})


def copier_of(spec: TaskSpec, copy: Copy | None) -> OffsetCopier | None:
    """Return the copier of a task's offsets, or None unless its connector has an offsets topic of its own."""
    return OffsetCopier(copy, spec.id) if copy is not None and spec.output.copies_offsets else None


def with_copies(inner: Delivery, copier: OffsetCopier | None, offsets_topic: str) -> Delivery:
    """Return a delivery that copies its offsets, or `inner` if there is no copier."""
    return inner if copier is None else CopyingDelivery(inner, copier, offsets_topic)
