"""What spans say of batches, steps and commits."""

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from fencepost.api import SourceRecord, SourceTask
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import Batch, Repeated, TopicPartition
from fencepost.task.delivery.delivery import Delivery
from fencepost.task.delivery.outgoing import Outgoing, OutgoingColumns
from fencepost.task.failure.tolerance import StoppedInRetryError
from fencepost.task.source.boundary import Boundary, ConnectorBoundary, PollBoundary
from fencepost.task.tracing.tracing import FrameWork
from fencepost.transaction import CommitUnknownError
from support.source_stage import SourceStage, records
from support.traced import Traced, id_of, linked, parent_of


class Sent(Delivery):
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[OutgoingColumns] = []
        self.refusal: Exception | None = None
        self._is_open = False

    @property
    def is_open(self) -> bool:
        return self._is_open

    def send(self, outgoing: Outgoing, on_delivered: Any = None) -> None:
        assert isinstance(outgoing, OutgoingColumns)
        self._is_open = True
        self.sent.append(outgoing)

    def commit(self, offsets: Sequence[tuple[bytes, bytes | None]], closing: Any = None) -> bool:
        if self.refusal is not None:
            raise self.refusal
        self._is_open = False
        self._record_commit()
        return True

    def abort(self) -> None:
        self._is_open = False

    def close(self) -> None: ...


class Polls(SourceTask):
    """Returns one thing after the other, with idle polls between them, and stops."""

    def __init__(self, stage: SourceStage, *polled: Any) -> None:
        self._control = stage.control
        self._polled = [each for one in polled for each in (None, one, None)]

    def poll(self) -> Any:
        if not self._polled:
            self._control.stop()
            return None
        polled = self._polled.pop(0)
        return polled() if callable(polled) else polled


def run(traced: Traced, *polled: Any, delivery: Sent | None = None, boundary: Boundary | None = None) -> Sent:
    stage, delivery = SourceStage(), delivery or Sent()
    stage.tracing = traced.tracing
    stage.loop(Polls(stage, *polled), boundary or PollBoundary()).run(delivery)
    return delivery


@pytest.fixture
def traced() -> Traced:
    return Traced()


def test_a_batch_of_a_source_is_a_trace_with_its_steps_and_its_commit(traced: Traced) -> None:
    run(traced, records("a", "b"))
    assert sorted(traced.names) == ["commit", "convert", "poll", "send t"]
    batch = traced.spans["send t"]
    assert (batch.kind, parent_of(batch), batch.status.status_code) == (SpanKind.PRODUCER, None, StatusCode.UNSET)
    assert dict(batch.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "t",
        "messaging.batch.message_count": 2,
        "fencepost.connector": "c",
        "fencepost.task": 0,
        "fencepost.records.polled": 2,
        "fencepost.outcome": "sent",
    }
    for name in ("poll", "convert", "commit"):
        assert parent_of(traced.spans[name]) == id_of(batch)
    assert (traced.spans["commit"].attributes or {})["fencepost.outcome"] == "committed"


def test_the_records_of_a_batch_carry_the_id_of_its_span(traced: Traced) -> None:
    (sent,) = run(traced, records("a", "b")).sent
    context = traced.spans["send t"].context
    assert context is not None
    prefix = f"00-{context.trace_id:032x}-{context.span_id:016x}-".encode()
    assert [[(name, value[: len(prefix)]) for name, value in each] for each in sent.headers or ()] == [  # type: ignore[index]
        [("traceparent", prefix)]
    ] * 2


def test_traced_columns_stay_columns(traced: Traced) -> None:
    batch = Batch.of_column(["a", "b"], topic="t", source_partition={"f": 1}, source_offsets=[{"n": 1}, {"n": 2}])
    (sent,) = run(traced, batch).sent
    assert isinstance(sent.headers, Repeated)


def test_polls_without_records_have_no_span(traced: Traced) -> None:
    run(traced)
    assert traced.names == []


def test_poll_span_has_the_duration_of_the_poll(traced: Traced) -> None:
    traced.send(b"a")
    poll = traced.spans["poll"]
    assert poll.start_time is not None
    assert poll.end_time is not None
    assert poll.end_time - poll.start_time == 250_000_000
    assert poll.start_time == traced.spans["send t"].start_time


