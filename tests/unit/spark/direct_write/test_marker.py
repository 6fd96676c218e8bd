"""Whether a direct write is the one that was begun, and what the topic of markers says about its runs."""

from dataclasses import replace

import pytest

from fencepost.kafka.read.log import LogRecord
from fencepost.spark.direct_write.digest import Digested
from fencepost.spark.direct_write.marker import (
    AnnouncedRun,
    Journal,
    Marker,
    cut_differences,
    differences,
    heartbeat_record,
    marker_record,
    row_difference,
    row_differences,
    run_record,
)

DONE = Marker(rows=3, is_done=True, digest="d", partitions=2, topic="t", columns="struct<value:string>", run="r")


def journal(*records: tuple[bytes, bytes | None]) -> Journal:
    found = Journal()
    for offset, (key, value) in enumerate(records):
        found.take(LogRecord(0, offset, 0, key, value))
    return found


def run(name: str, *, is_over: bool = False) -> tuple[bytes, bytes | None]:
    return run_record("w", AnnouncedRun(name, 2, is_over, 0))


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        (DONE, []),
        (replace(DONE, partitions=4), []),
        (replace(DONE, topic="u"), ["it was begun with topic=u, and now it is topic=t"]),
        (replace(DONE, topic=None), ["it was begun with topics of its rows, and now it is topic=t"]),
        (
            replace(DONE, columns="struct<a:int>"),
            ["its columns were struct<a:int>, and now they are struct<value:string>"],
        ),
        (Marker.of({"rows": 3, "done": True, "partitions": 2}), ["it was begun by an older Fencepost"]),
    ],
)
def test_differences_to_an_earlier_write_are_named(marker: Marker, expected: list[str]) -> None:
    found = differences({0: DONE, 1: marker}, topic="t", columns="struct<value:string>")
    assert len(found) == len(expected)
    assert all(one.startswith(other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("marker", "now", "expected"),
    [
        (DONE, Digested(3, "d", {3: "d"}), None),
        (DONE, Digested(4, "e", {3: "d", 4: "e"}), "partition 1 had 3 rows, and now it has 4"),
        (DONE, Digested(2, "e", {2: "e"}), "partition 1 had 3 rows, and now it has 2"),
        (
            DONE,
            Digested(3, "e", {3: "e"}),
            "partition 1 has other rows than the 3 that are committed, or in another order",
        ),
        (replace(DONE, is_done=False), Digested(4, "e", {3: "d", 4: "e"}), None),
        (replace(DONE, is_done=False), Digested(2, "e", {2: "e"}), "partition 1 had 3 rows, and now it has 2"),
        (replace(DONE, is_done=False), Digested(4, "e", {3: "f", 4: "e"}), "partition 1 has other rows than the 3"),
    ],
)
def test_differences_to_the_rows_of_an_earlier_write_are_named(
    marker: Marker, now: Digested, expected: str | None
) -> None:
    found = row_difference(1, marker, now)
    assert found == expected or (expected is not None and str(found).startswith(expected))


def test_removed_partition_differs_only_if_it_had_rows() -> None:
    markers = {0: DONE, 1: replace(DONE, rows=0), 2: DONE}
    found = row_differences(markers, {0: Digested(3, "d", {3: "d"})})
    assert found == ["partition 2 had 3 rows, and now it has 0"]


def test_changed_number_of_partitions_is_named_when_rows_may_differ() -> None:
    assert cut_differences({0: DONE}, 2) == []
    assert cut_differences({0: DONE}, 1) == ["it was begun with write.partitions=2, and now it is 1"]


def test_marker_survives_the_round_trip() -> None:
    assert journal(marker_record("w", 1, DONE)).markers == {"w": {1: DONE}}
    assert journal(marker_record("w", 1, DONE), marker_record("w", 1, None)).markers == {"w": {}}


def test_the_newest_run_is_the_one_that_began_last() -> None:
    found = journal(run("one"), run("two"), run("one", is_over=True))
    assert found.runs["w"].run == "two"
    assert not found.runs["w"].is_over
    assert found.before["w"].run == "one"


def test_previous_run_is_known_even_when_it_is_over() -> None:
    found = journal(run("one"), run("one", is_over=True), run("two"))
    assert found.before["w"] == AnnouncedRun("one", 2, is_over=True, timestamp_ms=0)


def test_heartbeats_name_the_transaction_and_foreign_records_are_ignored() -> None:
    found = journal(heartbeat_record("w", 3), (b'["someone",{"id":"w"}]', b"{}"), (b"plain", None))
    assert found.heartbeats == {"fencepost-write-w-3"}
    assert found.runs == {}


def test_newer_marker_of_two_partitions_counts_in_any_order_of_reading() -> None:
    """A topic that has grown, or another partitioner: the key's older record is somewhere else."""
    part = replace(DONE, rows=1, is_done=False)
    older, newer = ((at, *marker_record("w", 1, marker)) for at, marker in ((1, part), (2, DONE)))
    for order in ((older, newer), (newer, older)):
        found = Journal()
        for at, key, value in order:
            found.take(LogRecord(partition=at, offset=0, timestamp_ms=at, key=key, value=value))
        assert found.markers == {"w": {1: DONE}}


def test_last_marker_of_a_partition_counts_despite_its_timestamp() -> None:
    part = replace(DONE, rows=1, is_done=False)
    found = Journal()
    for offset, (at_ms, marker) in enumerate(((2, part), (1, DONE))):
        key, value = marker_record("w", 1, marker)
        found.take(LogRecord(partition=0, offset=offset, timestamp_ms=at_ms, key=key, value=value))
    assert found.markers == {"w": {1: DONE}}
