"""Contexts in the headers of records: which are added, which are kept, which are found."""

import pytest
from opentelemetry import trace

from fencepost.kafka.value.whole import PolledBatches
from fencepost.record import Repeated, Runs
from fencepost.task.delivery.outgoing import OutgoingBatches, OutgoingColumns
from fencepost.task.tracing.spans import contexts_in, headers_of
from fencepost.task.tracing.tracing import with_headers

OWN = (("traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"),)
OTHER = ("traceparent", b"00-" + b"c" * 32 + b"-" + b"d" * 16 + b"-00")


def columns(headers: object) -> OutgoingColumns:
    return OutgoingColumns(Repeated("t", 3), [b"a", b"b", b"c"], headers=headers)  # type: ignore[arg-type]


@pytest.mark.parametrize("headers", [None, Repeated((), 3), [[], [], []]], ids=["no column", "a column", "lists"])
def test_records_without_headers_share_one_header(headers: object) -> None:
    found = with_headers(columns(headers), OWN)
    assert isinstance(found.headers, Repeated)
    assert found.headers.value == OWN


def test_headers_common_to_all_records_stay_shared() -> None:
    found = with_headers(columns(Repeated((("h", b"1"),), 3)), OWN)
    assert isinstance(found.headers, Repeated)
    assert found.headers.value == (("h", b"1"), *OWN)


def test_headers_common_to_runs_of_records_stay_shared() -> None:
    found = with_headers(columns(Runs([(("h", b"1"),), ()], [2, 1])), OWN)
    assert isinstance(found.headers, Runs)
    assert list(found.headers) == [(("h", b"1"), *OWN)] * 2 + [tuple(OWN)]


def test_record_with_a_trace_context_keeps_it() -> None:
    state = ("tracestate", b"vendor=1")
    found = with_headers(columns([[OTHER, state], [("h", b"1")], [state]]), OWN)
    assert found.headers == [[OTHER, state], (("h", b"1"), *OWN), OWN]


def test_whole_batches_of_a_mirror_get_no_trace_context() -> None:
    batches = OutgoingBatches(["t"], [0], PolledBatches.__new__(PolledBatches))  # type: ignore[arg-type]
    assert with_headers(batches, OWN) is batches


def test_trace_contexts_are_found_once_each_up_to_the_limit() -> None:
    headers = [[("traceparent", b"00-%032x-%016x-01" % (n + 1, n + 1))] for n in range(20) for _ in range(3)]
    found = contexts_in(headers, 7)
    assert [context.trace_id for context in found] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    "value",
    [None, b"", b"00", b"\xff\xfe", b"00-" + b"0" * 32 + b"-" + b"b" * 16 + b"-01", b"ff" + OWN[0][1][2:]],
)
def test_malformed_trace_context_is_ignored(value: bytes | None) -> None:
    assert contexts_in([[("traceparent", value)], [*OWN]], 7) == contexts_in([[*OWN]], 7) != []


def test_tracestate_is_kept_with_its_context() -> None:
    headers = ((OTHER), ("tracestate", b"vendor=1"))
    (context,) = contexts_in([headers], 7)
    assert headers_of(trace.NonRecordingSpan(context)) == headers