def test_existing_contexts_are_kept_and_linked_by_the_span_of_the_batch(traced: Traced) -> None:
    given = ("traceparent", b"00-%032x-%016x-01" % (7, 8))
    headers = traced.send(b"a", b"b", headers=[[given], []])
    assert headers[0] == [given]
    assert headers[1][0][0] == "traceparent"
    assert linked(traced.spans["send t"]) == [8]


def test_mirror_copies_headers_without_a_trace_context() -> None:
    traced = Traced(stamps=False)
    assert traced.send(b"a", b"b") is None
    assert traced.names == ["poll", "send t"]


def test_span_of_a_batch_for_several_topics_names_no_topic(traced: Traced) -> None:
    with traced.tracing.sending(2, 0.0):
        traced.tracing.stamped(OutgoingColumns(["t", "u"], [b"a", b"b"]))
    assert "messaging.destination.name" not in (traced.spans["send"].attributes or {})


def test_commit_span_joins_the_newest_batch_and_links_the_others(traced: Traced) -> None:
    for _ in range(200):
        traced.send(b"a")
    batches = [id_of(span) for span in traced._spans.get_finished_spans() if span.name == "send t"]
    traced.commit()
    commit = traced.spans["commit"]
    assert parent_of(commit) == batches[-1]
    assert linked(commit) == batches[-129:-1]  # bounded, the newest
    assert (commit.attributes or {})["fencepost.batches"] == 200
    traced.commit()
    assert traced.names.count("commit") == 1, "there was nothing in the second"


def test_spans_of_concurrent_commits_end_in_order(traced: Traced) -> None:
    for _ in range(2):
        traced.send(b"a")
        traced.tracing.commit_begun(time.monotonic())
    traced.tracing.committed(time.monotonic())
    traced.tracing.commit_failed(CommitUnknownError("secret"))
    commits = [span for span in traced._spans.get_finished_spans() if span.name == "commit"]
    batches = [id_of(span) for span in traced._spans.get_finished_spans() if span.name == "send t"]
    assert [parent_of(each) for each in commits] == batches
    assert [(each.attributes or {})["fencepost.outcome"] for each in commits] == ["committed", "unknown"]


def test_span_of_a_refused_commit_has_failed(traced: Traced) -> None:
    delivery = Sent()
    delivery.refusal = RuntimeError("hunter2")
    with pytest.raises(RuntimeError):
        run(traced, records("a"), delivery=delivery)
    commit = traced.spans["commit"]
    assert (commit.attributes or {})["fencepost.outcome"] == "failed"
    assert commit.status.status_code is StatusCode.ERROR


def test_aborted_transaction_has_a_span(traced: Traced) -> None:
    boundary = ConnectorBoundary()

    def aborted() -> list[SourceRecord]:
        boundary.abort_transaction()
        return records("a")

    run(traced, aborted, boundary=boundary)
    assert (traced.spans["abort"].attributes or {})["fencepost.outcome"] == "aborted"
    assert parent_of(traced.spans["abort"]) == id_of(traced.spans["send t"])


def test_span_of_an_uncommitted_transaction_is_dropped_at_the_end(traced: Traced) -> None:
    run(traced, records("a"), boundary=ConnectorBoundary())
    assert (traced.spans["commit"].attributes or {})["fencepost.outcome"] == "dropped"


def test_spans_show_only_the_class_of_an_error(traced: Traced) -> None:
    def failing() -> list[SourceRecord]:
        raise ValueError("hunter2")

    with pytest.raises(ValueError), traced.tracing.sending(1, 0.0), traced.tracing.step("convert"):
        failing()
    assert (traced.spans["send"].attributes or {})["fencepost.outcome"] == "failed"
    for name in ("convert", "send"):
        assert traced.spans[name].status.status_code is StatusCode.ERROR
        assert (traced.spans[name].attributes or {})["error.type"] == "ValueError"
    assert not any("hunter2" in span.to_json() for span in traced.spans.values())


def test_span_of_a_batch_cut_by_a_stop_has_not_failed(traced: Traced) -> None:
    with pytest.raises(StoppedInRetryError), traced.tracing.sending(1, 0.0):
        raise StoppedInRetryError
    batch = traced.spans["send"]
    assert (batch.status.status_code, (batch.attributes or {})["fencepost.outcome"]) == (StatusCode.UNSET, "stopped")


