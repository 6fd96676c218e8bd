"""Processes that append batches to one file with FileStreamSink's task; one is killed while it writes.

`python -m support.chaos.appenders FILE SEED` goes through one round. Batches are far above what a buffer holds.
"""

import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

from fencepost.builtin.connector.file_stream.sink import FileStreamSinkConnector, FileStreamSinkTask
from fencepost.record import SinkBatch, SinkRecord

LINES, SIZE = 400, 10_000


def value(name: str, number: int) -> str:
    """Return a line by which it can be seen where it ends."""
    return f"{name} {number} ".ljust(SIZE - 1, name) + "$"


def append(path: str, name: str, written: Path) -> None:
    """Append batch after batch, and note how many numbers are acknowledged."""
    sink = FileStreamSinkTask()
    sink.initialize(None, FileStreamSinkConnector({"file": path}))  # type: ignore[arg-type]
    sink.start()
    number = 0
    while True:
        texts = [value(name, n) for n in range(number, number + LINES)]
        sink.put(SinkBatch.of_records([SinkRecord("t", 0, n, text) for n, text in enumerate(texts)]))
        number += LINES
        written.write_text(str(number))
        if number > 100 * LINES:
            signal.pause()


def started(path: str, name: str) -> tuple[int, Path]:
    """Return the process id of an appender, and where it notes what it has written."""
    written = Path(f"{path}.{name}")
    pid = os.fork()
    if not pid:
        try:
            append(path, name, written)
        finally:
            os._exit(1)
    return pid, written


def wait_for(written: Path, number: int) -> None:
    """Wait until an appender has written so many numbers."""
    give_up_at = time.monotonic() + 120
    while int((written.exists() and written.read_text()) or 0) < number:
        assert time.monotonic() < give_up_at, f"{written} did not come to {number}"
        time.sleep(0.001)


def main(path: str, seed: str) -> None:
    """Kill one of two appenders at a moment of chance, and the other when it has gone on after that."""
    drawn = random.Random(seed)
    victim, noted = started(path, "a")
    other, by_other = started(path, "b")
    try:
        wait_for(noted, LINES)
        wait_for(by_other, LINES)
        time.sleep(drawn.uniform(0, 0.02))
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        wait_for(by_other, int(by_other.read_text() or 0) + 2 * LINES)
    finally:
        for pid in (victim, other):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
