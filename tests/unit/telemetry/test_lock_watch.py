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


def test_call_that_holds_the_lock_is_logged_during_and_after_it(tmp_path: Path) -> None:
    file = tmp_path / "stderr"
    is_named = f"for _ in $(seq 600); do grep -q 'in holds_the_lock' {file} && exit 0; sleep 0.1; done; exit 1"
    then = f'with watch_of_worker(sys.stderr, 0.3):\n    assert holds_the_lock("{is_named}")\n    said.wait(60)'
    with file.open("w") as stderr:
        assert run(then, stderr.fileno()).startswith("LOG all threads of this process stood still for ")


def test_closed_lock_watch_writes_no_stacks(tmp_path: Path) -> None:
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


def test_worker_runs_without_a_lock_watch_if_stacks_cannot_be_passed_on() -> None:
    then = 'os.environ["PATH"] = "/nowhere"\nwith watch_of_worker(sys.stderr, 60):\n    print("runs")'
    said = run(then, sys.stderr.fileno())
    assert said.startswith("LOG calls that hold Python's interpreter lock will not be named: ")
    assert said.endswith("runs\n")


def test_process_continues_after_a_locking_call_if_its_stderr_is_not_read() -> None:
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
        assert run(then, writing).startswith("LOG all threads of this process stood still for ")
    finally:
        os.close(reading)
        os.close(writing)


def test_stack_forwarder_ends_with_a_killed_worker() -> None:
    """It has the worker's stderr, whose end somebody may wait for."""
    program = f"{PROGRAM}with watch_of_worker(sys.stderr, 60):\n    os.kill(os.getpid(), 9)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (-9, "")
