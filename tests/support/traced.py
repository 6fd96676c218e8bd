"""Spans of a task's tracing, kept in memory."""

import time
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from fencepost.record import Repeated
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.task.tracing.spans import SpanTracing


class Traced:
    """A `SpanTracing` and what it has told so far."""

    def __init__(self, sampler: Sampler = ALWAYS_ON, *, stamps: bool = True) -> None:
        self._spans = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        common = {"fencepost.connector": "c", "fencepost.task": 0}
        self.tracing = SpanTracing(provider.get_tracer("test"), common, stamps=stamps)

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """The newest of each name."""
        return {span.name: span for span in self.all}

    @property
    def all(self) -> list[ReadableSpan]:
        """Those that have ended, in that order."""
        return list(self._spans.get_finished_spans())

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.all]

    def send(self, *values: bytes, headers: Any = None, topic: str = "t") -> Any:
        """Send a batch as a source's task does; returns the headers of what was sent."""
        with self.tracing.sending(len(values), 0.25):
            return self.tracing.stamped(OutgoingColumns(Repeated(topic, len(values)), values, headers=headers)).headers

    def commit(self) -> None:
        self.tracing.commit_begun(time.monotonic())
        self.tracing.committed(time.monotonic())


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]
