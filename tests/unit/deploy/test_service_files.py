"""The systemd unit and the recipe for containers: what can be known of them without a service manager and a builder."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.http_answers import Answer, HttpAnswers

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "deploy/systemd/fencepost.service"
RECIPE = ROOT / "deploy/container/Containerfile"


def instructions() -> list[tuple[str, str]]:
    """Return the recipe's instructions with what they are given, lines that are continued joined."""
    lines = [line for line in RECIPE.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def last_stage() -> dict[str, str]:
    found = instructions()
    begins = max(place for place, (word, _) in enumerate(found) if word == "FROM")
    return dict(found[begins:])


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/fencepost/bin/fencepost", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if UNIT.name in line]) == (0, [])


def test_the_unit_stops_the_worker_only_and_gives_it_time() -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    service = parser["Service"]
    assert (service["KillMode"], service["KillSignal"], service["ProtectSystem"]) == ("mixed", "SIGTERM", "strict")
    assert int(service["TimeoutStopSec"]) > 30


def test_the_container_runs_as_somebody_without_rights_and_shows_its_health() -> None:
    stage = last_stage()
    assert stage["USER"] == "10001:10001"
    assert json.loads(stage["ENTRYPOINT"]) + json.loads(stage["CMD"]) == [
        "fencepost", "worker", "/etc/fencepost/worker.properties",
    ]  # fmt: skip
    assert stage["COPY"] == "--from=build /opt/fencepost /opt/fencepost"
    assert "pip" not in stage["RUN"]


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_of_the_container_fails_unless_the_worker_is_well(status: int, code: int) -> None:
    python, *words = json.loads(last_stage()["HEALTHCHECK"].partition("CMD")[2])
    assert python == "python"
    with HttpAnswers(lambda asked: Answer({}, status if asked.path == "/health" else 404)) as worker:
        command = [sys.executable, *(word.replace("8083", str(worker.port)) for word in words)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == code


def test_the_recipe_makes_constraints_of_the_lock_file(tmp_path: Path) -> None:
    [commands] = [rest for word, rest in instructions() if word == "RUN" and "constraints.txt" in rest]
    [making] = [part for part in commands.split("&&") if "grep" in part]
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    subprocess.run(["sh", "-ec", making.replace("/build/", f"{shlex.quote(str(tmp_path))}/")], check=True)
    lines = [line for line in (tmp_path / "constraints.txt").read_text().splitlines() if not re.match(r"\s*#", line)]
    assert "pyspark==4.3.0" in lines
    assert [line for line in lines if line and not re.fullmatch(r"[\w.\[\],-]+==[\w.+!]+( ; .+)?", line)] == []
