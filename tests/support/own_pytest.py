"""Tests in a pytest of their own: with a plugin, or on another broker, than the ones beside them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.quick import LENT

_ROOT = Path(__file__).parents[2]

# Plugins that no test here needs (a fuzzer's) would be half of what it costs to start.
_BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
_PLUGINS = ("-p", "pytest_timeout")


def run(bootstrap: str, tests: Sequence[str], *options: str) -> tuple[int, str]:
    """Run tests on this broker, up to the first that fails. Returns the exit code and what was printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *_PLUGINS, *options, *tests]
    # `-p` is imported before pytest knows of `pythonpath`
    env = {**os.environ, "PYTHONPATH": str(_ROOT / "tests"), LENT: bootstrap, **_BARE}
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False, env=env)
    return done.returncode, done.stdout + done.stderr
