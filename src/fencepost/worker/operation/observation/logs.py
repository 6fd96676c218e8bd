"""The log events of a connector, of all workers."""

import heapq
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from urllib.parse import urlencode

from pydantic import TypeAdapter

from fencepost.cluster.errors import NotFoundError
from fencepost.cluster.figures import (
    LogEvent,
    LogEvents,
    LogQuery,
    MissedEvents,
    Position,
    WorkersEvents,
    from_cursor,
    to_cursor,
)
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.telemetry.event_ring import EventRing
from fencepost.worker.membership.peers import Questions
from fencepost.worker.operation.observation.figures import answers
from fencepost.worker.settings import worker_id

log = logging.getLogger(__name__)

PATH = "/internal/logs"
_LOOK_S = 1.0
_EVENTS = TypeAdapter(WorkersEvents)


class Logs:
    """What `/connectors/C/logs` asks. Events of this worker are there at once, of others within a second."""

    def __init__(
        self,
        url: str,
        snapshot: Callable[[], ClusterSnapshot],
        ring: EventRing,
        questions: Questions,
        stopping: threading.Event,
    ) -> None:
        self._url = url
        self._snapshot = snapshot
        self._ring = ring
        self._questions = questions
        self._stopping = stopping

    def read(self, connector: str, query: LogQuery) -> LogEvents:
        """Return events; waits for the first as long as the query says. NotFoundError if nothing is known of it."""
        deadline = time.monotonic() + query.wait_ms / 1000
        while True:
            found = self._found(connector, query)
            if not found.events and connector not in self._snapshot().connectors:
                raise NotFoundError(f"Connector {connector} not found")
            remaining_s = deadline - time.monotonic()
            is_known = any(each.reason != "away" for each in found.missed)
            if found.events or is_known or remaining_s <= 0 or self._stopping.is_set():
                return found
            # What was filtered out is not looked at again, and the newest are those after now.
            query = LogQuery(query.task, query.level, found.cursor, limit=query.limit)
            _, number = from_cursor(found.cursor)[worker_id(self._url)]
            self._ring.wait(connector, number, min(_LOOK_S, remaining_s))

    def here(self, connector: str, query: LogQuery) -> WorkersEvents:
        """Return the events of this worker: another asks."""
        own, positions = worker_id(self._url), None if query.after is None else from_cursor(query.after)
        ring, after = (self._ring.id, None) if positions is None else positions.get(own, (self._ring.id, 0))
        if ring != self._ring.id:
            after = 0  # of the ring of an earlier process
        found = self._ring.read(connector, after, task=query.task, level=query.level, limit=query.limit)
        events = [(number, LogEvent(**asdict(event), worker_id=own)) for number, event in found.events]
        is_new = positions is not None and (own not in positions or ring != self._ring.id)
        return WorkersEvents(own, self._ring.id, events, found.next, 0 if is_new else found.dropped)

    def _found(self, connector: str, query: LogQuery) -> LogEvents:
        urls = self._workers()
        answers = [self.here(connector, query), *self._ask(urls, connector, query)]
        answers = list({each.ring: each for each in reversed(answers)}.values())[::-1]  # one for each process
        positions = {} if query.after is None else from_cursor(query.after)
        away = {worker_id(url) for url in urls} - {each.worker_id for each in answers}
        missed = [*_missed(answers, positions), *(MissedEvents(worker, "away") for worker in sorted(away))]
        events, after = merged(answers, query)
        return LogEvents(events, to_cursor({**positions, **after}), missed)

    def _workers(self) -> Sequence[str]:
        assignment = self._snapshot().assignment
        return [w.url for w in (assignment.workers if assignment is not None else ()) if w.url != self._url]

    def _ask(self, urls: Collection[str], connector: str, query: LogQuery) -> Iterator[WorkersEvents]:
        asked = {"connector": connector, "level": query.level, "limit": query.limit}
        asked |= {} if query.task is None else {"task": query.task}
        asked |= {} if query.after is None else {"after": query.after}
        found = answers(self._questions, urls, f"{PATH}?{urlencode(asked)}", _EVENTS)
        return (events for _, events in found)


def merged(answers: Sequence[WorkersEvents], query: LogQuery) -> tuple[list[LogEvent], Mapping[str, Position]]:
    """Return the events of all by time, at most `limit`, and the position after them of each worker.

    Without a cursor the newest are kept; with one the oldest, and the others are for the next request.
    """

    def numbered(index: int) -> Iterator[tuple[str, int, int]]:
        return ((event.time, index, place) for place, (_, event) in enumerate(answers[index].events))

    ordered = list(heapq.merge(*(numbered(index) for index in range(len(answers)))))
    if query.after is None:
        kept, left = ordered[-query.limit :], []
    else:
        kept, left = ordered[: query.limit], ordered[query.limit :]
    after = {each.worker_id: (each.ring, each.next) for each in answers}
    for _, index, place in reversed(left):
        answer = answers[index]
        after[answer.worker_id] = (answer.ring, answer.events[place][0])
    return [answers[index].events[place][1] for _, index, place in kept], after


def _missed(answers: Sequence[WorkersEvents], positions: Mapping[str, Position]) -> Iterator[MissedEvents]:
    for each in answers:
        if each.worker_id in positions and positions[each.worker_id][0] != each.ring:
            yield MissedEvents(each.worker_id, "restarted")
        elif each.dropped:
            yield MissedEvents(each.worker_id, "dropped", each.dropped)
