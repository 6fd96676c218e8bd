"""Sends spans to a collector (OTLP over HTTP), in the background: a task never waits for it.

Spans wait in a queue of bounded size. What does not fit, or what the collector does not take in time, is dropped and
counted.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import Tracer
from opentelemetry.util.re import parse_env_headers

from fencepost import __version__
from fencepost.secret.known import hold
from fencepost.task.channel.task_spec import TracingSpec

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
    """Counts what another exporter does not deliver."""

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
        """Send what waits. It may take as long as the collector lets it: callers wait for a thread, for a while."""
        self._provider.shutdown()
        self._release()


def sampler_of(spec: TracingSpec) -> Sampler:
    """Return the sampler of that name: `parentbased_traceidratio` and its siblings."""
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
