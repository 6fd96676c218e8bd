"""One host for each module of tests; plug-ins of Kafka's and of ours."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.builtin.java.client.host import JavaHost
from fencepost.builtin.java.port import HostOptions, Location
from fencepost.builtin.java.start import start_host
from support.java_plugins import compile_plugins
from support.java_program import ensure_compiler
from support.quick import QUICK


@pytest.fixture(scope="module")
def host() -> Iterator[JavaHost]:
    ensure_compiler()
    with start_host(HostOptions([QUICK], "host of tests")) as started:
        yield started


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Location:
    return compile_plugins(tmp_path_factory.mktemp("plugins"))


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """Return where a `tests.ScriptedTask` writes what it is told."""
    return tmp_path / "diary"
