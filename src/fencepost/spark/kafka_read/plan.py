"""Cuts ranges for Spark's partitions, and limits micro-batches: pure functions over numbers."""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from fencepost.kafka.value.log_range import LogRange, shares
from fencepost.record import TopicPartition

Offsets = Mapping[TopicPartition, int]


def divide(ranges: Sequence[LogRange], least: int | None, most_records: int | None) -> list[LogRange]:
    """Return the non-empty ranges, cut into even pieces, in order.

    No piece has more than `most_records` offsets. There are `least` pieces, unless there were more ranges already or
    fewer offsets. The pieces of a range are about equally large.
    """
    ranges = [each for each in ranges if each.size > 0]
    pieces = [math.ceil(each.size / most_records) if most_records else 1 for each in ranges]
    heap = [(-each.size / n, i) for i, (each, n) in enumerate(zip(ranges, pieces, strict=True))]
    heapq.heapify(heap)
    for _ in range((least or 0) - sum(pieces)):
        largest, i = heap[0] if heap else (0, 0)
        if largest >= -1:
            break
        pieces[i] += 1
        heapq.heapreplace(heap, (-ranges[i].size / pieces[i], i))
    return [piece for each, n in zip(ranges, pieces, strict=True) for piece in _cut(each, n)]


def _cut(whole: LogRange, pieces: int) -> list[LogRange]:
    borders = [whole.start + whole.size * i // pieces for i in range(pieces + 1)]
    return [replace(whole, start=a, end=b) for a, b in pairwise(borders) if b > a]


def limited(starts: Offsets, ends: Offsets, most: int) -> dict[TopicPartition, int]:
    """Return ends that leave about `most` offsets, shared in proportion to each partition's backlog, as in Spark's
    source.

    A partition with a small backlog gets at least one offset.
    """
    sizes = {place: end - starts[place] for place, end in ends.items() if end > starts[place]}
    taken = shares(sizes, most)
    return {place: starts[place] + taken[place] if place in taken else end for place, end in ends.items()}


def waiting(starts: Offsets, ends: Offsets) -> int:
    """Return the number of offsets between start and end."""
    return sum(max(end - starts[place], 0) for place, end in ends.items())
