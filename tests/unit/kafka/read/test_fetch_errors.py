"""Where a member of a group continues after errors of a fetch, such as in a log that was cut, or is another one."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError
from fencepost.kafka.read import batch_reader, consumer, group_batches, log
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.client_fetcher import ClientFetcher
from fencepost.kafka.read.client_reader import ClientMessages, ClientReader
from fencepost.kafka.read.fetched_queue import Unread
from fencepost.kafka.read.group_batches import BatchFetcher
from fencepost.kafka.read.known_positions import KnownPositions, Restart, StartPositions
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.read.range_input import RangeInput, RangeSilence
from fencepost.kafka.setting.client_settings import plan_conf
from fencepost.kafka.value.position import LogPosition, LogRange
from fencepost.record import TopicPartition

PLACE = TopicPartition("t", 0)
UNKNOWN_TOPIC_ID = 100
READ = LogPosition(1000, "AAAAAAAAAAAAAAAAAAAAAQ", 5)


def diverging(epoch: int, end_offset: int) -> dict[str, Any]:
    return {"diverging_epoch": SimpleNamespace(epoch=epoch, end_offset=end_offset)}


class Client:
    """Of a member; the log has offsets 0 to 1099."""

    error, is_closed, group = None, False, "g"

    def __init__(self, resets_to: str) -> None:
        self.conf = {"auto.offset.reset": resets_to}
        self.consumer = SimpleNamespace(poll=lambda _: None)

    end = 1100

    def edges(self, *_: object) -> tuple[int, int]:
        return 0, self.end

    def pause(self, _: object) -> None: ...


class Member:
    """A fetcher whose reader gets the same answer to each of its requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, resets_to: str, **answer: Any) -> None:
        client: Any = Client(resets_to)
        self.client = client
        starts = StartPositions(client, (), None)
        assignment: Any = SimpleNamespace(client=client, starts=starts, begins={PLACE: 0}, paused=frozenset())
        self.reader = BatchReader({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, Unread())
        self.fetcher = assignment.fetcher = BatchFetcher(assignment, self.reader)
        self.asked: list[Any] = []
        self.answer = {"partition_index": 0, "error_code": 0, "diverging_epoch": None, **answer}
        monkeypatch.setattr(self.reader, "_ask", self._ask)
        self.fetcher._go_to({PLACE: READ})

    def _ask(self) -> bool:
        for place, position in list(self.reader._positions.at.items()):
            self.asked.append(position)
            asked: Any = SimpleNamespace(positions={place: position}, topics={}, node=1)
            partition = SimpleNamespace(**self.answer)
            topic = SimpleNamespace(topic=place.topic, partitions=[partition])
            self.reader._answered(asked, SimpleNamespace(error_code=0, responses=[topic]))
        return True

    @property
    def restarts(self) -> Any:
        return self.fetcher._assignment.starts.restarts

    def poll(self) -> Any:
        """Return the position after a poll."""
        list(self.fetcher.chunks(0.0, 100))
        return self.fetcher._next[PLACE]


@pytest.mark.parametrize("resets_to", ["earliest", "latest"])
def test_a_group_continues_at_the_point_of_divergence_when_a_log_was_cut(
    monkeypatch: pytest.MonkeyPatch, resets_to: str
) -> None:
    monkeypatch.setattr(group_batches, "SURE_S", 0.0)
    member = Member(monkeypatch, resets_to, **diverging(5, 990))
    member.poll()
    assert member.poll() == LogPosition(990, READ.topic_id, 5)
    assert member.restarts == {PLACE: Restart(990, is_cut=True)}


def test_a_cut_log_is_an_error_when_no_reset_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_batches, "SURE_S", 0.0)
    member = Member(monkeypatch, "error", **diverging(5, 990))
    member.poll()
    with pytest.raises(KafkaRequestError, match=r"the log was cut: .* before offset 1000 only up to offset 990"):
        member.poll()


def test_single_answer_does_not_prove_that_a_log_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same position is asked for again, in the same topic and with the same epoch."""
    monkeypatch.setattr(group_batches, "SURE_S", 600.0)
    monkeypatch.setattr(group_batches, "DOUBT_EVERY_S", 0.0)
    member = Member(monkeypatch, "earliest", **diverging(5, 990))
    for _ in range(5):
        assert member.poll() == READ
    assert set(member.asked) == {(READ.offset, READ.epoch)}
    assert len(member.asked) > 2


@pytest.mark.parametrize("end", [990, 1000, 1100])
def test_offsets_skipped_after_a_log_seemed_short_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, end: int
) -> None:
    """Without the epoch of its position no broker can say where the log was cut."""
    monkeypatch.setattr(group_batches, "DOUBT_EVERY_S", 0.0)
    member = Member(monkeypatch, "earliest", error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    member.fetcher._go_to({PLACE: LogPosition(1000, READ.topic_id)})
    member.client.end = 900
    for _ in range(3):
        assert member.poll() == LogPosition(1000, READ.topic_id)
    monkeypatch.setattr(group_batches, "SURE_S", 0.0)
    member.client.end = end
    at = member.poll().offset
    assert at == (900 if end < 1000 else 1000)
    assert member.restarts == ({PLACE: Restart(900, is_cut=True)} if end < 1000 else {})
    assert at == 900 or "offsets 900 to 999 are not read" in caplog.text


@pytest.mark.parametrize(("resets_to", "goes_on"), [("earliest", 0), ("latest", 1100)])
def test_auto_offset_reset_decides_when_a_topic_was_created_again(
    monkeypatch: pytest.MonkeyPatch, resets_to: str, goes_on: int
) -> None:
    """The new topic has the offset."""
    monkeypatch.setattr(group_batches, "SURE_S", 0.0)
    member = Member(monkeypatch, resets_to, error_code=UNKNOWN_TOPIC_ID)
    member.poll()
    assert member.poll() == LogPosition(goes_on)
    assert member.restarts == {PLACE: Restart(goes_on, is_cut=False)}


def test_doubts_about_a_topic_end_when_its_leader_answers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a quiet topic no record comes that would say so. The doubts of weeks are not added up."""
    now_s = 0.0
    monkeypatch.setattr(group_batches, "time", SimpleNamespace(monotonic=lambda: now_s))
    member = Member(monkeypatch, "earliest")
    nothing_new = {"error_code": 0, "records": None, "aborted_transactions": [], "preferred_read_replica": -1}
    for _ in range(10):
        member.answer.update(error_code=UNKNOWN_TOPIC_ID)
        member.poll()
        member.answer.update(nothing_new, high_watermark=1000, last_stable_offset=1000, log_start_offset=0)
        now_s += group_batches.SURE_S
        assert member.poll() == READ
        assert member.poll() == READ


