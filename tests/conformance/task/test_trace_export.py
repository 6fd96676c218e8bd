"""The way of spans to a collector, a real HTTP server: what arrives, and what a collector that is away costs."""

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fencepost.record import Repeated
from fencepost.task.channel.task_spec import CollectorSpec, LookUpSpec, TaskSpec, TracingSpec
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.task.tracing.exports import close_tracing, spans_dropped, tracing_of
from fencepost.task.tracing.tracing import NO_TRACING
from fencepost.testing import eventually
from support.collector import Collector
from support.worker import free_port

BATCHES = 50
SPANS_OF_A_BATCH = 4


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_tracing(0.0)


def spec_to(url: str, headers: str = "", timeout_ms: int = 10_000, **more: object) -> TaskSpec:
    collector = CollectorSpec(f"{url}/v1/traces", headers, timeout_ms=timeout_ms)
    tracing = replace(TracingSpec(collector, delay_ms=50), **more)  # type: ignore[arg-type]
    spec = TaskSpec("c", 3, 1, "i", {}, {}, look_up=LookUpSpec(tracing=tracing))
    return TaskSpec.from_json(spec.to_json())  # as it arrives over the channel


def move(spec: TaskSpec, batches: int = BATCHES) -> float:
    """Do what a source's task does, but for the records; returns the longest time that a batch took, in seconds."""
    tracing, longest_s = tracing_of(spec), 0.0
    for _ in range(batches):
        begun_s = time.monotonic()
        with tracing.sending(2, 0.0):
            with tracing.step("convert"):
                pass
            tracing.stamped(OutgoingColumns(Repeated("t", 2), [b"a", b"b"]))
            tracing.commit_begun(begun_s)
        tracing.committed(time.monotonic())
        longest_s = max(longest_s, time.monotonic() - begun_s)
    return longest_s


def test_spans_arrive_with_the_attributes_of_their_service(collector: Collector) -> None:
    spec = spec_to(collector.url, headers="key=a%20b", service_name="orders", resource={"team": "a"})
    move(spec, 1)
    eventually(lambda: len(collector.spans) == SPANS_OF_A_BATCH)
    (batch,) = collector.named("send t", fencepost_connector="c", fencepost_task=3)
    assert {span.trace_id for span in collector.spans} == {batch.trace_id}
    assert batch.resource.items() >= {"service.name": "orders", "team": "a"}.items()
    assert collector.headers[0]["key"] == "a b"
    assert spans_dropped(spec) == {"spans_dropped": 0.0}


def test_waiting_spans_are_sent_when_a_slot_ends(collector: Collector) -> None:
    move(spec_to(collector.url, delay_ms=3_600_000))
    assert collector.spans == []
    close_tracing(60.0)
    assert len(collector.spans) == BATCHES * SPANS_OF_A_BATCH


def test_silent_collector_delays_no_batch_and_dropped_spans_are_counted(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.may_answer.clear()
    spec = spec_to(collector.url, timeout_ms=120_000, queue_size=20)
    longest_s = min(move(spec) for _ in range(3))  # one that no pause of the machine has hit
    assert longest_s < 30.0, "a request takes two minutes to time out"
    dropped = spans_dropped(spec)["spans_dropped"]
    assert dropped == 3 * BATCHES * SPANS_OF_A_BATCH - 20
    assert [record.levelname for record in caplog.records if "spans are dropped" in record.message] == ["WARNING"]
    begun_s = time.monotonic()
    close_tracing(0.1)
    assert time.monotonic() - begun_s < 30.0


def test_spans_that_the_collector_refuses_are_counted(collector: Collector) -> None:
    collector.status = 400
    spec = spec_to(collector.url)
    move(spec)
    eventually(lambda: spans_dropped(spec)["spans_dropped"] == BATCHES * SPANS_OF_A_BATCH)


def test_missing_collector_does_not_fail_the_task(caplog: pytest.LogCaptureFixture) -> None:
    spec = spec_to(f"http://127.0.0.1:{free_port()}", headers="key=hunter3", timeout_ms=1)
    move(spec)
    eventually(lambda: spans_dropped(spec)["spans_dropped"] > 0)
    assert "hunter3" not in caplog.text


def _exporting() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("OtelBatch")}


def _own_threads() -> set[threading.Thread]:
    """Return the threads of this process but for those that answer requests for the collector."""
    return {thread for thread in threading.enumerate() if "process_request_thread" not in thread.name}


def test_tasks_of_a_process_share_one_exporter(collector: Collector) -> None:
    before, exporting = _own_threads(), _exporting()  # tests before may have had a collector of their own
    move(spec_to(collector.url), 1)
    with_one = _own_threads()
    for _ in range(5):
        move(spec_to(collector.url), 1)
    assert len(with_one - before) <= 1  # the thread that exports
    assert len(_exporting() - exporting) == 1
    eventually(lambda: len(collector.spans) == 6 * SPANS_OF_A_BATCH)


def test_sampled_share_of_batches_is_traced_with_complete_traces(collector: Collector) -> None:
    move(spec_to(collector.url, sampler="parentbased_traceidratio", sampler_arg=0.5), 200)
    close_tracing(60.0)
    traces = [span.trace_id for span in collector.spans]
    assert 40 <= len(set(traces)) <= 160
    assert len(traces) == SPANS_OF_A_BATCH * len(set(traces))


def test_task_runs_without_traces_when_opentelemetry_is_not_installed(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fencepost.task.tracing.spans", None)
    with caplog.at_level(logging.WARNING):
        assert tracing_of(spec_to(collector.url)) is NO_TRACING
        assert tracing_of(spec_to(collector.url)) is NO_TRACING
    assert len([record for record in caplog.records if "fencepost[otel]" in record.message]) == 1
