"""`fencepost mirror`: what it takes, and how its processes live and end."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from fencepost.cli.main import app
from fencepost.cli.mirror import processes
from fencepost.cli.mirror import run as mirror
from fencepost.cli.mirror.processes import Processes
from fencepost.cli.mirror.run import chosen, with_port
from fencepost.config import ConfigError
from fencepost.config.listener import Listener
from fencepost.config.properties import parse_properties
from fencepost.mirror.dedicated.file import MirrorFile
from fencepost.testing import eventually

FILE = MirrorFile(
    parse_properties("""
    clusters = A, B, C
    A.bootstrap.servers = a:1
    B.bootstrap.servers = b:1
    C.bootstrap.servers = c:1
    A->B.enabled = true
    A->C.enabled = true
    emit.heartbeats.enabled = false
    """)
)


def test_flows_are_chosen_by_name_or_target() -> None:
    assert [flow.name for flow in chosen(FILE.flows(), [], [])] == ["A->B", "A->C"]
    assert [flow.name for flow in chosen(FILE.flows(), ["A->C"], [])] == ["A->C"]
    assert [flow.name for flow in chosen(FILE.flows(), [], ["B"])] == ["A->B"]


@pytest.mark.parametrize(
    ("names", "targets", "said"),
    [(["B->A"], [], "--flow B->A"), ([], ["A"], "--clusters A"), ([], ["D"], "--clusters D")],
)
def test_what_the_file_does_not_run_is_refused(names: list[str], targets: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{said}: .*the file runs A->B, A->C"):
        chosen(FILE.flows(), names, targets)


def test_a_port_that_is_left_open_is_a_free_one() -> None:
    found = Listener.parse(with_port({"listeners": "http://127.0.0.1:0"})["listeners"])
    assert (found.host, found.port > 0) == ("127.0.0.1", True)
    assert with_port({"listeners": "http://:8083"})["listeners"] == "http://:8083"


def test_run_need_not_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(mirror, "run_mirror", lambda *given: asked.append(given) or 3)
    for words in (["x.properties", "--flow", "A->B"], ["run", "x.properties", "--flow", "A->B"]):
        assert CliRunner().invoke(app, ["mirror", *words]).exit_code == 3
    assert asked == [(Path("x.properties"), ["A->B"], [], None)] * 2


def test_a_file_that_is_wrong_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "configure_logs", lambda: None)  # of the whole process, for all tests that follow
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A, B\nA->C.enabled = true\n")
    done = CliRunner().invoke(app, ["mirror", str(path)])
    assert done.exit_code == 1
    assert "Unknown flow in configuration A->C.enabled" in done.output


def test_when_one_process_ends_the_others_are_told_and_its_code_is_given() -> None:
    before = signal.getsignal(signal.SIGTERM)
    waits, ends = "import time; time.sleep(1000)", "import sys; sys.exit(4)"
    found = Processes({"waits": [sys.executable, "-c", waits], "ends": [sys.executable, "-c", ends]}).run()
    assert found == 4  # and whoever waits is gone: it is waited for
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_process_goes_on_though_nobody_takes_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: bytes) -> NoReturn:
        raise BrokenPipeError

    gone = SimpleNamespace(buffer=SimpleNamespace(write=refuse), write=lambda _: None, flush=lambda: None)
    monkeypatch.setattr(sys, "stderr", gone)
    gives_up = "import os, threading; threading.Timer(300, os._exit, [3]).start(); "
    talks = gives_up + r"print('a line\n' * 100_000, flush=True); os._exit(4)"
    assert Processes({"talks": [sys.executable, "-c", talks]}).run() == 4


def test_the_last_lines_of_a_process_are_printed_however_late_they_are_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    printed: list[bytes] = []

    def print_late(line: bytes) -> None:
        eventually(lambda: "exited unexpectedly" in caplog.text, within_s=60)
        printed.append(line)

    slow = SimpleNamespace(buffer=SimpleNamespace(write=print_late, flush=lambda: None))
    monkeypatch.setattr(sys, "stderr", slow)
    Processes({"ends": [sys.executable, "-c", r"print('first\nthe reason')"]}).run()
    assert [b"first" in line or b"the reason" in line for line in printed] == [True, True]


def test_a_signal_ends_the_wait_for_the_last_lines_of_what_somebody_else_still_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_s = 60.0
    monkeypatch.setattr(processes, "_LAST_LINES_S", limit_s)
    holder = tmp_path / "holder"
    ends = (
        "import pathlib, subprocess; other = subprocess.Popen(['sleep', '300']); "
        f"pathlib.Path({str(holder)!r}).write_text(str(other.pid))"
    )

    def signal_this_process() -> None:
        while not is_over.wait(0.1):
            os.kill(os.getpid(), signal.SIGTERM)

    is_over = threading.Event()
    runner = Processes({"ends": [sys.executable, "-c", ends]})
    monkeypatch.setattr(runner, "_end", lambda running: signals.start())
    signals = threading.Thread(target=signal_this_process)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # one may come after the run
    began_s = time.monotonic()
    try:
        assert runner.run() == 1
        assert time.monotonic() - began_s < limit_s
    finally:
        is_over.set()
        signals.join()
        signal.signal(signal.SIGTERM, before)
        os.kill(int(holder.read_text()), signal.SIGKILL)


def test_lines_of_json_name_the_flow_in_a_field(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("FENCEPOST_LOG_FORMAT", "json")
    says = r"""print('{"event": "an event"}\nno event')"""
    Processes({"A->B": [sys.executable, "-c", says]}).run()
    said = [json.loads(line) for line in capfdbinary.readouterr().err.splitlines()]
    assert [each for each in said if each["flow"] == "A->B"] == [
        {"flow": "A->B", "event": "an event"},
        {"flow": "A->B", "event": "no event", "level": "info"},
    ]
