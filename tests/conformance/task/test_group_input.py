"""A member of a consumer group, on the real broker: what it hands over, and what it may commit."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.api import FencedError, RetriableError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.log_offsets import LogOffsets
from fencepost.kafka.errors import KafkaRequestError
from fencepost.kafka.group.group_admin import MemberRemoval
from fencepost.kafka.group.group_offsets import GroupInUseError
from fencepost.kafka.read import client_fetcher, doubt, group_batches, group_input
from fencepost.kafka.read.group_batches import BatchGroupInput
from fencepost.kafka.read.group_input import GroupInput
from fencepost.kafka.read.known_positions import ReadLog, assigned_log
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.batch_topic import ODD_HEADERS, odd_records, write_batch
from support.group_commit import commit_for
from support.group_members import Members, Notes, commit_late, read
from support.log_writer import LogWriter
from support.proxy import Action, ApiKey, KafkaProxy

KINDS = {"records": GroupInput, "batches": BatchGroupInput}


@pytest.fixture(params=KINDS)
def members(kafka, topic_name: str, request: pytest.FixtureRequest) -> Iterator[Members]:
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=2, replication=1)
    made = Members(kafka.bootstrap_servers, topic_name, KINDS[request.param])
    yield made
    for each in reversed(made.made):  # who was removed gets in again, and out, when nobody else is waited for
        each.close()


@pytest.fixture
def produce(kafka, topic_name: str) -> Callable[..., None]:
    def write(count: int, partition: int = 0, **conf: str) -> None:
        settings = {"bootstrap.servers": kafka.bootstrap_servers, **{k.replace("_", "."): v for k, v in conf.items()}}
        producer = Producer(settings)
        if conf:
            producer.init_transactions(30)
            producer.begin_transaction()
        for number in range(count):
            producer.produce(topic_name, str(number).encode(), partition=partition)
        producer.commit_transaction(30) if conf else producer.flush(30)

    return write


def test_the_name_of_a_header_that_is_not_utf_8_is_read_as_java_reads_it(members: Members) -> None:
    write_batch(members.bootstrap, members.topic, odd_records())
    member = members.join(Notes())
    found: list[Any] = []

    def is_read() -> bool:
        fetched = member.poll(0.1, 10)
        found.extend(map(tuple, fetched.headers or [()] * len(fetched)))
        return len(found) == len(ODD_HEADERS)

    eventually(is_read, within_s=60)
    assert found == ODD_HEADERS


@pytest.mark.parametrize("is_whole", [True, False])
def test_topic_to_be_read_whole_begins_at_its_earliest_record(members: Members, produce: Any, is_whole: bool) -> None:
    produce(5)
    notes = Notes()
    member = members.join(notes, [members.topic] if is_whole else [], auto_offset_reset="latest")
    eventually(lambda: member.poll(0.1, 1) is None or notes.log)
    assert notes.log[0][1][TopicPartition(members.topic, 0)] == (0 if is_whole else 5)


@pytest.mark.parametrize("is_whole", [True, False])
def test_rest_of_a_topic_to_be_read_whole_is_read_when_its_position_is_gone(
    members: Members, log_writer: LogWriter, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client fetches: what reads batches goes there itself."""
    monkeypatch.setattr(group_batches, "_MOST_PARTITIONS", 1)
    place, notes = TopicPartition(members.topic, 0), Notes()
    log_writer.send(members.topic, [str(n) for n in range(5)])
    with closing(members.join(notes, auto_offset_reset="earliest")) as first:
        eventually(lambda: first.poll(0.1, 100) is None or notes.log)
        first.commit({place: 1})
    log_writer.truncate(members.topic, 3)
    member = members.join(Notes(), [members.topic if is_whole else ""], auto_offset_reset="latest")
    seen: list[int] = []

    def is_next_seen() -> bool:
        """Write until it is read: who goes on at the latest record has to be there first."""
        log_writer.send(members.topic, ["5"])
        seen.extend(int(value) for value in member.poll(0.3, 100).values)
        return 5 in seen

    eventually(is_next_seen, within_s=60)
    assert [n for n in seen if n < 5] == ([3, 4] if is_whole else [])


