"""Partitions of a plan, read from the real broker: all of them from where they stand, and no gap in silence."""

import atexit
import contextlib
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.read import plan_topics
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.client_reader import ClientReader
from fencepost.kafka.read.plan_input import PlanInput
from fencepost.kafka.read.plan_topics import PlanTopics
from fencepost.kafka.setting.client_settings import begins_at, plan_conf
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import GapKind, GroupOffset, LogGap, LogPosition
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.batch_topic import ODD_HEADERS, odd_records, write_batch
from support.log_writer import LogWriter
from support.worker import free_port

DEPOSED = 99  # the epoch of a leader that is not the one of now

Positions = Mapping[TopicPartition, LogPosition | None]
MakePlan = Callable[..., "Plan"]
MakeReader = Callable[[Mapping[str, Any]], ClientReader | BatchReader]


class Plan:
    """An input, and what has come from it so far."""

    def __init__(
        self, bootstrap: str, positions: Positions, reader: MakeReader = ClientReader, **properties: str
    ) -> None:
        given = {"bootstrap.servers": bootstrap, "fetch.max.wait.ms": "20", **properties}
        self.admin = Admin({"bootstrap.servers": bootstrap})
        conf = plan_conf(given, given.get("group.id", "plan")).conf
        self.reader = reader(conf)
        self.input = PlanInput(conf, self.admin, positions, begins_at=begins_at(given), reader=self.reader)
        self.values: dict[TopicPartition, list[str]] = {}
        self.offsets: dict[TopicPartition, list[int]] = {}
        self.ends: dict[TopicPartition, int] = {}

    def poll(self, most: int = 500) -> None:
        fetched = self.input.poll(0.02, most)
        for place, offset, value in zip(fetched.places, fetched.offsets, fetched.values, strict=True):
            self.values.setdefault(place, []).append((value or b"").decode())
            self.offsets.setdefault(place, []).append(offset)
        self.ends |= fetched.ends

    def reach(self, ends: Mapping[TopicPartition, int], most: int = 500) -> None:
        """Poll until the positions are these."""

        def is_there() -> bool:
            self.poll(most)
            return {place: self.input.positions.get(place) for place in ends} == dict(ends)

        eventually(is_there, within_s=90, every_s=0)

    def gap(self, place: TopicPartition) -> LogGap:
        """Poll until the partition has a gap, or is read on."""
        count = len(self.values.get(place, ()))

        def found() -> LogGap | list[str] | None:
            self.poll()
            return self.input.gaps.get(place) or self.values.get(place, [])[count:]

        seen = eventually(found, within_s=90, every_s=0)
        assert isinstance(seen, LogGap), f"it goes on with {seen}"
        return seen


@pytest.fixture
def topic(log_writer: LogWriter, topic_name: str) -> str:
    return log_writer.topic(topic_name)


