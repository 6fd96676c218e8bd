"""What a plug-in can do to its host, and what is seen of it outside."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from fencepost.builtin.java.client.host import JavaHost
from fencepost.builtin.java.client.session import HostedSourceTask
from fencepost.builtin.java.error import (
    ConnectionLostError,
    HostEndedError,
    HostTimeoutError,
    JavaError,
    JavaPluginError,
    JavaUnavailableError,
)
from fencepost.builtin.java.port import HostOptions, JavaClass, Location, SourceTaskStart
from fencepost.builtin.java.start import start_host
from fencepost.testing.verdict import eventually
from support.java_plugins import CONVERTERS

Starter = Callable[..., HostedSourceTask]


@pytest.fixture
def lost() -> Iterator[JavaHost]:
    """Return a host that will not outlive the test, and soon has no memory left if a plug-in takes it."""
    with start_host(HostOptions(["-Xmx128m"], "host to be lost")) as started:
        yield started


@pytest.fixture
def scripted(plugins: Location, diary: Path) -> Starter:
    def start(host: JavaHost, polls: str, **config: str) -> HostedSourceTask:
        return host.source_task(
            SourceTaskStart(
                connector="made",
                task=0,
                java_class=JavaClass("tests.ScriptedTask", plugins),
                task_config={"polls": polls, "diary": str(diary), **config},
                connector_config=CONVERTERS,
            )
        )

    return start


@pytest.fixture
def beside() -> Iterator[Callable[..., "Future[Any]"]]:
    pool = ThreadPoolExecutor(1)
    yield pool.submit
    pool.shutdown(wait=False)  # a test that fails leaves a call there, which ends with its host


def is_written(diary: Path, word: str) -> bool:
    return word in diary.read_text()


def test_an_exit_is_reported_with_its_code_and_caller(lost: JavaHost, scripted: Starter) -> None:
    task = scripted(lost, "!exit")
    with pytest.raises(HostEndedError, match="its exit code is 7") as raised:
        task.poll()
    assert "System.exit was called in thread made-0 by tests.Hang.in" in str(raised.value)
    assert lost.end is not None
    with pytest.raises(HostEndedError, match="its exit code is 7"):
        task.poll()
    with pytest.raises(HostEndedError, match="its exit code is 7"):
        scripted(lost, "a")


def test_out_of_memory_error_ends_the_host_with_advice(lost: JavaHost, scripted: Starter) -> None:
    with pytest.raises(HostEndedError, match=r"more memory with java\.host\.options") as raised:
        scripted(lost, "!memory").poll()
    assert "Terminating due to java.lang.OutOfMemoryError" in str(raised.value)


def test_jvm_crash_is_reported_with_thread_and_stack_and_leaves_no_file(lost: JavaHost, scripted: Starter) -> None:
    with pytest.raises(HostEndedError, match="its exit code is 1") as raised:
        scripted(lost, "!crash").poll()
    found = str(raised.value)
    assert 'JavaThread "made-0"' in found
    assert "tests.Hang.crash" in found
    assert "Command Line" not in found
    assert lost.end == found
    assert not list(Path.cwd().glob("*_pid*.log"))
    lost.close()
    assert lost.end == found


def test_signal_that_ended_the_host_is_reported(lost: JavaHost, scripted: Starter) -> None:
    task = scripted(lost, "a")
    os.kill(lost.pid, signal.SIGKILL)
    with pytest.raises(HostEndedError, match="signal 9 ended it"):
        task.poll()


def test_stack_overflow_fails_only_its_task(host: JavaHost, scripted: Starter) -> None:
    neighbour = scripted(host, "a")
    with pytest.raises(JavaError, match=r"^java\.lang\.StackOverflowError\n") as raised:
        scripted(host, "!overflow").poll()
    assert len(str(raised.value)) < 40_000
    assert neighbour.poll() is not None


def test_call_stack_can_be_as_deep_as_in_kafka_connect(scripted: Starter) -> None:
    """As those of a parser are, Debezium's of MySQL's DDL for one. Without a compiler these take 750 kB."""
    with start_host(HostOptions(["-Xint"], "host of tests")) as slow:
        assert scripted(slow, "!deep,a").poll() is not None


@pytest.mark.parametrize(
    ("polls", "why"),
    [
        ("nested", "Offsets may only contain primitive types as values"),
        ("nameless", "Offsets may only use String keys"),
        ("!half", r"half of a pair: \?"),
        ("!mute", r"ScriptedTask\$Mute: \(its getMessage\(\) has thrown java\.lang\.IllegalStateException\)"),
    ],
)
def test_unsendable_poll_fails_only_its_task(host: JavaHost, scripted: Starter, polls: str, why: str) -> None:
    neighbour = scripted(host, "a")
    with pytest.raises(JavaError, match=why):
        scripted(host, polls).poll()
    assert neighbour.poll() is not None


def test_logging_in_an_interrupted_thread_does_no_harm(
    host: JavaHost, scripted: Starter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tests.ScriptedTask")
    task = scripted(host, "!interrupted,a;b")
    assert task.poll() is not None
    assert task.poll() is not None
    eventually(lambda: caplog.messages.count("made-0: it was interrupted") == 2, within_s=60)
    assert {(vars(each)["connector"], vars(each)["task"]) for each in caplog.records} == {("made", 0)}


def test_closed_connection_ends_only_its_task(
    host: JavaHost, scripted: Starter, diary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.builtin.java.client.process._END_S", 0.5)  # for what does not come
    task, neighbour = scripted(host, "!interrupt-later;a"), scripted(host, "b")

    def poll_on() -> None:
        task.poll()
        eventually(lambda: is_written(diary, "has interrupted"))  # a call that comes before would clear it
        task.poll()

    with pytest.raises(ConnectionLostError, match="ended, though that runs"):
        poll_on()
    with pytest.raises(HostEndedError):
        task.poll()
    task.stop(60)
    assert host.end is None
    found = neighbour.poll()
    assert found is not None
    assert list(found.batch.values) == [b"b"]


def test_sleeping_poll_is_interrupted(host: JavaHost, scripted: Starter, beside: Callable[..., "Future[Any]"]) -> None:
    task = scripted(host, "!sleep;a")
    polling = beside(task.poll)
    eventually(lambda: "Thread.sleep" in host.threads(), within_s=60)
    task.interrupt()
    with pytest.raises(JavaError, match="InterruptedException"):
        polling.result(60)
    assert task.poll() is not None  # its connection has not been closed by the interrupt
    task.interrupt()  # nothing is under way
    assert task.poll() is None
    task.stop(60)


def test_interrupt_does_not_wait_for_a_host_paused_by_sigstop(
    lost: JavaHost, scripted: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.builtin.java.client.host._INTERRUPT_S", 0.02)
    task = scripted(lost, "a;b")
    os.kill(lost.pid, signal.SIGSTOP)
    for _ in range(60):  # more than the system keeps for it
        task.interrupt()
    os.kill(lost.pid, signal.SIGCONT)
    assert task.poll() is not None
    monkeypatch.undo()
    task.interrupt()
    assert task.poll() is not None


@pytest.mark.parametrize(("act", "method"), [("loop", "loop"), ("socket", "readSocket"), ("deadlock", "deadlock")])
def test_poll_that_ignores_interrupts_ends_when_its_host_is_killed(
    act: str,
    method: str,
    lost: JavaHost,
    host: JavaHost,
    scripted: Starter,
    diary: Path,
    beside: Callable[..., "Future[Any]"],
) -> None:
    elsewhere = scripted(host, "a")
    task, neighbour = scripted(lost, f"!{act}"), scripted(lost, "b")
    polling = beside(task.poll)
    eventually(lambda: is_written(diary, f"hangs in {act}"), within_s=60)
    task.interrupt()
    assert neighbour.poll() is not None
    assert not polling.done()
    assert f"tests.Hang.{method}" in lost.threads()
    lost.kill("task made-0 did not stop within 60 s")
    with pytest.raises(HostEndedError, match="it was killed, because task made-0 did not stop within 60 s"):
        polling.result(60)
    with pytest.raises(HostEndedError, match="because task made-0 did not stop"):
        neighbour.poll()
    assert elsewhere.poll() is not None


def test_host_is_killed_when_stop_does_not_return_in_time(lost: JavaHost, scripted: Starter) -> None:
    task = scripted(lost, "a", stays="yes")
    with pytest.raises(HostTimeoutError, match=r"it was killed, because stop did not return within 0\.2 s"):
        task.stop(0.2)
    assert not psutil.pid_exists(lost.pid)


def made(host: JavaHost, java_class: JavaClass, **config: str) -> HostedSourceTask:
    start = SourceTaskStart(
        connector="made", task=0, java_class=java_class, task_config=config, connector_config=CONVERTERS
    )
    return host.source_task(start)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("tests.Nothing", "is not found"),
        ("tests.Unusable", "is abstract"),
        ("tests.Unusable$WithArgument", "has no constructor without arguments"),
        ("tests.Unusable$Hidden", "is not public, or its constructor is not"),
        ("tests.Unusable$Broken", 'cannot be linked: java.lang.NumberFormatException: For input string: "none"'),
        ("tests.Picky", "is no org.apache.kafka.connect.source.SourceTask"),
    ],
)
def test_unusable_class_is_named(host: JavaHost, plugins: Location, name: str, why: str) -> None:
    with pytest.raises(JavaPluginError) as raised:
        made(host, JavaClass(name, plugins))
    assert str(raised.value).startswith(f"class {name} of plug-in {plugins.path} {why}")


def test_exception_of_a_constructor_is_raised_in_python(host: JavaHost, plugins: Location) -> None:
    with pytest.raises(JavaError, match="this is not to be made"):
        made(host, JavaClass("tests.Unusable$Throwing", plugins))


def test_damaged_jar_is_named(host: JavaHost, tmp_path: Path) -> None:
    jar = tmp_path / "broken.jar"
    jar.write_bytes(b"PK\x03\x04 and nothing of a jar")
    with pytest.raises(JavaPluginError, match=rf"is not found; {jar} cannot be read: "):
        made(host, JavaClass("tests.ScriptedTask", Location(str(jar), (str(jar),))))


def test_a_class_of_a_newer_java_is_refused_with_both_versions(
    host: JavaHost, plugins: Location, tmp_path: Path
) -> None:
    name = "tests/ScriptedTask.class"
    classes = bytearray(Path(plugins.path, name).read_bytes())
    classes[6:8] = (99).to_bytes(2, "big")
    jar = tmp_path / "newer.jar"
    with zipfile.ZipFile(jar, "w") as packed:
        packed.writestr(name, bytes(classes))
    with pytest.raises(JavaPluginError, match=r"was compiled for a newer Java; this host runs Java \d+: .*99\.0"):
        made(host, JavaClass("tests.ScriptedTask", Location(str(jar), (str(jar),))))


def test_class_with_a_missing_dependency_is_reported_with_the_place_for_jars(
    host: JavaHost, plugins: Location, tmp_path: Path
) -> None:
    name = "tests/Unusable$Throwing.class"
    jar = tmp_path / "alone.jar"
    with zipfile.ZipFile(jar, "w") as packed:
        packed.write(Path(plugins.path, name), name)
    with pytest.raises(JavaPluginError) as raised:
        made(host, JavaClass("tests.Unusable$Throwing", Location(str(jar), (str(jar),))))
    assert str(raised.value) == (
        f"class tests.Unusable$Throwing of plug-in {jar} needs tests.Unusable, which is in none of its jars: the "
        "plug-in's directory needs all of them, and plugin.path names the directory above it"
    )


def test_two_versions_of_a_plug_in_run_side_by_side(
    host: JavaHost, plugins: Location, diary: Path, tmp_path: Path
) -> None:
    """The connector of the copy has another version, and its task has other topics."""
    copy = tmp_path / "copy"
    shutil.copytree(plugins.path, copy)
    for name, old, new in (("ScriptedConnector", b"1.2.3", b"4.5.6"), ("ScriptedTask", b"t-\1", b"u-\1")):
        of_class = copy / "tests" / f"{name}.class"
        assert old in of_class.read_bytes()
        of_class.write_bytes(of_class.read_bytes().replace(old, new))
    other = Location(str(copy), (f"{copy}/",))

    def version(at: Location) -> str | None:
        return host.ask.describe(JavaClass("tests.ScriptedConnector", at)).version

    def topics(at: Location) -> list[str]:
        found = made(host, JavaClass("tests.ScriptedTask", at), polls="a", diary=str(diary)).poll()
        assert found is not None
        return list(found.batch.topics)

    assert [version(at) for at in (other, plugins, other)] == ["4.5.6", "1.2.3", "4.5.6"]
    assert [topics(at) for at in (other, plugins, other)] == [["u-p"], ["t-p"], ["u-p"]]


def test_invalid_java_option_is_reported_without_secrets() -> None:
    options = ["-Dtrust.password=hunter22", "-Xno"]
    with pytest.raises(JavaUnavailableError, match="Unrecognized option: -Xno") as raised:
        start_host(HostOptions(jvm=options, label="host of tests"))
    assert str(raised.value).endswith("\nIt was started with the options of java.host.options: check these")
    assert "hunter22" not in str(raised.value)


def test_ended_hosts_leave_no_process_thread_or_file(plugins: Location, scripted: Starter) -> None:
    us = psutil.Process()
    for turn in range(3):
        with start_host(HostOptions(label="host of tests")) as started:
            task = scripted(started, "a")
            task.poll()
            task.stop(60)
            directory = Path(psutil.Process(started.pid).cmdline()[-1])
            assert directory.is_dir()
        if turn == 0:
            before = (threading.active_count(), us.num_fds())
    # Threads of the last one, and of tests before, may be about to end.
    eventually(lambda: threading.active_count() <= before[0] and us.num_fds() <= before[1], within_s=60)
    assert not directory.exists()


_OWNER = """
import sys
from fencepost.builtin.java.port import HostOptions
from fencepost.builtin.java.start import start_host
started = start_host(HostOptions(label="host of a process that is killed"))
print(started.pid, flush=True)
sys.stdin.read()
"""


def test_host_ends_when_the_process_that_started_it_is_killed() -> None:
    owner = subprocess.Popen([sys.executable, "-c", _OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    java = psutil.Process(pid)
    directory = Path(java.cmdline()[-1])
    assert directory.exists()
    owner.kill()
    owner.communicate()
    java.wait(60)
    eventually(lambda: not directory.exists(), within_s=60)
