"""The systemd unit and the recipe for containers: what can be known of them without a service manager and a builder."""

import configparser
import json
import re
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


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/fencepost/bin/fencepost", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if UNIT.name in line]) == (0, [])


def test_systemd_unit_stops_only_the_worker_and_waits_over_30_seconds() -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    service = parser["Service"]
    assert (service["KillMode"], service["KillSignal"], service["ProtectSystem"]) == ("mixed", "SIGTERM", "strict")
    assert int(service["TimeoutStopSec"]) > 30


def test_container_runs_as_an_unprivileged_user() -> None:
    stage = last_stage()
    assert stage["USER"] == "10001:10001"
    assert json.loads(stage["ENTRYPOINT"]) + json.loads(stage["CMD"]) == [
        "fencepost", "worker", "/etc/fencepost/worker.properties",
    ]  # fmt: skip
    assert stage["COPY"] == "--from=build /opt/fencepost /opt/fencepost"
    assert "pip" not in stage["RUN"]


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_container_health_check_fails_unless_the_worker_is_healthy(status: int, code: int) -> None:
    python, *words = json.loads(last_stage()["HEALTHCHECK"].partition("CMD")[2])
    assert python == "python"
    with HttpAnswers(lambda asked: Answer({}, status if asked.path == "/health" else 404)) as worker:
        command = [sys.executable, *(word.replace("8083", str(worker.port)) for word in words)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == code


def pins(lock: Path) -> dict[str, set[str]]:
    """Return the hashes of each `name==version` in a lock file."""
    found: dict[str, set[str]] = {}
    for line in lock.read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            found[name := line.removesuffix("\\").split(";")[0].strip()] = set()
        elif "--hash=" in line:
            found[name].add(line.strip().removesuffix("\\").strip())
    return found


def test_container_recipe_installs_only_files_with_locked_hashes() -> None:
    [commands] = [rest for word, rest in instructions() if word == "RUN" and "pip install" in rest]
    installs = [part for part in commands.split("&&") if "pip install" in part]
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert "--no-index" in installs[1]
    assert all("--no-deps" in part for part in installs)


def test_image_lock_file_is_a_subset_of_the_test_lock_file() -> None:
    image, whole = pins(RECIPE.with_name("requirements.lock")), pins(ROOT / "requirements.lock")
    assert all(image.values())
    assert {name: whole.get(name) for name in image} == image
    assert not any(name.startswith(("pytest==", "mypy==")) for name in image)