@pytest.fixture
def place(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


class NameReader(BatchReader):
    """One whose requests name topics, as for brokers without ids."""

    def assign(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        self._requests.learn_ids = lambda _: None  # type: ignore[method-assign]
        super().assign({place: replace(position, topic_id="") for place, position in positions.items()})


asks_what_topics_are = pytest.mark.parametrize(
    "reader_type", [ClientReader, NameReader], ids=["by records", "by batches of names"], indirect=True
)


@pytest.fixture(params=[ClientReader, BatchReader], ids=["by records", "by batches"])
def reader_type(request: pytest.FixtureRequest) -> MakeReader:
    found: MakeReader = request.param
    return found


@pytest.fixture
def plan(log_writer: LogWriter, reader_type: MakeReader) -> Iterator[MakePlan]:
    made: list[Plan] = []

    def make(positions: Positions, **properties: str) -> Plan:
        given = {k.replace("_", "."): v for k, v in properties.items()}
        made.append(Plan(log_writer.bootstrap, positions, reader_type, **given))
        return made[-1]

    yield make
    for one in made:
        one.input.close()
        one.admin.close()


def look_every(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have inputs look that often for topics that do not exist yet."""
    monkeypatch.setattr("fencepost.kafka.read.plan_input._LOOK_EVERY_S", seconds)


def doubts(reader: "Plan") -> Any:
    """Return of which partitions it is in doubt where their logs end."""
    return reader.input._losses.doubts


def numbers(start: int, stop: int) -> list[str]:
    return [str(n) for n in range(start, stop)]


def test_partitions_are_read_from_their_positions_and_others_from_the_beginning(
    log_writer: LogWriter, topic_name: str, plan: MakePlan
) -> None:
    topic = log_writer.topic(topic_name, partitions=3)
    places = [TopicPartition(topic, n) for n in range(3)]
    for place in places:
        log_writer.send(topic, numbers(0, 1_500), partition=place.partition)
    reader = plan({places[0]: None, places[1]: LogPosition(1_200)})
    reader.reach({places[0]: 1_500, places[1]: 1_500}, most=1_100)
    assert reader.values == {places[0]: numbers(0, 1_500), places[1]: numbers(1_200, 1_500)}
    log_writer.send(topic, ["more"], partition=1)
    reader.reach({places[1]: 1_501})
    assert reader.values[places[1]][-1] == "more"
    assert not reader.input.gaps


def test_records_that_arrive_together_are_returned_together(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    reader = plan({place: None})
    log_writer.send(topic, ["first"])
    reader.reach({place: 1})
    found: list[Fetched] = []
    waiting = threading.Thread(target=lambda: found.append(eventually(lambda: reader.input.poll(10.0, 500))))
    waiting.start()
    log_writer.write(topic, numbers(0, 10))
    waiting.join(60)
    assert list(found[0].values) == [b"%d" % n for n in range(10)]


def test_positions_pass_markers_and_aborted_records(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    """0-1 committed, 2 its marker, 3-4 aborted, 5 its marker."""
    log_writer.write(topic, ["a", "b"])
    log_writer.write(topic, ["x", "y"], is_committed=False)
    log_writer.settle([topic])
    reader = plan({place: None})
    reader.reach({place: 6})
    assert reader.values == {place: ["a", "b"]}
    assert reader.ends == {place: 6}
    log_writer.write(topic, ["z"], is_committed=False)
    log_writer.settle([topic])
    reader.reach({place: 8})
    assert reader.ends == {place: 8}
    everything = plan({place: LogPosition(0)}, isolation_level="read_uncommitted")
    everything.reach({place: 8})
    assert everything.values == {place: ["a", "b", "x", "y", "z"]}


def test_position_within_aborted_or_compacted_records_is_no_gap(
    log_writer: LogWriter, topic_name: str, plan: MakePlan
) -> None:
    """A log with holes of all kinds is begun at each of its offsets."""
    holes = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0.001"}
    topic = log_writer.topic(topic_name, **holes)
    place = TopicPartition(topic, 0)
    for n in range(4):
        log_writer.send(topic, numbers(n * 10, n * 10 + 3), key="same")
        with log_writer.transaction(is_committed=n % 2 == 1) as producer:
            for value in "xy":
                producer.produce(topic, value, key=value)
    log_writer.settle([topic])

    def from_offset(start: int) -> Plan:
        end = log_writer.admin.offsets.ends([place], read_committed=True)[place]
        reader = plan({place: LogPosition(start)})
        reader.reach({place: end})
        assert not reader.input.gaps
        return reader

    def is_compacted() -> bool:
        log_writer.send(topic, ["later"], key="same")  # begins a segment, so that the one before may be cleaned
        return from_offset(0).values[place].count("0") == 0

    eventually(is_compacted, within_s=60, every_s=0.2)
    whole = from_offset(0).offsets[place]
    for start in range(whole[-1] + 1):
        read = from_offset(start).offsets[place]  # compaction goes on meanwhile
        assert read[0] >= start
        assert set(read) <= set(whole)
        assert read[-1] == whole[-1]


def test_log_that_begins_after_the_position_is_a_gap_until_a_new_one_is_set(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    log_writer.send(topic, numbers(0, 10))
    log_writer.truncate(topic, 4)
    reader = plan({place: LogPosition(2)})
    gap = reader.gap(place)
    assert (gap.kind, gap.position, gap.start, gap.end) == (GapKind.TRUNCATED, 2, 4, 10)
    assert "read up to offset 2, and the log begins beyond the position: it has offsets 4 to 10 now" in str(gap)
    log_writer.send(topic, ["10"])
    for _ in range(10):
        reader.poll()
    assert not reader.values
    reader.input.go_on(place, gap.start)
    reader.reach({place: 11})
    assert reader.values == {place: numbers(4, 11)}


def test_position_after_a_gap_is_reported_without_any_record(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    log_writer.send(topic, numbers(0, 5))
    log_writer.truncate(topic, 5)
    reader = plan({place: LogPosition(2)})
    reader.input.go_on(place, reader.gap(place).start)
    reader.reach({place: 5})
    assert reader.ends == {place: 5}
    assert not reader.values


def test_a_log_that_is_truncated_while_it_is_read_is_a_gap(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    log_writer.send(topic, numbers(0, 3))
    reader = plan({place: LogPosition(0)})
    reader.reach({place: 3})
    reader.reader.unassign([place])  # as one that is slow
    log_writer.send(topic, numbers(3, 8))
    log_writer.truncate(topic, 6)
    reader.reader.assign({place: LogPosition(3)})
    gap = reader.gap(place)
    assert (gap.kind, gap.position, gap.start) == (GapKind.TRUNCATED, 3, 6)


def test_the_name_of_a_header_that_is_not_utf_8_is_read_as_java_reads_it(
    log_writer: LogWriter, topic: str, place: TopicPartition
) -> None:
    write_batch(log_writer.bootstrap, topic, odd_records())
    conf = plan_conf({"bootstrap.servers": log_writer.bootstrap}).conf
    reader, found = ClientReader(conf), []
    reader.assign({place: LogPosition(0)})

    def is_read() -> bool:
        fetched = reader.read(0.1, 10).fetched
        found.extend(map(tuple, fetched.headers or [()] * len(fetched)))
        return len(found) == len(ODD_HEADERS)

    eventually(is_read, within_s=60)
    reader.close()
    assert found == ODD_HEADERS


def test_log_that_briefly_ends_before_the_position_is_no_gap(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a broker says that was deposed, and has not heard of it yet."""
    monkeypatch.setattr(plan_topics, "SURE_S", 600.0)
    log_writer.send(topic, numbers(0, 3))
    reader = plan({place: LogPosition(7)})
    with monkeypatch.context() as patched:
        patched.setattr(PlanTopics, "leader_epoch", lambda *_: DEPOSED)
        eventually(lambda: reader.poll() is None and len(doubts(reader)), every_s=0)
        for _ in range(20):
            reader.poll()
    assert not reader.input.gaps
    log_writer.send(topic, numbers(3, 9))
    reader.reach({place: 9})
    assert reader.values == {place: ["7", "8"]}
    assert not len(doubts(reader))


@pytest.mark.parametrize("reader_type", [BatchReader], ids=["by batches"], indirect=True)
def test_suspicion_of_a_gap_ends_with_the_next_record(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one wrong answer, minutes later, would be enough for a gap."""
    log_writer.send(topic, numbers(0, 3))
    reader = plan({place: None})
    reader.reach({place: 3})
    read = reader.reader.read

    def lost(*asked: Any) -> Any:
        found = read(*asked)
        reader.reader.unassign([place])
        found.fetched, found.lost = Fetched(), {place}
        return found

    with monkeypatch.context() as patched:  # a leader that was deposed, and has not heard of it
        patched.setattr(reader.reader, "read", lost)
        patched.setattr(reader.admin.offsets, "ends", lambda places, **_: dict.fromkeys(places, 2))
        patched.setattr(PlanTopics, "leader_epoch", lambda *_: DEPOSED)
        eventually(lambda: reader.poll() is None and len(doubts(reader)), every_s=0)
    log_writer.send(topic, numbers(3, 6))
    reader.reach({place: 6})
    assert reader.values == {place: numbers(0, 6)}
    assert not len(doubts(reader))


def test_log_that_was_cut_and_grows_past_the_position_is_a_gap_at_its_old_end(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position was read from another log, which was cut."""
    monkeypatch.setattr(plan_topics, "SURE_S", 600.0)
    log_writer.send(topic, numbers(0, 3))
    reader = plan({place: LogPosition(7)})
    eventually(lambda: reader.poll() is None and len(doubts(reader)), every_s=0)
    log_writer.send(topic, numbers(3, 9))
    gap = reader.gap(place)
    assert (gap.kind, gap.position, gap.end, gap.next_offset) == (GapKind.DIVERGED, 7, 9, 3)


def test_a_log_that_ends_before_the_position_is_a_gap_and_its_neighbour_is_read(
    log_writer: LogWriter, topic_name: str, plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_topics, "SURE_S", 0.5)
    topic = log_writer.topic(topic_name, partitions=2)
    behind, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    log_writer.send(topic, numbers(0, 3))
    log_writer.send(topic, numbers(0, 3), partition=1)
    reader = plan({behind: LogPosition(7), other: LogPosition(1)})
    gap = reader.gap(behind)
    assert (gap.kind, gap.position, gap.start, gap.end) == (GapKind.CUT, 7, 0, 3)
    reader.reach({other: 3})
    assert reader.values == {other: ["1", "2"]}


@pytest.mark.parametrize(
    "reader_type",
    [ClientReader, BatchReader, NameReader],
    ids=["by records", "by batches", "by batches of names"],
    indirect=True,
)
def test_recreated_topic_is_a_gap_when_it_has_the_offset(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    log_writer.send(topic, numbers(0, 3))
    reader = plan({place: None})
    reader.reach({place: 3})
    first = reader.input.topic_id(topic)
    log_writer.recreate(topic)
    log_writer.send(topic, numbers(100, 110))
    gap = reader.gap(place)
    assert (gap.kind, gap.position, gap.start, gap.end) == (GapKind.RECREATED, 3, 0, 10)
    assert gap.topic_id not in ("", first)
    assert reader.values == {place: numbers(0, 3)}
    reader.input.go_on(place, 0)
    reader.reach({place: 10})
    assert reader.values == {place: [*numbers(0, 3), *numbers(100, 110)]}
    assert reader.input.topic_id(topic) == gap.topic_id


def test_topic_ids_are_not_requested_when_brokers_check_them_in_fetches(
    log_writer: LogWriter, topic: str, place: TopicPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_writer.send(topic, numbers(0, 3))
    reader = Plan(log_writer.bootstrap, {place: None}, BatchReader)

    def asked(*_: object, **__: object) -> Mapping[str, object]:
        raise AssertionError("it was asked what topics are")

    try:
        reader.reach({place: 3})
        monkeypatch.setattr(reader.admin.topics, "get_all", asked)
        log_writer.send(topic, numbers(3, 6))
        reader.reach({place: 6})
        assert reader.values == {place: numbers(0, 6)}
    finally:
        reader.input.close()
        reader.admin.close()


def test_fetch_sent_before_a_topic_is_recreated_returns_none_of_the_new_records(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    """A request waits at the broker meanwhile, and the new topic gets records at the offset that it waits for."""
    log_writer.send(topic, numbers(0, 3))
    reader = plan({place: None}, fetch_max_wait_ms="30000")
    reader.reach({place: 3})
    reader.poll()
    log_writer.recreate(topic)
    log_writer.send(topic, numbers(100, 110))
    gap = reader.gap(place)
    assert (gap.kind, gap.position) == (GapKind.RECREATED, 3)
    assert reader.values == {place: numbers(0, 3)}


def test_topic_recreated_before_the_start_is_detected_by_its_id(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    first = log_writer.admin.topics.get_all([topic])[topic].id
    log_writer.recreate(topic)
    log_writer.send(topic, numbers(0, 10))
    gap = plan({place: LogPosition(3, first)}).gap(place)
    assert (gap.kind, gap.position, gap.end) == (GapKind.RECREATED, 3, 10)
    any_topic = plan({place: LogPosition(10)})
    any_topic.reach({place: 10})
    assert any_topic.ends == {place: 10}  # so that the id is kept with it from now on


def test_start_of_a_partition_is_reported_when_it_is_offset_0(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    reader = plan({place: None})
    reader.reach({place: 0})
    assert reader.ends == {place: 0}
    assert reader.input.topic_id(topic) == log_writer.admin.topics.get_all([topic])[topic].id


def test_deletion_of_first_records_before_any_was_read_is_a_gap(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    reader = plan({place: None})
    reader.reach({place: 0})
    reader.reader.unassign([place])  # as one that is slow
    log_writer.send(topic, numbers(0, 8))
    log_writer.truncate(topic, 6)
    reader.reader.assign({place: LogPosition(0, reader.input.topic_id(topic))})
    gap = reader.gap(place)
    assert (gap.kind, gap.position, gap.start) == (GapKind.TRUNCATED, 0, 6)


def test_topic_recreated_before_any_record_was_read_is_a_gap(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    """It may have had records: a start that comes later knows no more of them than this one."""
    reader = plan({place: None})
    reader.reach({place: 0})
    log_writer.recreate(topic)
    log_writer.send(topic, numbers(0, 5))
    gap = reader.gap(place)
    assert (gap.kind, gap.position, gap.end) == (GapKind.RECREATED, 0, 5)
    reader.input.go_on(place, gap.start)
    reader.reach({place: 5})
    assert reader.values == {place: numbers(0, 5)}


def test_missing_topic_is_awaited_while_others_are_read(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_every(0.1, monkeypatch)
    later = TopicPartition(f"{topic}-later", 0)
    log_writer.send(topic, ["a"])
    reader = plan({place: None, later: None})
    reader.reach({place: 1})
    log_writer.topic(later.topic)
    log_writer.send(later.topic, ["b"])
    reader.reach({later: 1})
    assert reader.values == {place: ["a"], later: ["b"]}


def test_partition_without_a_position_begins_according_to_auto_offset_reset(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    log_writer.send(topic, numbers(0, 4))
    latest = plan({place: None}, auto_offset_reset="latest")
    latest.reach({place: 4})
    assert (latest.ends, latest.values) == ({place: 4}, {})  # told, or a later start would skip what comes now
    with pytest.raises(KafkaRequestError, match=r"auto\.offset\.reset is none: set their offsets"):
        plan({place: None}, auto_offset_reset="none").poll()
    log_writer.truncate(topic, 2)
    earliest = plan({place: None})
    earliest.reach({place: 4})
    assert earliest.values == {place: ["2", "3"]}
    assert not earliest.input.gaps


def test_unreachable_cluster_is_retried_and_no_fetched_record_is_lost(
    log_writer: LogWriter,
    topic: str,
    place: TopicPartition,
    plan: MakePlan,
    reader_type: MakeReader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fencepost.kafka.read.plan_topics._ASK_S", 0.3)
    nobody = Plan(f"127.0.0.1:{free_port()}", {place: None}, reader_type)
    with pytest.raises(KafkaUnavailableError):
        nobody.poll()
    nobody.input.close()
    log_writer.send(topic, numbers(0, 10))
    reader = plan({place: None})
    ask, answers = reader.admin.topics.get_all, []

    def away_now_and_then(*args: object, **how: object) -> object:
        answers.append(len(answers))
        if len(answers) % 2:
            raise KafkaUnavailableError("away")
        return ask(*args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(reader.admin.topics, "get_all", away_now_and_then)
    reader.reach({place: 10})
    assert reader.values == {place: numbers(0, 10)}


class AwayOnce:
    """`Topics.get_all` that once, when it is asked of a topic, gives no answer but does something else."""

    def __init__(self, reader: Plan, monkeypatch: pytest.MonkeyPatch, instead: Callable[[], None]) -> None:
        self._ask = reader.admin.topics.get_all
        self._instead: Callable[[], None] | None = instead
        monkeypatch.setattr(reader.admin.topics, "get_all", self)

    def __call__(self, names: Collection[str], **how: float) -> object:
        instead = self._instead
        if not names or instead is None:
            return self._ask(names, **how)
        self._instead = None
        instead()
        raise KafkaUnavailableError("away")

    def await_absence(self, reader: Plan) -> None:
        """Poll until the question was not answered."""

        def is_away() -> bool:
            with contextlib.suppress(KafkaUnavailableError):
                reader.poll()
            return self._instead is None

        eventually(is_away, every_s=0)


@asks_what_topics_are
def test_records_taken_from_a_recreated_topic_are_not_returned_after_an_outage(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is looked at again, the topic is looked at for a partition that it does not have."""
    look_every(3600.0, monkeypatch)
    log_writer.send(topic, numbers(0, 3))
    reader = plan({place: None, TopicPartition(topic, 1): None})
    reader.reach({place: 3})
    log_writer.recreate(topic)
    log_writer.send(topic, numbers(100, 110))
    away = AwayOnce(reader, monkeypatch, lambda: look_every(0.0, monkeypatch))
    away.await_absence(reader)
    gap = reader.gap(place)
    assert (gap.kind, gap.position) == (GapKind.RECREATED, 3)
    assert reader.values == {place: numbers(0, 3)}
    assert place not in reader.input.positions


@asks_what_topics_are
def test_pending_offset_is_dropped_when_topic_is_recreated(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_writer.send(topic, numbers(0, 10))
    reader = plan({place: LogPosition(3)})
    first = log_writer.admin.topics.get_all([topic])[topic].id

    def recreate() -> None:
        reader.ends.clear()  # what was told before is of the first topic
        log_writer.recreate(topic)
        log_writer.send(topic, numbers(100, 110))

    reader.input._begin_waiting()
    assert reader.input.topic_id(topic) == first
    AwayOnce(reader, monkeypatch, recreate).await_absence(reader)
    gap = reader.gap(place)
    assert (gap.kind, gap.position) == (GapKind.RECREATED, 3)
    assert (reader.values, reader.ends) == ({}, {})


def test_start_of_a_partition_is_not_reported_together_with_its_first_records(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    log_writer.send(topic, numbers(0, 10))
    reader = plan({place: LogPosition(3)})
    fetched = eventually(lambda: reader.input.poll(10.0, 500))
    assert fetched.offsets[0] == 3
    assert place not in fetched.ends  # what is told besides is committed behind the records


def test_e10_offsets_are_committed_to_a_group_unless_it_has_members(
    log_writer: LogWriter, topic: str, place: TopicPartition, plan: MakePlan
) -> None:
    group = f"group-{topic}"
    reader = plan({place: None}, group_id=group)
    committed = GroupOffsets({"bootstrap.servers": log_writer.bootstrap}, group)

    def is_told(offset: int) -> bool:
        reader.poll()
        assert committed.read() == {place: offset}
        return True

    reader.input.commit([GroupOffset(*place, 7)])
    eventually(lambda: is_told(7))
    eventually(lambda: reader.poll() or reader.input.commit_error is None)  # it hears of it when it polls
    member = Consumer({"bootstrap.servers": log_writer.bootstrap, "group.id": group})
    member.subscribe([topic])
    try:
        eventually(lambda: member.poll(0.1) or member.assignment(), every_s=0)
        reader.input.commit([GroupOffset(*place, 9)])
        trouble = eventually(lambda: reader.poll() or reader.input.commit_error, every_s=0)
        assert "UNKNOWN_MEMBER_ID" in str(trouble)
        assert committed.read() == {place: 7}
    finally:
        member.close()
    reader.input.commit([GroupOffset(*place, 9)])
    eventually(lambda: is_told(9))
    eventually(lambda: reader.poll() or reader.input.commit_error is None)  # it hears of it when it polls
    reader.input.close()
    reader.input.commit([GroupOffset(*place, 11)])
    assert committed.read() == {place: 9}


def test_close_does_not_wait_for_an_unanswered_commit(place: TopicPartition, reader_type: MakeReader) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    atexit.register(silent.close)  # the client goes on asking for a while
    nobody = Plan(f"127.0.0.1:{silent.getsockname()[1]}", {}, reader_type)
    nobody.input.commit([GroupOffset(*place, 7)])
    nobody.poll()
    closing = threading.Thread(target=nobody.input.close, daemon=True)
    closing.start()
    closing.join(40)
    assert not closing.is_alive()
