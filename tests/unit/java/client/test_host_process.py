"""What is read of a JVM's end."""

from fencepost.java.client.process import crashed_thread

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


def test_the_thread_that_has_crashed_is_read_from_javas_report_with_its_stack_alone() -> None:
    lines = crashed_thread(REPORT).splitlines()
    assert lines[0].endswith('JavaThread "orders-0" [_thread_in_vm, id=2]')
    assert lines[-1] == "j  a.Task.poll()Ljava/util/List;+1"
    assert len(lines) == 6
    assert "hidden" not in "".join(lines)


def test_a_report_that_is_cut_off_or_of_something_else_says_nothing() -> None:
    assert crashed_thread(REPORT[:200]) == ""
    assert crashed_thread("") == ""
