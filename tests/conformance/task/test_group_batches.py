"""A member of a group that reads whole batches, on the real broker: what sets it apart from one that reads records.

What both do alike is in `test_group_input.py`.
"""

import logging
import os
import random
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.codec.encode_header import CorruptBatchError
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError, LostError
from fencepost.kafka.fork import ForkedClientError
from fencepost.kafka.read import batch_reader as batch_reader
from fencepost.kafka.read import fetched_queue, group_batches
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.group_batches import BatchFetcher, BatchGroupInput
from fencepost.kafka.read.group_input import GroupInput
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import GroupOffset
from fencepost.kafka.wire.cluster import Cluster
from fencepost.record import BinaryColumn, Repeated, Runs, TopicPartition
from fencepost.testing import eventually
from support.clients import cluster_of
from support.group_commit import commit_for
from support.group_members import Members, Notes, commit_late, damaged, poll_for_long, read
from support.log_writer import LogWriter
from support.proxy import Action, ApiKey, KafkaProxy

_LONG_S = 60.0
_AWAY_S = 3.0
"""How long a connection to a broker that is away takes to fail."""


@pytest.fixture
def members(log_writer: LogWriter, topic_name: str) -> Iterator[Members]:
    made = Members(log_writer.bootstrap, log_writer.topic(topic_name, partitions=2), BatchGroupInput)
    yield made
    for each in made.made:
        each.close()


@pytest.fixture
def places(members: Members) -> list[TopicPartition]:
    return [TopicPartition(members.topic, n) for n in range(2)]


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a member not take a slow moment for a broker that cannot be reached."""
    monkeypatch.setattr(group_batches, "_LONG_S", 60.0)


def client_fetches(member: BatchGroupInput) -> bool:
    """Say whether librdkafka reads the records, not the reader of whole batches."""
    return not isinstance(fetcher_of(member), BatchFetcher)


def fetcher_of(member: GroupInput) -> Any:
    return member._assignment.fetcher


def reader_of(member: BatchGroupInput) -> Any:
    """Return its reader of whole batches."""
    return fetcher_of(member)._reader


def numbered(start: int, stop: int) -> list[str]:
    return [str(n) for n in range(start, stop)]


def begun(members: Members, notes: Notes | None = None, **settings: str) -> BatchGroupInput:
    """Return a member that has both partitions, and has taken nothing yet."""
    member = members.join(notes or Notes(), **settings)
    assert isinstance(member, BatchGroupInput)
    reader_of(member).read = lambda *_: batch_reader.Read()
    eventually(lambda: member.poll(0.05, 1) is not None and len(member.assignment) == 2, within_s=60)
    vars(reader_of(member)).pop("read")
    return member


def next_of(member: BatchGroupInput, most: int) -> Fetched:
    """Return the next records."""
    found: Fetched = eventually(lambda: fetched if len(fetched := member.poll(0.1, most)) else None, within_s=60)
    return found


class Once:
    """What a thread of its own does beside a block, at whose end it has to be done."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act, self._pool = act, ThreadPoolExecutor(1)

    def __enter__(self) -> None:
        self._done = self._pool.submit(self._act)

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        self._done.result()


class Polling(Once):
    """A member that is polled by a thread of its own, until the end of a block."""

    def __init__(self, poll: Callable[[], object]) -> None:
        super().__init__(self._run)
        self._poll, self._stop = poll, threading.Event()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._poll()

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        super().__exit__(*raised)


@pytest.mark.parametrize("is_paused", [False, True])
def test_callbacks_are_served_while_the_reader_waits(members: Members, is_paused: bool) -> None:
    """A partition is given up within a poll that waits for records, of which there are none, for much longer."""
    notes, other = Notes(), Notes()
    first = begun(members, notes)
    if is_paused:
        first.pause(first.assignment)
    second = members.join(other)

    def interrupted() -> None:
        with pytest.raises(InterruptedError):
            first.poll(_LONG_S, 100)

    with Once(interrupted):
        eventually(lambda: second.poll(0.05, 100) is not None and len(second.assignment) == 1, within_s=_LONG_S / 2)
        first._client.error = InterruptedError()  # that long is long


