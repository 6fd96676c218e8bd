"""What every sink and every stream must do, as tests: `class TestMine(SinkConformance)`, or `(StreamConformance)`."""

import unittest
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from fencepost.api import (
    FencedError,
    FencingToken,
    SinkConnector,
    SinkRecord,
    SourceRecord,
    StreamConnector,
    TopicPartition,
)
from fencepost.task.control import Control
from fencepost.testing.conformance.scene import Checks, Config, Scene, ensure_stops, scene
from fencepost.testing.sink_run import SinkRun, StreamRun, log_of
from fencepost.testing.source_run import task_configs

_TOPIC = "testing"
_BATCH = 2
_FIRST, _SECOND = FencingToken(1, 1), FencingToken(1, 2)


class SinkConformance(Checks):
    """Checks of a sink connector and its task, each with a new store that `prepare` makes.

    The sink gets `values` in the two partitions of the topic `testing`, and `stored` says what arrived. With
    `is_exactly_once` nothing may arrive twice, and a task that was replaced must be refused.

    >>> from pathlib import Path
    >>> from fencepost.api import SinkRecord
    >>> from fencepost.builtin.connector.file_stream.sink import FileStreamSinkConnector
    >>> from fencepost.testing import SinkConformance
    >>> class TestFileStream(SinkConformance):
    ...     connector = FileStreamSinkConnector
    ...     values = ["one", "two", "three", "four", "five"]
    ...
    ...     def prepare(self, directory: Path) -> dict[str, object]:
    ...         return {"file": directory / "lines"}
    ...
    ...     def stored(self, directory: Path) -> list[object]:
    ...         return list((directory / "lines").read_text().splitlines())
    >>> TestFileStream().test_stores_records_below_committed_offsets()  # pytest calls all of them
    """

    connector: ClassVar[type[SinkConnector]]
    values: ClassVar[Sequence[object]] = [{"n": number} for number in range(10)]
    is_exactly_once: ClassVar[bool] = False
    stops_within_s: ClassVar[float] = 5.0

    def stored(self, directory: Path) -> Iterable[object]:
        """Return what a reader of the store sees now, as `expected` gives it for each record."""
        raise NotImplementedError("override `stored`: return what a reader of the store sees")

    def expected(self, record: SinkRecord) -> object:
        """Return what `stored` has for a record: by default its value."""
        return record.value

    def test_stores_records_below_committed_offsets(self) -> None:
        """Check that a reader sees all records below the offsets that the task lets be committed."""
        with scene(self.prepare) as made:
            run = SinkRun(self.connector, self._config(made))
            run.open(*self._log)
            while run.deliver(self._log, _BATCH):
                allowed = run.let_commit()
                for place, taken in run.taken.items():
                    offset = min(allowed.get(place, 0), taken)
                    below = self._log[place][:offset]
                    lost = self._missing(made, below)
                    assert not lost, (
                        f"The task lets offset {offset} of {place} be committed, but a reader does not see "
                        f"{lost[0]!r}: write it in `flush`, or return smaller offsets from `pre_commit`"
                    )

    def test_commits_only_offsets_of_taken_records(self) -> None:
        """Check that `pre_commit` returns offsets of the partitions that it was given, and none that is higher."""
        with scene(self.prepare) as made:
            run = SinkRun(self.connector, self._config(made))
            run.open(*self._log)
            while run.deliver(self._log, _BATCH):
                for place, offset in run.let_commit().items():
                    most = run.taken.get(place)
                    assert most is not None, f"pre_commit returned an offset of {place}, which it was not given"
                    assert offset <= most, f"pre_commit returned {offset} for {place}, but put() has only taken {most}"

    def test_takes_empty_batches(self) -> None:
        """Check that `put` may be called without records: soon after `open`, and when nothing comes."""
        with scene(self.prepare) as made:
            run = SinkRun(self.connector, self._config(made))
            run.open(*self._log)
            run.deliver_nothing()
            run.deliver(self._log, _BATCH)
            run.deliver_nothing()
            run.stop()

    def test_nothing_is_lost_by_a_crash(self) -> None:
        """Check that records that were put and not committed when the process is killed are stored by the next task."""
        for batches in range(len(self.values) // (2 * _BATCH) + 1):
            with scene(self.prepare) as made:
                config = self._config(made)
                first = SinkRun(self.connector, config, token=_FIRST)
                first.open(*self._log)
                for _ in range(batches):
                    first.deliver(self._log, _BATCH)
                first.crash()
                second = SinkRun(self.connector, config, committed=first.committed, token=_SECOND)
                second.open(*self._log)
                self._finish(second)
                self._ensure_all_stored(made, f"After a crash with {batches} batches in flight")

    def test_survives_a_rebalance(self) -> None:
        """Check that a partition moves to another task, which continues where the first one has committed."""
        with scene(self.prepare) as made:
            config = self._config(made)
            one, other = self._log
            first = SinkRun(self.connector, config, token=_FIRST)
            first.open(one, other)
            first.deliver(self._log, _BATCH)
            first.close(other)
            second = SinkRun(self.connector, config, committed=first.committed, token=_SECOND)
            second.open(other)
            self._finish(second)
            self._finish(first)
            self._ensure_all_stored(made, f"After {other} has moved to another task")

    def test_refuses_a_replaced_task(self) -> None:
        """Check that a task that does not know yet that another one owns its partition cannot write there any more."""
        if not self.is_exactly_once:
            raise unittest.SkipTest("the sink is not exactly-once")
        with scene(self.prepare) as made:
            config = self._config(made)
            place = next(iter(self._log))
            first = SinkRun(self.connector, config, token=_FIRST)
            first.open(place)
            first.deliver(self._log, _BATCH)
            second = SinkRun(self.connector, config, committed=first.committed, token=_SECOND)
            second.open(place)
            try:
                first.deliver(self._log, _BATCH)
                first.let_commit()
            except FencedError:
                return
            raise AssertionError(
                f"A task with the token {tuple(_FIRST)} could write although a task with {tuple(_SECOND)} owns "
                f"{place}: keep the token with the rows, and raise FencedError for a smaller one"
            )

    def test_stops_in_time(self) -> None:
        """Check that a task that is asked to stop returns from `put`, and `stop` returns."""
        with scene(self.prepare) as made:
            config = self._config(made)

            def live(started: Callable[[Control], None]) -> None:
                run = SinkRun(self.connector, config)
                started(run.control)
                run.open(*self._log)
                run.deliver(self._log, _BATCH)
                run.stop()

            ensure_stops(live, self.stops_within_s)

    def test_survives_reconfiguration(self) -> None:
        """Check that two tasks, each with some of the partitions, store what one task does."""
        with scene(self.prepare) as made:
            configs = task_configs(self.connector, self._config(made), 2)
            assert 1 <= len(configs) <= 2, f"task_configs(2) returned {len(configs)} configs"
            runs = [SinkRun(self.connector, task_config=own) for own in configs]
            for number, place in enumerate(self._log):
                runs[number % len(runs)].open(place)
            while sum(run.deliver(self._log, _BATCH) for run in runs):
                continue
            for run in runs:
                run.stop()
            self._ensure_all_stored(made, f"With {len(runs)} tasks")

    # the parts of the checks

    @property
    def _log(self) -> Mapping[TopicPartition, Sequence[SinkRecord]]:
        return log_of(self.values, topic=_TOPIC)

    def _config(self, made: Scene) -> Config:
        return {"topics": _TOPIC, **made.fresh()}

    def _finish(self, run: SinkRun) -> None:
        while run.deliver(self._log, _BATCH):
            continue
        run.stop()

    def _missing(self, made: Scene, records: Iterable[SinkRecord]) -> list[object]:
        seen = list(self.stored(made.directory))
        return [one for one in map(self.expected, records) if one not in seen]

    def _ensure_all_stored(self, made: Scene, when: str) -> None:
        records = [record for records in self._log.values() for record in records]
        lost = self._missing(made, records)
        assert not lost, f"{when}, {len(lost)} records are missing in the store, the first is {lost[0]!r}"
        if self.is_exactly_once:
            counts = Counter(map(repr, self.stored(made.directory)))
            twice = [name for name, count in counts.items() if count > 1]
            assert not twice, f"{when}, {len(twice)} records are in the store twice, the first is {twice[0]}"


class StreamConformance(Checks):
    """Checks of a stream connector and its task, which gets `values` in the two partitions of the topic `testing`.

    >>> from fencepost.builtin.connector.topic import TopicTransformConnector
    >>> from fencepost.testing import StreamConformance
    >>> class TestTopicTransform(StreamConformance):
    ...     connector = TopicTransformConnector
    ...     config = {"output.topic": "copies"}
    >>> TestTopicTransform().test_output_does_not_depend_on_batches()  # pytest calls all of them
    """

    connector: ClassVar[type[StreamConnector]]
    values: ClassVar[Sequence[object]] = [{"n": number} for number in range(10)]
    stops_within_s: ClassVar[float] = 5.0

    def identity(self, record: SourceRecord) -> object:
        """Return what makes two written records the same."""
        return record.topic, record.key, record.value, record.headers

    def test_output_does_not_depend_on_batches(self) -> None:
        """Check that the same records in other batches give the same output: where a batch begins means nothing."""
        with scene(self.prepare) as made:
            config = self._config(made.fresh())
            at_once, one_by_one = StreamRun(self.connector, config), StreamRun(self.connector, config)
            for records in self._log.values():
                whole = self._written(at_once, records)
                single = [written for record in records for written in self._written(one_by_one, [record])]
                assert whole == single, f"A batch of {len(records)} gives {whole}, the same records one by one {single}"

    def test_redelivered_records_give_the_same_output(self) -> None:
        """Check that records are processed again with the same result, by this task or another."""
        with scene(self.prepare) as made:
            config = self._config(made.fresh())
            run = StreamRun(self.connector, config)
            for records in self._log.values():
                first = self._written(run, records)
                for name, again in (("The same task", run), ("Another task", StreamRun(self.connector, config))):
                    second = self._written(again, records)
                    assert second == first, (
                        f"{name} that receives the records again gives {second} instead of {first}: keep no state "
                        "between two calls, and write nothing that differs each time"
                    )

    def test_writes_to_no_topic_that_it_reads(self) -> None:
        """Check that no record is written to a topic that is read: it would be processed for ever."""
        with scene(self.prepare) as made:
            run = StreamRun(self.connector, self._config(made.fresh()))
            topics = {written.topic for records in self._log.values() for written in run.process(records)}
            assert _TOPIC not in topics, f"The task reads {_TOPIC} and writes to it"
            assert topics, "The task wrote nothing: choose `values` and a config that give output"

    def test_stops_in_time(self) -> None:
        """Check that a task that is asked to stop returns from `process`, and `stop` returns."""
        with scene(self.prepare) as made:
            config = self._config(made.fresh())

            def live(started: Callable[[Control], None]) -> None:
                run = StreamRun(self.connector, config)
                started(run.control)
                for records in self._log.values():
                    run.process(records)
                run.stop()

            ensure_stops(live, self.stops_within_s)

    def test_survives_reconfiguration(self) -> None:
        """Check that two tasks, each with one of the partitions, give the output of one task."""
        with scene(self.prepare) as made:
            config = self._config(made.fresh())
            configs = task_configs(self.connector, config, 2)
            assert 1 <= len(configs) <= 2, f"task_configs(2) returned {len(configs)} configs"
            alone = StreamRun(self.connector, config)
            for number, (place, records) in enumerate(self._log.items()):
                one = StreamRun(self.connector, task_config=configs[number % len(configs)], assignment=[place])
                expected, found = self._written(alone, records), self._written(one, records)
                assert found == expected, f"For {place}, one of {len(configs)} tasks gives {found}, one task {expected}"

    # the parts of the checks

    @property
    def _log(self) -> Mapping[TopicPartition, Sequence[SinkRecord]]:
        return log_of(self.values, topic=_TOPIC)

    def _config(self, config: Config) -> Config:
        return {"topics": _TOPIC, **config}

    def _written(self, run: StreamRun, records: Sequence[SinkRecord]) -> list[object]:
        return [self.identity(written) for written in run.process(records)]
