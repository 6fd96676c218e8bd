"""Spans of one instance of a task, with the attributes of OpenTelemetry's conventions for messaging.

https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/

A batch has a span, which begins a trace. It has links to the traces of the records that were read with a context. Its
steps are children. A commit is a child of the newest batch in it, with links to the others. Attributes hold no keys,
values or messages of errors, which may have secrets: of an error only its class.

Spans are sent to a collector (OTLP over HTTP) in the background: a task never waits for it. They wait in a queue of
bounded size. Spans that do not fit, or that the collector does not take in time, are dropped and counted.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.re import parse_env_headers

from fencepost import __version__
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import HeaderBytes, distinct, runs_of
from fencepost.secret.known import hold
from fencepost.task.channel.task_spec import TracingSpec
from fencepost.task.delivery.outgoing import Outgoing, OutgoingColumns
from fencepost.task.failure.tolerance import StoppedInRetryError
from fencepost.task.tracing.tracing import TRACEPARENT, TRACESTATE, FrameBatch, FrameWork, Tracing, with_headers
from fencepost.transaction import CommitUnknownError

log = logging.getLogger(__name__)

CONNECTOR, TASK = "fencepost.connector", "fencepost.task"
_MOST_AT_ONCE = 512
_LOGGED_EVERY_S = 60.0
_PARENT_BASED = "parentbased_"


class Losses:
    """How many spans were dropped, by connector and task. Any thread."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._counts: Counter[tuple[object, object]] = Counter()
        self._logged_s = -_LOGGED_EVERY_S

    def add(self, spans: Sequence[ReadableSpan], why: str) -> None:
        now_s = time.monotonic()
        with self._lock:
            for each in spans:
                attributes = each.attributes or {}
                self._counts[attributes.get(CONNECTOR), attributes.get(TASK)] += 1
            is_due = now_s - self._logged_s >= _LOGGED_EVERY_S
            self._logged_s = now_s if is_due else self._logged_s
            total = self._counts.total()
        if is_due:
            log.warning("spans are dropped, %d so far: %s (%s)", total, why, self._endpoint)

    def of(self, connector: str, task: int) -> int:
        with self._lock:
            return self._counts[connector, task]


class _CountingExporter(SpanExporter):
    """Counts the spans that another exporter does not deliver."""

    def __init__(self, inner: SpanExporter, losses: Losses) -> None:
        self._inner = inner
        self._losses = losses
        self.done = 0  # spans that wait no more; written by one thread at a time

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._inner.export(spans)
        except Exception:
            log.debug("spans cannot be sent", exc_info=True)
            result = SpanExportResult.FAILURE
        if result is not SpanExportResult.SUCCESS:
            self._losses.add(spans, "the collector did not take them")
        self.done += len(spans)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()


class _BoundedProcessor(BatchSpanProcessor):
    """Refuses spans when its queue is full: the SDK's would drop the oldest, and count nothing."""

    def __init__(self, exporter: _CountingExporter, losses: Losses, most: int, delay_ms: int) -> None:
        super().__init__(exporter, most, delay_ms, min(most, _MOST_AT_ONCE))
        self._exporter = exporter
        self._losses = losses
        self._most = most
        self._taken = 0
        self._taking = threading.Lock()

    def on_end(self, span: ReadableSpan) -> None:
        if not (span.context and span.context.trace_flags.sampled):
            return
        with self._taking:
            has_room = self._taken - self._exporter.done < self._most
            self._taken += has_room
        if has_room:
            super().on_end(span)
        else:
            self._losses.add([span], "the queue is full (otel.bsp.max.queue.size)")


class Export:
    """The way of one process's spans to a collector."""

    def __init__(self, spec: TracingSpec) -> None:
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it logs each failed request; see `Losses`
        collector = spec.collector
        headers = parse_env_headers(collector.headers, liberal=True)
        self._release = hold([collector.headers, *headers.values()])
        self.losses = Losses(collector.endpoint)
        exporter = OTLPSpanExporter(
            collector.endpoint, collector.certificate or None, headers=headers, timeout=collector.timeout_ms / 1000
        )
        counting = _CountingExporter(exporter, self.losses)
        processor = _BoundedProcessor(counting, self.losses, spec.queue_size, spec.delay_ms)
        self._provider = TracerProvider(sampler_of(spec), _resource(spec), shutdown_on_exit=False)
        self._provider.add_span_processor(processor)

    @property
    def tracer(self) -> Tracer:
        return self._provider.get_tracer("fencepost", __version__)

    def close(self) -> None:
        """Send waiting spans. This takes as long as the collector lets it: callers wait for a while, in a thread."""
        self._provider.shutdown()
        self._release()


