"""Projects that `fencepost new` writes."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner

from fencepost.cli.main import app

KINDS = ("source", "sink", "stream")
"""The kinds of connectors whose tasks need no Spark."""
DATAFRAMES = ("dataframe-source", "dataframe-sink")
TRANSFORM = "transform"
EVERY_KIND = (*KINDS, *DATAFRAMES, TRANSFORM)
NAME = "price-feed"

_LENDS = """
import os
from contextlib import nullcontext
from types import SimpleNamespace

import fencepost.testing.pipeline

kafka = SimpleNamespace(bootstrap_servers=os.environ["LENT"])
fencepost.testing.pipeline.EmbeddedKafka = lambda: nullcontext(kafka)
"""


def written(directory: Path, kind: str = "source", name: str = NAME) -> Path:
    """Write a project into a new directory below, as the command does, and return its path."""
    project = directory / f"{kind}-{name}"
    what = [TRANSFORM, name] if kind == TRANSFORM else ["connector", name, "--kind", kind]
    result = CliRunner().invoke(app, ["new", *what, "--dir", str(project)])
    assert result.exit_code == 0, result.output
    return project


def installed(project: Path) -> Path:
    """Describe a project to Python as an installation does; returns what is to be on the path beside `src`."""
    facts = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    made = project / "installed"
    info = made / f"{facts['name'].replace('-', '_')}-{facts['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {facts['name']}\nVersion: {facts['version']}\n")
    groups = facts["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in own.items()) for group, own in groups]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return made


def run_tests(project: Path, tests: Sequence[str], bootstrap: str = "") -> tuple[int, str]:
    """Run a project's own tests; those that start a Kafka find the one at `bootstrap`."""
    if bootstrap:
        (project / "tests" / "conftest.py").write_text(_LENDS)
        for file in (project / "tests").glob("test_*.py"):  # topics that no other test has
            text = file.read_text()
            for topic in ("orders", "lines", "large"):
                text = text.replace(f'"{topic}"', f'"{project.name}-{topic}"')
            file.write_text(text)
    environment = {**os.environ, "LENT": bootstrap, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr
