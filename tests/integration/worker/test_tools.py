"""Tools for Kafka Connect against a worker: each of their requests, and what they take from the answers."""

from pathlib import Path

import pytest

from support.tool_replay import TOOLS, play
from support.worker import Worker


@pytest.mark.parametrize("tool", TOOLS)
def test_recorded_requests_of_a_tool_succeed_against_a_worker(
    worker: Worker, topic_name: str, tmp_path: Path, tool: str
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    try:
        values = {"name": topic_name, "topic": f"{topic_name}-t", "file": str(lines)}
        assert play(tool, str(worker.rest.base_url), values) > 10
    finally:
        worker.rest.delete(f"/connectors/{topic_name}")
