"""The headers of records that carry a trace (W3C Trace Context, https://www.w3.org/TR/trace-context/).

Without OpenTelemetry's library: Spark's executors add them to rows of DataFrame tasks, which the driver traces.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from fencepost.record import HeaderBytes, Repeated, Runs, runs_of
from fencepost.task.delivery.outgoing import Outgoing, OutgoingColumns

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"

_Outgoing = TypeVar("_Outgoing", bound=Outgoing)


def with_headers(outgoing: _Outgoing, own: Sequence[HeaderBytes]) -> _Outgoing:
    """Return the records, with these headers added to those that have no `traceparent`.

    Whole batches of a mirror stay as they are.
    """
    if not isinstance(outgoing, OutgoingColumns) or not len(outgoing) or not own:
        return outgoing
    given = outgoing.headers
    if given is None or not any(pairs for pairs, _ in runs_of(given)):
        return replace(outgoing, headers=Repeated(tuple(own), len(outgoing)))
    if isinstance(given, Repeated):
        return replace(outgoing, headers=Repeated(_added(given.value, own), len(outgoing)))
    if isinstance(given, Runs):
        return replace(outgoing, headers=Runs([_added(pairs, own) for pairs in given.values], given.counts))
    return replace(outgoing, headers=[_added(pairs, own) for pairs in given])


def _added(pairs: Sequence[HeaderBytes], own: Sequence[HeaderBytes]) -> Sequence[HeaderBytes]:
    if any(name == TRACEPARENT for name, _ in pairs):
        return pairs
    # A `tracestate` without a `traceparent` means nothing, and would be taken for that of ours.
    return (*(pair for pair in pairs if pair[0] != TRACESTATE), *own)
