"""What is read of a JVM's end."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.builtin.java.client.process import HostProcess, crashed_thread
from fencepost.builtin.java.error import HostEndedError, HostKilledError

REPORT = """#
# A fatal error has been detected by the Java Runtime Environment:
#
#  SIGSEGV (0xb) at pc=0x00007f, pid=1, tid=2

---------------  S U M M A R Y ------------

Command Line: -Dpassword=hidden fencepost.host.Main /tmp/fencepost-host-a

---------------  T H R E A D  ---------------

Current thread (0x00007f):  JavaThread "orders-0" [_thread_in_vm, id=2]

Stack: [0x01,0x02],  sp=0x01,  free space=1k
Native frames: (J=compiled Java code, j=interpreted, Vv=VM code, C=native code)
V  [libjvm.so+0x1]  Unsafe_PutLong+0x1

Java frames: (J=compiled Java code, j=interpreted, Vv=VM code)
j  a.Task.poll()Ljava/util/List;+1

siginfo: si_signo: 11 (SIGSEGV)

Registers:
RAX=0x01
"""


def test_only_the_crashed_threads_stack_is_read_from_javas_crash_report() -> None:
    lines = crashed_thread(REPORT).splitlines()
    assert lines[0].endswith('JavaThread "orders-0" [_thread_in_vm, id=2]')
    assert lines[-1] == "j  a.Task.poll()Ljava/util/List;+1"
    assert len(lines) == 6
    assert "hidden" not in "".join(lines)


def test_cut_off_or_empty_crash_report_yields_no_crashed_thread() -> None:
    assert crashed_thread(REPORT[:200]) == ""
    assert crashed_thread("") == ""


_CRASHES = f"""
import pathlib, socket, sys
directory = pathlib.Path(sys.argv[-1])
events = socket.socket(socket.AF_UNIX)
events.connect(str(directory / "worker"))
events.recv(1)
(directory / "crash").write_text({REPORT!r})
sys.exit("a last line")
"""


def test_crash_is_reported_once_when_two_threads_await_the_end_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, read = [], HostProcess._read_crash

    def counted(process: HostProcess) -> str:
        reads.append(read(process))
        return reads[-1]

    monkeypatch.setattr(HostProcess, "_read_crash", counted)
    process = HostProcess([sys.executable, "-c", _CRASHES], "host of tests")
    process.events.close()
    with ThreadPoolExecutor(2) as pool:
        (found,) = {asking.result(60) for asking in [pool.submit(process.await_end) for _ in range(2)]}
    process.clear()
    assert process.end() == found
    assert found.count('JavaThread "orders-0"') == 1
    assert found.count("a last line") == 1
    assert len(reads) == 1, "each thread would add it"


_WAITS = """
import pathlib, socket, sys, threading
events = socket.socket(socket.AF_UNIX)
events.connect(str(pathlib.Path(sys.argv[-1]) / "worker"))
threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("number", "why", "error"),
    [
        (signal.SIGKILL, None, HostKilledError),
        (signal.SIGSEGV, None, HostEndedError),
        (signal.SIGKILL, "it hangs", HostEndedError),
    ],
)
def test_only_a_sigkill_from_outside_counts_as_a_host_killed_by_others(
    number: int, why: str | None, error: type[HostEndedError]
) -> None:
    process = HostProcess([sys.executable, "-c", _WAITS], "host of tests")
    if why is None:
        os.kill(process.pid, number)
    else:
        process.kill(why)
    found = process.ended(process.await_end())
    process.events.close()
    process.clear()
    assert type(found) is error
    assert f"signal {number:d} ended it" in str(found) or "because it hangs" in str(found)
    assert ("memory is short" in str(found)) is (error is HostKilledError)