def sampler_of(spec: TracingSpec) -> Sampler:
    """Return the sampler with this name, such as `parentbased_traceidratio`."""
    name = spec.sampler.removeprefix(_PARENT_BASED)
    roots = {"always_on": ALWAYS_ON, "always_off": ALWAYS_OFF, "traceidratio": TraceIdRatioBased(spec.sampler_arg)}
    return ParentBased(roots[name]) if spec.sampler.startswith(_PARENT_BASED) else roots[name]


def _resource(spec: TracingSpec) -> Resource:
    return Resource.create(
        {
            "service.version": __version__,
            "service.instance.id": str(uuid.uuid4()),
            "host.name": socket.gethostname(),
            "process.pid": os.getpid(),
            **spec.resource,
            "service.name": spec.service_name,
        }
    )


Headers = Sequence[Sequence[HeaderBytes]]

_propagator = TraceContextTextMapPropagator()


def headers_of(span: trace.Span) -> tuple[HeaderBytes, ...]:
    """Return the headers that continue a span's trace."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, trace.set_span_in_context(span))
    return tuple((name, value.encode()) for name, value in carrier.items())


def contexts_in(headers: Headers | None, most: int) -> list[trace.SpanContext]:
    """Return the first `most` different contexts in the headers of records, in order. Invalid ones are left out."""
    found: dict[tuple[int, int], trace.SpanContext] = {}
    seen: set[tuple[HeaderBytes, ...]] = set()
    before = None
    for of_record, _ in runs_of(headers or ()):
        if of_record is before:
            continue
        before = of_record
        own = tuple(pair for pair in of_record if pair[0] in (TRACEPARENT, TRACESTATE))
        if not own or own in seen:
            continue
        seen.add(own)
        context = _context(own)
        if context.is_valid:
            found.setdefault((context.trace_id, context.span_id), context)
        if len(found) == most or len(seen) >= 2 * most:  # else a topic of invalid ones would cost much
            break
    return [*found.values()]


def _context(headers: Sequence[HeaderBytes]) -> trace.SpanContext:
    carrier = {name: (value or b"").decode("ascii", "replace") for name, value in headers}
    return trace.get_current_span(_propagator.extract(carrier, Context())).get_span_context()


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
        """End the commits that have begun, and the one that is being collected."""
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
    return time.time_ns() - round((time.monotonic() - monotonic_s) * 1e9)


_DESTINATION = "messaging.destination.name"
_COUNT = "messaging.batch.message_count"
_OPERATION, _OPERATION_TYPE = "messaging.operation.name", "messaging.operation.type"
_OUTCOME, _STOPPED = "fencepost.outcome", "stopped"
_OF_SPLITS = "send", SpanKind.PRODUCER, "sent"
_OF_EPOCHS = "process", SpanKind.CONSUMER, "processed"


@dataclass
class _Batch(FrameBatch):
    """The span of a batch, with the attributes of its end: `sent` and `topics` describe the records that it wrote."""

    span: Span = trace.INVALID_SPAN
    outcome: str = ""
    sent: int = 0
    topics: set[str] = field(default_factory=set)
    stamps: bool = False

    @property
    def headers(self) -> Sequence[HeaderBytes]:
        return headers_of(self.span) if self.stamps else ()

    def wrote(self, count: int) -> None:
        self.span.set_attribute(_COUNT, count)

    def cut_short(self) -> None:
        self.outcome = _STOPPED

    @property
    def is_sampled(self) -> bool:
        return self.span.get_span_context().trace_flags.sampled

    def name(self, operation: str, topics: set[str]) -> None:
        """Name the topic if there is one: there is no attribute for several."""
        if len(topics) == 1:
            [topic] = topics
            self.span.update_name(f"{operation} {topic}")
            self.span.set_attribute(_DESTINATION, topic)

    def link(self, headers: Any) -> None:
        """Link to the contexts in headers. Whatever others have written there, the task goes on."""
        try:
            for context in contexts_in(headers, MOST_LINKS):
                self.span.add_link(context)
        except Exception:
            log.debug("the headers of a batch cannot be read as contexts of traces", exc_info=True)


class SpanTracing(Tracing):
    """Makes spans. With `stamps`, records get the context of their batch."""

    def __init__(self, tracer: Tracer, common: Mapping[str, Any], *, stamps: bool = True) -> None:
        """`common` are attributes of all spans."""
        self._tracer = tracer
        self._common = {"messaging.system": "kafka", **common}
        self._stamps = stamps
        self._commits = CommitSpans(tracer, self._common)
        self._batch = _Batch()  # the newest
        self._is_inside = self._is_sending = False

    @contextmanager
    def sending(self, count: int, poll_s: float) -> Iterator[None]:
        now_ns = time.time_ns()
        begun_ns = now_ns - round(poll_s * 1e9)
        self._is_sending = True
        with self._batch_of("send", SpanKind.PRODUCER, "sent", begun_ns) as batch:
            if batch.is_sampled:
                self._child("poll", begun_ns).end(now_ns)
            try:
                yield
            finally:
                batch.span.set_attributes({_COUNT: batch.sent, "fencepost.records.polled": count})
                batch.name("send", batch.topics)

    @contextmanager
    def processing(self, fetched: Fetched) -> Iterator[None]:
        with self._batch_of("process", SpanKind.CONSUMER, "processed", time.time_ns()) as batch:
            if batch.is_sampled:
                batch.span.set_attribute(_COUNT, len(fetched))
                batch.name("process", {place.topic for place in distinct(fetched.places)})
                batch.link(fetched.headers)
            yield

    @contextmanager
    def frame(self, work: FrameWork) -> Iterator[FrameBatch]:
        operation, kind, outcome = _OF_EPOCHS if work.is_epoch else _OF_SPLITS
        with self._batch_of(operation, kind, outcome, time.time_ns(), has_commit=work.has_commit) as batch:
            batch.stamps = self._stamps
            batch.span.set_attribute("fencepost.offsets" if work.is_epoch else "fencepost.splits", work.count)
            batch.name(operation, set(work.topics))
            yield batch

    def putting_again(self) -> AbstractContextManager[None]:
        return self._enclosed(self._child("put")) if self._batch.is_sampled else nullcontext()

    def step(self, name: str) -> AbstractContextManager[None]:
        is_traced = self._is_inside and self._batch.is_sampled
        return self._enclosed(self._child(name)) if is_traced else nullcontext()

    def refused(self, error: BaseException) -> None:
        self._batch.outcome = "refused"
        fail(trace.get_current_span(), error)

    def stamped(self, outgoing: Outgoing) -> Outgoing:
        batch = self._batch
        batch.sent += len(outgoing)
        batch.topics |= distinct(outgoing.topics)
        if not self._stamps or not isinstance(outgoing, OutgoingColumns):
            return outgoing  # a mirror copies headers as they are
        if self._is_sending and batch.is_sampled:
            batch.link(outgoing.headers)
        return with_headers(outgoing, headers_of(batch.span))

    def commit_begun(self, begun_s: float) -> None:
        self._commits.begin(begun_s)

    def committed(self, ended_s: float) -> None:
        self._commits.end_oldest(ended_s)

    def commit_failed(self, error: BaseException) -> None:
        self._commits.end_all("unknown" if isinstance(error, CommitUnknownError) else "failed", error)

    def aborted(self) -> None:
        self._commits.abort()

    def dropped(self) -> None:
        self._commits.end_all("dropped")

    @contextmanager
    def _batch_of(
        self, operation: str, kind: SpanKind, outcome: str, begun_ns: int, *, has_commit: bool = True
    ) -> Iterator[_Batch]:
        attributes = {_OPERATION: operation, _OPERATION_TYPE: operation, **self._common}
        span = self._tracer.start_span(operation, Context(), kind, attributes, start_time=begun_ns)
        self._batch = batch = _Batch(span, outcome)
        self._is_inside = True
        if batch.is_sampled and has_commit:
            self._commits.add(span.get_span_context())
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield batch
        except StoppedInRetryError:
            batch.outcome = _STOPPED
            raise
        except BaseException as error:
            if batch.outcome != _STOPPED:
                batch.outcome = "failed"
                fail(span, error)
            raise
        finally:
            self._is_inside = False
            span.set_attribute(_OUTCOME, batch.outcome)
            span.end()

    @contextmanager
    def _enclosed(self, span: Span) -> Iterator[None]:
        """Make a step the current span, so that spans of an author's code are its children."""
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield
        except BaseException as error:
            fail(span, error)
            raise
        finally:
            span.end()

    def _child(self, name: str, begun_ns: int | None = None) -> Span:
        parent = trace.set_span_in_context(self._batch.span, Context())
        return self._tracer.start_span(name, parent, attributes=self._common, start_time=begun_ns)