def test_a_fetch_that_fails_with_an_unknown_error_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of a broker's, as of tiered storage, passes."""
    monkeypatch.setattr(batch_reader, "_FAULT_REST_S", 0.0)
    member = Member(monkeypatch, "earliest", error_code=KafkaError.UNKNOWN)
    for _ in range(3):
        assert member.poll() == READ
    assert set(member.asked) == {(READ.offset, READ.epoch)}
    assert PLACE in member.reader._positions.at


class Faulty:
    """librdkafka's consumer, of a broker that fails to read its log once. Then it has a record."""

    def __init__(self, *_: object, **__: object) -> None:
        failure = KafkaError(KafkaError.UNKNOWN, "the store is away")
        self._coming = [Message("t", 0, 0, error=failure), Message("t", 0, 0, value=b"v", timestamp=(1, 1000))]

    def poll(self, _: float) -> Any:
        return self._coming.pop(0) if self._coming else None

    def consume(self, *_: object) -> list[Any]:
        return []

    def position(self, _: object) -> list[Any]:
        return []

    assign = incremental_assign = pause = position

    def close(self) -> None: ...


def test_a_client_of_a_member_reads_on_after_an_unknown_error() -> None:
    client = SimpleNamespace(conf={}, consumer=Faulty(), error=None, group="g")
    starts = SimpleNamespace(known=KnownPositions())
    fetcher = ClientFetcher(SimpleNamespace(client=client, starts=starts))  # type: ignore[arg-type]
    assert [len(each) for _ in range(2) for each in fetcher.chunks(0.0, 10)] == [0, 1]


def test_a_client_of_a_plan_reads_on_after_an_unknown_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "Consumer", Faulty)
    reader = ClientReader(plan_conf({"bootstrap.servers": "127.0.0.1:1"}).conf)
    found = [reader.read(0.1, 10) for _ in range(2)]
    assert [len(each.fetched) for each in found] == [0, 1]
    assert not any(each.lost or each.away for each in found)


def test_the_reader_of_a_log_reads_on_after_an_unknown_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "new_client", Faulty)
    reader, values = log.LogReader({"bootstrap.servers": "127.0.0.1:1"}, "t"), list[Any]()
    reader.go_on_at({0: 0})
    assert reader.poll(lambda record: values.append(record.value), 0.1) == 0
    assert "a broker failed: the store is away" in str(reader.timed_out({0: 1}, 1.0))
    assert reader.poll(lambda record: values.append(record.value), 0.1) == 1
    assert values == [b"v"]


def test_a_client_of_a_range_reads_on_after_an_unknown_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "Consumer", Faulty)
    conf = {"bootstrap.servers": "127.0.0.1:1", "client.rack": "here"}  # a setting that only librdkafka has
    obstacles = list[str]()
    monkeypatch.setattr(RangeSilence, "is_suspicious", lambda *_, **__: False)
    monkeypatch.setattr(RangeSilence, "check", lambda silence, _: obstacles.append(silence.obstacle))
    assert sum(each.num_rows for each in RangeInput(conf, LogRange(PLACE, 0, 1)).batches()) == 1
    assert obstacles == ["a broker failed: the store is away"]


def test_records_that_came_with_an_error_are_returned_before_it_is_raised() -> None:
    """The client goes on after them: they would be in no other answer."""
    refusal = KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED, "no")
    came = [Message("t", 0, 0, value=b"a"), Message("t", 0, 1, error=refusal), Message("t", 0, 1, value=b"b")]
    consumer = SimpleNamespace(poll=lambda _: came[0], consume=lambda *_: came[1:])
    messages = ClientMessages({"bootstrap.servers": "127.0.0.1:1"}, "reading")
    assert messages.sorted(messages.arrived(consumer, 10, 0.0), Read()).values == [b"a", b"b"]
    with pytest.raises(KafkaAuthorizationError):
        messages.arrived(consumer, 10, 0.0)
    assert len(messages.arrived(consumer, 10, 0.0)) == 3
