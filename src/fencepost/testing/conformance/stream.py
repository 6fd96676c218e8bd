"""What every stream must do, as tests: `class TestMine(StreamConformance)`."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from fencepost.api import SinkRecord, SourceRecord, StreamConnector, TopicPartition
from fencepost.task.control import Control
from fencepost.testing.conformance.scene import Checks, Config, ensure_stops, scene
from fencepost.testing.sink_run import StreamRun, log_of
from fencepost.testing.source_run import task_configs

_TOPIC = "testing"


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