def test_a_member_with_nothing_to_read_waits_in_the_client(members: Members) -> None:
    member = begun(members)
    member.pause(member.assignment)
    began_s, computed_s = time.monotonic(), time.thread_time()
    assert not len(member.poll(1.0, 100))
    assert time.monotonic() - began_s >= 0.9
    assert time.thread_time() - computed_s < 0.2


@pytest.mark.parametrize("at_once", [10_000, 1])
def test_e14_no_record_read_before_a_revocation_is_returned_after_it(
    members: Members, log_writer: LogWriter, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what is decoded and waits, nor what waits in the reader; what comes back begins where it is to."""
    monkeypatch.setattr(group_batches, "_AT_ONCE", at_once)
    for partition in range(2):
        for start in range(0, 400, 100):
            log_writer.send(members.topic, numbered(start, start + 100), partition)
    notes = Notes()
    first = begun(members, notes)
    told: list[tuple[str, Any]] = []
    notes.on_revoked = lambda gone: told.append(("revoked", set(gone)))

    def poll(most: int) -> None:
        fetched = first.poll(0.05, most)
        first.read_ahead(most)
        told.extend(("record", each) for each in zip(fetched.places, fetched.offsets, strict=True))

    eventually(lambda: poll(1) is None and len(told) >= 3, every_s=0.05)
    second = members.join(Notes())
    with Polling(lambda: second.poll(0.05, 7)):
        eventually(lambda: poll(1) is None and len(first.assignment) == 1, every_s=0.05, within_s=60)
        [kept] = first.assignment
        eventually(lambda: poll(100) is None and told[-1] == ("record", (kept, 399)), every_s=0, within_s=60)
    behind = told[max(index for index, (what, _) in enumerate(told) if what == "revoked") + 1 :]
    assert [each for _, each in behind] == [(kept, n) for n in range(400)]


def test_poll_returns_at_most_the_requested_records_and_loses_or_repeats_none(
    members: Members, log_writer: LogWriter, places: list[TopicPartition]
) -> None:
    """Through pauses, reading ahead, and returns to where it stands, in the middle of batches and of transactions."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for start in range(0, 3_000, 1_000):
        log_writer.write(members.topic, numbered(start, start + 1_000), 0)
        log_writer.write(members.topic, ["never"] * 10, 0, is_committed=False)
        log_writer.send(members.topic, numbered(start, start + 1_000), 1)
    member = begun(members, fetch_max_wait_ms="20")
    found: dict[TopicPartition, list[int]] = {place: [] for place in places}
    behind = dict.fromkeys(places, 0)
    paused: set[TopicPartition] = set()

    until_s = time.monotonic() + 240
    while any(len(offsets) < 3_000 for offsets in found.values()):
        assert time.monotonic() < until_s, {place: len(offsets) for place, offsets in found.items()}
        act = rng.random()
        if act < 0.15:
            paused = {place for place in places if rng.random() < 0.4}
            member.pause(paused)
        elif act < 0.25:
            member.seek({place: behind[place] for place in places if rng.random() < 0.5})
        elif act < 0.3:
            place = rng.choice(places)
            del found[place][rng.randrange(len(found[place]) + 1) :]
            behind[place] = found[place][-1] + 1 if found[place] else 0
            member.seek({place: behind[place]})
        most = rng.choice((1, 7, 99, 100, 250))
        if rng.random() < 0.5:
            member.read_ahead(rng.choice((most, 1_000)))
        fetched = member.poll(0.02, most)
        assert len(fetched) <= most
        assert isinstance(fetched.offsets, list | array) or not len(fetched)
        assert paused.isdisjoint(fetched.places)
        for place, offset, value in zip(fetched.places, fetched.offsets, fetched.values, strict=True):
            assert value == str(len(found[place])).encode(), (place, offset)
            found[place].append(offset)
        behind.update(fetched.next_offsets())
    assert all(offsets == sorted(set(offsets)) for offsets in found.values())


def test_polled_records_are_columns(members: Members, log_writer: LogWriter, places: list[TopicPartition]) -> None:
    for place in places:
        log_writer.send(members.topic, ["a", "b"], place.partition, timestamp=7)
    log_writer.send(members.topic, ["c"], 0, key=b"k", headers=[("h", b"x")], timestamp=8)
    member = begun(members)
    rows: list[Any] = []

    def all_there() -> bool:
        found = member.poll(0.1, 4)
        assert isinstance(found.values, BinaryColumn) or not len(found)
        assert isinstance(found.keys, BinaryColumn | Repeated) or not len(found)
        assert isinstance(found.places, Repeated | Runs) or not len(found)
        headers = found.headers or [()] * len(found)
        columns = (found.places, found.offsets, found.timestamps, found.keys, found.values, headers)
        rows.extend(zip(*columns, strict=True))
        return len(rows) == 5

    eventually(all_there, within_s=60)
    one, other = places
    assert sorted(rows) == [
        (one, 0, 7, None, b"a", ()),
        (one, 1, 7, None, b"b", ()),
        (one, 2, 8, b"k", b"c", (("h", b"x"),)),
        (other, 0, 7, None, b"a", ()),
        (other, 1, 7, None, b"b", ()),
    ]


def test_end_after_markers_is_reported_once_all_earlier_records_are_returned(
    members: Members, log_writer: LogWriter, places: list[TopicPartition]
) -> None:
    log_writer.write(members.topic, ["a", "b", "c"], 0)
    log_writer.write(members.topic, ["d"], 0, is_committed=False)
    log_writer.settle([members.topic])
    member = begun(members)
    assert next_of(member, 2).ends == {}
    last = next_of(member, 2)
    ends = {**last.ends}
    eventually(lambda: ends or ends.update(member.poll(0.1, 2).ends))
    assert (last.offsets, ends) == ([2], {places[0]: 6})


def test_ends_of_logs_are_known_while_partitions_are_read_and_paused(
    members: Members, log_writer: LogWriter, places: list[TopicPartition]
) -> None:
    log_writer.send(members.topic, numbered(0, 5), 0)
    member = begun(members)
    assert len(read(member, 5)) == 5
    eventually(lambda: member.poll(0.1, 1) is not None and member.known_ends() == {places[0]: 5, places[1]: 0})
    member.pause(member.assignment)
    assert member.known_ends() == {places[0]: 5, places[1]: 0}


# what goes wrong


@pytest.mark.parametrize(
    ("resets_to", "is_whole", "goes_on"), [("earliest", False, 6), ("latest", False, 10), ("latest", True, 6)]
)
def test_position_that_is_no_longer_in_the_log_is_reset_and_reported(
    members: Members,
    log_writer: LogWriter,
    places: list[TopicPartition],
    resets_to: str,
    is_whole: bool,
    goes_on: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log_writer.send(members.topic, numbered(0, 10), 0)
    log_writer.truncate(members.topic, 6)
    notes = Notes()
    notes.begins = {places[0]: 3}
    member = members.join(notes, [members.topic] if is_whole else [], auto_offset_reset=resets_to)
    found: list[tuple[int, int]] = []

    def is_reported() -> bool:
        found.extend(read(member, 100, within_s=0.1))  # a poll that reports the reset may return records, too
        return "nothing at offset" in caplog.text

    with caplog.at_level(logging.WARNING):
        eventually(is_reported, within_s=60)
    assert f"{members.topic}-0 has nothing at offset 3: it is read from offset {goes_on} on" in caplog.text
    log_writer.send(members.topic, ["10"], 0)
    assert [*found, *read(member, 11 - goes_on - len(found))] == [(0, n) for n in range(goes_on, 11)]


@pytest.mark.parametrize("resets_to", ["earliest", "latest", "none"])
def test_reading_continues_at_the_position_when_the_log_ends_before_it_briefly(
    members: Members,
    log_writer: LogWriter,
    places: list[TopicPartition],
    resets_to: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a broker says that was deposed, and has not heard of it yet."""
    monkeypatch.setattr(group_batches, "SURE_S", 600.0)
    log_writer.send(members.topic, numbered(0, 3), 0)
    notes = Notes()
    notes.begins = {places[0]: 7, places[1]: 0}
    first = begun(members)
    first.commit({places[0]: 7, places[1]: 0})
    first.close()
    member = members.join(notes, auto_offset_reset=resets_to)
    eventually(lambda: member.poll(0.05, 100) is not None and len(fetcher_of(member)._resets.doubts), within_s=60)
    for _ in range(20):
        assert not len(member.poll(0.05, 100))
    log_writer.send(members.topic, numbered(3, 9), 0)
    assert read(member, 2) == [(0, 7), (0, 8)]


def test_position_is_reset_when_the_log_still_ends_before_it_after_a_while(
    members: Members,
    log_writer: LogWriter,
    places: list[TopicPartition],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(group_batches, "SURE_S", 0.5)
    log_writer.send(members.topic, numbered(0, 3), 0)
    notes = Notes()
    notes.begins = {places[0]: 7}
    member = members.join(notes)
    with caplog.at_level(logging.WARNING):
        assert read(member, 3) == [(0, 0), (0, 1), (0, 2)]
    assert f"{members.topic}-0 has nothing at offset 7: it is read from offset 0 on" in caplog.text


@pytest.mark.parametrize("by", ["records", "batches"])
def test_position_that_is_no_longer_in_the_log_is_an_error_without_a_reset(
    members: Members, log_writer: LogWriter, places: list[TopicPartition], by: str
) -> None:
    log_writer.send(members.topic, numbered(0, 10), 0)
    members.kind = GroupInput if by == "records" else BatchGroupInput
    member = members.join(Notes())
    assert len(read(member, 10)) == 10
    member.commit(dict.fromkeys(places, 10) | {places[1]: 0})
    member.close()
    log_writer.truncate(members.topic, 6)
    again = members.join(Notes(), auto_offset_reset="none")
    eventually(lambda: again.poll(0.1, 100) is not None and len(again.assignment) == 2, within_s=60)
    again.seek({places[0]: 3})
    expected = rf"There is no offset to start from in {members.topic}-0: .*; auto.offset.reset is none: set the offset"
    with pytest.raises(KafkaRequestError, match=expected):
        poll_for_long(again)


def test_other_logs_are_read_while_a_broker_does_not_return_the_start_of_one(
    members: Members, log_writer: LogWriter, places: list[TopicPartition]
) -> None:
    log_writer.send(members.topic, numbered(0, 10), 0)
    log_writer.truncate(members.topic, 6)
    with KafkaProxy(members.bootstrap) as proxy:
        notes = Notes()
        notes.begins = dict.fromkeys(places, 0)
        member = begun(members, notes, bootstrap_servers=proxy.bootstrap_servers)
        unanswered = proxy.on(ApiKey.LIST_OFFSETS, Action.HOLD_ANSWER, 1)
        eventually(lambda: member.poll(0.05, 100) is not None and unanswered.answered == 1)
        log_writer.send(members.topic, ["b"], 1)
        assert read(member, 1) == [(1, 0)]
        unanswered.release()
        assert read(member, 4) == [(0, n) for n in range(6, 10)]
        member.close()


def test_recreated_topic_is_read_from_its_beginning(
    members: Members, log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the new topic has the offset, and was led as often."""
    monkeypatch.setattr(group_batches, "SURE_S", 0.5)
    log_writer.send(members.topic, numbered(0, 3), 0)
    member = begun(members)
    assert len(read(member, 3)) == 3
    log_writer.recreate(members.topic, partitions=2)
    log_writer.send(members.topic, numbered(0, 5), 0)
    assert read(member, 5) == [(0, n) for n in range(5)]


def test_records_of_a_recreated_topic_are_read_although_the_client_takes_over(
    members: Members, log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow moment makes it do so before the reader has learned that the topic is another one."""
    log_writer.send(members.topic, numbered(0, 3), 0)
    first = begun(members)
    assert len(read(first, 3)) == 3
    commit_late(members, first, log_writer, 3)
    monkeypatch.setattr(group_batches, "_LONG_S", -60.0)
    monkeypatch.setattr(BatchReader, "read", lambda *_: Read())  # it has not been answered yet
    second = members.join(Notes())
    assert read(second, 5) == [(0, n) for n in range(5)]
    assert client_fetches(second)
    second.commit({TopicPartition(members.topic, 0): 5})


@pytest.mark.parametrize("epoch", [0, -1])
def test_member_continues_at_an_offset_copied_from_another_cluster(
    members: Members, log_writer: LogWriter, epoch: int
) -> None:
    """Its metadata was copied with it, and has the id that the topic has in the other cluster."""
    place = TopicPartition(members.topic, 0)
    log_writer.send(members.topic, numbered(0, 5), 0)
    note = '{"fencepost.topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}'
    commit_for(members.offsets(), [GroupOffset(*place, 3, "" if epoch == 0 else note, epoch)])
    assert read(members.join(Notes()), 2) == [(0, 3), (0, 4)]


def test_unreachable_broker_is_awaited_without_an_error(members: Members, log_writer: LogWriter) -> None:
    log_writer.send(members.topic, numbered(0, 5), 0)
    with KafkaProxy(members.bootstrap) as proxy:
        member = begun(members, bootstrap_servers=proxy.bootstrap_servers)
        lost = proxy.on(ApiKey.FETCH, Action.RESET, 3)
        eventually(lambda: member.poll(0.05, 100) is not None and lost.met == 3)
        assert read(member, 5) == [(0, n) for n in range(5)]
        member.close()


def test_passing_error_of_the_reader_is_waited_out(
    members: Members, log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_writer.send(members.topic, numbered(0, 5), 0)
    ask, refused = BatchReader.read, [KafkaUnavailableError("for now")] * 2

    def refuse(*arguments: Any) -> Any:
        if refused:
            raise refused.pop()
        return ask(*arguments)

    monkeypatch.setattr(BatchReader, "read", refuse)
    assert read(members.join(Notes()), 5) == [(0, n) for n in range(5)]


def test_batch_with_a_wrong_checksum_is_an_error_that_names_the_batch(
    members: Members, log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_writer.send(members.topic, numbered(0, 5), 0)
    monkeypatch.setattr(fetched_queue, "Answered", damaged)
    member = members.join(Notes())
    with pytest.raises(CorruptBatchError, match=rf"{members.topic}-0: The batch at offset 0 .*checksum"):
        poll_for_long(member)


def test_records_read_ahead_wait_for_the_next_poll(members: Members, log_writer: LogWriter) -> None:
    member = begun(members)
    for partition in range(2):
        log_writer.send(members.topic, numbered(0, 5), partition)
    waiting = fetcher_of(member)._waiting
    eventually(lambda: member.read_ahead(10) or len(waiting) == 10, within_s=60)
    assert len(member.poll(0, 10)) == 10


def test_a_failure_of_reading_ahead_is_raised_by_the_next_poll(
    members: Members, log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = begun(members)
    monkeypatch.setattr(fetched_queue, "Answered", damaged)
    log_writer.send(members.topic, numbered(0, 5), 0)
    eventually(lambda: member.read_ahead(10) or fetcher_of(member)._waiting.failure is not None, within_s=60)
    with pytest.raises(CorruptBatchError, match="The batch at offset 0"):
        member.poll(0, 10)


@pytest.mark.parametrize("strategy", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_e14_late_member_loses_its_partitions_before_it_gets_waiting_records(
    members: Members, log_writer: LogWriter, strategy: str
) -> None:
    """Others may have had them meanwhile."""
    for partition in range(2):
        log_writer.send(members.topic, numbered(0, 3_000), partition)
    notes = Notes()
    settings = {"partition_assignment_strategy": f"org.apache.kafka.clients.consumer.{strategy}"}
    member = begun(members, notes, session_timeout_ms="6000", max_poll_interval_ms="6000", **settings)
    assert len(next_of(member, 3)) == 3
    member.read_ahead(3_000)
    assert len(fetcher_of(member)._waiting) > 0
    eventually(
        lambda: not Admin({"bootstrap.servers": members.bootstrap}).groups.describe(members.group).members, within_s=30
    )
    next_of(member, 500)
    assert [what for what, _ in notes.log] == ["assigned", "lost", "assigned"]


def test_resets_of_several_lost_positions_do_not_wait_for_each_other(
    members: Members, log_writer: LogWriter, places: list[TopicPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader of one does not answer."""
    for partition in range(2):
        log_writer.send(members.topic, numbered(0, 10), partition)
        log_writer.truncate(members.topic, 6, partition)
    notes = Notes()
    notes.begins = dict.fromkeys(places, 0)
    member = begun(members, notes)
    edges, may_answer = member._client.edges, threading.Event()

    def silent(place: TopicPartition, timeout_s: float) -> tuple[int, int]:
        if place == places[0] and not may_answer.is_set():
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return edges(place, timeout_s)

    monkeypatch.setattr(member._client, "edges", silent)
    assert read(member, 4) == [(1, n) for n in range(6, 10)]
    may_answer.set()
    assert read(member, 4) == [(0, n) for n in range(6, 10)]


def test_position_of_a_paused_partition_has_the_leader_epoch(
    members: Members, log_writer: LogWriter, places: list[TopicPartition]
) -> None:
    """Else nobody would notice that a log was cut below it (KIP-320)."""
    log_writer.send(members.topic, numbered(0, 10), 0)
    member = begun(members)
    assert len(next_of(member, 3)) == 3
    member.pause(member.assignment)
    member.pause([])
    assert reader_of(member)._positions.at[places[0]] == (3, 0)


# where the client fetches from then on


class Taker:
    """Polls a member, and notes what it gets of each partition; where it is assigned one again it goes on behind."""

    def __init__(self, member: GroupInput, notes: Notes) -> None:
        self.member, self.begins = member, notes.begins
        self.taken: dict[TopicPartition, list[int]] = {}

    def poll(self, most: int = 5) -> None:
        fetched = self.member.poll(0.02, most)
        for place, offset in zip(fetched.places, fetched.offsets, strict=True):
            self.taken.setdefault(place, []).append(offset)
            self.begins[place] = offset + 1

    def until(self, condition: Callable[[], object]) -> None:
        eventually(lambda: self.poll() is None and condition(), every_s=0, within_s=60)

    def until_all(self, **ends: int) -> None:
        wanted = {place: list(range(ends[f"p{place.partition}"])) for place in self.member.assignment}
        self.until(lambda: all(len(self.taken.get(p, ())) >= len(offsets) for p, offsets in wanted.items()))
        assert self.taken == wanted


@pytest.mark.parametrize("strategy", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_librdkafka_fetches_when_there_are_very_many_partitions(
    members: Members, log_writer: LogWriter, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that was paused in the client when it was taken away. A cooperative member keeps what it has."""
    monkeypatch.setattr(group_batches, "_MOST_PARTITIONS", 1)
    be_patient(monkeypatch)
    settings = {"partition_assignment_strategy": f"org.apache.kafka.clients.consumer.{strategy}"}
    for partition in range(2):
        log_writer.send(members.topic, numbered(0, 300), partition)
    second = members.join(Notes(), **settings)
    with Polling(lambda: second.poll(0.05, 1)):
        eventually(lambda: len(second.assignment) == 2, within_s=60)
        notes = Notes()
        first = members.join(notes, **settings)
        assert isinstance(first, BatchGroupInput)
        taker = Taker(first, notes)
        taker.until(lambda: sum(map(len, taker.taken.values())) > 20)
        assert not client_fetches(first)
    second.close()
    taker.until(lambda: len(first.assignment) == 2)
    assert client_fetches(first)
    for partition in range(2):
        log_writer.send(members.topic, numbered(300, 500), partition)
    taker.until_all(p0=500, p1=500)


@pytest.mark.parametrize("strategy", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_librdkafka_fetches_when_batches_are_small(
    members: Members,
    log_writer: LogWriter,
    places: list[TopicPartition],
    strategy: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It continues after the returned records; paused partitions stay paused, and later ones are read, too."""
    monkeypatch.setattr(group_batches, "_LOOK_AT", 50)
    be_patient(monkeypatch)
    settings = {"partition_assignment_strategy": f"org.apache.kafka.clients.consumer.{strategy}"}
    log_writer.send(members.topic, numbered(0, 100), 0)
    notes = Notes()
    first = begun(members, notes, **settings)
    taker = Taker(first, notes)
    taker.until(lambda: len(taker.taken.get(places[0], ())) == 100)
    assert not client_fetches(first)
    for n in range(100):
        log_writer.send(members.topic, [str(n)], 0)
        log_writer.send(members.topic, [str(n)], 1)
    taker.until(lambda: places[1] in taker.taken)
    first.pause(places[1:])
    taker.until(lambda: client_fetches(first) and len(taker.taken[places[0]]) == 200)
    paused_at = len(taker.taken[places[1]])
    taker.poll()
    assert len(taker.taken[places[1]]) == paused_at
    first.pause([])
    taker.until_all(p0=200, p1=100)
    second = members.join(Notes(), **settings)
    with Polling(lambda: second.poll(0.05, 1)):
        # One that is closed between the two rebalances of a cooperative move leaves by its session time-out.
        taker.until(lambda: len(first.assignment) == len(second.assignment) == 1)
    second.close()
    log_writer.send(members.topic, numbered(0, 20), 0)
    log_writer.send(members.topic, numbered(0, 20), 1)
    taker.until(lambda: len(first.assignment) == 2)
    taker.until_all(p0=220, p1=120)


def test_librdkafka_fetches_when_a_broker_cannot_be_connected_to(
    members: Members, log_writer: LogWriter, places: list[TopicPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It connects in threads of its own: nobody waits for one broker that is gone without a word."""
    for partition in range(2):
        log_writer.send(members.topic, numbered(0, 100), partition)
    leaders, connection, gone = Cluster.leaders, Cluster.connection, 1_000
    waited: list[float] = []

    def connected(cluster: Cluster, node: int, deadline_s: float) -> Any:
        if node < gone:
            return connection(cluster, node, deadline_s)
        waited.append(deadline_s)
        threading.Event().wait(_AWAY_S)
        raise LostError("no answer", is_sent=False)

    monkeypatch.setattr(batch_reader, "_CONNECT_S", 15.0)
    monkeypatch.setattr(group_batches, "_LONG_S", _AWAY_S / 3)
    monkeypatch.setattr(Cluster, "leaders", lambda *asked: [gone, *leaders(*asked)[1:]])
    monkeypatch.setattr(Cluster, "connection", connected)
    notes = Notes()
    member = members.join(notes)
    taker = Taker(member, notes)
    taker.until(lambda: set(taker.taken) == set(places))
    assert len(waited) == 1
    taker.until_all(p0=100, p1=100)


# its life


def test_a_closed_or_abandoned_member_keeps_no_connection(members: Members, log_writer: LogWriter) -> None:
    log_writer.send(members.topic, numbered(0, 5), 0)
    for leave in (BatchGroupInput.close, BatchGroupInput.abandon):
        member = begun(members)
        read(member, 1)
        connections = cluster_of(reader_of(member)).connections()
        assert connections
        leaving = threading.Thread(target=leave, args=(member,))
        leaving.start()
        leaving.join(30)
        assert all(connection.fileno() < 0 for connection in connections)
        member.close()
        assert not len(member.poll(0.1, 5)) if leave is BatchGroupInput.abandon else True


def test_e8_member_refuses_use_in_another_process(members: Members) -> None:
    member = members.join(Notes())
    member._guard.pid = os.getpid() + 1
    with pytest.raises(ForkedClientError):
        member.poll(0.1, 1)
    member._guard.pid = os.getpid()
