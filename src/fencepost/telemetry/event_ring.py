"""The last log events of each connector, kept in memory for whoever asks over REST."""

import logging
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fencepost.secret.known import hide, shows_no_answer
from fencepost.telemetry.loggers import add_subject
from fencepost.telemetry.traces import split_trace

_MOST_BYTES = 8 << 20
_MOST_BYTES_OF_ONE = 512 << 10
_MOST_CHARACTERS = 32 << 10  # of a message, and of a trace
_OVERHEAD_BYTES = 300  # of an event without its texts
_KEPT_S = 3600.0  # events of a connector that is gone


@dataclass(frozen=True, slots=True)
class Event:
    """A log event about a connector, or about one of its tasks; it shows no secret (E11)."""

    time: str
    level: str
    logger: str
    connector: str
    task: int | None
    message: str
    exception: str | None

    @property
    def size_bytes(self) -> int:
        return _OVERHEAD_BYTES + sys.getsizeof(self.message) + sys.getsizeof(self.exception or "")


class Found(NamedTuple):
    """Events with their numbers; `next` is the number to ask for next, `dropped` how many before were gone already."""

    events: Sequence[tuple[int, Event]]
    next: int
    dropped: int


@dataclass
class _Ring:
    begun: int = 0  # the number of its first event
    first: int = 0  # the number of the oldest event that is there
    events: deque[Event] = field(default_factory=deque)
    size_bytes: int = 0
    added_s: float = 0.0  # monotonic time of the newest event

    @property
    def next(self) -> int:
        return self.first + len(self.events)

    def drop_oldest(self) -> int:
        size = self.events.popleft().size_bytes
        self.first += 1
        self.size_bytes -= size
        return size


class EventRing(logging.Handler):
    """Keeps 512 kB of each connector's newest events, and 8 MB in all: of the connector with the most, the oldest go.

    So a connector that logs much does not displace the only error of another. Any thread. `id` is of this process:
    numbers of events begin anew in the next one.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES, most_bytes_of_one: int = _MOST_BYTES_OF_ONE) -> None:
        super().__init__()
        self.id = uuid.uuid4().hex
        self._most_bytes = most_bytes
        self._most_bytes_of_one = most_bytes_of_one
        self._changed = threading.Condition()
        self._rings: dict[str, _Ring] = {}
        self._begin = 0  # the number that a new ring begins with: after all that were given to forgotten connectors
        self._size_bytes = 0
        self.addFilter(add_subject)
        self.addFilter(shows_no_answer)

    def attach(self) -> None:
        """Take what this process logs from now on. Idempotent."""
        root = logging.getLogger()
        if self not in root.handlers:
            self.id = uuid.uuid4().hex  # not that of a process from which this one was forked
            root.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        connector = getattr(record, "connector", None)
        if connector is None:
            return
        try:
            event = event_of(record, str(connector))
        except Exception:  # as any handler of logs
            self.handleError(record)
            return
        with self._changed:
            ring = self._ring(event.connector)
            self._rings[event.connector] = ring
            ring.events.append(event)
            ring.added_s = time.monotonic()
            ring.size_bytes += event.size_bytes
            self._size_bytes += event.size_bytes
            while ring.size_bytes > self._most_bytes_of_one:
                self._size_bytes -= ring.drop_oldest()
            while self._size_bytes > self._most_bytes:
                largest = max(self._rings.values(), key=lambda each: each.size_bytes)
                self._size_bytes -= largest.drop_oldest()
            self._changed.notify_all()

    def read(
        self, connector: str, after: int | None = None, *, task: int | None = None, level: int = 0, limit: int = 500
    ) -> Found:
        """Return the first `limit` events from number `after` on, or the newest `limit` without it.

        Only those of a task, and of at least a level, if these are given.
        """
        with self._changed:
            ring = self._ring(connector)
            begin = ring.first if after is None else min(max(after, ring.first), ring.next)
            dropped = 0 if after is None else max(0, ring.first - max(after, ring.begun))
            events = list(ring.events)[begin - ring.first :]
            end = ring.next
        numbers = logging.getLevelNamesMapping()
        fit = [
            (number, event)
            for number, event in enumerate(events, begin)
            if task in (None, event.task) and numbers.get(event.level, 0) >= level
        ]
        if after is None:
            return Found(fit[-limit:], end, 0)
        return Found(fit[:limit], fit[limit][0] if len(fit) > limit else end, dropped)

    def wait(self, connector: str, after: int, timeout_s: float) -> None:
        """Return when there is an event with this number or a later one, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._ring(connector).next > after, timeout_s)

    def forget_all_but(self, connectors: Container[str], kept_s: float = _KEPT_S) -> None:
        """Forget other connectors, which were deleted, once they have logged nothing for `kept_s`.

        Their numbers are not given again: a connector that gets such a name later is read with cursors from before.
        """
        with self._changed:
            before_s = time.monotonic() - kept_s
            gone = [name for name, ring in self._rings.items() if name not in connectors and ring.added_s <= before_s]
            for name in gone:
                ring = self._rings.pop(name)
                self._size_bytes -= ring.size_bytes
                self._begin = max(self._begin, ring.next)

    def _ring(self, connector: str) -> _Ring:
        return self._rings.get(connector) or _Ring(self._begin, self._begin)


def event_of(record: logging.LogRecord, connector: str) -> Event:
    """Return a record as an event; a trace at the end of its text, as slots log it, is its exception."""
    text = record.getMessage()
    message, exception = split_trace(text)
    if record.exc_info and record.exc_info[0] is not None:
        message, exception = text, logging.Formatter().formatException(record.exc_info)
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    task = getattr(record, "task", None)
    return Event(
        f"{at}.{int(record.msecs):03d}Z",
        record.levelname,
        record.name,
        connector,
        task if isinstance(task, int) else None,
        hide(message)[:_MOST_CHARACTERS],
        None if exception is None else hide(exception)[-_MOST_CHARACTERS:],
    )


ring = EventRing()
"""The events of this process."""
