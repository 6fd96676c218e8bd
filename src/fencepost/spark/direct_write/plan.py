"""The driver's part of a direct write: which run may write, what is already done, and whether it is the same write.

Steps when a run is planned: 1 the run is announced; from here no task of an older run is admitted ▸ 2 open transactions
of older runs, and abandoned ones of other writes, are fenced ▸ 3 markers are read (E3) ▸ 4 they are compared with what
is to be written. A run that finds markers commits nothing until a comparison has read every partition (`rerun`).
"""

import contextlib
import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import orjson

from fencepost.api import FatalError
from fencepost.kafka.admin.client import answering_admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.read.log import LogReader
from fencepost.kafka.setting.table import ClientKind
from fencepost.spark.direct_write.digest import Digested
from fencepost.spark.direct_write.heartbeat import end_abandoned, fence
from fencepost.spark.direct_write.marker import (
    OWNER,
    AnnouncedRun,
    Journal,
    Marker,
    cut_differences,
    differences,
    differs,
    marker_record,
    row_differences,
    run_record,
    transactional_id,
)
from fencepost.spark.direct_write.options import DirectWriteOptions, WritePartitionsError
from fencepost.spark.direct_write.rerun import ComparisonNeededError, NothingLeftError
from fencepost.storage.internal_topics import InternalTopic, ensure_compacted

if TYPE_CHECKING:
    from fencepost.kafka.group.transactions import Transaction

log = logging.getLogger(__name__)

_READ_S = 60.0
_WRITE_S = 30.0
_DAY_MS = 24 * 3600 * 1000


class OvertakenError(FatalError):
    """Another run of the write has begun since its rows were compared."""


class Expected(NamedTuple):
    """The result of a comparison of one partition: its number of rows, and the digest at the end of each commit."""

    rows: int
    digests: Mapping[int, str]

    def has(self, rows: int, digest: str | None, *, is_done: bool) -> bool:
        """Say whether the partition begins with these rows, and has no more if it is done with them."""
        return self.digests.get(rows) == digest and (rows == self.rows or not is_done)


@dataclass(frozen=True)
class WritePlan:
    """What the tasks of one run need to know.

    `markers`: what is committed, by partition. `expected`: what a comparison found in each partition; other rows are
    not committed. `positions`: where the topic of markers ended.
    """

    run: str
    columns: str
    markers: Mapping[int, Marker]
    expected: Sequence[Expected] | None
    positions: Mapping[int, int]


def plan_write(options: DirectWriteOptions, columns: str) -> WritePlan:
    """Begin a run of a write of rows with `columns`.

    Raises:
        WriteDiffersError: The id belongs to a different write.
        ComparisonNeededError: Something is committed, and must be compared first.
        NothingLeftError: Everything is committed, and was compared.
        OvertakenError: Another run began since the comparison.
        KafkaUnavailableError: No broker answers.
        ConfigError: The topic of markers is not compacted. If a marker were deleted, a rerun would not know what is
            written.
    """
    topic = InternalTopic(
        options.offsets_topic,
        "offsets.topic",
        "default.replication.factor",
        "markers of what is written",
        partitions=1,
        replication=-1,
        place="of the write",
        outcome="rows that a rerun writes again",
    )
    ensure_compacted(answering_admin(options.conf(ClientKind.ADMIN)), topic)
    plan, journal = _begin(options, columns)
    before = journal.before.get(options.write_id)
    known = journal.markers.get(options.write_id, {})
    if before is None and not known:
        return plan
    try:
        return _go_on(options, plan, before, _most_partitions(options, before, known))
    except BaseException:
        end_run(options, plan, 0)
        raise


def _begin(options: DirectWriteOptions, columns: str) -> tuple[WritePlan, Journal]:
    """Announce a run, and end what others left open. Returns a plan of all rows, and the contents of the topic."""
    journal = Journal()
    run = uuid.uuid4().hex
    with _reader(options, read_committed=False) as reader:
        reader.read_to_end(_READ_S, journal.take)
        begun = AnnouncedRun(run, options.partitions, is_over=False, timestamp_ms=0)
        _put(options, [run_record(options.write_id, begun), *_outdated(journal)])  # 1
        reader.read_to_end(_READ_S, journal.take)
        plan = WritePlan(run, columns, {}, None, reader.positions)
        if any(not other.is_over for write, other in journal.runs.items() if write != options.write_id):
            end_abandoned(options, lambda found: _is_of_another(found, options, journal), reader, journal)  # 2
    return plan, journal


def _go_on(options: DirectWriteOptions, plan: WritePlan, before: AnnouncedRun | None, partitions: int) -> WritePlan:
    """Plan the rest of a write whose earlier runs may have committed something, in up to `partitions` partitions."""
    for partition in range(partitions):
        fence(options, transactional_id(options.write_id, partition))  # 2
    committed = Journal()
    with _reader(options, read_committed=True) as reader:
        reader.read_to_end(_READ_S, committed.take)  # 3
        positions = reader.positions
    markers = committed.markers.get(options.write_id, {})
    found = differences(markers, topic=options.topic, columns=plan.columns)  # 4
    if found:
        raise differs(options.write_id, found)
    return replace(plan, markers=markers, expected=_expected(options, markers, before), positions=positions)


