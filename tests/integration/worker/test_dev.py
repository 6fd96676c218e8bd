"""`fencepost dev`, as somebody runs it who has just come: up, a connector, Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from fencepost.testing import eventually
from support.quick import spark_properties
from support.worker import free_port

_ABOVE_INFO = re.compile(r"\[(warning|error|critical)|Traceback")


def test_ctrl_c_ends_dev_without_a_line_above_info(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "dev.log"
    command = [sys.executable, "-m", "fencepost.cli.main", "dev", "--port", str(port), "--kafka-port", "0"]
    command += [word for key, value in spark_properties().items() for word in ("--set", f"{key}={value}")]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=100) as rest:
            eventually(lambda: _is_healthy(rest), within_s=120)
            lines = tmp_path / "lines.txt"
            lines.write_text("one\n")
            config = {"connector.class": "FileStreamSource", "file": str(lines), "topic": "lines"}
            assert rest.put("/connectors/lines/config", json=config).status_code == 201
            eventually(lambda: "lines" in rest.get("/connectors/lines/topics").text.partition(":")[2], within_s=180)
        begins = log.stat().st_size
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)
    ending = log.read_bytes()[begins:].decode()
    assert _ABOVE_INFO.search(ending) is None, ending


def _is_healthy(rest: httpx.Client) -> bool:
    try:
        return rest.get("/health").status_code == 200
    except httpx.TransportError:
        return False
