"""The memory of a real host: what its tasks no longer use goes back to the system."""

from pathlib import Path

import psutil

from fencepost.java.port import HostOptions, SourceTaskStart
from fencepost.java.start import start_host
from fencepost.testing import eventually
from support.java_plugins import CONVERTERS, file_class

_MIB = 1 << 20


def test_what_a_task_has_used_goes_back_to_the_system(tmp_path: Path) -> None:
    """Without its collections by the clock, the host would keep it: its heap never fills up."""
    file = tmp_path / "one-long-line"
    file.write_bytes(b"x" * (6 * _MIB) + b"\n")
    with start_host(HostOptions(label="host of tests")) as host:
        java = psutil.Process(host.pid)
        task = host.source_task(
            SourceTaskStart(
                connector="made",
                task=0,
                java_class=file_class("FileStreamSourceTask"),
                task_config={"file": str(file), "topic": "lines", "batch.size": "1"},
                connector_config=CONVERTERS,
            )
        )
        polled = eventually(task.poll, within_s=60)
        assert polled is not None
        most = java.memory_info().rss
        task.stop(60)
        eventually(lambda: java.memory_info().rss < most - 16 * _MIB, within_s=90, every_s=0.5)