def fetched(count: int, headers: Any) -> Fetched:
    place = TopicPartition("t", 0)
    return Fetched([place] * count, list(range(count)), [1] * count, [None] * count, [b"v"] * count, headers)


def test_a_batch_of_a_sink_links_to_the_contexts_of_its_records(traced: Traced) -> None:
    headers = [[("traceparent", b"00-%032x-%016x-01" % (n + 1, n + 1))] for n in range(300)]
    with traced.tracing.processing(fetched(300, headers)), traced.tracing.step("put"):
        pass
    batch = traced.spans["process t"]
    assert (batch.kind, parent_of(batch)) == (SpanKind.CONSUMER, None)
    assert linked(batch) == list(range(1, 129))
    assert (batch.attributes or {})["messaging.batch.message_count"] == 300
    assert (batch.attributes or {})["fencepost.outcome"] == "processed"
    assert parent_of(traced.spans["put"]) == id_of(batch)


def test_refused_batch_is_put_again_in_the_same_trace(traced: Traced) -> None:
    with traced.tracing.processing(fetched(1, None)), traced.tracing.step("put"):
        traced.tracing.refused(RuntimeError("hunter2"))
    first, batch = traced.spans["put"], traced.spans["process t"]
    assert (first.status.status_code, (batch.attributes or {})["fencepost.outcome"]) == (StatusCode.ERROR, "refused")
    with traced.tracing.putting_again():
        pass
    again = traced.spans["put"]
    assert (parent_of(again), again.status.status_code) == (id_of(batch), StatusCode.UNSET)


def test_spans_of_an_authors_code_are_children_of_the_step(traced: Traced) -> None:
    with traced.tracing.processing(fetched(1, None)), traced.tracing.step("put"):
        within = trace.get_current_span().get_span_context().span_id
    assert within == id_of(traced.spans["put"])
    assert not trace.get_current_span().get_span_context().is_valid


def test_unsampled_batches_have_an_unsampled_context_and_no_spans() -> None:
    traced = Traced(ALWAYS_OFF)
    headers = traced.send(b"a", headers=None)
    traced.commit()
    with traced.tracing.processing(fetched(1, headers)), traced.tracing.step("put"):
        traced.tracing.refused(RuntimeError())
    with traced.tracing.putting_again():
        pass
    traced.tracing.aborted()
    traced.tracing.dropped()
    assert traced.names == []
    assert int(headers[0][0][1].decode()[-2:], 16) & 1 == 0


def test_splits_of_a_dataframe_source_share_a_span_passed_to_executors(traced: Traced) -> None:
    with traced.tracing.frame(FrameWork(["t"], 3, is_epoch=False)) as batch:
        [(name, value)] = batch.headers
        batch.wrote(70)
    traced.commit()
    span, commit = traced.spans["send t"], traced.spans["commit"]
    assert (name, value.decode().split("-")[2]) == ("traceparent", f"{id_of(span):016x}")
    assert (span.kind, span.attributes["fencepost.splits"]) == (SpanKind.PRODUCER, 3)
    assert (span.attributes["messaging.batch.message_count"], span.attributes["fencepost.outcome"]) == (70, "sent")
    assert parent_of(commit) == id_of(span)


def test_span_of_an_epoch_cut_short_has_not_failed(traced: Traced) -> None:
    with contextlib.suppress(ValueError), traced.tracing.frame(FrameWork(["t"], 5, is_epoch=True)) as batch:
        with traced.tracing.step("write"):
            batch.cut_short()
        raise ValueError("its partitions are others'")
    span = traced.spans["process t"]
    assert (span.attributes["fencepost.outcome"], span.status.status_code) == ("stopped", StatusCode.UNSET)
    assert (span.kind, span.attributes["fencepost.offsets"]) == (SpanKind.CONSUMER, 5)
    assert parent_of(traced.spans["write"]) == id_of(span)


def test_epoch_committed_by_executors_is_not_in_a_later_commit_span(traced: Traced) -> None:
    with traced.tracing.frame(FrameWork(["t"], 5, is_epoch=True, has_commit=False)):
        pass
    traced.commit()
    assert traced.names == ["process t"]
