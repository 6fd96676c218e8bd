"""What an epoch is made of, and that whoever comes next finds the same one."""

import random

import pytest

from fencepost.api import Epoch, OffsetRange
from fencepost.record import TopicPartition
from fencepost.task.sink.epoch_plan import (
    COMMIT_METADATA_MAX_BYTES,
    EPOCH_METADATA_MAX_BYTES,
    EpochMetadata,
    EpochOffset,
    OpenEpoch,
    all_begun,
    begun,
    halved,
    has_room,
    planned,
    tokens,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def offsets_of(**offsets: int) -> dict[TopicPartition, EpochOffset]:
    places = {"a0": A0, "a1": A1, "b0": B0}
    return {places[name]: EpochOffset(offset) for name, offset in offsets.items()}


def test_epoch_covers_the_committed_offsets_up_to_the_ends() -> None:
    plan = planned(offsets_of(a0=5, a1=7, b0=0), {A0: 9, A1: 7, B0: 2}, 100)
    assert plan is not None
    assert plan == OpenEpoch(Epoch(1, (OffsetRange("a", 0, 5, 9), OffsetRange("b", 0, 0, 2)), plan.epoch.id))


def test_epoch_numbers_continue_after_those_known_to_the_store() -> None:
    plan = planned(offsets_of(a0=5), {A0: 9}, 100, 57)
    assert plan is not None
    assert plan.epoch.number == 58
    assert plan.with_number(60) == OpenEpoch(Epoch(60, plan.epoch.ranges, plan.epoch.id))


def test_there_is_no_epoch_without_new_records() -> None:
    assert planned(offsets_of(a0=5), {A0: 5}, 100) is None
    assert planned(offsets_of(a0=5), {}, 100) is None


def test_limited_epoch_takes_a_share_of_each_partition() -> None:
    plan = planned(offsets_of(a0=0, a1=0, b0=0), {A0: 9_000, A1: 1_000, B0: 1}, 1_000)
    assert plan is not None
    assert [each.end - each.start for each in plan.epoch.ranges] == [899, 99, 1]


@pytest.mark.parametrize("seed", range(20))
def test_open_epoch_is_found_after_a_takeover(seed: int) -> None:
    drawn = random.Random(seed)
    held = {TopicPartition(t, n): EpochOffset(drawn.randrange(50), EpochMetadata(3)) for t in "ab" for n in range(3)}
    plan = planned(
        held, {place: s.offset + drawn.randrange(1, 90) for place, s in held.items()}, drawn.choice([5, 999])
    )
    assert plan is not None
    assert plan.epoch.number == 4
    topics = sorted({each.topic for each in plan.epoch.ranges})
    plan = plan.with_schemas({topic: drawn.randrange(1 << 32) for topic in topics[: drawn.randrange(3)]})
    for stage in (plan, plan.with_token("x" * 1_000)):
        durable = {p: (s.offset, s.metadata.to_text()) for p, s in {**held, **stage.offsets()}.items()}
        assert max(len(text.encode()) for _, text in durable.values()) < EPOCH_METADATA_MAX_BYTES
        assert (
            begun({p: EpochOffset(offset, EpochMetadata.of_text(text)) for p, (offset, text) in durable.items()})
            == stage
        )
    ended = {p: EpochOffset(s.offset, EpochMetadata.of_text(s.metadata.to_text())) for p, s in plan.ended().items()}
    assert begun(ended) is None
    assert {p: s.offset for p, s in ended.items()} == {each.place: each.end for each in plan.epoch.ranges}
    after = planned({**held, **ended}, dict.fromkeys(held, 1000), 10**6)
    assert after is not None
    assert after.epoch.number == 5


@pytest.mark.parametrize("text", ["", "null", "[]", "1", '"x"', "{}", '{"number":"a"}', "somebody's own", '{"end":4}'])
def test_foreign_offset_metadata_is_ignored(text: str) -> None:
    assert EpochMetadata.of_text(text) == EpochMetadata()


@pytest.mark.parametrize("token", [None, "x"])
def test_e16_open_epoch_is_finished_as_planned_for_its_remaining_partitions(token: str | None) -> None:
    plan = planned(offsets_of(a0=5, a1=7), {A0: 9, A1: 8}, 100)
    assert plan is not None
    durable = (plan if token is None else plan.with_token(token)).offsets()
    durable[A1] = EpochOffset(3)  # PATCH /connectors/NAME/offsets
    assert begun(durable) == OpenEpoch(Epoch(1, (OffsetRange("a", 0, 5, 9),), plan.epoch.id), token)
    del durable[A1]  # its topic was deleted
    assert begun(durable) == OpenEpoch(Epoch(1, (OffsetRange("a", 0, 5, 9),), plan.epoch.id), token)


def test_epochs_with_the_same_number_are_distinguished() -> None:
    """A topic was taken out of the config and another put in, and both are there again."""
    first, second = (planned(offsets_of(**{name: 0}), {A0: 5, B0: 5}, 100) for name in ("a0", "b0"))
    assert first is not None
    assert second is not None
    assert first.epoch.number == second.epoch.number
    durable = {**first.with_token("x").offsets(), **second.with_token("y").offsets()}
    found = begun(durable)
    assert found in (first.with_token("x"), second.with_token("y"))
    assert tokens(durable) == {"x", "y"}


@pytest.mark.parametrize("offset", [4, 6, 9, 12])
def test_epoch_note_of_a_moved_offset_is_ignored(offset: int) -> None:
    plan = planned(offsets_of(a0=5), {A0: 9}, 100)
    assert plan is not None
    assert begun({A0: EpochOffset(offset, plan.offsets()[A0].metadata)}) is None


def test_notes_of_an_epoch_fit_into_one_offset_commit() -> None:
    """A broker refuses a commit whose metadata is more than a batch of its log: 5,000 partitions are."""
    held = {TopicPartition("t" * 50, n): EpochOffset(0) for n in range(5_000)}
    seen, rounds = set(), 0
    while len(seen) < len(held):
        plan = planned(held, dict.fromkeys(held, 10 + rounds), 10**9, 0, COMMIT_METADATA_MAX_BYTES)
        assert plan is not None
        metadata = plan.with_token("x" * 40).offsets()
        assert 300_000 < sum(350 + len(s.metadata.to_text()) for s in metadata.values()) < 1_000_000
        held.update(plan.ended())
        seen |= {each.place for each in plan.epoch.ranges}  # all have their turn, though all have new records
        rounds += 1
        assert rounds < 10


@pytest.mark.parametrize("token", ["", "7-" + "f" * 32, "x" * 64, "x" * 65, "é" * 10, "é" * 11, '"' * 32, '"' * 33])
def test_token_fits_if_it_does_not_lengthen_the_notes_of_the_plan(token: str) -> None:
    plan = planned(offsets_of(a0=5, b0=1), {A0: 9, B0: 2}, 100)
    assert plan is not None
    before, after = plan.offsets(), plan.with_token(token).offsets()
    fits = all(len(after[place].metadata.to_text()) <= len(before[place].metadata.to_text()) for place in before)
    assert fits == has_room(token)
    assert all(EpochMetadata.of_text(s.metadata.to_text()) == s.metadata for s in before.values())


def test_undecided_epoch_is_halved_when_its_notes_are_too_large() -> None:
    plan = planned(offsets_of(a0=5, a1=7, b0=1), {A0: 9, A1: 8, B0: 2}, 100)
    assert plan is not None
    durable = {**plan.offsets(), **halved(plan)}
    assert begun(durable) == OpenEpoch(Epoch(1, plan.epoch.ranges[:1], plan.epoch.id))


def test_all_open_epochs_are_found_the_oldest_first() -> None:
    held = {
        A0: EpochOffset(5, EpochMetadata(3, "new", 5, 9)),
        A1: EpochOffset(1, EpochMetadata(2, "old", 1, 4, "token")),
        B0: EpochOffset(7, EpochMetadata(3, "new", 7, 8)),
    }
    assert [(each.epoch.id, each.token) for each in all_begun(held)] == [("old", "token"), ("new", None)]
    assert begun(held) == all_begun(held)[0]
    assert [each.topic for each in all_begun(held)[1].epoch.ranges] == ["a", "b"]
    assert all_begun(offsets_of(a0=5)) == []
