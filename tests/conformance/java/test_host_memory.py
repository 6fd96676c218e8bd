"""The memory of a real host: it takes what its tasks need, and what these no longer use goes back to the system."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from fencepost.java.port import HostOptions, SourceTaskStart
from fencepost.java.start import start_host
from fencepost.testing import eventually
from support.java_plugins import CONVERTERS, file_class

_MIB = 1 << 20
ROWS, ROW = 2000, 100_000
SMALL, LARGE = 20, 24  # MB of a heap; it begins with 16


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
        most = _most_resident(host.pid)
        task.stop(60)
        eventually(lambda: java.memory_info().rss < most - 16 * _MIB, within_s=90, every_s=0.5)


def _most_resident(pid: int) -> int:
    """Return how many bytes a process had at most: what it has may be less by now, after a pause of this one."""
    (found,) = re.findall(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return 1024 * int(found)


class Collection(NamedTuple):
    """A collection by the clock. Sizes in MB, times in seconds since the start."""

    at_s: float
    used: int
    size: int
    is_busy: bool
    """Whether Java itself has collected so often in the eight seconds before that the heap should be large."""


def collected(log: Path) -> list[Collection]:
    text = log.read_text()
    own = [float(at) for at in re.findall(r"^\[([\d.]+)s\].* Pause Young", text, re.M)]
    found = re.findall(r"^\[([\d.]+)s\].* Pause Full \(System\.gc\(\)\) \d+M->(\d+)M\((\d+)M\)", text, re.M)
    return [
        Collection(
            float(at),
            int(used),
            int(size),
            all(sum(0 < float(at) - back - each <= 2 for each in own) >= 10 for back in (0, 2, 4, 6)),
        )
        for at, used, size in found
    ]


@contextmanager
def busy_host(tmp_path: Path, *options: str) -> Iterator[Callable[[], list[Collection]]]:
    """Yield what lets a host's task read for some time, and returns the collections so far.

    Little of its heap is for new objects, so that it is often full on a slow machine, too.
    """
    file, log = tmp_path / "lines", tmp_path / "gc.log"
    lines = (b"x" * 99 + b"\n") * 200_000
    file.write_bytes(lines)
    with start_host(HostOptions([f"-Xlog:gc:file={log}", "-XX:NewRatio=10", *options], "host of tests")) as host:
        task = host.source_task(lines_of(file, batch=2000))

        def read() -> list[Collection]:
            while task.poll() is not None:
                pass
            with file.open("ab") as more:
                more.write(lines)
            return collected(log)

        yield read
        task.stop(60)


def test_the_heap_is_large_while_a_task_is_busy(tmp_path: Path) -> None:
    """A small one is collected a hundred times a second. That was a quarter of the processor time of Debezium's."""
    with busy_host(tmp_path) as read:
        eventually(lambda: any(each.size >= LARGE for each in read()), within_s=120)
        eventually(lambda: collected(tmp_path / "gc.log")[-1].size <= SMALL, within_s=90)


@pytest.mark.parametrize("option", ["-XX:MaxHeapFreeRatio=30", "-Xmn1m"])
def test_a_heap_is_as_its_user_says(tmp_path: Path, option: str) -> None:
    with busy_host(tmp_path, option) as read:
        found = eventually(lambda: [each for each in read() if each.is_busy], within_s=120)[-1]
        assert found.size <= SMALL


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