def test_log_that_was_cut_while_the_group_was_away_is_read_from_the_cut(
    members: Members, produce: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client fetches. After the records there is a marker, which it has read, too."""
    monkeypatch.setattr(group_batches, "_MOST_PARTITIONS", 1)
    monkeypatch.setattr(doubt, "SURE_S", 0.2)
    place = TopicPartition(members.topic, 0)
    produce(5, transactional_id=f"p-{members.topic}")
    with closing(members.join(Notes(), auto_offset_reset="earliest")) as first:
        eventually(lambda: first.poll(0.05, 10).ends.get(place) == 6, within_s=60)
        first.commit({place: 6})
    (committed,) = members.offsets().read_with_metadata()
    assert assigned_log(committed) == ReadLog(6, topic_id_of(members), 0, 5)
    monkeypatch.setattr(LogOffsets, "ends_of_epochs", lambda _, epochs, *__: dict.fromkeys(epochs, 3))
    second = members.join(Notes(), auto_offset_reset="latest")
    assert read(second, 2) == [(0, 3), (0, 4)]
    second.commit({place: 5})
    (committed,) = members.offsets().read_with_metadata()
    assert assigned_log(committed) == ReadLog(5, topic_id_of(members), 0, 5)


def topic_id_of(members: Members) -> str:
    with closing(Admin({"bootstrap.servers": members.bootstrap})) as admin:
        found = admin.topics.get(members.topic)
    assert found is not None
    return found.id


def test_member_begins_at_the_earliest_and_continues_at_the_groups_offsets(members: Members, produce: Any) -> None:
    produce(5)
    first, notes = Notes(), Notes()
    member = members.join(first)
    assert read(member, 5) == [(0, n) for n in range(5)]
    places = {TopicPartition(members.topic, 0): 0, TopicPartition(members.topic, 1): 0}
    assert first.log[0] == ("assigned", places)
    assert first.fresh == set(places)
    member.commit({TopicPartition(members.topic, 0): 3})
    member.close()
    assert first.log[-1] == ("revoked", set(places))
    again = members.join(notes)
    assert read(again, 2) == [(0, 3), (0, 4)]
    assert notes.fresh == {TopicPartition(members.topic, 1)}
    assert members.offsets().read() == {TopicPartition(members.topic, 0): 3}


@pytest.mark.parametrize("note", ["abc", "x" * 1000])
def test_member_continues_at_offsets_with_metadata_of_another_program(
    members: Members, produce: Any, note: str
) -> None:
    """Such as Kafka Streams: its notes do not end with a zero, as those of librdkafka do."""
    produce(5)
    commit_for(members.offsets(), [GroupOffset(members.topic, 0, 3, note)])
    member = members.join(Notes())
    assert read(member, 2) == [(0, 3), (0, 4)]
    member.commit({TopicPartition(members.topic, 0): 5})


@pytest.mark.parametrize(("resets_to", "skipped"), [("earliest", 0), ("latest", 2)])
def test_records_of_a_recreated_topic_are_skipped_only_with_reset_to_latest(
    members: Members, produce: Any, resets_to: str, skipped: int
) -> None:
    """A broker deletes what groups have committed of a topic with the topic: there is no position any more."""
    place, notes = TopicPartition(members.topic, 0), Notes()
    produce(5)
    with closing(members.join(notes, auto_offset_reset=resets_to)) as member:
        eventually(lambda: member.poll(0.1, 100) is None or notes.log)
        member.commit({place: 5})
    with closing(LogWriter(members.bootstrap)) as writer:
        writer.recreate(members.topic)
    eventually(lambda: not members.offsets().read(), within_s=60)
    produce(2)
    again, begun = Notes(), {place: skipped}
    member = members.join(again, auto_offset_reset=resets_to)
    eventually(lambda: member.poll(0.1, 1) is None or again.log, within_s=60)
    assert again.log[0] == ("assigned", begun)


def test_records_of_a_recreated_topic_are_read_after_a_late_commit(
    members: Members, produce: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new topic has the offset, with the same leader epoch."""
    monkeypatch.setattr(group_batches, "SURE_S", 0.5)
    monkeypatch.setattr(group_batches, "_LONG_S", 60.0)
    produce(3)
    first = members.join(Notes())
    assert len(read(first, 3)) == 3
    with closing(LogWriter(members.bootstrap)) as writer:
        commit_late(members, first, writer, 3)
    second = members.join(Notes())
    assert read(second, 5) == [(0, n) for n in range(5)]
    assert members.kind is BatchGroupInput or second.stored() == {}  # nothing to go on from if a flush fails


def test_nothing_is_committed_of_a_topic_that_was_recreated_while_it_was_read(
    members: Members, produce: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka goes on at the same offset in the new topic. A reader of batches begins at the first record itself."""
    monkeypatch.setattr(group_batches, "SURE_S", 0.5)
    monkeypatch.setattr(group_batches, "_LONG_S", 60.0)
    monkeypatch.setattr(group_input, "_IDS_EVERY_S", 3600.0)
    place = TopicPartition(members.topic, 0)
    produce(3)
    member = members.join(Notes())
    assert len(read(member, 3)) == 3
    member.commit({place: 3})
    check = member.topics_check()
    check()
    with closing(LogWriter(members.bootstrap)) as writer:
        writer.recreate(members.topic, partitions=2)
        writer.send(members.topic, [str(n) for n in range(5)], 0)
    if members.kind is BatchGroupInput:
        assert read(member, 5) == [(0, n) for n in range(5)]
        return
    assert read(member, 2)
    with pytest.raises(RetriableError, match="created again"):
        check()  # of what was read before: a transaction that has it is not committed yet
    with pytest.raises(RetriableError, match="created again"):
        member.topics_check()()
    with pytest.raises(RetriableError, match="created again"):
        member.commit({place: 5})
    with pytest.raises(RetriableError, match="created again"):
        member.poll(0.1, 100)
    member.close()
    assert read(members.join(Notes()), 5) == [(0, n) for n in range(5)]


def test_members_without_partitions_get_those_of_a_recreated_topic(
    members: Members, produce: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka joins again only if it has seen the number of partitions change, and it asks rarely here."""
    monkeypatch.setattr(group_input, "_IDS_EVERY_S", 0.2)
    rare = {"topic_metadata_refresh_interval_ms": "600000"}
    produce(3)
    leader, other = members.join(Notes(), **rare), members.join(Notes(), **rare)
    eventually(lambda: leader.poll(0.05, 1) is None or other.poll(0.05, 1) is None or len(leader.assignment) == 1)
    with closing(LogWriter(members.bootstrap)) as writer:
        writer.admin.topics.delete([members.topic])
        eventually(lambda: writer.admin.topics.get(members.topic) is None, within_s=60)
        other.close()
        eventually(lambda: leader.poll(0.05, 1) is None or not leader.assignment, within_s=60)
        writer.admin.topics.create(members.topic, partitions=2, replication=1)
        writer.send(members.topic, [str(n) for n in range(5)], 0)
    assert read(leader, 5) == [(0, n) for n in range(5)]


def test_generation_is_the_assignments_and_grows_with_each_new_owner(members: Members, produce: Any) -> None:
    produce(1)
    first, second = Notes(), Notes()
    one = members.join(first)
    assert one.generation is None
    eventually(lambda: one.poll(0.1, 1) is None or first.log)
    begun = one.generation
    assert begun is not None
    assert begun > 0
    two = members.join(second)
    eventually(lambda: one.poll(0.05, 1) is None or two.poll(0.05, 1) is None or len(second.log) == 1)
    eventually(lambda: one.poll(0.05, 1) is None or two.poll(0.05, 1) is None or len(one.assignment) == 1)
    eventually(lambda: one.poll(0.05, 1) is None or two.poll(0.05, 1) is None or one.generation == two.generation)
    later = two.generation
    assert later is not None
    assert later > begun
    one.commit(dict.fromkeys(one.assignment, 0))
    one.close()
    assert one.generation == later, "as captured: who has left learns of no other"
    eventually(lambda: two.poll(0.1, 1) is None or len(two.assignment) == 2)
    assert two.generation is not None
    assert two.generation > later
    left = two.generation
    two.close()
    third = Notes()
    three = members.join(third)
    eventually(lambda: three.poll(0.1, 1) is None or third.log)
    assert three.generation is not None
    assert three.generation > left, "a group that has offsets goes on counting"


def test_assignment_callback_chooses_the_starting_offsets(members: Members, produce: Any) -> None:
    produce(5)
    notes = Notes()
    notes.begins = {TopicPartition(members.topic, 0): 4}
    member = members.join(notes)
    assert read(member, 1) == [(0, 4)]
    member.seek({TopicPartition(members.topic, 0): 1})
    assert read(member, 4) == [(0, n) for n in range(1, 5)]


def test_end_after_transaction_markers_is_reported(members: Members, produce: Any) -> None:
    produce(3, transactional_id=f"{members.topic}-t")
    member = members.join(Notes())
    ends: dict[TopicPartition, int] = {}

    def reached() -> bool:
        ends.update(member.poll(0.1, 100).ends)
        return ends.get(TopicPartition(members.topic, 0)) == 4 and not ends.get(TopicPartition(members.topic, 1))

    eventually(reached, within_s=60)


def test_edges_of_a_log_are_those_of_committed_data(members: Members, produce: Any) -> None:
    produce(3, transactional_id=f"{members.topic}-t")
    first, second = TopicPartition(members.topic, 0), TopicPartition(members.topic, 1)
    member = members.join(Notes())
    # A commit is answered before its marker is in the log.
    eventually(lambda: member.edges([second, first]) == {first: (0, 4), second: (0, 0)})
    assert member.edges([]) == {}


def test_offsets_of_a_group_cannot_be_changed_while_it_has_members(members: Members, produce: Any) -> None:
    produce(5)
    member = members.join(Notes())
    place = TopicPartition(members.topic, 0)
    assert len(read(member, 5)) == 5
    member.commit({place: 5})
    offsets = members.offsets()
    for change in (lambda: offsets.alter({place: 1}), lambda: offsets.forget([place]), offsets.delete):
        with pytest.raises(GroupInUseError):
            change()
    member.close()
    offsets.alter({place: 1})
    assert offsets.read() == {place: 1}
    offsets.forget([place])
    offsets.delete()
    offsets.delete()
    assert offsets.read() == {}


def test_e10_former_member_commits_nothing(members: Members, produce: Any) -> None:
    """A group that is empty takes a commit without a generation from anybody."""
    produce(5)
    notes = Notes()
    member = members.join(notes, session_timeout_ms="6000", max_poll_interval_ms="6000")
    assert len(read(member, 5)) == 5
    place = TopicPartition(members.topic, 0)
    member.commit({place: 1})
    group = Admin({"bootstrap.servers": members.bootstrap})
    eventually(lambda: not group.groups.describe(members.group).members, within_s=60)  # it has not polled for too long
    with pytest.raises(FencedError, match="no longer a member"):
        member.commit({place: 5})
    assert members.offsets().read() == {place: 1}
    member.poll(0.1, 100)
    eventually(lambda: member.poll(0.1, 100) is not None and "lost" in dict(notes.log), within_s=60)


def test_partition_is_committed_before_it_moves_to_the_next_member(members: Members, produce: Any) -> None:
    """Nobody is given what somebody else has put: the revocation is granted when the callback returns."""
    produce(3, partition=0)
    produce(3, partition=1)
    one, other = Notes(), Notes()
    first = members.join(one)
    assert len(read(first, 6)) == 6
    both = {TopicPartition(members.topic, n): 3 for n in range(2)}
    one.on_revoked = lambda places: first.commit({place: both[place] for place in places})
    second = members.join(other)
    stop = threading.Event()

    def keep_polling() -> None:
        while not stop.is_set():
            first.poll(0.05, 100)

    thread = threading.Thread(target=keep_polling)
    thread.start()
    try:
        eventually(lambda: second.poll(0.1, 100) is not None and "assigned" in dict(other.log), within_s=60)
    finally:
        stop.set()
        thread.join()
    positions = next(entry[1] for entry in other.log if entry[0] == "assigned")
    assert set(positions.values()) == {3}


def test_a_removed_member_is_fenced_and_the_others_continue_at_once(members: Members, produce: Any) -> None:
    """A process that is gone says nothing; here one that does not notice, and has its session for long yet."""
    produce(3, partition=0)
    produce(3, partition=1)
    patient = {"session_timeout_ms": "45000", "max_poll_interval_ms": "45000"}
    left = members.join(Notes(), client_id="left", **patient)
    assert len(read(left, 6)) == 6
    stays = members.join(Notes(), client_id="left-1", **patient)  # another's name that begins like it

    def divided() -> bool:
        left.poll(0.05, 100)
        stays.poll(0.05, 100)
        return len(left.assignment) == len(stays.assignment) == 1

    eventually(divided, within_s=60)
    place = next(iter(left.assignment))
    removal, conf = MemberRemoval(30), members.conf(client_id="left")
    removal.remove(conf, lambda: False)
    left.commit({place: 1})
    began = time.monotonic()
    removal.remove(conf, lambda: True)
    with pytest.raises((FencedError, KafkaRequestError)):
        left.commit({place: 2})
    eventually(lambda: stays.poll(0.1, 100) is not None and len(stays.assignment) == 2, within_s=60)
    print(f"the other member had all of it after {time.monotonic() - began:.1f} s")
    assert members.offsets().read()[place] == 1


def test_member_that_leaves_during_its_join_delays_no_other(members: Members) -> None:
    """A broker gives an id to whoever joins without one, and lets no rebalance end until it has come back with it."""
    stays = members.join(Notes())
    eventually(lambda: stays.poll(0.05, 100) is not None and len(stays.assignment) == 2, within_s=60)
    with KafkaProxy(members.bootstrap) as proxy:
        answer = proxy.on(ApiKey.JOIN_GROUP, Action.HOLD_ANSWER, 1)
        hasty = members.join(Notes(), bootstrap_servers=proxy.bootstrap_servers, session_timeout_ms="45000")
        eventually(lambda: hasty.poll(0.01, 100) is not None and answer.answered == 1, within_s=60)
        leaving = threading.Thread(target=hasty.close)
        leaving.start()
        leaving.join(0.3)
        answer.release()
        leaving.join(30)
    began, second = time.monotonic(), members.join(Notes())

    def divided() -> bool:
        stays.poll(0.05, 100)
        second.poll(0.05, 100)
        return len(stays.assignment) == len(second.assignment) == 1

    eventually(divided, within_s=25)
    print(f"divided anew after {time.monotonic() - began:.1f} s")


def test_paused_partition_is_fetched_when_it_is_assigned_again(members: Members, produce: Any) -> None:
    """The client keeps it paused over a rebalance, and nobody would resume it."""
    produce(3, partition=0)
    produce(3, partition=1)
    notes = Notes()
    first = members.join(notes)
    assert len(read(first, 6)) == 6
    first.pause(first.assignment)
    second = members.join(Notes())

    def divided() -> bool:
        first.poll(0.05, 100)
        second.poll(0.05, 100)
        return len(first.assignment) == len(second.assignment) == 1

    eventually(divided, within_s=60)
    second.close()
    eventually(lambda: first.poll(0.05, 100) is not None and len(first.assignment) == 2, within_s=60)
    produce(3, partition=0)
    produce(3, partition=1)
    found = set()

    def fetched_of_both() -> bool:
        found.update(place.partition for place in first.poll(0.1, 100).places)
        return found == {0, 1}

    eventually(fetched_of_both, within_s=60)


def test_deleted_partition_does_not_prevent_commits_of_others(members: Members, produce: Any) -> None:
    produce(3)
    member = members.join(Notes())
    assert len(read(member, 3)) == 3
    place, gone = TopicPartition(members.topic, 0), TopicPartition(f"{members.topic}-gone", 0)
    assert member.commit({place: 2, gone: 5}) == {place: 2}
    assert members.offsets().read() == {place: 2}


@pytest.mark.parametrize("members", ["records"], indirect=True)
@pytest.mark.parametrize("chunk", [500, 2])
def test_records_fetched_before_a_revocation_are_not_returned(
    members: Members, produce: Any, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client may take back a partition, and give it again, between the first record of a poll and the rest."""
    monkeypatch.setattr(client_fetcher, "CHUNK", chunk)
    produce(5, partition=0)
    produce(5, partition=1)
    notes = Notes()
    member = members.join(notes)
    assert len(read(member, 1)) >= 1
    consumer = member._client.consumer
    gone, kept = (TopicPartition(members.topic, n) for n in range(2))

    class Between:
        """The client, to which a revocation comes within a poll."""

        def __getattr__(self, name: str) -> Any:
            return getattr(consumer, name)

        def poll(self, timeout_s: float) -> Any:
            message = consumer.poll(timeout_s)
            given.update([] if message is None else [message.partition()])
            return message

        def consume(self, count: int, timeout_s: float) -> list[Any]:
            member._assignment.revoked.add(gone)
            messages = list(consumer.consume(count, timeout_s))
            given.update(message.partition() for message in messages)
            return messages

    given: set[int] = set()
    member.seek({gone: 0, kept: 0})
    member._client.consumer = Between()
    found: list[tuple[int, int]] = []
    deadline = time.monotonic() + 60
    while not ((1, 4) in found and gone.partition in given) and time.monotonic() < deadline:
        fetched: Fetched = member.poll(0.1, 100)
        found += [(place.partition, offset) for place, offset in zip(fetched.places, fetched.offsets, strict=True)]
    member._client.consumer = consumer
    assert [n for p, n in found if p == 1] == list(range(5))
    assert [n for p, n in found if p == 0] == []
    assert sorted(set(read(member, 5))) == [(0, n) for n in range(5)]  # from its begin, without a gap
