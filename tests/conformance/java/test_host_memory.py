"""The memory of a real host: it takes what its tasks need, and what these no longer use goes back to the system."""

import re
from pathlib import Path

import psutil

from fencepost.builtin.java.port import HostOptions, JavaClass, Location, SourceTaskStart
from fencepost.builtin.java.start import start_host
from fencepost.testing import eventually
from support.java_plugins import CONVERTERS, file_class

_MIB = 1 << 20
ROWS, ROW = 2000, 100_000
SMALL = 20  # MB of a heap; it begins with 16
HELD = 150


def lines_of(file: Path, batch: int) -> SourceTaskStart:
    return SourceTaskStart(
        connector="made",
        task=0,
        java_class=file_class("FileStreamSourceTask"),
        task_config={"file": str(file), "topic": "lines", "batch.size": str(batch)},
        connector_config=CONVERTERS,
    )


def test_memory_freed_by_a_task_is_returned_to_the_system(tmp_path: Path) -> None:
    """Without its collections by the clock, the host would keep it: its heap never fills up."""
    file = tmp_path / "one-long-line"
    file.write_bytes(b"x" * (6 * _MIB) + b"\n")
    with start_host(HostOptions(label="host of tests")) as host:
        java = psutil.Process(host.pid)
        task = host.source_task(lines_of(file, batch=1))
        polled = eventually(task.poll, within_s=60)
        assert polled is not None
        most = _most_resident(host.pid)
        task.stop(60)
        eventually(lambda: java.memory_info().rss < most - 16 * _MIB, within_s=90, every_s=0.5)


def _most_resident(pid: int) -> int:
    """Return how many bytes a process had at most: what it has may be less by now, after a pause of this one."""
    (found,) = re.findall(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return 1024 * int(found)


def sizes(log: Path) -> list[int]:
    """Return how large the heap was after each full collection that the host wanted, in MB."""
    return [int(size) for size in re.findall(r"Pause Full \(System\.gc\(\)\) .*\((\d+)M\)", log.read_text())]


def test_heap_is_large_under_load_and_small_at_rest(plugins: Location, tmp_path: Path) -> None:
    """A small one is collected a hundred times a second. That was a quarter of the processor time of Debezium's.

    With 150 MB in use it would have up to 275 MB at rest, and 1,090 if it were as large as one with little in use. Few
    of these are for new objects here, so that it is often full on a slow machine, too.
    """
    log = tmp_path / "gc.log"
    options = [f"-Xlog:gc:file={log}", "-XX:NewRatio=10", "-Xmx1500m"]
    holding = SourceTaskStart(
        connector="made",
        task=0,
        java_class=JavaClass("tests.HoldingTask", plugins),
        task_config={"mb": str(HELD)},
        connector_config=CONVERTERS,
    )
    with start_host(HostOptions(options, "host of tests")) as host:
        java, task = psutil.Process(host.pid), host.source_task(holding)

        def newest() -> int:
            for _ in range(10):
                assert task.poll() is not None
            return sizes(log)[-1] if sizes(log) else 0

        eventually(lambda: 400 <= newest() <= 800, within_s=120, every_s=0)
        most = _most_resident(host.pid)
        task.stop(60)
        eventually(lambda: sizes(log)[-1] <= SMALL, within_s=90)
        eventually(lambda: java.memory_info().rss < most - HELD * _MIB, within_s=30)


def test_poll_of_two_thousand_large_rows_succeeds(tmp_path: Path) -> None:
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
