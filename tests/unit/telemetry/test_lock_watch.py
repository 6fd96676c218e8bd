"""Where a worker's threads are is in its log while a call holds Python's interpreter lock."""

import subprocess
import sys

PROGRAM = """
import ctypes, logging, sys, threading
from fencepost.telemetry.lock_watch import watch_of_worker

said = threading.Event()


class Log(logging.Handler):
    def emit(self, record):
        print("LOG", record.getMessage(), file=sys.stderr)
        said.set()


logging.getLogger().addHandler(Log())


def holds_the_lock():
    ctypes.PyDLL(None).usleep(700_000)


watch = watch_of_worker(sys.stderr, 0.3)
watch.start()
{then}
"""


def printed(then: str) -> str:
    """Return what a process has written to its log."""
    program = PROGRAM.format(then=then)
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stderr


def test_the_call_is_named_while_it_holds_the_lock_and_a_line_follows_once_it_has_returned() -> None:
    said = printed("holds_the_lock()\nsaid.wait(60)\nwatch.close()")
    stacks, _, after = said.partition("LOG ")
    assert "in holds_the_lock" in stacks
    assert after.startswith("nothing in this process moved for ")


def test_nothing_is_written_once_the_watch_is_closed() -> None:
    assert "holds_the_lock" not in printed("watch.close()\nholds_the_lock()")
