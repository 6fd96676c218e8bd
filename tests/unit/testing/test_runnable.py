"""Classes that no worker would run are refused by what authors test with, in the same words."""

from typing import Any

import pytest

from fencepost.api import ConfigError, SinkConnector, SourceConnector, SourceRecord, SourceTask, StreamConnector
from fencepost.builtin.connector.file_stream.sink import FileStreamSinkConnector
from fencepost.builtin.connector.files.sink import FilesSink
from fencepost.builtin.connector.spool.source import SpoolDirectorySource
from fencepost.builtin.connector.topic import TopicTransformConnector
from fencepost.testing import SinkRun, SourceConformance, SourceRun, StreamRun, poll_once


class Polls(SourceTask):
    def poll(self) -> Any:
        return self.polled

    polled: Any = None


class NoTask(SourceConnector): ...


class TaskOfSinks(StreamConnector):
    task: Any = Polls


class PollsConnector(SourceConnector):
    task: Any = Polls


@pytest.mark.parametrize(
    ("run", "connector", "said"),
    [
        (SourceRun, NoTask, r"NoTask \(.*test_runnable\.py\) has no task: write `task = \.\.\.` in the class"),
        (SourceRun, PollsConnector(), "is no class: pass the class of the connector, not an instance"),
        (SourceRun, Polls, "Polls is no SourceConnector: pass the class of the connector, not of its task"),
        (
            SourceRun,
            FileStreamSinkConnector,
            "is a SinkConnector, not a SourceConnector: use SinkRun or SinkConformance",
        ),
        (SinkRun, PollsConnector, "is a SourceConnector, not a SinkConnector: use SourceRun or SourceConformance"),
        (SinkRun, TopicTransformConnector, "is a StreamConnector, not a SinkConnector: use StreamRun or StreamConf"),
        (StreamRun, TaskOfSinks, "has the task Polls, which is no StreamTask: derive it from StreamTask"),
        (
            SourceRun,
            SpoolDirectorySource,
            "has no task, as Spark does its work: .* DataFrameSourceConformance for sources",
        ),
        (SinkRun, FilesSink, "has no task, as Spark does its work: .*DataFrameSinkConformance does so for sinks"),
    ],
)
def test_unrunnable_connector_class_is_refused(run: Any, connector: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        run(connector, {"name": "c"})


def test_conformance_class_refuses_a_connector_of_another_kind() -> None:
    class Wrong(SourceConformance):
        connector: Any = SinkConnector

    with pytest.raises(ConfigError, match="SinkConnector is a SinkConnector, not a SourceConnector"):
        Wrong().test_resumes_from_any_offset()


@pytest.mark.parametrize(
    ("polled", "said"),
    [
        ([{"n": 1}], "a list of dicts, which say no topic and no offset: return Batch.of_rows"),
        ({"n": 1}, "returned a single row: return Batch.of_rows"),
        (SourceRecord({}, {}, "t"), r"returned a single SourceRecord: return a list, \[record\]"),
        ([SourceRecord({"a": 1}, "x", "t")], r"the source_offset of a record is 'x', which is no mapping"),  # type: ignore[arg-type]
        ([SourceRecord("a", {"n": 1}, "t")], r"the source_partition of a record is 'a', which is no mapping"),  # type: ignore[arg-type]
    ],
)
def test_malformed_poll_result_is_refused_in_terms_of_the_api(polled: Any, said: str) -> None:
    class Returns(Polls):
        pass

    Returns.polled = polled

    class ReturnsConnector(SourceConnector):
        task: Any = Returns

    with pytest.raises(Exception, match=said):
        poll_once(ReturnsConnector)


def test_offset_lookup_refuses_a_source_partition_that_is_not_a_mapping() -> None:
    class AsksTask(Polls):
        def start(self) -> None:
            self.context.offset("a")  # type: ignore[arg-type]

    class AsksConnector(SourceConnector):
        task: Any = AsksTask

    with pytest.raises(TypeError, match=r"context\.offset\('a'\): a source partition is a mapping"):
        poll_once(AsksConnector)
