"""Which partitions give to an epoch, and how much."""

import random

import pytest

from fencepost.record import TopicPartition
from fencepost.task.sink.epoch_plan import Ripeness

A, B, C = (TopicPartition("t", number) for number in range(3))
OFFSETS = {A: 0, B: 0, C: 0}


def test_every_new_record_is_ripe_without_a_minimum() -> None:
    ripeness = Ripeness(rows_min=0, wait_s=600)
    assert ripeness.ripe(OFFSETS, {A: 1, B: 500, C: 0}, 0.0) == {A: 1, B: 500}


def test_partition_with_few_records_waits_for_more_or_for_the_time_limit() -> None:
    ripeness = Ripeness(rows_min=100, wait_s=60)
    assert ripeness.ripe(OFFSETS, {A: 99, B: 100, C: 0}, 10.0) == {B: 100}
    assert ripeness.ripe(OFFSETS, {A: 99, B: 100, C: 7}, 69.9) == {B: 100}
    assert list(ripeness.ripe(OFFSETS, {A: 99, B: 100, C: 7}, 70.0).items()) == [(A, 99), (B, 100)]
    assert ripeness.ripe({**OFFSETS, A: 99}, {A: 150, B: 0, C: 7}, 71.0) == {}, "what is left came later"


def test_remaining_records_of_an_epoch_keep_their_waiting_time() -> None:
    ripeness = Ripeness(rows_min=100, wait_s=60)
    assert ripeness.ripe({A: 0}, {A: 150}, 0.0) == {A: 150}
    assert ripeness.ripe({A: 100}, {A: 160}, 59.0) == {}
    assert ripeness.ripe({A: 100}, {A: 160}, 60.0) == {A: 60}
    assert ripeness.ripe({A: 155}, {A: 160}, 60.0) == {}


def test_reassigned_partition_waits_from_the_start() -> None:
    ripeness = Ripeness(rows_min=100, wait_s=60)
    assert ripeness.ripe({A: 0}, {A: 1}, 0.0) == {}
    assert ripeness.ripe({}, {}, 1.0) == {}
    assert ripeness.ripe({A: 0}, {A: 1}, 60.5) == {}


def test_partitions_are_taken_whole_without_a_minimum() -> None:
    assert Ripeness(rows_min=0, wait_s=600).taken({A: 900, B: 300}, 100) == {A: 900, B: 300}


def test_partition_gives_at_least_the_minimum_number_of_records() -> None:
    ripeness = Ripeness(rows_min=100, wait_s=60)
    assert ripeness.taken({A: 10_000_000, B: 150}, 1_000) == {A: 850, B: 150}
    assert ripeness.taken({A: 150, B: 150, C: 150}, 250) == {A: 125, B: 125}, "those that have waited longest"
    assert ripeness.taken({A: 7, B: 150, C: 150}, 250) == {A: 7, B: 150}
    assert ripeness.taken({A: 150, B: 150, C: 150}, 450) == {A: 150, B: 150, C: 150}


@pytest.mark.parametrize("seed", range(20))
def test_epoch_is_never_too_large_nor_a_piece_of_a_partition_too_small(seed: int) -> None:
    drawn = random.Random(seed)
    rows_min = drawn.randrange(2, 200)
    rows_max = drawn.randrange(rows_min, 5_000)
    ripe = {TopicPartition("t", n): drawn.randrange(1, 1_000) for n in range(drawn.randrange(1, 50))}
    taken = Ripeness(rows_min, wait_s=60).taken(ripe, rows_max)
    assert 0 < sum(taken.values()) <= rows_max
    assert sum(taken.values()) == rows_max or all(taken[p] == ripe[p] for p in taken)
    assert all(min(ripe[place], rows_min) <= count <= ripe[place] for place, count in taken.items())
    assert list(ripe)[: len(taken)] == [place for place in ripe if place in taken]
