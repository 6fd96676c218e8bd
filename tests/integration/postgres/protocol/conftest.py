"""Real servers of each version, and a database of its own for each test."""

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from slot_stage import Stage

from support.postgres import VERSIONS, Postgres, running_postgres


@pytest.fixture(scope="session", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        running_postgres(Path(directory), request.param) as found,
    ):
        yield found


@pytest.fixture
def stage(server: Postgres) -> Iterator[Stage]:
    name = f"shop_{uuid.uuid4().hex[:8]}"
    server.sql(f"CREATE DATABASE {name}")
    with Stage(server, name) as found:
        yield found
