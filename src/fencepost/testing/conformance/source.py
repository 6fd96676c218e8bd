"""What every source must do, as tests: `class TestMine(SourceConformance)`."""

import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from fencepost.api import FatalError, SourceConnector, SourceRecord
from fencepost.storage.offset_topic import OffsetFormatError, encode_key, encode_offset
from fencepost.task.control import Control
from fencepost.task.source.boundary import BoundaryDecision, ConnectorBoundary
from fencepost.testing.conformance.scene import Checks, Scene, ensure_stops, scene
from fencepost.testing.source_run import OffsetStore, SourceRun, properties_of, task_configs


def difference(
    expected: Mapping[bytes, Sequence[object]], found: Mapping[bytes, Sequence[object]], *, is_all: bool
) -> str | None:
    """Return what is wrong with the records found, by source partition; None if nothing is.

    Unless `is_all`, both are beginnings: the shorter one of each source partition says how far they are compared.
    """
    if expected and not found:
        return "gives nothing"
    for partition in {**expected, **found}:
        fault = _of_lane(expected.get(partition, ()), found.get(partition, ()), is_all=is_all)
        if fault is not None:
            return f"{fault} (source partition {partition.decode()})"
    return None


def difference_of_all(
    expected: Mapping[bytes, Sequence[object]], found: Mapping[bytes, Sequence[object]]
) -> str | None:
    """Return what is wrong with the records found, whatever their source partitions are now; None if nothing is."""
    left = [one for lane in found.values() for one in lane]
    for one in (one for lane in expected.values() for one in lane):
        if one not in left:
            return f"skips {one!r}"
        left.remove(one)
    again = next((one for one in left if any(one in lane for lane in expected.values())), None)
    return None if again is None else f"gives {again!r} again"


def _of_lane(expected: Sequence[object], found: Sequence[object], *, is_all: bool) -> str | None:
    for one, other in zip(expected, found, strict=False):
        if one != other:
            return _first_difference(one, other, expected, found)
    if not is_all:
        return None
    if len(found) < len(expected):
        return f"skips {expected[len(found)]!r}"
    return f"gives {found[len(expected)]!r} again, or too much" if len(found) > len(expected) else None


def _first_difference(one: object, other: object, expected: Sequence[object], found: Sequence[object]) -> str:
    if one not in found:
        return f"skips {one!r}"
    if other not in expected:
        return f"gives {other!r} again, or too much"
    return f"gives {other!r} where {one!r} has its turn"


Lanes = dict[bytes, list[object]]
"""The identities of records by source partition, in the order in which they came."""


@dataclass(frozen=True)
class _Whole:
    """What the source gives from its beginning. `is_all`: it has no more."""

    records: list[SourceRecord]
    is_all: bool

    def after(self, count: int) -> OffsetStore:
        """Return the offsets that are committed after so many records."""
        return OffsetStore((r.source_partition, r.source_offset) for r in self.records[:count] if r.source_offset)


