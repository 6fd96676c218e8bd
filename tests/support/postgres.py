"""The bench's Postgres server, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench import postgres
from bench.postgres import Postgres as Postgres


@contextmanager
def running_postgres(directory: Path) -> Iterator[Postgres]:
    """Run a server whose files are in a directory. Skips the test where no server is installed."""
    try:
        with postgres.running_postgres(directory) as server:
            yield server
    except postgres.NoPostgresError as error:
        pytest.skip(str(error))
