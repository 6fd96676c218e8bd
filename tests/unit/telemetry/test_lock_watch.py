"""Where a worker's threads are is in its log while a call holds Python's interpreter lock."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import ctypes, logging, os, subprocess, sys, threading
from fencepost.telemetry.lock_watch import watch_of_worker

said = threading.Event()


class Log(logging.Handler):
    def emit(self, record):
        print("LOG", record.getMessage(), flush=True)
        said.set()


logging.getLogger().addHandler(Log())


def holds_the_lock(until):
    with subprocess.Popen(["sh", "-c", until], stdout=subprocess.PIPE) as shell:
        ctypes.PyDLL(None).read(shell.stdout.fileno(), ctypes.create_string_buffer(1), 1)
    return shell.returncode == 0


"""


def run(then: str, stderr: int) -> str:
    """Return what a process prints, whose log says LOG there; its stacks go to `stderr`."""
    command = [sys.executable, "-c", PROGRAM + then]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=120).stdout


def test_the_call_is_named_while_it_holds_the_lock_and_a_line_follows_once_it_has_returned(tmp_path: Path) -> None:
    file = tmp_path / "stderr"
    is_named = f"for _ in $(seq 600); do grep -q 'in holds_the_lock' {file} && exit 0; sleep 0.1; done; exit 1"
    then = f'with watch_of_worker(sys.stderr, 0.3):\n    assert holds_the_lock("{is_named}")\n    said.wait(60)'
    with file.open("w") as stderr:
        assert run(then, stderr.fileno()).startswith("LOG nothing in this process moved for ")


def test_nothing_is_written_once_the_watch_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "stacks"
    then = f"""
from fencepost.telemetry.lock_watch import LockWatch

with open({str(file)!r}, "w") as stacks:
    watch = LockWatch(0.3, stacks.fileno(), lambda stood_s: None)
    watch.start()
    watch.close()
    before = os.fstat(stacks.fileno()).st_size  # of a process that has stood still until then
    holds_the_lock("sleep 0.7")
    print(os.fstat(stacks.fileno()).st_size - before)
"""
    assert run(then, sys.stderr.fileno()) == "0\n"


def test_a_worker_runs_unwatched_if_nothing_can_pass_on_its_stacks() -> None:
    then = 'os.environ["PATH"] = "/nowhere"\nwith watch_of_worker(sys.stderr, 60):\n    print("runs")'
    said = run(then, sys.stderr.fileno())
    assert said.startswith("LOG calls that hold Python's interpreter lock will not be named: ")
    assert said.endswith("runs\n")


def test_the_process_goes_on_after_such_a_call_if_nobody_reads_its_stderr() -> None:
    """Putting off the fault handler waits, with the lock held, until it has written."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"." * 4096)
    except BlockingIOError:
        os.set_blocking(writing, True)
    then = 'with watch_of_worker(sys.stderr, 0.3):\n    holds_the_lock("sleep 1.5")\n    said.wait(60)'
    try:
        assert run(then, writing).startswith("LOG nothing in this process moved for ")
    finally:
        os.close(reading)
        os.close(writing)


def test_the_process_that_passes_the_stacks_on_ends_with_a_worker_that_is_killed() -> None:
    """It has the worker's stderr, whose end somebody may wait for."""
    program = f"{PROGRAM}with watch_of_worker(sys.stderr, 60):\n    os.kill(os.getpid(), 9)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (-9, "")
