"""Which partitions give to an epoch, and how much."""

import random

import pytest

from fencepost.record import TopicPartition
from fencepost.task.sink.ripeness import Ripeness

A, B, C = (TopicPartition("t", number) for number in range(3))
OFFSETS = {A: 0, B: 0, C: 0}


def test_without_a_least_number_whatever_is_new_is_ripe() -> None:
    ripeness = Ripeness(rows_min=0, wait_s=600)
    assert ripeness.ripe(OFFSETS, {A: 1, B: 500, C: 0}, 0.0) == {A: 1, B: 500}


def test_a_partition_with_few_records_waits_for_more_or_for_its_time() -> None:
    ripeness = Ripeness(rows_min=100, wait_s=60)
    assert ripeness.ripe(OFFSETS, {A: 99, B: 100, C: 0}, 10.0) == {B: 100}
    assert ripeness.ripe(OFFSETS, {A: 99, B: 100, C: 7}, 69.9) == {B: 100}
    assert list(ripeness.ripe(OFFSETS, {A: 99, B: 100, C: 7}, 70.0).items()) == [(A, 99), (B, 100)]
    assert ripeness.ripe({**OFFSETS, A: 99}, {A: 150, B: 0, C: 7}, 71.0) == {}, "what is left came later"


def test_what_an_epoch_left_of_a_partition_has_waited_as_long_as_it_has() -> None:
    ripeness = Ripeness(rows_min=100, wait_s=60)
    assert ripeness.ripe({A: 0}, {A: 150}, 0.0) == {A: 150}
    assert ripeness.ripe({A: 100}, {A: 160}, 59.0) == {}
    assert ripeness.ripe({A: 100}, {A: 160}, 60.0) == {A: 60}
    assert ripeness.ripe({A: 155}, {A: 160}, 60.0) == {}


def test_a_partition_that_goes_and_comes_again_waits_anew() -> None:
    ripeness = Ripeness(rows_min=100, wait_s=60)
    assert ripeness.ripe({A: 0}, {A: 1}, 0.0) == {}
    assert ripeness.ripe({}, {}, 1.0) == {}
    assert ripeness.ripe({A: 0}, {A: 1}, 60.5) == {}


def test_without_a_least_number_partitions_are_taken_as_they_are() -> None:
    assert Ripeness(rows_min=0, wait_s=600).taken({A: 900, B: 300}, 100) == {A: 900, B: 300}


def test_what_is_taken_of_each_is_no_less_than_it_has_to_be() -> None:
    ripeness = Ripeness(rows_min=100, wait_s=60)
    assert ripeness.taken({A: 10_000_000, B: 150}, 1_000) == {A: 850, B: 150}
    assert ripeness.taken({A: 150, B: 150, C: 150}, 250) == {A: 125, B: 125}, "those that have waited longest"
    assert ripeness.taken({A: 7, B: 150, C: 150}, 250) == {A: 7, B: 150}
    assert ripeness.taken({A: 150, B: 150, C: 150}, 450) == {A: 150, B: 150, C: 150}


@pytest.mark.parametrize("seed", range(20))
def test_an_epoch_is_never_too_large_and_a_piece_of_a_partition_never_too_small(seed: int) -> None:
    drawn = random.Random(seed)
    rows_min = drawn.randrange(2, 200)
    rows_max = drawn.randrange(rows_min, 5_000)
    ripe = {TopicPartition("t", n): drawn.randrange(1, 1_000) for n in range(drawn.randrange(1, 50))}
    taken = Ripeness(rows_min, wait_s=60).taken(ripe, rows_max)
    assert 0 < sum(taken.values()) <= rows_max
    assert sum(taken.values()) == rows_max or all(taken[p] == ripe[p] for p in taken)
    assert all(min(ripe[place], rows_min) <= count <= ripe[place] for place, count in taken.items())
    assert list(ripe)[: len(taken)] == [place for place in ripe if place in taken]