class SourceConformance(Checks):
    """Checks of a source connector and its task, each in a new outside system that `prepare` makes.

    Two things must hold for a source to be tested like this: what `prepare` makes gives the same records each time, at
    least two of them, and the task can go back to an offset. A source that never ends is read up to `records_at_most`.

    >>> from pathlib import Path
    >>> from fencepost.builtin.connector.file_stream.source import FileStreamSourceConnector
    >>> from fencepost.testing import SourceConformance
    >>> class TestFileStream(SourceConformance):
    ...     connector = FileStreamSourceConnector
    ...
    ...     def prepare(self, directory: Path) -> dict[str, object]:
    ...         (directory / "lines").write_text("one\\ntwo\\nthree\\n")
    ...         return {"file": directory / "lines", "topic": "lines", "batch.size": 1}
    >>> TestFileStream().test_resumes_from_any_offset()  # pytest calls all of them
    """

    connector: ClassVar[type[SourceConnector]]
    records_at_most: ClassVar[int] = 10
    stops_within_s: ClassVar[float] = 5.0

    def identity(self, record: SourceRecord) -> object:
        """Return what makes two records the same; without what differs each time, such as the time of reading."""
        return record.topic, record.key, record.value

    def test_resumes_from_any_offset(self) -> None:
        """Check that a task that starts at the offset of any record gives all records after it, and no other."""
        with self._scene() as made:
            whole = self._whole(made)
            for count in range(len(whole.records) + 1):
                if count and whole.records[count - 1].source_offset is None:
                    continue  # nothing can be committed there
                found = self._rest(made, whole.after(count), whole)
                fault = difference(self._lanes(whole.records[count:]), self._lanes(found), is_all=whole.is_all)
                assert fault is None, f"A task that starts {_place(whole, count)} {fault}"

    def test_nothing_is_skipped_after_a_crash(self) -> None:
        """Check that what was polled and not committed when the process is killed is given again."""
        with self._scene() as made:
            whole = self._whole(made)
            for commits in range(len(whole.records) + 1):
                store = self._crashed(made, commits)
                left = self._read(SourceRun(self.connector, self._config, store=store.copy()), whole)
                untouched = self._rest(made, store, whole)
                fault = difference(self._lanes(untouched), self._lanes(left), is_all=whole.is_all)
                assert fault is None, (
                    f"After {commits} commits and a crash, a new task {fault}. Leave the source as it is until records "
                    "are committed: release them in `commit` or `commit_record`, not in `poll`"
                )
                if not untouched:
                    break

    def test_stops_in_time(self) -> None:
        """Check that `poll` returns soon after the task is asked to stop, and so does `stop`."""
        with self._scene() as made:

            def live(started: Callable[[Control], None]) -> None:
                run = SourceRun(self.connector, made.fresh(), is_patient=True)
                started(run.control)
                while not run.control.should_yield:
                    run.task.poll()
                run.stop()

            ensure_stops(live, self.stops_within_s)

    def test_honours_boundaries(self) -> None:
        """Check that a task that defines transactions ends each of them, after records that `poll` has returned."""
        with self._scene() as made:
            config = made.fresh()
            if not self.connector(properties_of(config)).can_define_transaction_boundaries():
                raise unittest.SkipTest("the connector does not define its transactions")
            boundary, commits, is_open, is_over = ConnectorBoundary(), 0, 0, False
            run = SourceRun(self.connector, config, transaction=boundary)
            seen = idle = 0
            while seen < self.records_at_most and not is_over:
                records, batches = run.poll_batches()
                count = sum(map(len, batches))
                seen, idle = seen + count, 0 if count else idle + 1
                is_over = idle > 5
                try:
                    for start, stop, verdict in boundary.segments(records, count):
                        commits += verdict is BoundaryDecision.COMMIT
                        is_open = is_open + stop - start if verdict is BoundaryDecision.GO_ON else 0
                except FatalError as error:
                    raise AssertionError(str(error)) from error
            assert commits, f"The task asked for no commit in {seen} records"
            assert not boundary.has_waiting_requests, (
                "The task asked for the end of a transaction after a record that poll() did not return: pass the same "
                "object that poll() returns"
            )
            assert not (is_over and is_open), f"The task never ends the transaction of its last {is_open} records"

    def test_survives_reconfiguration(self) -> None:
        """Check that other numbers of tasks continue where one task was, and share no source partition."""
        with self._scene() as made:
            whole = self._whole(made)
            store = whole.after(len(whole.records) // 2)
            expected = self._lanes(self._rest(made, store, whole))
            for count in (2, 3):
                found: Lanes = {}
                configs = task_configs(self.connector, made.fresh(), count)
                assert len(configs) <= count, f"task_configs({count}) returned {len(configs)} configs"
                for own in configs:
                    run = SourceRun(self.connector, store=store.copy(), task_config=own)
                    for partition, records in self._lanes(self._read(run, whole)).items():
                        assert partition not in found, f"Two of {count} tasks read {partition.decode()}"
                        found[partition] = records
                fault = (
                    difference_of_all(expected, found) if whole.is_all else difference(expected, found, is_all=False)
                )
                assert fault is None, f"After a change from 1 to {count} tasks, the source {fault}"

    def test_offsets_are_stable_as_json(self) -> None:
        """Check that source partitions and offsets can be stored, and are the same each time."""
        with scene(self.prepare) as made:
            stored = [self._stored_offsets(made) for _ in range(2)]
        for number, (one, other) in enumerate(zip(*stored, strict=False)):
            assert one == other, (
                f"The source partition or offset of record {number} was {one} the first time and {other} the second: "
                "name only the place in the source, nothing that differs from start to start"
            )

    # the parts of the checks

    @contextmanager
    def _scene(self) -> Iterator[Scene]:
        try:
            with scene(self.prepare) as made:
                yield made
        except OffsetFormatError as error:
            raise unittest.SkipTest(f"see test_offsets_are_stable_as_json: {error}") from error

    def _whole(self, made: Scene) -> _Whole:
        self._config = made.fresh()
        found = self._ended(SourceRun(self.connector, self._config), self.records_at_most)
        assert len(found) > 1, (
            f"The source gave {len(found)} records: `prepare` must make at least 2, to prove anything"
        )
        return _Whole(found[: self.records_at_most], is_all=len(found) < self.records_at_most)

    def _rest(self, made: Scene, store: OffsetStore, whole: _Whole) -> list[SourceRecord]:
        """Return what a task gives that starts at these offsets in an untouched source."""
        return self._read(SourceRun(self.connector, made.fresh(), store=store.copy()), whole)

    def _read(self, run: SourceRun, whole: _Whole) -> list[SourceRecord]:
        """Return what a task gives: all if it ends, with anything that is too much."""
        return self._ended(run, 2 * self.records_at_most if whole.is_all else self.records_at_most)

    def _ended(self, run: SourceRun, at_least: int) -> list[SourceRecord]:
        try:
            return run.read(at_least)
        finally:
            run.stop()

    def _crashed(self, made: Scene, commits: int) -> OffsetStore:
        """Return the offsets that a task has committed that is killed after so many commits, with records in flight."""
        run = SourceRun(self.connector, made.fresh())
        for number in range(commits):
            run.read(1)
            run.begin_commit()
            if number == commits - 1 and run.task.polls_ahead:
                run.read(1)
            run.end_commit()
        run.read(1)
        run.crash()
        return run.store

    def _lanes(self, records: Sequence[SourceRecord]) -> Lanes:
        lanes: Lanes = {}
        for record in records:
            lanes.setdefault(encode_key("", record.source_partition), []).append(self.identity(record))
        return lanes

    def _stored_offsets(self, made: Scene) -> list[tuple[bytes, bytes | None]]:
        records = self._ended(SourceRun(self.connector, made.fresh()), self.records_at_most)
        return [_stored(number, record) for number, record in enumerate(records)]


def _stored(number: int, record: SourceRecord) -> tuple[bytes, bytes | None]:
    try:
        return encode_key("", record.source_partition), encode_offset(record.source_offset)
    except OffsetFormatError as error:
        raise AssertionError(f"Record {number}: {error}") from error


def _place(whole: _Whole, count: int) -> str:
    if not count:
        return "without offsets"
    record: Mapping[str, Any] | None = whole.records[count - 1].source_offset
    return f"at the offset {record} of {whole.records[count - 1].source_partition} (record {count})"
