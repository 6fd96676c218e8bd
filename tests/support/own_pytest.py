"""Runs tests in a pytest of its own, with a plugin or on another broker."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.forked import Forked
from support.quick import LENT

_ROOT = Path(__file__).parents[2]

# Plugins that no test here needs (a fuzzer's) would be half of what it costs to start.
_BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HYPOTHESIS_NO_PLUGINS": "1"}
_PLUGINS = ("-p", "pytest_timeout")


def run(bootstrap: str, tests: Sequence[str], *options: str) -> tuple[int, str]:
    """Run tests on this broker, up to the first that fails. Returns the exit code and what was printed."""
    arguments = ["-q", "-x", "-p", "no:cacheprovider", *_PLUGINS, *options, *tests]
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "out")
        code = Forked(_pytest, arguments, out, {LENT: bootstrap, **_BARE}).wait()
        return code, out.read_text(errors="replace")


def _pytest(arguments: list[str]) -> int:
    os.chdir(_ROOT)
    return pytest.main(arguments)
