"""`start` at the command line."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from fencepost.embedded import EmbeddedKafka

_START = [sys.executable, "-m", "fencepost.embedded", "start"]


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_START, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_start_prints_the_address_and_stops_on_sigterm(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    command = [*_START, "--port", "0", "--dir", str(tmp_path), "--property", "num.partitions=3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        host, port = process.stdout.readline().strip().split(":")
        socket.create_connection((host, int(port)), timeout=5).close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    assert "num.partitions=3" in (tmp_path / "server.properties").read_text()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_missing_java_is_reported_in_one_line_with_an_install_command(tmp_path: Path) -> None:
    done = _run(PATH=str(tmp_path), JAVA_HOME="")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "apt-get install -y openjdk-17-jre-headless" in done.stderr


def test_a_property_without_a_value_is_refused() -> None:
    done = _run("--property", "num.partitions")
    assert done.returncode == 2
    assert "is not KEY=VALUE" in done.stderr


def test_a_taken_port_is_reported_in_one_line(kafka: EmbeddedKafka) -> None:
    done = _run("--port", str(kafka.port))
    assert done.returncode == 1
    assert done.stderr.startswith(f"port {kafka.port} is in use")
