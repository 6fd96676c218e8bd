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

from fencepost.builtin.mirror.dedicated import MirrorFile
from fencepost.cli.cluster import mirror_run as mirror
from fencepost.cli.cluster import mirror_run as processes
from fencepost.cli.cluster.mirror_run import Processes, chosen, with_port
from fencepost.cli.main import app
from fencepost.config import ConfigError
from fencepost.config.file import parse_properties
from fencepost.config.rest import Listener
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
def test_unknown_flow_or_target_of_a_mirror_file_is_refused(names: list[str], targets: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{said}: .*the file runs A->B, A->C"):
        chosen(FILE.flows(), names, targets)


def test_port_zero_is_replaced_with_a_free_port() -> None:
    found = Listener.parse(with_port({"listeners": "http://127.0.0.1:0"})["listeners"])
    assert (found.host, found.port > 0) == ("127.0.0.1", True)
    assert with_port({"listeners": "http://:8083"})["listeners"] == "http://:8083"


def test_mirror_command_runs_the_file_without_the_word_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(mirror, "run_mirror", lambda *given: asked.append(given) or 3)
    for words in (["x.properties", "--flow", "A->B"], ["run", "x.properties", "--flow", "A->B"]):
        assert CliRunner().invoke(app, ["mirror", *words]).exit_code == 3
    assert asked == [(Path("x.properties"), ["A->B"], [], None)] * 2


def test_mirror_command_reports_an_unknown_flow_in_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "configure_logs", lambda: None)  # of the whole process, for all tests that follow
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A, B\nA->C.enabled = true\n")
    done = CliRunner().invoke(app, ["mirror", str(path)])
    assert done.exit_code == 1
    assert "Unknown flow in configuration A->C.enabled" in done.output


def test_mirror_ends_all_processes_with_the_exit_code_of_the_first_to_end() -> None:
    before = signal.getsignal(signal.SIGTERM)
    waits, ends = "import time; time.sleep(1000)", "import sys; sys.exit(4)"
    found = Processes({"waits": [sys.executable, "-c", waits], "ends": [sys.executable, "-c", ends]}).run()
    assert found == 4  # and whoever waits is gone: it is waited for
    assert signal.getsignal(signal.SIGTERM) is before


def test_mirror_process_continues_when_standard_error_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: bytes) -> NoReturn:
        raise BrokenPipeError

    gone = SimpleNamespace(buffer=SimpleNamespace(write=refuse), write=lambda _: None, flush=lambda: None)
    monkeypatch.setattr(sys, "stderr", gone)
    gives_up = "import os, threading; threading.Timer(300, os._exit, [3]).start(); "
    talks = gives_up + r"print('a line\n' * 100_000, flush=True); os._exit(4)"
    assert Processes({"talks": [sys.executable, "-c", talks]}).run() == 4


def test_last_lines_of_a_mirror_process_are_printed_even_if_read_late(
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


def test_signal_ends_the_wait_for_last_lines_when_a_grandchild_holds_the_pipe(
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


def test_json_log_lines_name_the_flow_in_a_field(
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
