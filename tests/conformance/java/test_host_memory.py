"""The memory of a real host: it takes what its tasks need, and what these no longer use goes back to the system."""

from pathlib import Path

import psutil

from fencepost.java.port import HostOptions, SourceTaskStart
from fencepost.java.start import start_host
from fencepost.testing import eventually
from support.java_plugins import CONVERTERS, file_class

_MIB = 1 << 20
ROWS, ROW = 2000, 100_000


def lines_of(file: Path, batch: int) -> SourceTaskStart:
    return SourceTaskStart(
        connector="made",
        task=0,
        java_class=file_class("FileStreamSourceTask"),
        task_config={"file": str(file), "topic": "lines", "batch.size": str(batch)},
        connector_config=CONVERTERS,
    )


def test_what_a_task_has_used_goes_back_to_the_system(tmp_path: Path) -> None:
    """Without its collections by the clock, the host would keep it: its heap never fills up."""
    file = tmp_path / "one-long-line"
    file.write_bytes(b"x" * (6 * _MIB) + b"\n")
    with start_host(HostOptions(label="host of tests")) as host:
        java = psutil.Process(host.pid)
        task = host.source_task(lines_of(file, batch=1))
        polled = eventually(task.poll, within_s=60)
        assert polled is not None
        most = java.memory_info().rss
        task.stop(60)
        eventually(lambda: java.memory_info().rss < most - 16 * _MIB, within_s=90, every_s=0.5)


def test_a_poll_may_have_two_thousand_large_rows(tmp_path: Path) -> None:
    """As a snapshot of a table with documents has. Kafka Connect's heap, 2 GB, has room for them."""
    file = tmp_path / "large-lines"
    file.write_bytes(b"".join(b"%0*d\n" % (ROW, number) for number in range(ROWS)))
    with start_host(HostOptions(label="host of tests")) as host:
        task = host.source_task(lines_of(file, batch=ROWS))
        found = 0
        while found < ROWS:
            polled = eventually(task.poll, within_s=60)
            assert polled is not None
            rows = list(polled.batch.values)
            assert rows == [b"%0*d" % (ROW, number) for number in range(found, found + len(rows))]
            found += len(rows)
        task.stop(60)
