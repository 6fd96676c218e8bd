"""Spans of commits. Several may be under way: they end in the order in which they began."""

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode, Tracer

MOST_LINKS = 128
"""The most links of a span: those that the SDK keeps by default."""

_OUTCOME = "fencepost.outcome"


class CommitSpans:
    """The spans of one task instance's commits. Only sampled batches count: without any, there is no span."""

    def __init__(self, tracer: Tracer, common: Mapping[str, Any]) -> None:
        self._tracer = tracer
        self._common = common
        self._begun: deque[Span] = deque()
        self._forget()

    def _forget(self) -> None:
        self._batches: deque[SpanContext] = deque(maxlen=MOST_LINKS + 1)  # since the last commit
        self._count = 0

    def add(self, batch: SpanContext) -> None:
        """Count a batch as part of the next commit."""
        self._batches.append(batch)
        self._count += 1

    def begin(self, begun_s: float) -> None:
        self._begun.append(self._started("commit", _wall_ns(begun_s)))

    def end_oldest(self, ended_s: float) -> None:
        if self._begun:
            _end(self._begun.popleft(), "committed", _wall_ns(ended_s))

    def end_all(self, outcome: str, error: BaseException | None = None) -> None:
        """End the commits that have begun, and one of what has not been handed over yet."""
        if self._batches:
            self._begun.append(self._started("commit", time.time_ns()))
        while self._begun:
            span = self._begun.popleft()
            if error is not None:
                fail(span, error)
            _end(span, outcome)

    def abort(self) -> None:
        _end(self._started("abort", time.time_ns()), "aborted")

    def _started(self, name: str, begun_ns: int) -> Span:
        batches, count = self._batches, self._count
        self._forget()
        if not batches:
            return trace.INVALID_SPAN
        newest = trace.NonRecordingSpan(batches.pop())
        return self._tracer.start_span(
            name,
            trace.set_span_in_context(newest, Context()),
            attributes={**self._common, "fencepost.batches": count},
            links=[Link(each) for each in batches],
            start_time=begun_ns,
        )


def fail(span: Span, error: BaseException) -> None:
    """Mark a span as failed, with the class of the error alone: its message may hold values of records, or a secret."""
    name = type(error).__qualname__
    span.set_attribute("error.type", name)
    span.set_status(Status(StatusCode.ERROR, name))


def _end(span: Span, outcome: str, ended_ns: int | None = None) -> None:
    span.set_attribute(_OUTCOME, outcome)
    span.end(ended_ns)


def _wall_ns(monotonic_s: float) -> int:
    """Return a time of `time.monotonic` as nanoseconds since 1970."""
    return time.time_ns() - round((time.monotonic() - monotonic_s) * 1e9)
