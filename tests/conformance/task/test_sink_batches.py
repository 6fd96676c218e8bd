"""How a sink's task reads, on the real broker: by whole batches or by records, and what it says where it cannot."""

import logging
import threading
import uuid
from pathlib import Path

import pytest

from fencepost.kafka.batch import reader as batch_reader
from fencepost.kafka.group_batches import BatchGroupInput
from fencepost.kafka.group_input import GroupInput
from fencepost.kafka.settings import sink_conf
from fencepost.task.sink.runner import SinkRunner
from fencepost.task.spec import Admission, RunState, TaskReport, TaskSpec
from fencepost.testing import eventually
from support.group_members import damaged
from support.log_writer import LogWriter


class Started:
    """A task of FileStreamSink that runs in a thread, with what it has reported."""

    def __init__(self, topic: str, out: Path, **settings: str) -> None:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        config = {
            "name": topic,
            "file": str(out),
            "topics": topic,
            "key.converter": "StringConverter",
            "value.converter": "StringConverter",
            "header.converter": "SimpleHeaderConverter",
        }
        self.reports: list[TaskReport] = []
        self.runner = SinkRunner(
            TaskSpec(
                connector=topic,
                task=0,
                generation=1,
                incarnation=uuid.uuid4().hex,
                connector_config={**config, "connector.class": "FileStreamSink"},
                task_config=config,
                producer_conf={},
                offsets_topic="",
                consumer_conf=sink_conf(given, f"connect-{topic}", "test").conf,
                topics=(topic,),
            ),
            lambda _: Admission(is_admitted=True),
            self.reports.append,
        )
        self._thread = threading.Thread(target=self.runner.run)

    def __enter__(self) -> "Started":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.control.stop()
        self._thread.join(30)


@pytest.mark.parametrize(
    ("settings", "kind", "said"),
    [
        ({}, BatchGroupInput, ""),
        ({"group_instance_id": "one", "partition_assignment_strategy": "RoundRobinAssignor"}, BatchGroupInput, ""),
        ({"client_rack": "here"}, GroupInput, "for the sake of client.rack"),
        ({"statistics_interval_ms": "1000"}, GroupInput, "for the sake of statistics.interval.ms"),
    ],
    ids=["as it comes", "settings of groups", "client.rack", "statistics"],
)
def test_a_sink_reads_batches_unless_it_has_settings_that_their_reader_lacks(
    log_writer: LogWriter,
    topic_name: str,
    tmp_path: Path,
    settings: dict[str, str],
    kind: type[GroupInput],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log_writer.send(log_writer.topic(topic_name), ["a", "b"])
    out = tmp_path / "out"
    with (
        caplog.at_level(logging.INFO),
        Started(topic_name, out, bootstrap_servers=log_writer.bootstrap, **settings) as started,
    ):
        eventually(lambda: out.exists() and out.read_text() == "a\nb\n")
        assert type(started.runner._input) is kind
    assert said in caplog.text
    assert ("record by record" in caplog.text) is bool(said)


def test_a_batch_that_is_not_what_its_producer_wrote_ends_the_task_with_its_place(
    log_writer: LogWriter, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_writer.send(log_writer.topic(topic_name), ["a", "b"])
    monkeypatch.setattr(batch_reader, "Answered", damaged)
    with Started(topic_name, tmp_path / "out", bootstrap_servers=log_writer.bootstrap) as started:
        report = eventually(lambda: next((r for r in started.reports if r.state is RunState.FAILED), None))
    assert report.trace is not None
    assert f"CorruptBatchError: {topic_name}-0: The batch at offset 0" in report.trace
