"""The alert rules, checked and tested by Prometheus' own tool."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fencepost.embedded.home import default_cache
from support.expressions import DEPLOY
from support.long_form import IS_LONG

VERSION = "v0.307.3"
_PACKAGE = "github.com/prometheus/prometheus/cmd/promtool"


def promtool() -> Path | None:
    """Return the program; None if there is none and no Go to build it with."""
    found = shutil.which("promtool")
    if found is not None:
        return Path(found)
    cache = default_cache() / f"promtool-{VERSION}"
    program, go = cache / "promtool", shutil.which("go") or "/usr/local/go/bin/go"
    if not program.exists():
        if not Path(go).exists():
            return None
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "go.mod").write_text("module promtool\n\ngo 1.25\n")
        environment = {**os.environ, "GOFLAGS": "-mod=mod"}
        # Its module excludes others, so that `go install` with a version refuses it.
        subprocess.run([go, "get", "-tool", f"{_PACKAGE}@{VERSION}"], cwd=cache, env=environment, check=True)
        subprocess.run([go, "build", "-o", program, _PACKAGE], cwd=cache, env=environment, check=True)
    return program


pytestmark = pytest.mark.skipif(not IS_LONG, reason="builds promtool the first time: make chaos")


COMMANDS = (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"])


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
@pytest.mark.timeout(3600)
def test_prometheus_takes_the_rules(arguments: list[str]) -> None:
    program = promtool()
    if program is None:
        pytest.skip("neither promtool nor Go is installed")
    ran = subprocess.run([program, *arguments], cwd=DEPLOY / "prometheus", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
