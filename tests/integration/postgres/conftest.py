"""A real Postgres, one for all tests of this directory."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.postgres import Postgres, running_postgres


@pytest.fixture(scope="session")
def sink_server() -> Iterator[Postgres]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        running_postgres(Path(directory)) as found,
    ):
        yield found
