"""E20: producers with a transaction open over the input of a task are fenced before it begins, and no others."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import ReadTimeoutError
from fencepost.kafka.group import contributors
from fencepost.kafka.group.contributors import Contributors
from fencepost.kafka.group.group_admin import GroupAdmin, MemberRemoval
from fencepost.kafka.group.group_offsets import Contribution, contribution_of, inner_metadata
from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.kafka.group.memberless import memberless, read_stable
from fencepost.kafka.group.transactions import TransactionAdmin
from fencepost.kafka.read.group_input import GroupInput
from fencepost.kafka.setting.client_settings import sink_conf
from fencepost.kafka.value.position import GroupOffset, MemberGeneration
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from fencepost.transaction import StaleMemberError, TransactionalWriter, WriterFencedError, lane_ids
from fencepost.transaction.errors import CommitUnknownError
from fencepost.transaction.input_fence import Fenced, Signature
from fencepost.transaction.stable_positions import StablePositions

GONE = (WriterFencedError, CommitUnknownError)
LONG_S = 30.0


class InputFenceStage:
    """A group that reads three partitions of a topic, programs that process them, and a task that takes over."""

    def __init__(self, bootstrap: str, topic: str, make_writer: Callable[..., TransactionalWriter]) -> None:
        self.conf = {"bootstrap.servers": bootstrap}
        self.topic, self.group = topic, f"group-{topic}"
        self.out = f"{topic}-out"
        self.make_writer = make_writer
        self.fenced: list[Fenced] = []
        self.waiting: list[str] = []
        Admin(self.conf).topics.create(topic, partitions=3, replication=1)
        Admin(self.conf).topics.create(self.out, partitions=1, replication=1)
        read_stable(self.conf, self.group, LONG_S)  # a new broker has no coordinator of groups until one is asked for

    def place(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic, partition)

    def places(self, *partitions: int) -> list[TopicPartition]:
        return [self.place(partition) for partition in partitions]

    def producer(self, id_: str) -> TransactionalWriter:
        """A producer of the program, which commits as no member: as one for each partition did."""
        writer = self.make_writer(f"{self.topic}-{id_}")
        writer.open()
        return writer

    def produce(self, writer: TransactionalWriter) -> None:
        writer.send(self.out, b"x")
        writer.flush()

    def send(self, writer: TransactionalWriter, offsets: Mapping[int, int], group: str | None = None) -> None:
        """Have offsets pending in the writer's transaction."""
        self.produce(writer)
        asked = [GroupOffset(*self.place(partition), offset, "noted") for partition, offset in offsets.items()]
        writer.send_group_offsets(asked, memberless(group or self.group))

    def commit(self, writer: TransactionalWriter, offsets: Mapping[int, int]) -> None:
        self.send(writer, offsets)
        writer.commit()

    def positions(self, *own_ids: str, timeout_s: float = LONG_S, foreign: tuple[str, ...] = ()) -> StablePositions:
        return StablePositions(
            {**self.conf, "group.id": self.group},
            self.conf,
            own_ids,
            on_fenced=self.fenced.extend,
            on_waiting=self.waiting.append,
            timeout_s=timeout_s,
            foreign=foreign,
        )

    def read(self, *partitions: int, own_ids: tuple[str, ...] = (), membership: MemberGeneration | None = None) -> Any:
        found = self.positions(*own_ids).read(self.places(*partitions), membership)
        return {place.partition: committed.offset for place, committed in found.items()}

    def fenced_ids(self) -> dict[str, set[int]]:
        return {
            each.transactional_id.removeprefix(f"{self.topic}-"): {place.partition for place in each.places}
            for each in self.fenced
        }

    def other_group(self, *, shares_log: bool = True) -> str:
        """Return a group whose offsets are in the same partition of the same log, or in another one."""
        own = Contributors(self.conf)
        own.pending(self.group)
        count = Admin(self.conf).topics.partitions(contributors.TOPIC)
        own.close()
        assert count is not None
        wanted = contributors.partition_of(self.group, count)
        names = (f"{self.topic}-other-{n}" for n in itertools.count())
        return next(name for name in names if (contributors.partition_of(name, count) == wanted) is shares_log)


@pytest.fixture
def scene(kafka, topic_name: str, make_writer: Callable[..., TransactionalWriter]) -> InputFenceStage:
    made = InputFenceStage(kafka.bootstrap_servers, topic_name, make_writer)
    made.commit(made.producer("first"), {0: 5, 1: 6})
    return made


