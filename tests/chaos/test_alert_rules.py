"""The alert rules, checked and tested by Prometheus' own tool."""

import subprocess

import pytest

from support.expressions import DEPLOY
from support.long_form import IS_LONG
from support.promtool import promtool

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
