"""A sink whose author's code raises what is no exception, on the real broker: it fails, and leaves its group."""

from pathlib import Path

import pytest

from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.record import TopicPartition
from fencepost.task.channel.message import RunState
from fencepost.testing import eventually
from support.log_writer import LogWriter
from support.sink_stage import StartedSink

EXITING = """
import sys
from fencepost.api import SinkConnector, SinkTask

class ExitingTask(SinkTask):
    def put(self, batch): pass
    def {where}(self, *_): sys.exit("from {where}")

class {name}Sink(SinkConnector):
    task = ExitingTask
"""


@pytest.mark.parametrize("where", ["start", "open", "put", "pre_commit", "close"])
def test_a_sink_that_exits_fails_with_its_trace_and_leaves_its_group(
    log_writer: LogWriter, topic_name: str, tmp_path: Path, where: str
) -> None:
    log_writer.send(log_writer.topic(topic_name), ["a"])
    name = f"Exiting{where.title().replace('_', '')}"
    (tmp_path / f"{name.lower()}.py").write_text(EXITING.format(where=where, name=name))
    properties = {"connector.class": f"{name}Sink"}
    with StartedSink(
        log_writer.bootstrap, topic_name, tmp_path / "out", properties=properties, plugins=str(tmp_path)
    ) as started:
        eventually(lambda: started.runner.counters.records_written or started.reports[-1].state is RunState.FAILED)
        started.runner.control.stop()
        report = eventually(lambda: next((r for r in started.reports if r.state.is_over), None))
    assert report.state is RunState.FAILED
    assert f"SystemExit: from {where}" in (report.trace or "")
    group = GroupOffsets({"bootstrap.servers": log_writer.bootstrap}, f"connect-{topic_name}")
    eventually(lambda: group.read() is not None)  # a broker's coordinator is there a moment later than itself
    group.alter({TopicPartition(topic_name, 0): 0})  # GroupInUseError where a member is left