def test_e20_producer_with_open_offsets_of_the_input_is_fenced(
    scene: InputFenceStage,
) -> None:
    zombie = scene.producer("zombie")
    scene.send(zombie, {0: 50, 1: 60})
    found = scene.positions().read(scene.places(0))  # which begins to wait when everybody is fenced
    assert found[scene.place(0)].offset == 5
    assert scene.fenced_ids() == {"zombie": {0}}
    with pytest.raises(GONE):
        zombie.commit()
    assert scene.read(0, 1, 2) == {0: 5, 1: 6}


def test_e20_producer_is_awaited_and_not_fenced_while_its_commit_awaits_markers(
    scene: InputFenceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member commits before it gives a partition up, and goes on with others while the next one begins."""
    member = scene.producer("member")
    scene.send(member, {0: 9})
    describe = TransactionAdmin.describe

    def described(self: TransactionAdmin, ids: Any) -> Any:
        return {id_: replace(found, state="PrepareCommit") for id_, found in describe(self, ids).items()}

    monkeypatch.setattr(TransactionAdmin, "describe", described)
    found: dict[int, int] = {}
    thread = threading.Thread(target=lambda: found.update(scene.read(0)))
    thread.start()
    assert eventually(lambda: scene.waiting or scene.fenced, within_s=LONG_S)
    member.commit()
    thread.join(LONG_S)
    assert (found, scene.fenced) == ({0: 9}, [])


def test_e20_producer_is_not_fenced_when_it_is_already_in_its_next_transaction(
    scene: InputFenceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = scene.producer("member")
    scene.send(member, {0: 9})
    describe = TransactionAdmin.describe

    def later(self: TransactionAdmin, ids: Any) -> Any:
        monkeypatch.setattr(TransactionAdmin, "describe", describe)
        member.commit()
        scene.send(member, {1: 8})
        return describe(self, ids)

    monkeypatch.setattr(TransactionAdmin, "describe", later)
    assert scene.read(0) == {0: 9}
    assert scene.fenced == []
    member.commit()


def test_e20_offsets_of_a_fenced_producer_count_after_it_opens_again(scene: InputFenceStage) -> None:
    zombie = scene.producer("zombie")
    scene.send(zombie, {0: 50})
    scene.read(0)
    zombie.close()
    again = scene.producer("zombie")
    scene.commit(again, {0: 7})
    assert scene.read(0) == {0: 7}
    assert len(scene.fenced) == 1


def test_e20_producers_of_other_partitions_and_other_groups_are_not_fenced(scene: InputFenceStage) -> None:
    neighbour = scene.other_group()
    other, beside_it = scene.producer("other"), scene.producer("beside")
    scene.send(other, {1: 60})
    scene.send(beside_it, {0: 50}, group=neighbour)
    assert scene.read(0) == {0: 5}
    assert scene.fenced == []
    other.commit()
    beside_it.commit()
    assert scene.read(0, 1) == {0: 5, 1: 60}


def test_e20_pending_first_offset_is_awaited_and_not_read_as_missing(scene: InputFenceStage) -> None:
    own = scene.producer("own")
    scene.send(own, {2: 7})  # of the asker itself, which it does not fence
    found: dict[int, int] = {}
    thread = threading.Thread(target=lambda: found.update(scene.read(2, own_ids=(own.transactional_id,))))
    thread.start()
    assert eventually(lambda: scene.waiting, within_s=LONG_S)
    assert scene.topic in scene.waiting[0]
    own.commit()
    thread.join(LONG_S)
    assert found == {2: 7}
    assert scene.waiting[-1] == ""
    assert scene.fenced == []


def test_e20_read_of_positions_times_out_when_offsets_stay_pending(scene: InputFenceStage) -> None:
    own = scene.producer("own")
    scene.send(own, {0: 7})
    with pytest.raises(ReadTimeoutError, match=r"has not ended"):
        scene.positions(own.transactional_id, timeout_s=0.3).read(scene.places(0))
    own.commit()
    assert scene.read(0) == {0: 7}


@pytest.mark.parametrize("point", ["idle", "begun", "sent"])
def test_e20_producer_for_one_partition_is_fenced_at_each_step_of_a_transaction(
    scene: InputFenceStage, point: str
) -> None:
    zombie = scene.producer("old-1")
    scene.commit(zombie, {1: 10})
    if point == "begun":
        scene.produce(zombie)
    if point == "sent":
        scene.send(zombie, {1: 99})
    assert scene.read(1) == {1: 10}
    assert scene.fenced_ids() == {"old-1": {1}}
    with pytest.raises(GONE):
        scene.commit(zombie, {1: 100})
    assert scene.read(1) == {1: 10}


def test_e20_producer_for_one_partition_without_commits_is_found_by_its_name(
    scene: InputFenceStage,
) -> None:
    scene.commit(scene.producer("old-1"), {1: 10})
    silent, elsewhere = scene.producer("old-2"), scene.producer("old-0")
    scene.produce(silent)
    scene.produce(elsewhere)
    assert scene.read(2) == {}
    assert scene.fenced_ids() == {"old-2": {2}}
    with pytest.raises(GONE):
        scene.commit(silent, {2: 3})
    scene.commit(elsewhere, {0: 8})
    assert scene.read(0, 2, own_ids=(elsewhere.transactional_id,)) == {0: 8}


def test_e20_producer_of_another_group_with_a_similar_name_is_not_fenced(
    scene: InputFenceStage,
) -> None:
    scene.commit(scene.producer("old-1"), {1: 10})
    foreign = scene.producer("old-2")
    scene.send(foreign, {2: 3}, group=scene.other_group(shares_log=False))
    assert scene.read(2) == {}
    assert scene.fenced == []
    foreign.commit()


def test_e20_foreign_producer_is_fenced_for_its_offsets_and_not_for_its_name(
    scene: InputFenceStage,
) -> None:
    scene.commit(scene.producer("old-1"), {1: 10})
    foreign = scene.producer("old-2")
    scene.produce(foreign)
    positions = scene.positions(foreign=(foreign.transactional_id,))
    assert positions.read(scene.places(2)) == {}
    assert scene.fenced == []
    foreign.commit()
    scene.send(foreign, {2: 3})
    assert positions.read(scene.places(2)) == {}
    assert scene.fenced_ids() == {"old-2": {2}}


def test_e20_producer_old_12_is_fenced_when_old_1_is_declared_foreign(
    scene: InputFenceStage,
) -> None:
    scene.commit(scene.producer("old-0"), {0: 10})
    scene.produce(scene.producer("old-12"))
    positions = scene.positions(foreign=(f"{scene.topic}-old-1",))
    assert positions.read(scene.places(12)) == {}
    assert scene.fenced_ids() == {"old-12": {12}}


def test_e20_producer_is_fenced_again_when_it_has_had_the_partition_again(
    scene: InputFenceStage,
) -> None:
    positions = scene.positions()
    scene.commit(scene.producer("old-1"), {1: 10})
    for offset in (10, 20):
        assert positions.read(scene.places(1))[scene.place(1)].offset == offset
        assert positions.read(scene.places(1))[scene.place(1)].offset == offset
        again = scene.producer("old-1")  # the partition is its again
        scene.commit(again, {1: 20})
    assert len(scene.fenced) == 2  # once each time


def test_e20_task_is_not_fenced_for_a_partition_that_it_has_given_up(scene: InputFenceStage) -> None:
    """Its partition was revoked, and it goes on with others: the group refuses it if it is stale (E19)."""
    task, signature = scene.producer("task-1"), Signature(Contributors(scene.conf))
    scene.produce(task)
    task.commit(
        group_offsets=signature.sign(task, [GroupOffset(*scene.place(1), 9)]), group_metadata=memberless(scene.group)
    )
    scene.send(task, {0: 8})
    assert scene.read(1) == {1: 9}
    assert scene.fenced == []
    task.commit()


def test_e20_producer_of_an_offset_is_noted_within_the_same_transaction(scene: InputFenceStage) -> None:
    task, signature = scene.producer("task"), Signature(Contributors(scene.conf))
    offsets = signature.sign(task, [GroupOffset(*scene.place(0), 8, "noted")])
    survey = GroupSurvey({**scene.conf, "group.id": scene.group}, timeout_s=LONG_S)

    def note() -> str:
        return survey.metadata(scene.group, scene.places(0))[scene.place(0)]

    scene.produce(task)
    task.send_group_offsets(offsets, memberless(scene.group))
    assert note() == "noted"
    assert contribution_of(note()) is None
    (pending,) = Contributors(scene.conf).pending(scene.group)
    assert pending.is_ours
    assert pending.offsets == {scene.place(0): 8}
    task.commit()
    named = eventually(lambda: contribution_of(note()), within_s=LONG_S)
    assert named == Contribution(task.transactional_id, pending.producer_id, pending.producer_epoch)
    assert inner_metadata(note()) == "noted"
    survey.close()


def test_e20_recorded_producer_is_fenced_if_pending_offsets_cannot_be_read(
    scene: InputFenceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie = scene.producer("task")
    signature = Signature(Contributors(scene.conf))
    scene.produce(zombie)
    zombie.commit(
        group_offsets=signature.sign(zombie, [GroupOffset(*scene.place(0), 8)]), group_metadata=memberless(scene.group)
    )
    second = scene.make_writer(lane_ids(zombie.transactional_id)[1])
    second.open()
    scene.send(second, {0: 9})

    def denied(*_: Any) -> Any:
        raise contributors.denied()

    monkeypatch.setattr(Contributors, "pending", denied)
    assert scene.read(0) == {0: 8}
    assert [each.transactional_id for each in scene.fenced] == [second.transactional_id]
    with pytest.raises(GONE):
        second.commit()
    scene.produce(zombie)
    zombie.commit()


def test_last_producer_of_each_partition_is_found_in_the_offsets_topic(scene: InputFenceStage) -> None:
    scene.commit(scene.producer("second"), {1: 60, 2: 70})
    scene.send(scene.producer("third"), {2: 71})
    last = Contributors(scene.conf).last(scene.group)
    names = {
        place.partition: str(each.transactional_id).removeprefix(f"{scene.topic}-") for place, each in last.items()
    }
    assert names == {0: "first", 1: "second", 2: "third"}
    assert [place.partition for place, each in last.items() if each.is_pending] == [2]


class Member:
    """A member of the group that reads its positions as a stream task does. An assignee that takes note."""

    def __init__(self, scene: InputFenceStage, name: str) -> None:
        self.assignment: Mapping[TopicPartition, int] = {}
        self.begins: list[Mapping[TopicPartition, int]] = []
        self.writer = scene.producer(name)
        own = lane_ids(self.writer.transactional_id)
        settings = {**scene.conf, "heartbeat.interval.ms": "300"}
        self.conf: dict[str, Any] = dict(sink_conf(settings, scene.group, name).conf)
        positions = StablePositions(self.conf, scene.conf, own, on_fenced=scene.fenced.extend)
        self.input = GroupInput(self.conf, [scene.topic], self, positions=positions)

    def assigned(self, positions: Mapping[TopicPartition, int], fresh: Any) -> Mapping[TopicPartition, int]:
        self.begins.append(dict(positions))
        return {}

    def revoked(self, partitions: Any) -> None: ...

    def lost(self, partitions: Any) -> None: ...

    def join(self) -> Mapping[TopicPartition, int]:
        """Return where the member begins, once all partitions are assigned to it again."""
        seen = len(self.begins)
        eventually(lambda: self.input.poll(0.05, 1) is None or len(self.begins) > seen, within_s=LONG_S)
        return self.begins[-1]


@pytest.fixture
def make_member(scene: InputFenceStage) -> Iterator[Callable[[str], Member]]:
    made: list[Member] = []

    def make(name: str) -> Member:
        made.append(Member(scene, name))
        return made[-1]

    yield make
    for each in reversed(made):  # who has joined last is waited for by those before
        each.input.close()


def test_e20_member_that_takes_over_fences_the_removed_one_and_not_vice_versa(
    scene: InputFenceStage, make_member: Callable[[str], Member]
) -> None:
    one = make_member("one")
    assert one.join() == {scene.place(0): 5, scene.place(1): 6, scene.place(2): 0}
    scene.produce(one.writer)
    one.writer.send_group_offsets([GroupOffset(*scene.place(0), 50)], one.input.metadata)
    stale = one.input.generation
    MemberRemoval(LONG_S).remove(one.conf, lambda: True)  # it is taken for dead, and stands still
    two = make_member("two")
    assert two.join() == {scene.place(0): 5, scene.place(1): 6, scene.place(2): 0}
    assert scene.fenced_ids() == {"one": {0}}
    scene.produce(two.writer)
    two.writer.send_group_offsets([GroupOffset(*scene.place(0), 7)], two.input.metadata)
    with pytest.raises(GONE):
        one.writer.commit()
    assert stale is not None
    with pytest.raises(StaleMemberError):  # it wakes up, and may not fence its successor
        scene.read(0, membership=MemberGeneration(stale, "one"))
    two.writer.commit()
    assert len(scene.fenced) == 1
    assert scene.read(0) == {0: 7}


def test_member_is_current_only_in_its_own_generation(
    scene: InputFenceStage, make_member: Callable[[str], Member]
) -> None:
    one = make_member("one")
    one.join()
    generation = one.input.generation
    (member,) = GroupAdmin(one.conf, timeout_s=LONG_S).describe(scene.group).members
    assert generation is not None
    survey = GroupSurvey(one.conf, timeout_s=LONG_S)
    assert survey.is_current(scene.group, generation, member.member_id)
    assert not survey.is_current(scene.group, generation - 1, member.member_id)
    assert not survey.is_current(scene.group, generation, "another")
    survey.close()
