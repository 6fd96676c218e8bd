"""The watchdog of a slot says where its tasks are when a call holds Python's interpreter lock."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from fencepost.task.channel.client import SECRET_VARIABLE, ChannelClient
from fencepost.task.channel.message import Path as PathOfChannel
from fencepost.task.slot import stack_reader
from fencepost.task.slot.slot import Slot
from fencepost.task.slot.stack_reader import Tasks, stacks_of
from fencepost.task.slot.watchdog import Watchdog
from fencepost.task.slot.worker_line import SlotSpec
from fencepost.testing import eventually
from fencepost.worker.channel import ChannelServer


def into(file: Path, after_s: float = 0.2) -> list[str]:
    """Return the command of a reader that writes the stacks that it would send to a file; one beside it says that it
    reads."""
    return reader(
        f"file = pathlib.Path({str(file)!r})\n"
        "file.with_suffix('.ready').touch()\n"
        "def send(stacks):\n"
        "    text = ''.join(f'{incarnation}\\n{stack}\\n' for incarnation, stack in stacks.items())\n"
        "    file.with_suffix('.new').write_text(text)\n"
        "    file.with_suffix('.new').rename(file)\n",
        after_s,
    )


def reader(send: str, after_s: float = 0.2) -> list[str]:
    program = f"stack_reader.Reader(os.getppid(), 0, send, stack_reader.quiet_s({after_s})).pass_on()"
    imports = "import os, pathlib\nfrom fencepost.task.slot import stack_reader\n"
    return [sys.executable, "-c", f"{imports}{send}\n{program}"]


DEAF = reader("send = print", 60)


def holds_the_lock(until: str) -> None:
    """Read from a pipe that ends with this command of a shell: signals do not end such a call."""
    with subprocess.Popen(["sh", "-c", until], stdout=subprocess.PIPE) as sleeping:
        assert sleeping.stdout is not None
        ctypes.PyDLL(None).read(sleeping.stdout.fileno(), ctypes.create_string_buffer(1), 1)


def is_there(file: Path) -> str:
    """Return the command that ends once there is this file, or after a minute."""
    return f"for _ in $(seq 600); do [ -e {file} ] && break; sleep 0.1; done"


def waits(over: threading.Event) -> None:
    over.wait()


def test_call_that_holds_the_interpreter_lock_is_named(tmp_path: Path) -> None:
    file, over = tmp_path / "stacks", threading.Event()
    watchdog = Watchdog(0.2, into(file))
    eventually(file.with_suffix(".ready").exists, within_s=60)
    idle = threading.Thread(target=waits, args=(over,))
    idle.start()
    watchdog.names(idle, "idle")
    watchdog.names(threading.current_thread(), "stuck")
    try:
        watchdog.start()
        holds_the_lock(is_there(file))
        said = file.read_text()
    finally:
        over.set()
        watchdog.close()
    stuck, idle_one = said.partition("stuck\n")[2], said.partition("idle\n")[2]
    assert "in holds_the_lock" in stuck.splitlines()[0]
    assert "in waits" in idle_one.partition("stuck\n")[0]


def test_slot_program_sends_stacks_to_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, "secret")
    sent: list[Mapping[str, Any]] = []
    server = ChannelServer(b"secret")
    server.start({PathOfChannel.SLOT_STACKS: lambda body: sent.append(body) or {}})
    watchdog = Watchdog(0.2, stack_reader.command(0.2, server.url, "slot", "1-a"))
    watchdog.names(threading.current_thread(), "stuck")
    watchdog.start()

    def is_sent() -> bool:
        holds_the_lock("sleep 1")  # again, as long as the program starts
        return bool(sent)

    try:
        eventually(is_sent, within_s=60)
    finally:
        watchdog.close()
        server.stop()
    assert (sent[0]["slot"], sent[0]["attempt"]) == ("slot", "1-a")
    assert "in holds_the_lock" in sent[0]["stacks"]["stuck"]


def test_tasks_beyond_the_fault_handlers_hundred_threads_are_named(tmp_path: Path) -> None:
    """The newest ones; these tasks have the oldest."""
    file, begins, over = tmp_path / "stacks", threading.Event(), threading.Event()
    watchdog = Watchdog(0.2, into(file, 5))
    eventually(file.with_suffix(".ready").exists, within_s=60)

    def task() -> None:
        begins.wait()
        holds_the_lock(is_there(file))

    stuck, idle = threading.Thread(target=task), threading.Thread(target=waits, args=(over,))
    others = [threading.Thread(target=waits, args=(over,)) for _ in range(120)]
    for thread in (stuck, idle, *others):
        thread.start()
    watchdog.names(stuck, "stuck")
    watchdog.names(idle, "idle")
    watchdog.names(others[-1], "new")
    try:
        watchdog.start()
        begins.set()
        stuck.join()
        said = file.read_text()
    finally:
        over.set()
        watchdog.close()
    found = dict(part.split("\n", 1) for part in re.split(r"^(?=\w)", said, flags=re.M) if part)
    assert found.keys() == {"stuck", "idle", "new"}
    assert "in holds_the_lock" in found["stuck"].splitlines()[0]
    assert "in waits" in found["idle"]


def test_paused_process_is_not_reported_as_stuck(tmp_path: Path) -> None:
    file = tmp_path / "stacks"
    program = (
        "import sys, threading\nfrom fencepost.task.slot.watchdog import Watchdog\n"
        f"w = Watchdog(3, {into(file, 3)!r})\nw.names(threading.current_thread(), 'i')\nw.start()\n"
        "print(w.reader_pid, flush=True)\nsys.stdin.readline()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as slot:
        assert slot.stdin is not None
        assert slot.stdout is not None
        process = psutil.Process(int(slot.stdout.readline()))
        slot.send_signal(signal.SIGSTOP)
        threading.Event().wait(4)
        slot.send_signal(signal.SIGCONT)
        assert not has_said(file, within_s=3)
        assert process.is_running()
        slot.communicate(b"\n")


def has_said(file: Path, *, within_s: float) -> bool:
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        if file.exists():
            return True
        threading.Event().wait(0.1)
    return False


def test_frozen_stack_reader_does_not_block_the_slot(tmp_path: Path) -> None:
    """Its pipe is full, and neither tasks that begin, nor the fault handler, nor the end may wait for it."""
    program = (
        "import ctypes, os, signal, threading\nfrom fencepost.task.slot.watchdog import Watchdog\n"
        f"w = Watchdog(0.2, {DEAF!r})\nos.kill(w.reader_pid, signal.SIGSTOP)\n"
        "for number in range(50_000):\n    w.names(threading.main_thread(), 'an incarnation of thirty-two digits')\n"
        "w.start()\nctypes.PyDLL(None).usleep(600_000)\nthreading.Event().wait(0.3)\nw.close()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_stack_reader_ends_with_a_slot_that_the_worker_does_not_expect() -> None:
    watchdog = Watchdog(60, DEAF)
    spec = SlotSpec("s", "http://127.0.0.1:1", lease_s=0.0)
    Slot(spec, ChannelClient(spec.channel_url, b"secret"), "0-a", watchdog).run()
    assert not psutil.pid_exists(watchdog.reader_pid)


def test_close_of_the_watchdog_does_not_wait_for_forked_processes() -> None:
    program = (
        "import os, time\nfrom fencepost.task.slot.watchdog import Watchdog\n"
        f"w = Watchdog(60, {DEAF!r})\npid = os.fork()\n"
        "if not pid:\n    time.sleep(600)\nw.close()\nos.kill(pid, 9)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("how", ["os._exit(1)", "os.kill(os.getpid(), 9)"])
def test_stack_reader_ends_with_the_slot_and_inherits_no_files(how: str) -> None:
    """Spark waits for the end of what a slot has inherited."""
    reading, writing = os.pipe()
    program = (
        "import os\nfrom fencepost.task.slot.watchdog import Watchdog\n"
        f"w = Watchdog(60, {DEAF!r})\nprint(w.reader_pid, flush=True)\n{how}"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, pass_fds=[writing]) as slot:
        os.close(writing)
        assert slot.stdout is not None
        pid = int(slot.stdout.readline())
        assert os.read(reading, 1) == b""
        assert slot.stdout.read() == b""
    os.close(reading)
    eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_stacks_belong_to_the_last_named_task_and_skip_other_threads() -> None:
    dump = (
        b"task 0x7f01 1 first\ntask 0x7f01 2 second\nTimeout (0:00:05)!\n"
        b'Thread 0x0000000000007f01 (most recent call first):\n  File "a.py", line 1 in poll\n'
        b'  File "b.py", line 2 in run\n'
        b'Thread 0x0000000000007f02 (most recent call first):\n  File "c.py", line 3 in x\n'
    )
    tasks: Tasks = {}
    assert stacks_of(dump, tasks) == {"second": '  File "a.py", line 1 in poll\n  File "b.py", line 2 in run'}
    assert stacks_of(b"Thread 0x7f01 (most recent call first):\n  File", tasks) == {"second": "  File"}


def test_stack_reader_imports_no_large_modules_before_it_has_to_send() -> None:
    program = "import sys, fencepost.task.slot.stack_reader\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    own = {"fencepost.task", "fencepost.task.slot", "fencepost.task.slot.stack_reader"}
    assert {name for name in loaded if name.startswith("fencepost.")} <= own
    assert not {"orjson", "ssl", "http.client"} & set(loaded)
