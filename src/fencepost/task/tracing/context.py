"""Contexts of traces in the headers of records (W3C Trace Context, https://www.w3.org/TR/trace-context/)."""

from collections.abc import Iterator, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fencepost.record import HeaderBytes, runs_of
from fencepost.task.tracing.header import TRACEPARENT, TRACESTATE

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
    for of_record in _distinct_in_a_row(headers or ()):
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


def _distinct_in_a_row(headers: Headers) -> Iterator[Sequence[HeaderBytes]]:
    before = None
    for of_record, _ in runs_of(headers):
        if of_record is not before:
            yield of_record
        before = of_record


def _context(headers: Sequence[HeaderBytes]) -> trace.SpanContext:
    carrier = {name: (value or b"").decode("ascii", "replace") for name, value in headers}
    return trace.get_current_span(_propagator.extract(carrier, Context())).get_span_context()