def conclude(options: DirectWriteOptions, plan: WritePlan, found: Mapping[int, Digested]) -> None:
    """End a comparison: store its result for the write that follows.

    Raises WriteDiffersError or WritePartitionsError if the rows are not those of the write that was begun.
    """
    if len(found) != options.partitions:
        raise WritePartitionsError(
            f"option write.partitions is {options.partitions}, but the frame has {len(found)}: nothing more is "
            f"written. Set write.partitions={len(found)}, with the same write.id"
        )
    unlike = row_differences(plan.markers, found)
    if unlike:
        raise differs(options.write_id, [*cut_differences(plan.markers, len(found)), *unlike])
    rows = [(found[partition].rows, list(found[partition].ends.items())) for partition in range(len(found))]
    assert options.compare is not None
    options.compare.write_bytes(orjson.dumps({"run": plan.run, "partitions": rows}))


def end_run(options: DirectWriteOptions, plan: WritePlan, partitions: int, unwritten: Sequence[int] = ()) -> None:
    """End a run of so many partitions, whether or not it succeeded.

    1 From here no task of the run is admitted ▸ 2 transactions left open by tasks of `unwritten` partitions are fenced,
    so that they block no reader ▸ 3 the markers of a write that cannot be run again are removed. The order matters: a
    task that still runs may commit a marker until 2, and one that finds no marker writes everything. Never raises.
    """
    is_marked = _mark_over(options, plan)  # 1
    _fence_all(options, unwritten)  # 2
    if is_marked and options.is_anonymous:
        _forget(options, partitions)  # 3


def _mark_over(options: DirectWriteOptions, plan: WritePlan) -> bool:
    over = None if options.is_anonymous else AnnouncedRun(plan.run, options.partitions, is_over=True, timestamp_ms=0)
    try:
        _put(options, [run_record(options.write_id, over)])
    except Exception as error:
        log.warning("cannot record that the write %s is over: %s", options.write_id, error)
        return False
    return True


def _fence_all(options: DirectWriteOptions, partitions: Sequence[int]) -> None:
    for partition in partitions:
        try:
            fence(options, transactional_id(options.write_id, partition))
        except Exception as error:
            log.warning("cannot fence partition %d of write %s: %s", partition, options.write_id, error)
            return


def _forget(options: DirectWriteOptions, partitions: int) -> None:
    try:
        _put(options, [marker_record(options.write_id, partition, None) for partition in range(partitions)])
    except Exception as error:
        log.warning("cannot remove the markers of write %s: %s", options.write_id, error)


def _expected(
    options: DirectWriteOptions, markers: Mapping[int, Marker], before: AnnouncedRun | None
) -> Sequence[Expected] | None:
    """Return what a comparison found; None if nothing is committed, or this run is the comparison."""
    if not markers or options.compare is not None:
        return None
    if options.compared is None:
        raise ComparisonNeededError(
            f"{len(markers)} partitions of write.id {options.write_id} are committed, in whole or in part, and must "
            "be compared with the current rows. PySpark's df.write…save() does so by itself: put `import "
            "fencepost.spark.datasource` into the program that calls it"
        )
    compared = orjson.loads(options.compared.read_bytes())
    if before is None or compared["run"] != before.run:
        raise OvertakenError(
            f"another run of write.id {options.write_id} began while this one compared; let it finish, or run this "
            "write again"
        )
    done = [
        partition for partition, marker in markers.items() if marker.is_done and partition < len(compared["partitions"])
    ]
    if len(done) == options.partitions:
        raise NothingLeftError(f"everything of write.id {options.write_id} is written")
    return [Expected(rows, dict(digests)) for rows, digests in compared["partitions"]]


def _most_partitions(options: DirectWriteOptions, before: AnnouncedRun | None, known: Mapping[int, Marker]) -> int:
    """Return how many partitions older runs may have left open; they may have had more."""
    numbers = [options.partitions, before.partitions if before else None, *(m.partitions for m in known.values())]
    return max(number or 0 for number in numbers)


def _is_of_another(found: "Transaction", options: DirectWriteOptions, journal: Journal) -> bool:
    """Say whether a transaction belongs to another write with markers in this topic that has not ended."""
    write, _, _ = found.transactional_id.removeprefix(f"{OWNER}-").rpartition("-")
    run = journal.runs.get(write)
    return write != options.write_id and run is not None and not run.is_over


def _outdated(journal: Journal) -> list[tuple[bytes, bytes | None]]:
    """Return tombstones for writes without an id that were killed more than a day ago."""
    long_ago_ms = time.time() * 1000 - _DAY_MS
    outdated = [w for w, run in journal.runs.items() if run.partitions is None and run.timestamp_ms < long_ago_ms]
    markers = [marker_record(w, partition, None) for w in outdated for partition in journal.markers.get(w, {})]
    return [*(run_record(w, None) for w in outdated), *markers]  # in this order: see end_run


def _put(options: DirectWriteOptions, records: Sequence[tuple[bytes, bytes | None]]) -> None:
    client = LibrdkafkaProducer(options.conf(ClientKind.PRODUCER))
    try:
        for key, value in records:
            client.produce(options.offsets_topic, value, key=key)
        client.flush(_WRITE_S)
    finally:
        client.drop()


@contextlib.contextmanager
def _reader(options: DirectWriteOptions, *, read_committed: bool) -> Iterator[LogReader]:
    reader = LogReader(options.conf(ClientKind.CONSUMER), options.offsets_topic, read_committed=read_committed)
    try:
        yield reader
    finally:
        reader.close()
